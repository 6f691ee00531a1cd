"""Ends `yak ui` when its terminal is gone.

Textual writes through a thread with a bounded queue (`textual/drivers/_writer_thread.py`). When the terminal is gone,
that thread dies of EIO, the queue fills, and the event loop blocks on it for ever: the loop's signal handlers no longer
run. So a thread of our own watches the terminal, asks the app to end, and ends the process if the app does not react.
"""

import os
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 2.0
EXIT_CODE: Final = 129
"""The same as after SIGHUP."""


def watch_terminal(ask_to_end: Callable[[], None]) -> None:
    """Watch the terminal of the standard input, if it is one, until the process ends."""
    if sys.stdin is not None and sys.stdin.isatty():
        found = sys.stdin.fileno()
        threading.Thread(target=_watch, args=(found, ask_to_end), name="terminal-watch", daemon=True).start()


def _watch(terminal: int, ask_to_end: Callable[[], None]) -> None:
    while is_there(terminal):
        time.sleep(LOOK_SECONDS)
    ask_to_end()
    time.sleep(PATIENCE_SECONDS)
    end_children()
    os._exit(EXIT_CODE)


def is_there(terminal: int) -> bool:
    """Whether the terminal's other end is open. After a hang-up it answers EIO (termios(3))."""
    try:
        termios.tcgetattr(terminal)
    except (termios.error, OSError):
        return False
    return True


def end_children() -> None:
    """Send SIGTERM to our child processes; each ends its own children."""
    import psutil

    for child in psutil.Process().children():
        try:
            child.terminate()
        except psutil.Error:
            continue
