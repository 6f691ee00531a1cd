"""Requests to other brokers: one request at a time on a connection; idle connections are kept for reuse."""

import socket
import struct
from typing import Final

import trio

from yak.limits import REQUEST_BYTES_MAX

_LENGTH: Final = struct.Struct(">i")
_IDLE_PER_BROKER_MAX: Final = 8
_IDLE_SECONDS_MAX: Final = 60.0
_CONNECT_SECONDS: Final = 3.0
_READ_BYTES: Final = 1 << 18


class RemoteLost(Exception):
    """The other broker is unreachable, or the connection was lost; the request may have been processed."""


class RemoteBrokers:
    """Connections to other brokers, by address."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[tuple[float, trio.SocketStream]]] = {}

    async def ask(self, host: str, port: int, frame: bytes) -> bytes:
        """Send one request without its length prefix; returns the response, also without. Raises RemoteLost."""
        return await self._exchange((host, port), frame, has_answer=True)

    async def tell(self, host: str, port: int, frame: bytes) -> None:
        """Send one request that has no response. Raises RemoteLost."""
        await self._exchange((host, port), frame, has_answer=False)

    async def _exchange(self, address: tuple[str, int], frame: bytes, *, has_answer: bool) -> bytes:
        stream = await self._take(address)
        try:
            await stream.send_all(_LENGTH.pack(len(frame)) + frame)
            answer = await _receive_frame(stream) if has_answer else b""
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await trio.aclose_forcefully(stream)
            raise RemoteLost(str(error.__cause__ or error) or type(error).__name__) from None
        except BaseException:  # cancelled before the response: the connection cannot be reused
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)
            raise
        self._keep(address, stream)
        return answer

    async def _take(self, address: tuple[str, int]) -> trio.SocketStream:
        idle = self._idle.get(address, [])
        while idle:
            since, stream = idle.pop()
            if trio.current_time() - since <= _IDLE_SECONDS_MAX and _is_quiet(stream):
                return stream
            await trio.aclose_forcefully(stream)
        try:
            with trio.fail_after(_CONNECT_SECONDS):
                return await trio.open_tcp_stream(*address)
        except (OSError, trio.TooSlowError) as error:
            why = "the connection timed out" if isinstance(error, trio.TooSlowError) else str(error)
            raise RemoteLost(why) from None

    def _keep(self, address: tuple[str, int], stream: trio.SocketStream) -> None:
        idle = self._idle.setdefault(address, [])
        idle.append((trio.current_time(), stream))
        if len(idle) > _IDLE_PER_BROKER_MAX:
            idle.pop(0)[1].socket.close()


def _is_quiet(stream: trio.SocketStream) -> bool:
    """Whether the peer has neither closed the connection nor sent anything; does not wait."""
    raw = socket.socket(fileno=stream.socket.fileno())
    try:
        raw.setblocking(False)
        raw.recv(1, socket.MSG_PEEK)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        raw.detach()


async def _receive_frame(stream: trio.SocketStream) -> bytes:
    received = bytearray()
    wanted = _LENGTH.size
    length: int | None = None
    while len(received) < wanted:
        piece = await stream.receive_some(_READ_BYTES)
        if not piece:
            raise OSError("closed in the middle of an answer")
        received += piece
        if length is None and len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            if not _LENGTH.size <= length <= REQUEST_BYTES_MAX:
                raise OSError(f"a response of {length} bytes")
            wanted = _LENGTH.size + length
    if len(received) > wanted:
        raise OSError("more than one answer")
    return bytes(memoryview(received)[_LENGTH.size :])
