"""Ctrl+C and SIGTERM in client commands.

Both raise, so that `finally` blocks run. librdkafka's Python binding loses an exception that is raised while it calls a
delivery callback, and raises SystemError in its place; `seen()` tells that case from a bug.
"""

import signal
import sys
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


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    _seen.append(number)
    raise KeyboardInterrupt


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)
