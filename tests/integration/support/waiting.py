"""Waiting for a condition: generous with time, so that a loaded machine fails no test, and quick when it is there."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 60.0
_T = TypeVar("_T")


def wait_until(condition: Callable[[], _T], what: str, seconds: float = PATIENCE_SECONDS) -> _T:
    """Look again and again until the condition gives something true, and give that; fails the test when time is over."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(0.04)
    return found
