"""Ctrl+C and SIGTERM in client commands.

Both raise, so that `finally` blocks run. librdkafka's Python binding loses an exception that is raised while it calls a
delivery callback, and raises SystemError in its place; `seen()` tells that case from a bug.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

_seen: list[int] = []


def install() -> None:
    """Raise KeyboardInterrupt for SIGINT and SystemExit(143) for SIGTERM. `serve` sets its own afterwards."""
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _terminate)


def seen() -> bool:
    """Whether Ctrl+C came."""
    return signal.SIGINT in _seen


@dataclass(slots=True)
class Held:
    """A signal that came while it was held; None when none did."""

    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """What a command that ended because of it returns."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def held() -> Iterator[Held]:
    """Meanwhile the first SIGINT or SIGTERM is only noted, so that what is under way can be ended in order.

    A second one raises as always, for a command that hangs.
    """
    found = Held()

    def note(number: int, frame: FrameType | None) -> None:
        if found.signal is not None:
            (_interrupt if number == signal.SIGINT else _terminate)(number, frame)
        found.signal = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    _seen.append(number)
    raise KeyboardInterrupt


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)
