"""Waiting for a condition: generous with time, so that a loaded machine fails no test, and quick when it is there."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS_MAX = 0.25
"""Between two looks: each may connect to three brokers, or start a process, on processors that the others need."""
_T = TypeVar("_T")


def wait_until(condition: Callable[[], _T], what: str, seconds: float = PATIENCE_SECONDS) -> _T:
    """Look again and again until the condition gives something true, and give that; fails the test when time is over."""
    deadline = time.monotonic() + seconds
    pause_seconds = 0.02
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(pause_seconds)
        pause_seconds = min(pause_seconds * 1.5, PAUSE_SECONDS_MAX)
    return found
