"""Ctrl+C, SIGTERM, and the SIGHUP of a closed terminal in client commands.

Each raises, so that `finally` blocks run. librdkafka's Python binding drops an exception that is raised while it calls a
delivery callback, and raises SystemError instead; `seen()` distinguishes that case from a bug.
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
    """Raise KeyboardInterrupt for SIGINT, SystemExit for SIGTERM and SIGHUP. `serve` replaces these handlers."""
    for number in _handled():
        signal.signal(number, _interrupt if number == signal.SIGINT else _terminate)


def _handled() -> tuple[signal.Signals, ...]:
    """The signals that end a command; nohup ignores SIGHUP, which then stays ignored."""
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGINT, signal.SIGTERM, *hangup)


def seen() -> bool:
    """Whether Ctrl+C was pressed."""
    return signal.SIGINT in _seen


@dataclass(slots=True)
class DeferredSignal:
    """A deferred signal; None when there was none."""

    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of a command that the signal ended; 0 without a signal."""
        return 0 if self.signal is None else 128 + self.signal


@contextmanager
def held() -> Iterator[DeferredSignal]:
    """Defer the first SIGINT, SIGTERM or SIGHUP in the body, so that work in progress can end gracefully.

    A second one raises as usual, for a command that is stuck.
    """
    found = DeferredSignal()

    def note(number: int, frame: FrameType | None) -> None:
        if found.signal is not None:
            (_interrupt if number == signal.SIGINT else _terminate)(number, frame)
        found.signal = number

    before = {number: signal.signal(number, note) for number in _handled()}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    _seen.append(number)
    raise KeyboardInterrupt


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
