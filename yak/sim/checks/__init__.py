"""Invariants, one per file. Each is called after every event of a run, and raises `Violation` with what it found."""
