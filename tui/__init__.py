"""The terminal UI lives here; there is none yet."""
