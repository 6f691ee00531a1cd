"""A stream with a write timeout that replays bytes already read and waits for HTTP's share of the loop."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from yak.security import ANONYMOUS

if TYPE_CHECKING:
    from yak.server.http.tls_stream import TlsStream

STREAM: Final = "stream"
"""The key of the connection's `TimedStream` in the ASGI scope's state, for handlers that send for long."""
_PIECE_BYTES: Final = 64 * 1024


class TimedStream:
    """Sends in pieces of 64 KiB, each within the write timeout, and drops a peer that is too slow.

    Received bytes are returned after `turn`.
    """

    def __init__(
        self,
        stream: "trio.SocketStream | TlsStream",
        deadline_seconds: float,
        said: bytes,
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._said = said
        self._deadline_seconds = deadline_seconds
        self._turn = turn
        self.socket = stream.socket
        self.principal: str = getattr(stream, "principal", ANONYMOUS)
        """The user of the client's certificate."""
        self.is_secure = not isinstance(stream, trio.SocketStream)
        """Whether the connection is under TLS."""

    async def send_all(self, data: bytes) -> None:
        """Like Trio's. Raises BrokenResourceError when the peer does not accept a piece in time."""
        try:
            with memoryview(data) as whole:
                for start in range(0, len(whole), _PIECE_BYTES):
                    with trio.fail_after(self._deadline_seconds):
                        await self._stream.send_all(whole[start : start + _PIECE_BYTES])
        except trio.TooSlowError:
            self.drop()
            raise trio.BrokenResourceError("the client read nothing") from None
        except trio.Cancelled:
            self.drop()  # part of an answer was sent: nothing valid can follow
            raise

    def send_now(self, data: bytes | memoryview) -> int:
        """Send at once, ahead of any queued sends; returns how many bytes the kernel accepted. Raises OSError."""
        if not isinstance(self._stream, trio.SocketStream):
            return self._stream.send_now(data)
        descriptor = self.socket.fileno()
        if descriptor < 0:
            raise BrokenPipeError("the connection is closed")
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0

    async def receive_some(self, max_bytes: int) -> bytes:
        """Like Trio's, after waiting for `turn`."""
        if self._said:
            said, self._said = self._said, b""
        else:
            said = bytes(await self._stream.receive_some(max_bytes))
        if said:
            await self._turn()
        return said

    async def send_eof(self) -> None:
        """Like Trio's."""
        await self._stream.send_eof()

    def drop(self) -> None:
        """Close the socket now and discard pending data."""
        self._stream.socket.close()
