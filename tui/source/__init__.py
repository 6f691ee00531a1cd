"""Where the screens get their data from."""
