"""One direction of a proxy that a test can hold in the middle of something, from a certain byte on."""

import socket
import threading

from yak.local.chaos.proxy import Flow

MARKER_BYTES_MAX = 64


class MarkedFlow(Flow):
    """A flow that is held right before a marker."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped = threading.Event()
        """Set when the marker of `hold_before` arrived."""
        self._marker = b""
        self._left = 0
        self._before: dict[socket.socket, bytes] = {}
        """The last bytes that passed, by connection."""

    def release(self) -> None:
        self._marker = b""
        super().release()

    def hold_before(self, marker: bytes, count: int = 1) -> None:
        """Hold right before the `count`th occurrence of the marker from now on; earlier bytes still pass."""
        self.stopped.clear()
        self._left = count
        self._marker = marker

    def send(self, target: socket.socket, data: bytes) -> None:
        stop = self._stop_at(self._before.get(target, b""), data)
        if stop is not None:
            super().send(target, data[:stop])
            data = data[stop:]
            self.pass_when_open()
        super().send(target, data)
        self._before[target] = data[-MARKER_BYTES_MAX:]

    def _stop_at(self, before: bytes, data: bytes) -> int | None:
        """How much of `data` passes before `hold_before` takes effect; None for all."""
        marker, whole = self._marker, before + data
        if not marker:
            return None
        position = max(0, len(before) - len(marker) + 1)
        while (position := whole.find(marker, position)) >= 0:
            self._left -= 1
            if self._left == 0:
                self._marker = b""
                self.hold()
                self.stopped.set()
                return max(0, position - len(before))
            position += len(marker)
        return None
