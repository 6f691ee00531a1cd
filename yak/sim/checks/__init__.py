"""Invariants, one a file. Each is called after every event of a run, and raises `Violation` with what it saw."""
