"""Bytes from a socket to whole frames, with one buffer that all connections share.

What a read brings is stepped before anything else runs, so nothing of it outlives the turn, and an idle connection
holds no buffer at all. Only the unfinished end of a read is kept: as bytes put in front of the next read, or, for a
frame larger than the shared buffer, in pages of its own, which the kernel fills in as bytes are received: memory grows with
the bytes received, never with the length announced (a peer that says 50 MiB and sends five bytes costs five bytes), and
nothing is copied to make room. One read takes at most `LARGE_FRAME_READ_BYTES_MAX`, so that it never holds up the others for long.
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
"""A spare buffer this many times too large stays for another frame."""
_SPARES_MAX_BYTES: Final = 8 * 1024 * 1024

StepFrames: TypeAlias = Callable[[bytearray | mmap.mmap, memoryview, int], int]
"""Steps the whole frames of `buffer[:end]`, given with a read-only view of it; returns where it stopped."""


class Memory:
    """Bytes held for peers, all connections together: partly received frames and unsent replies.

    Past the bound connections wait before they read on. One of them at a time may read all the same, or connections
    that each hold half a frame would wait for each other for ever. Partly received large frames take at most half: past
    that the connections that send them wait, and those with small requests do not.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max, self.frame_bytes_max = bytes_max, bytes_max // 2
        self.held_bytes = 0
        self.frame_bytes = 0
        """Of partly received large frames; part of `held_bytes`, and at most `frame_bytes_max`. While all that is held is below
        that, every connection may read."""
        self.exempt: object | None = None
        self._waiting: deque[trio.Event] = deque()

    def change(self, by_bytes: int) -> None:
        """Count bytes taken or, negative, given back."""
        self.held_bytes += by_bytes
        if by_bytes < 0 and self._waiting and not self.is_full and not self.is_full_of_frames:
            self._wake_all()

    def change_frames(self, by_bytes: int) -> None:
        """Count bytes of large frames, likewise."""
        self.frame_bytes += by_bytes
        self.change(by_bytes)

    @property
    def is_full(self) -> bool:
        """Whether more is held than the bound."""
        return self.held_bytes > self.bytes_max

    @property
    def is_full_of_frames(self) -> bool:
        """Whether large frames hold more than their half."""
        return self.frame_bytes > self.frame_bytes_max

    def may_read(self, who: object, *, in_frame: bool, in_large_frame: bool) -> bool:
        """Whether a connection may take more memory now; makes one that is in the middle of a frame the exempt one."""
        if self.exempt is who or not (self.is_full or (in_large_frame and self.is_full_of_frames)):
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
        self._spares: list[mmap.mmap] = []
        self._spare_bytes = 0

    def take(self, size: int) -> mmap.mmap:
        """A buffer of at least `size` bytes, whose pages take memory as they are written. Raises OSError."""
        for index, spare in enumerate(self._spares):
            if size <= len(spare) <= size * _SPARE_RATIO_MAX:
                del self._spares[index]
                self._spare_bytes -= len(spare)
                return spare
        return mmap.mmap(-1, 1 << (size - 1).bit_length())

    def give_back(self, buffer: mmap.mmap) -> None:
        """Done with a buffer that `take` gave."""
        if self._spare_bytes + len(buffer) <= _SPARES_MAX_BYTES:
            self._spares.append(buffer)
            self._spare_bytes += len(buffer)

    def drop_spares(self) -> None:
        """Free the spare buffers; large frames were not seen for a while."""
        self._spares.clear()
        self._spare_bytes = 0


class ReceiveBuffer:
    """The receiving side of one connection."""

    __slots__ = ("_own", "_own_end", "_rest", "_shared", "frame_bytes", "has_whole_frames", "is_in_large_frame")

    def __init__(self, shared: SharedBuffer) -> None:
        self.frame_bytes = 0
        """Announced size, prefix included, of the frame that is only partly here (4 while not even that is); or 0."""
        self.has_whole_frames = False
        """Stepping was stopped early: `step_kept` goes on, without reading."""
        self.is_in_large_frame = False
        """A frame that has a buffer of its own is only partly here."""
        self._shared = shared
        self._rest = b""
        self._own: mmap.mmap | None = None
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
            self._give_back(self._own)
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
        self._shared.give_back(own)
