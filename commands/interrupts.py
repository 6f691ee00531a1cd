"""Ctrl+C, SIGTERM, and the SIGHUP of a closed terminal in client commands.

Each raises, so that `finally` blocks run. librdkafka's Python binding drops an exception that is raised while it calls a
delivery callback, and raises SystemError instead; `exit_code()` distinguishes that case from a bug.
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


def exit_code() -> int:
    """The exit code of a command that the last signal ended; 0 without a signal."""
    return 128 + _seen[-1] if _seen else 0


def code_after(stop: KeyboardInterrupt | SystemExit | SystemError) -> int:
    """The exit code of a command that Ctrl+C or SIGTERM ended by this exception.

    It is raised again if they did not: after SIGHUP nothing can be printed on the closed terminal.
    """
    number = signal.SIGINT if isinstance(stop, KeyboardInterrupt) else (_seen or [signal.SIGHUP])[-1]
    if number == signal.SIGHUP:
        raise stop
    return 128 + number


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
    _seen.append(number)
    sys.exit(128 + number)
