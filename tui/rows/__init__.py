"""Things turned into lines of a table: pure functions, tested without a terminal."""
