"""An event that a signal handler may set."""

from contextlib import suppress
from queue import Empty, SimpleQueue


class SignalEvent:
    """What `threading.Event` is to threads, also for handlers of signals.

    `threading.Event` has a lock: a handler that sets it waits for ever if it interrupts `wait` of the same event in the
    main thread. `SimpleQueue.put` may interrupt `get`.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Set it for good, and wake who waits."""
        self._is_set = True
        self._wakes.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, or for so long. Returns whether it is set."""
        with suppress(Empty):
            self._wakes.get(timeout=timeout_s)
            self._wakes.put(None)  # for the next that waits
        return self._is_set
