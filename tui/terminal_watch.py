"""Ends `yak ui` when its terminal is gone.

Textual writes through a thread with a bounded queue (`textual/drivers/_writer_thread.py`). When the terminal is gone that
thread dies of EIO, the queue fills, and the event loop waits for room in it for ever: no signal handler of the loop runs
any more. So this looks from a thread of its own, asks the app to end, and where that cannot hear ends the process.
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
"""As after SIGHUP."""


def watch_terminal(ask_to_end: Callable[[], None]) -> None:
    """Look at the terminal of the standard input, if that is one, until the process ends."""
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
    """Whether somebody holds the other end; a terminal that was hung up answers EIO (termios(3))."""
    try:
        termios.tcgetattr(terminal)
    except (termios.error, OSError):
        return False
    return True


def end_children() -> None:
    """SIGTERM to what we started: each takes what it started with it."""
    import psutil

    for child in psutil.Process().children():
        try:
            child.terminate()
        except psutil.Error:
            continue
