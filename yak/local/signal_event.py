"""An event that a signal handler may set."""

import threading
import time
from contextlib import suppress
from typing import Final

_WAIT_S: Final = 1.0
"""The longest wait at once: a signal that comes right before it interrupts nothing, and its handler runs behind it."""


class SignalEvent:
    """What `threading.Event` is to threads, also for handlers of signals.

    `threading.Event` has a lock: a handler that sets it waits for ever if it interrupts `wait` of the same event in the
    main thread. Here `set` only releases a lock, which never waits. `SimpleQueue.get` is no help: with a timeout that has
    passed when a signal interrupts it, it waits for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._is_unset = threading.Lock()
        self._is_unset.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Set it for good, and wake who waits."""
        self._is_set = True
        with suppress(RuntimeError):  # it was released before
            self._is_unset.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, or for so long. Returns whether it is set."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = _WAIT_S if deadline is None else min(_WAIT_S, deadline - time.monotonic())
            if left_s <= 0:
                break
            if self._is_unset.acquire(timeout=left_s):
                self.set()  # wakes the next that waits
        return self._is_set
