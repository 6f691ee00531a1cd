"""Split bytes from another broker into whole responses, with one buffer per connection.

A follower receives responses of a megabyte in quick succession. The core reads each one in the buffer that the socket
wrote, without a copy. The buffer therefore stays as large as the largest recent response; a connection without data (a
watch connection) keeps a small one. It grows with the bytes received, never with the announced length. It is replaced,
not resized, since views of it may still exist.
"""

import socket
from typing import Final

from yak.server.receive_buffer import FRAME_LENGTH

SMALLEST_BYTES: Final = 16 * 1024
_GROWTH: Final = 4
_SHRINK_EVERY_FRAMES: Final = 64
"""After this many frames the buffer shrinks if none of them needed a quarter of it."""
_LENGTH_MIN: Final = 4
"""The correlation id: no response is shorter."""


class BadLengthError(Exception):
    """A length prefix is outside the range of a response."""


class AnswerBuffer:
    """The receiving side of one connection to a peer."""

    __slots__ = ("_buffer", "_end", "_frames", "_largest", "_length_max", "_readonly", "_start", "_view", "took_all")

    def __init__(self, length_max: int) -> None:
        self.took_all = False
        """The last read left room: the socket was empty."""
        self._length_max = length_max
        self._start = self._end = 0
        self._frames = self._largest = 0
        self._replace(SMALLEST_BYTES)

    def receive(self, sock: socket.socket) -> int:
        """Receive once; then call `next_frame` until it returns None. Returns 0 at the peer's end. Raises OSError.

        Invalidates the views of earlier frames.
        """
        self._make_room()
        end = self._end
        received = sock.recv_into(self._view[end:] if end else self._view)
        self._end = end + received
        self.took_all = self._end < len(self._buffer)
        return received

    def next_frame(self) -> memoryview | None:
        """The next whole response without its length prefix; None while it is incomplete. Raises BadLengthError."""
        start = self._start
        left = self._end - start
        if left < FRAME_LENGTH.size:
            return None
        (length,) = FRAME_LENGTH.unpack_from(self._buffer, start)
        if not _LENGTH_MIN <= length <= self._length_max:
            raise BadLengthError(f"a response of {length} bytes")
        start += FRAME_LENGTH.size
        stop = start + length
        if stop > self._end:
            return None
        self._start = stop
        self._frames += 1
        self._largest = max(self._largest, length)
        return self._readonly[start:stop]

    @property
    def missing_bytes(self) -> int:
        """Missing bytes of the partly received response; 0 without one."""
        left = self._end - self._start
        if left < FRAME_LENGTH.size:
            return 0
        return int(FRAME_LENGTH.size + FRAME_LENGTH.unpack_from(self._buffer, self._start)[0] - left)

    def _make_room(self) -> None:
        start, end, size = self._start, self._end, len(self._buffer)
        if start == end:
            self._start = self._end = 0
            if self._frames >= _SHRINK_EVERY_FRAMES:
                self._shrink()
            return
        left = end - start
        need = FRAME_LENGTH.size
        if left >= need:
            need += FRAME_LENGTH.unpack_from(self._buffer, start)[0]
        if start and (start + need > size or end == size):
            self._view[:left] = self._view[start:end]
            self._start, self._end = 0, left
        if left == size:
            old = self._view
            self._replace(min(_power_of_two(need), _GROWTH * size))
            self._view[:left] = old

    def _shrink(self) -> None:
        fitting = max(SMALLEST_BYTES, _power_of_two(self._largest + FRAME_LENGTH.size))
        if fitting * _GROWTH <= len(self._buffer):
            self._replace(fitting)
        self._frames = self._largest = 0

    def _replace(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)
        self._readonly = self._view.toreadonly()


def _power_of_two(size: int) -> int:
    """The smallest power of two that holds `size`, so that responses of similar size fit one buffer."""
    return 1 << (size - 1).bit_length()
