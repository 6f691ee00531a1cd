"""Connections to other brokers under TLS: each side shows its certificate and checks the other's.

The brokers' proof of identity (`yak.core.peers`) follows inside, as over plain TCP: a certificate names a host, and the
proof a broker of this cluster.
"""

import ssl
from typing import TYPE_CHECKING, cast

import trio

from yak.core.events import ConnectPeer
from yak.server.peer_connect import NotConnectedError
from yak.server.peers import PeerConnection, Peers
from yak.server.tls_listener import ListenerTls
from yak.server.tls_socket import NoLowWater, TlsSending, TlsSocket, explain

if TYPE_CHECKING:
    import socket

    from yak.server.shell import Shell


class TlsPeerConnection(TlsSending, PeerConnection):
    """One connection to another broker's TLS listener."""

    __slots__ = ("_tls",)

    def __init__(self, tls: ListenerTls, shell: "Shell", peers: Peers, effect: ConnectPeer) -> None:
        super().__init__(shell, peers, effect)
        self._tls = tls
        self._low_water = NoLowWater()

    def _read_once(self) -> None:
        super()._read_once()
        tls_socket = cast("TlsSocket", self.sock)
        self.has_more = self.has_more or tls_socket.has_pending
        if tls_socket.has_output:
            self.flush()

    async def _open_socket(self) -> "socket.socket":
        sock = await super()._open_socket()
        limit_ms = self._shell.limits.peer_connect_ms_max
        failure = NotConnectedError("timeout", f"no TLS handshake in {limit_ms} ms")
        try:
            tls_socket = TlsSocket(sock, self._tls.contexts.connecting, host_name=self._host)
            with trio.move_on_after(limit_ms / 1000):
                await tls_socket.handshake()
                sock = cast("socket.socket", tls_socket)
                return sock
        except ssl.SSLError as error:
            failure = NotConnectedError("unreachable", f"TLS: {explain(error)}")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            failure = NotConnectedError("reset", f"the connection ended during the TLS handshake: {reason}")
        finally:
            if not isinstance(sock, TlsSocket):
                sock.close()
        fields: dict[str, object] = {"peer": f"{self._host}:{self._port}", "why": failure.reason}
        self._shell.rate_limit.write("warning", "tls-peer-refused", fields)
        raise failure
