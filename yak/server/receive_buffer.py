"""Split bytes from a socket into whole frames, with one buffer shared by all connections.

A read is stepped before anything else runs, so its bytes do not outlive the turn, and an idle connection has no buffer.
Only the unfinished end of a read is copied. A small rest is copied in front of the next read. A frame larger than the
shared buffer gets pages of its own, which the kernel fills.

Memory grows with the bytes received, never with the announced length: a peer that announces 50 MiB and sends five bytes
costs five bytes. Nothing is copied to make room. One read takes at most `LARGE_FRAME_READ_BYTES_MAX`, so that it does
not delay other connections.
"""

import mmap
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

import trio

from yak.limits import LARGE_FRAME_READ_BYTES_MAX

FRAME_LENGTH: Final = Struct(">i")
_OWN_FROM_BYTES: Final = 128 * 1024
_SPARE_RATIO_MAX: Final = 8
"""A spare buffer up to this many times too large is reused for a frame."""
_SPARES_MAX_BYTES: Final = 8 * 1024 * 1024

StepFrames: TypeAlias = Callable[[bytearray | mmap.mmap, memoryview, int], int]
"""Steps the whole frames of `buffer[:end]`, passed with a read-only view of it; returns the end of the last one."""


class Memory:
    """Memory of all connections together: partly received frames and unsent replies.

    Above the limit, connections stop reading. One connection at a time is exempt; otherwise connections with half a
    frame each would wait for each other forever. Partly received large frames may take half of the limit: above that
    only connections with such frames stop reading.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max, self.frame_bytes_max = bytes_max, bytes_max // 2
        self.held_bytes = 0
        self.frame_bytes = 0
        """Bytes of partly received large frames; part of `held_bytes`, at most about `frame_bytes_max`. While
        `held_bytes` is below that, every connection may read."""
        self.exempt: object | None = None
        self._waiting: deque[trio.Event] = deque()

    def change(self, by_bytes: int) -> None:
        """Count bytes taken or, if negative, freed."""
        self.held_bytes += by_bytes
        if by_bytes < 0 and self._waiting and not self.is_full and not self.is_full_of_frames:
            self._wake_all()

    def change_frames(self, by_bytes: int) -> None:
        """Count bytes of large frames taken or freed."""
        self.frame_bytes += by_bytes
        self.change(by_bytes)

    @property
    def is_full(self) -> bool:
        """Whether memory exceeds the limit."""
        return self.held_bytes > self.bytes_max

    @property
    def is_full_of_frames(self) -> bool:
        """Whether large frames exceed their half of the limit."""
        return self.frame_bytes > self.frame_bytes_max

    def may_read(self, who: object, *, in_frame: bool, in_large_frame: bool) -> bool:
        """Whether a connection may read now. Exempts a connection with a partial frame if no other is exempt."""
        if self.exempt is who or not (self.is_full or (in_large_frame and self.is_full_of_frames)):
            return True
        if self.exempt is None and in_frame:
            self.exempt = who
            return True
        return False

    def no_longer_exempt(self, who: object) -> None:
        """End the exemption of a connection that finished its frame, paused or ended."""
        if self.exempt is who:
            self.exempt = None
            self._wake_all()

    def wait_in(self, event: trio.Event) -> None:
        """Set this event when memory is free again."""
        self._waiting.append(event)

    def _wake_all(self) -> None:
        while self._waiting:
            self._waiting.popleft().set()


class SharedBuffer:
    """The buffer for the first read of every frame, and a few spare buffers for large frames."""

    def __init__(self, size: int, memory: Memory) -> None:
        self.size = size
        self.buffer = bytearray(size)
        self.view = memoryview(self.buffer)
        self.readonly = self.view.toreadonly()
        self.memory = memory
        self._spares: list[mmap.mmap] = []
        self._spare_bytes = 0

    def take(self, size: int) -> mmap.mmap:
        """A buffer of at least `size` bytes, whose pages take memory only when written. Raises OSError."""
        for index, spare in enumerate(self._spares):
            if size <= len(spare) <= size * _SPARE_RATIO_MAX:
                del self._spares[index]
                self._spare_bytes -= len(spare)
                return spare
        return mmap.mmap(-1, 1 << (size - 1).bit_length())

    def release(self, buffer: mmap.mmap) -> None:
        """Return a buffer of `take`."""
        if self._spare_bytes + len(buffer) <= _SPARES_MAX_BYTES:
            self._spares.append(buffer)
            self._spare_bytes += len(buffer)

    def drop_spares(self) -> None:
        """Free the spare buffers, after a while without requests."""
        self._spares.clear()
        self._spare_bytes = 0


class ReceiveBuffer:
    """The receiving side of one connection."""

    __slots__ = ("_own", "_own_end", "_rest", "_shared", "frame_bytes", "has_whole_frames", "is_in_large_frame")

    def __init__(self, shared: SharedBuffer) -> None:
        self.frame_bytes = 0
        """Announced size, prefix included, of the partly received frame (4 while the prefix is incomplete); or 0."""
        self.has_whole_frames = False
        """Stepping stopped early: `step_rest` continues without reading."""
        self.is_in_large_frame = False
        """A partly received frame has a buffer of its own."""
        self._shared = shared
        self._rest = b""
        self._own: mmap.mmap | None = None
        self._own_end = 0

    @property
    def missing_bytes(self) -> int:
        """Missing bytes of the partly received frame; 0 without one."""
        if not self.frame_bytes or self.has_whole_frames:
            return 0
        return self.frame_bytes - (self._own_end if self._own is not None else len(self._rest))

    def receive(self, sock: socket.socket, step_frames: StepFrames) -> int:
        """Receive once and step the completed frames. Returns the bytes, 0 at the peer's end. Raises OSError."""
        if self._own is not None:
            return self._receive_own(sock, self._own, step_frames)
        shared = self._shared
        rest = self._rest
        if not rest:
            received = sock.recv_into(shared.buffer)
            if received > 0:
                self._step(received, step_frames)
            return received
        rest_bytes = len(rest)
        received = sock.recv_into(shared.view[rest_bytes:])
        if received > 0:
            shared.view[:rest_bytes] = rest
            self._step(rest_bytes + received, step_frames)
        return received

    def step_rest(self, step_frames: StepFrames) -> None:
        """Step the whole frames that were left when stepping stopped."""
        rest_bytes = len(self._rest)
        self._shared.view[:rest_bytes] = self._rest
        self._step(rest_bytes, step_frames)

    def release(self) -> None:
        """Free the buffers of a connection that ended."""
        if self._own is not None:
            self._give_back(self._own)
        self._keep(b"")

    def _keep(self, rest: bytes) -> None:
        """Keep the unfinished end of a read, and count it."""
        before, self._rest = len(self._rest), rest
        if before or rest:
            self._shared.memory.change(len(rest) - before)

    def _step(self, end: int, step_frames: StepFrames) -> None:
        shared = self._shared
        start = step_frames(shared.buffer, shared.readonly, end)
        left = end - start
        if not left:
            self._keep(b"")
            self.frame_bytes = 0
            self.has_whole_frames = False
            return
        need = 4 + int(FRAME_LENGTH.unpack_from(shared.buffer, start)[0]) if left >= 4 else 4
        self.frame_bytes = need
        self.has_whole_frames = left >= need
        if left < _OWN_FROM_BYTES or need <= shared.size:
            self._keep(shared.view[start:end].tobytes())
            return
        self._keep(b"")
        self._own = shared.take(need)
        self.is_in_large_frame = True
        self._own[:left] = shared.view[start:end]
        self._own_end = left
        shared.memory.change_frames(left)

    def _receive_own(self, sock: socket.socket, own: mmap.mmap, step_frames: StepFrames) -> int:
        end = self._own_end
        need = self.frame_bytes
        received = sock.recv_into(memoryview(own)[end : min(need, end + LARGE_FRAME_READ_BYTES_MAX)])
        if received <= 0:
            return received
        self._own_end = end = end + received
        self._shared.memory.change_frames(received)
        if end == need:
            self.frame_bytes = 0
            try:
                step_frames(own, memoryview(own)[:end].toreadonly(), end)
            finally:
                self._give_back(own)
        return received

    def _give_back(self, own: mmap.mmap) -> None:
        self._own = None
        self.is_in_large_frame = False
        self._shared.memory.change_frames(-self._own_end)
        self._shared.release(own)
