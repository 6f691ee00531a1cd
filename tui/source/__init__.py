"""Where the screens have everything from."""
