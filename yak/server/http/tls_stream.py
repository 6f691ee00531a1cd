"""A client's connection under TLS, with the methods of Trio's `SocketStream` that the HTTP server uses.

It has a `TlsSocket` inside, as Kafka's connections have, because events are sent to a listener at once, without a task
that waits (`send_now`).
"""

import contextlib
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio

from yak.errors import LoginRefused
from yak.ports.disk import Buffer
from yak.security import ANONYMOUS
from yak.security.principal_mapping import NoMatchingRule
from yak.security.tls import principal_of
from yak.server.http.problems import Problem, body_of
from yak.server.tls_socket import NotTlsError, TlsSocket, explain

if TYPE_CHECKING:
    import socket

    from yak.server.tls_listener import ListenerTls

_READ_BYTES: Final = 64 * 1024
_SENT_BYTES: Final = 16 * 1024
"""Encrypted at once by `send_now`: a record of TLS."""


class TlsStream(trio.abc.AsyncResource):
    """One accepted socket. `handshake` comes first."""

    def __init__(self, sock: "socket.socket", tls: "ListenerTls") -> None:
        self.socket = trio.socket.from_stdlib_socket(sock)
        self.principal = ANONYMOUS
        """The user of the client's certificate."""
        self._tls_listener, self._raw = tls, sock
        self._tls = TlsSocket(sock, tls.contexts.accepting)
        self._unsent = b""
        """Encrypted bytes that the socket has not taken."""
        self._begun_bytes = 0
        """Bytes of `send_now` that are among those, and not counted as taken yet."""
        self._has_said_end = False

    async def handshake(self, seconds: float) -> None:
        """Shake hands. Raises LoginRefused with the reason, OSError when the peer is gone."""
        try:
            with trio.fail_after(seconds):
                await self._tls.handshake(self._tls_listener.handshake_turns)
            self.principal = principal_of(self._tls.peer_certificate(), self._tls_listener.settings.mapping)
        except trio.TooSlowError:
            raise LoginRefused(f"no TLS handshake within {seconds:g} s") from None
        except NotTlsError:
            with contextlib.suppress(OSError):
                self._raw.send(_plain_answer())
            raise LoginRefused("plain HTTP on the port of HTTPS") from None
        except ssl.SSLError as error:
            raise LoginRefused(explain(error)) from None
        except NoMatchingRule as error:
            raise LoginRefused(f"no rule of ssl.principal.mapping.rules matches {error}") from None
        except ValueError as error:
            raise LoginRefused(f"the name in the client's certificate cannot be read: {error}") from None

    async def receive_some(self, max_bytes: int) -> bytes:
        """As Trio's. Raises BrokenResourceError."""
        await trio.lowlevel.checkpoint()
        if self._has_said_end:  # what comes now is thrown away, and OpenSSL decrypts no more
            with _broken():
                return await self.socket.recv(max_bytes)
        buffer = bytearray(min(max_bytes, _READ_BYTES))
        with _broken():
            while True:
                size = self._received(buffer)
                if self._tls.has_output and not self._unsent:  # an answer to a key update
                    self._flush(self._tls.encrypt(b""))
                if size is not None:
                    return bytes(buffer[:size])
                if self._tls.has_pending:
                    await trio.lowlevel.checkpoint()
                else:
                    await trio.lowlevel.wait_readable(self._raw)

    def _received(self, buffer: bytearray) -> int | None:
        """The count of bytes that one read brought; None: no data yet."""
        try:
            return self._tls.recv_into(buffer)
        except BlockingIOError:
            return None

    async def send_all(self, data: Buffer) -> None:
        """As Trio's. Raises BrokenResourceError."""
        await trio.lowlevel.checkpoint()
        with _broken():
            self._begun_bytes = 0
            is_sent = self._flush(self._tls.encrypt(data))
            while not is_sent:
                await trio.lowlevel.wait_writable(self._raw)
                is_sent = self._flush()

    def send_now(self, data: Buffer) -> int:
        """Send at once; the count of bytes that the socket has taken. The others must be given again. Raises OSError."""
        if self.socket.fileno() < 0:
            raise BrokenPipeError("the connection is closed")
        sent, rest = 0, memoryview(data)
        while self._flush():
            sent, self._begun_bytes = sent + self._begun_bytes, 0
            if sent == len(rest):
                break
            piece = rest[sent : sent + _SENT_BYTES]
            self._unsent, self._begun_bytes = self._tls.encrypt(piece), len(piece)
        return sent

    async def send_eof(self) -> None:
        """Say that nothing more is sent (a TLS alert), and close this direction."""
        await trio.lowlevel.checkpoint()
        self._say_end()
        with contextlib.suppress(OSError):
            self.socket.shutdown(trio.socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close the socket."""
        if self.socket.fileno() >= 0:
            self._say_end()
            self.socket.close()
        await trio.lowlevel.checkpoint()

    def _say_end(self) -> None:
        self._has_said_end = True
        with contextlib.suppress(OSError, ValueError):
            self._flush(self._tls.end())

    def _flush(self, more: bytes = b"") -> bool:
        """Send the unsent bytes and `more`; whether the socket took everything."""
        self._unsent += more
        while self._unsent:
            try:
                sent = self._tls.send_raw(self._unsent)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]
        return True


@contextlib.contextmanager
def _broken() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, trio.ClosedResourceError) as error:  # ValueError: a closed socket or TLS session
        raise trio.BrokenResourceError(str(error)) from error


def _plain_answer() -> bytes:
    problem = Problem(400, "tls-needed", "this port speaks HTTPS", "use https://")
    body, headers = body_of(problem)
    lines = [f"{name}: {value}" for name, value in [*headers, ("content-length", len(body)), ("connection", "close")]]
    return "\r\n".join(["HTTP/1.1 400 Bad Request", *lines, "", ""]).encode() + body
