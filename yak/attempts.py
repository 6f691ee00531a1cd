"""Repeats until it succeeds or the time is over."""

import time
from collections.abc import Iterator


def attempts(timeout_s: float, pause_s: float) -> Iterator[None]:
    """One attempt at once, and one after each pause, until an attempt ends after the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        yield
        if time.monotonic() >= deadline_s:
            return
        time.sleep(pause_s)
