"""Bytes from a socket to whole frames, with one buffer that all connections share.

What a read brings is stepped before anything else runs, so nothing of it outlives the turn, and an idle connection
holds no buffer at all. Only the unfinished end of a read is kept: as bytes put in front of the next read, or, for a
frame larger than the shared buffer, in a buffer of its own. That one grows with the bytes received, never with the
length announced (a peer that says 50 MiB and sends five bytes costs five bytes).
"""

import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

import trio

FRAME_LENGTH: Final = Struct(">i")
_OWN_FROM_BYTES: Final = 128 * 1024
_GROWTH: Final = 4
_SPARES_MAX_BYTES: Final = 8 * 1024 * 1024

StepFrames: TypeAlias = Callable[[bytearray, memoryview, int], int]
"""Steps the whole frames of `buffer[:end]`, given with a read-only view of it; returns where it stopped."""


class Memory:
    """Bytes held for peers, all connections together: partly received frames and unsent replies.

    Past the bound connections wait before they read on. One of them at a time may read all the same, or connections
    that each hold half a frame would wait for each other for ever.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.exempt: object | None = None
        self._waiting: deque[trio.Event] = deque()

    def change(self, by_bytes: int) -> None:
        """Count bytes taken or, negative, given back."""
        self.held_bytes += by_bytes
        if by_bytes < 0 and self._waiting and self.held_bytes <= self.bytes_max:
            self._wake_all()

    @property
    def is_full(self) -> bool:
        """Whether more is held than the bound."""
        return self.held_bytes > self.bytes_max

    def may_read(self, who: object, *, in_frame: bool) -> bool:
        """Whether a connection may take more memory now; makes one that is in the middle of a frame the exempt one."""
        if self.held_bytes <= self.bytes_max or self.exempt is who:
            return True
        if self.exempt is None and in_frame:
            self.exempt = who
            return True
        return False

    def no_longer_exempt(self, who: object) -> None:
        """A connection finished its frame or ended: another may be exempt."""
        if self.exempt is who:
            self.exempt = None
            self._wake_all()

    def wait_in(self, event: trio.Event) -> None:
        """Set this event when there is memory again."""
        self._waiting.append(event)

    def _wake_all(self) -> None:
        while self._waiting:
            self._waiting.popleft().set()


class SharedBuffer:
    """The one buffer that reads go to first, and a few spare buffers for large frames."""

    def __init__(self, size: int, memory: Memory) -> None:
        self.size = size
        self.buffer = bytearray(size)
        self.view = memoryview(self.buffer)
        self.readonly = self.view.toreadonly()
        self.memory = memory
        self._spares: list[bytearray] = []
        self._spare_bytes = 0

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, counted as held memory until `give_back`."""
        for index, spare in enumerate(self._spares):
            if size <= len(spare) <= size * 2 * _GROWTH:
                del self._spares[index]
                self._spare_bytes -= len(spare)
                break
        else:
            spare = bytearray(size)
        self.memory.change(len(spare))
        return spare

    def give_back(self, buffer: bytearray) -> None:
        """Done with a buffer that `take` gave."""
        self.memory.change(-len(buffer))
        if self._spare_bytes + len(buffer) <= _SPARES_MAX_BYTES:
            self._spares.append(buffer)
            self._spare_bytes += len(buffer)

    def drop_spares(self) -> None:
        """Free the spare buffers; large frames were not seen for a while."""
        self._spares.clear()
        self._spare_bytes = 0


class ReceiveBuffer:
    """The receiving side of one connection."""

    __slots__ = ("_own", "_own_end", "_rest", "_shared", "frame_bytes", "has_whole_frames")

    def __init__(self, shared: SharedBuffer) -> None:
        self.frame_bytes = 0
        """Announced size, prefix included, of the frame that is only partly here (4 while not even that is); or 0."""
        self.has_whole_frames = False
        """Stepping was stopped early: `step_kept` goes on, without reading."""
        self._shared = shared
        self._rest = b""
        self._own: bytearray | None = None
        self._own_end = 0

    @property
    def missing_bytes(self) -> int:
        """Bytes of the partly received frame that are still to come; 0 when there is none."""
        if not self.frame_bytes or self.has_whole_frames:
            return 0
        return self.frame_bytes - (self._own_end if self._own is not None else len(self._rest))

    def receive(self, sock: socket.socket, step_frames: StepFrames) -> int:
        """One `recv`, and the frames it completed; the bytes received, 0 at the peer's end. Raises OSError."""
        if self._own is not None:
            return self._receive_own(sock, self._own, step_frames)
        shared = self._shared
        rest = self._rest
        if not rest:
            received = sock.recv_into(shared.buffer)
            if received > 0:
                self._step(received, step_frames)
            return received
        kept = len(rest)
        received = sock.recv_into(shared.view[kept:])
        if received > 0:
            shared.view[:kept] = rest
            self._step(kept + received, step_frames)
        return received

    def step_kept(self, step_frames: StepFrames) -> None:
        """Go on with the whole frames that were left when stepping was stopped."""
        kept = len(self._rest)
        self._shared.view[:kept] = self._rest
        self._step(kept, step_frames)

    def release(self) -> None:
        """The connection is over."""
        if self._own is not None:
            self._shared.give_back(self._own)
            self._own = None
        self._rest = b""

    def _step(self, end: int, step_frames: StepFrames) -> None:
        shared = self._shared
        start = step_frames(shared.buffer, shared.readonly, end)
        left = end - start
        if not left:
            self._rest = b""
            self.frame_bytes = 0
            self.has_whole_frames = False
            return
        need = 4 + int(FRAME_LENGTH.unpack_from(shared.buffer, start)[0]) if left >= 4 else 4
        self.frame_bytes = need
        self.has_whole_frames = left >= need
        if left < _OWN_FROM_BYTES or need <= shared.size:
            self._rest = shared.view[start:end].tobytes()
            return
        self._rest = b""
        self._own = shared.take(min(need, _GROWTH * left))
        self._own[:left] = shared.view[start:end]
        self._own_end = left

    def _receive_own(self, sock: socket.socket, own: bytearray, step_frames: StepFrames) -> int:
        end = self._own_end
        need = self.frame_bytes
        if end == len(own):
            larger = self._shared.take(min(need, _GROWTH * end))
            larger[:end] = own
            self._shared.give_back(own)
            self._own = own = larger
        received = sock.recv_into(memoryview(own)[end : min(len(own), need)])
        if received <= 0:
            return received
        self._own_end = end = end + received
        if end == need:
            self.frame_bytes = 0
            self._own = None
            try:
                step_frames(own, memoryview(own).toreadonly(), end)
            finally:
                self._shared.give_back(own)
        return received
