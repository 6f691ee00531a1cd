"""Connections of the broker client to other brokers' inter-broker listeners: TLS, and the proof where it is needed.

A listener with SASL asks for a login, and a broker with ACLs for rights; a broker has both by the brokers' proof of
identity, as on its other connections (`yak.core.peers`).
"""

import os
import ssl
import struct
from typing import TYPE_CHECKING, Any, Final

import trio

from yak.broker.broker import Broker
from yak.cluster.image import BrokerInfo
from yak.core.peers import CLIENT_ID
from yak.errors import ErrorCode, ProtocolViolation
from yak.protocol.codec import decode_response, encode_request
from yak.protocol.peer_proof import MECHANISM, NONCE_BYTES, Exchange, Hello
from yak.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from yak.server.http.broker_client import Stream, must_prove, receive_frame
from yak.server.tls_socket import explain

if TYPE_CHECKING:
    from yak.server.tls_listener import ListenerTls

_VERSION: Final = 1
_LENGTH: Final = struct.Struct(">i")


class InterBroker:
    """Prepares connections as the inter-broker listener of this broker demands."""

    def __init__(self, broker: Broker, tls: "ListenerTls | None") -> None:
        self._broker, self._tls = broker, tls

    async def secure(self, plain: trio.SocketStream, address: tuple[str, int]) -> Stream:
        """A new connection, under TLS and proven where the listener has it. Raises OSError, ProtocolViolation."""
        stream: Stream = plain
        try:
            if self._tls is not None:
                stream = trio.SSLStream(
                    plain, self._tls.contexts.connecting, server_hostname=address[0], https_compatible=True
                )
                await stream.do_handshake()
            if must_prove(self._broker):
                await self._prove(stream, self._at(address))
        except BaseException as error:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(plain)
            if isinstance(error.__cause__, ssl.SSLError):
                raise OSError(f"TLS: {explain(error.__cause__)}") from None
            raise
        return stream

    def _at(self, address: tuple[str, int]) -> BrokerInfo:
        """The broker that is to answer there. Raises ProtocolViolation when it has gone."""
        listener = self._broker.identity.inter_broker
        for info in self._broker.image.brokers.values():
            if info.endpoint_for(listener) == address:
                return info
        raise ProtocolViolation("no broker is registered with this address")

    async def _prove(self, stream: Stream, wanted: BrokerInfo) -> None:
        """Prove both ends to each other. Raises ProtocolViolation."""
        peers = self._broker.peers
        assert peers.secret is not None, "a broker that serves HTTP is registered"
        hello = Hello(peers.incarnation(), os.urandom(NONCE_BYTES)).encode()
        await _ask(stream, SASL_HANDSHAKE, {"mechanism": MECHANISM})
        there = (await _ask(stream, SASL_AUTHENTICATE, {"auth_bytes": hello})).auth_bytes
        broker = Hello.decode(there).broker
        if broker.node_id != wanted.node_id or broker.broker_epoch < wanted.broker_epoch:
            # else a process there could pass this broker's proof on to another one
            raise ProtocolViolation(f"the process at the address of broker {wanted.node_id} is not that broker")
        exchange = Exchange(peers.cluster_id, hello, there)
        answer = await _ask(stream, SASL_AUTHENTICATE, {"auth_bytes": peers.secret.prove_caller(exchange)})
        if not peers.secret.is_server(answer.auth_bytes, exchange):
            raise ProtocolViolation(f"the process at the address of broker {wanted.node_id} is not of this cluster")


async def _ask(stream: Stream, api_key: int, fields: dict[str, object]) -> Any:
    request = encode_request(api_key, _VERSION, 0, CLIENT_ID, fields)
    await stream.send_all(_LENGTH.pack(len(request)) + request)
    answer = decode_response(api_key, _VERSION, await receive_frame(stream))
    if answer.error_code != ErrorCode.none:
        raise ProtocolViolation("the other broker rejected this broker's authentication")
    return answer
