"""A client connection under TLS: shakes hands within a time limit, then serves as a plain connection does."""

import ssl
from typing import TYPE_CHECKING, Any, cast

import trio

from yak.security.principal_mapping import NoMatchingRule
from yak.security.tls import principal_of
from yak.server.connection import Connection
from yak.server.tls_listener import ListenerTls
from yak.server.tls_socket import (
    KeyUpdatesError,
    NoLowWater,
    NotTlsError,
    PeerClosedError,
    TlsSending,
    TlsSocket,
    explain,
)
from yak.server.wrong_protocol import describe_plain_bytes

if TYPE_CHECKING:
    import socket


class TlsConnection(TlsSending, Connection):
    """One accepted socket of a TLS listener. The core knows nothing of it before the handshake is done."""

    __slots__ = ("_tls", "tls_socket")

    def __init__(self, tls: ListenerTls, *args: Any) -> None:
        """`args` are those of `Connection`."""
        super().__init__(*args)
        self._tls = tls
        self.tls_socket = TlsSocket(self.sock, tls.contexts.accepting)
        self.sock = cast("socket.socket", self.tls_socket)
        self._low_water = NoLowWater()

    async def _read_until_end(self) -> None:
        if await self._shake_hands():
            self.opened_ms = self.last_active_ms = self._shell.clock.now_ms()
            self._count_unread()
            await super()._read_until_end()

    async def _shake_hands(self) -> bool:
        """Whether the connection may go on: the handshake succeeded, and the rules name the client."""
        tls, shell = self._tls, self._shell
        if len(tls.handshaking) >= shell.limits.tls_handshakes_max:
            next(iter(tls.handshaking)).refuse("tls-too-many-handshakes", "the oldest unfinished handshake ends")
        tls.handshaking[self] = None
        kind = hint = ""
        try:
            with trio.move_on_after(shell.limits.tls_handshake_ms_max / 1000) as limit:
                await self.tls_socket.handshake(tls.handshake_turns)
                # with SASL the login gives it (DefaultKafkaPrincipalBuilder)
                if not self.listener.security_protocol.uses_sasl:
                    self.principal = principal_of(self.tls_socket.peer_certificate(), tls.settings.mapping)
            if limit.cancelled_caught:
                kind, hint = "tls-handshake-deadline", f"no handshake in {shell.limits.tls_handshake_ms_max} ms"
        except NotTlsError as error:
            kind, hint = describe_plain_bytes(error.head)
        except PeerClosedError:
            self._because("peer closed")  # a health check of a load balancer does that: no reason to log it
            shell.counters.bad("tls-handshake-closed")
            self.closing = True
        except ssl.SSLError as error:
            kind, hint = "tls-handshake-failed", explain(error)
        except NoMatchingRule as error:
            kind, hint = "tls-principal-refused", f"no rule of ssl.principal.mapping.rules matches {error}"
        except ValueError as error:
            kind, hint = "tls-principal-refused", f"the name in the client's certificate cannot be read: {error}"
        finally:
            tls.handshaking.pop(self, None)
        if kind:
            self.refuse(kind, hint)
        return not self.closing

    def refuse(self, kind: str, hint: str) -> None:
        """Count and log a connection that failed before its first request, and close it; not within its own turn."""
        self._log_refusal(kind, hint)
        self.close(kind, now=True)
        self.flush()

    def _log_refusal(self, kind: str, hint: str) -> None:
        self._shell.counters.bad(kind)
        fields: dict[str, object] = {"peer": self.peer, "listener": self._tls.listener, "kind": kind, "hint": hint}
        self._shell.rate_limit.write("warning", "tls-connection-refused", fields)

    def _begins_cheaply(self) -> bool:
        return True  # what the kernel has is encrypted; the handshake took a turn among others

    @property
    def has_more(self) -> bool:
        """As in the base class; goes on with bytes that are decrypted, or read from the kernel, already."""
        return super().has_more or self.tls_socket.has_pending

    def _read_once(self) -> None:
        try:
            super()._read_once()
        except KeyUpdatesError as error:
            self._log_refusal("tls-key-updates", str(error))
            self.close("tls-key-updates", now=True)
        self._count_unread()
        if self.tls_socket.has_output:
            if self._shell.in_turn:
                self._shell.touched[self] = None  # the selector's turn: a flush may end this connection's wait in it
            else:
                self.flush()

    def _count_unread(self) -> None:
        """Count what the TLS socket has received: a connection that pauses keeps it."""
        unread_bytes = 0 if self.closing else self.tls_socket.unread_bytes
        if unread_bytes != self._unread_bytes:
            self._unread_bytes = unread_bytes
            self._recount_held()
