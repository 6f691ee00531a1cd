"""A stream with a deadline for a peer that takes nothing, with what was read of it before, that waits for HTTP's turn."""

import os
from collections.abc import Awaitable, Callable
from typing import Final

import trio

STREAM: Final = "stream"
"""Under this name the ASGI scope's state has the connection's `PatientStream`: a handler that sends for long finds it there."""
_PIECE_BYTES: Final = 64 * 1024


class PatientStream:
    """Sends piece by piece, each within the deadline; a peer that takes none in time is dropped. What comes is handed on when
    `turn` returns."""

    def __init__(
        self,
        stream: trio.SocketStream,
        deadline_seconds: float,
        said: bytes = b"",
        turn: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._stream = stream
        self._said = said
        self._deadline_seconds = deadline_seconds
        self._turn = turn
        self.socket = stream.socket

    async def send_all(self, data: bytes) -> None:
        """As of the stream. Raises BrokenResourceError when the peer took nothing in time."""
        try:
            with memoryview(data) as whole:
                for start in range(0, len(whole), _PIECE_BYTES):
                    with trio.fail_after(self._deadline_seconds):
                        await self._stream.send_all(whole[start : start + _PIECE_BYTES])
        except trio.TooSlowError:
            self.drop()
            raise trio.BrokenResourceError("the peer took nothing") from None
        except trio.Cancelled:
            self.drop()  # part of an answer went out: nothing sensible can follow
            raise

    def send_now(self, data: bytes | memoryview) -> int:
        """Send what the kernel takes at once, past whoever sends otherwise; gives how much. Raises OSError."""
        descriptor = self.socket.fileno()
        if descriptor < 0:
            raise BrokenPipeError("the connection is closed")
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0

    async def receive_some(self, max_bytes: int) -> bytes:
        """As of the stream."""
        if self._said:
            said, self._said = self._said, b""
        else:
            said = bytes(await self._stream.receive_some(max_bytes))
        if said:
            await self._turn()
        return said

    async def send_eof(self) -> None:
        """As of the stream."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """As of the stream."""
        await self._stream.aclose()

    def drop(self) -> None:
        """Close it now, whatever is still to be sent or read."""
        self._stream.socket.close()
