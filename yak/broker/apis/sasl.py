"""SaslHandshake and SaslAuthenticate: the logins of clients (`yak.broker.login`), and the proofs of brokers.

SaslHandshake (key 17, v0-1) chooses a mechanism: one for clients, or that of brokers (`yak.protocol.peer_proof`). Brokers
authenticate on every listener, clients on those with SASL. On other listeners, and after a login without an end, a client
gets ILLEGAL_SASL_STATE, as in Kafka (KafkaApis.handleSaslHandshakeRequest).

SaslAuthenticate (key 36, v0-2). v1: session lifetime, KIP-368. v2: flexible. Without a handshake the answer is
ILLEGAL_SASL_STATE, as in Kafka. A proof has two steps, and is valid as long as its connection: its session lifetime is 0. A
wrong proof gets SASL_AUTHENTICATION_FAILED without the reason, which is in this broker's log. The connection remains a
client's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.api_table import Api
from yak.broker.call import Call, Now, Outcome
from yak.broker.connections import Connection, LoginState, PeerProofState
from yak.core import events
from yak.errors import ErrorCode, ProtocolViolation
from yak.protocol.peer_proof import MECHANISM, NONCE_BYTES, Exchange, Hello, Incarnation

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_FRAMED_VERSION = 1
"""Brokers prove themselves with SaslAuthenticate only; before v1 tokens have no Kafka header (KIP-152)."""


def sasl_handshake(broker: Broker, call: Call) -> Outcome:
    """Begin the authentication of a broker or of a client.

    Raises ProtocolViolation for a client when this broker has not joined the cluster: it may not know the user yet, and
    clients give up after a failed login.
    """
    connection, login = call.connection, call.connection.login
    if login is not None and call.request.mechanism != MECHANISM:
        if not broker.takes_clients:
            raise ProtocolViolation("this broker has not joined the cluster yet")
        return broker.logins.handshake(call, login)
    is_first = connection.proving is None and connection.proven is None
    if not is_first or call.version < _FRAMED_VERSION or call.request.mechanism != MECHANISM:
        return Now({"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []})
    connection.proving = PeerProofState()
    if login is not None:
        login.state, login.is_bare = LoginState.AUTHENTICATE, False
    return Now({"error_code": ErrorCode.none, "mechanisms": [MECHANISM]})


_LOGGED_IN = "SaslAuthenticate request received after successful authentication"
"""Kafka's messages (KafkaApis.handleSaslAuthenticateRequest)."""


def sasl_authenticate(broker: Broker, call: Call) -> Outcome:
    """Answer a client's token; or the caller's hello, then its proof."""
    connection, token = call.connection, bytes(call.request.auth_bytes)
    proving = connection.proving
    if proving is None:
        if connection.login is not None and connection.login.state is LoginState.AUTHENTICATE:
            return broker.logins.authenticate(call, connection.login, token)
        is_logged_in = connection.login is not None and connection.login.state is LoginState.DONE
        message = _LOGGED_IN if is_logged_in else "SaslAuthenticate needs a SaslHandshake first"
        return _answer(ErrorCode.illegal_sasl_state, b"", message)
    try:
        if proving.exchange is None:
            proving.exchange, proving.caller = _exchange(broker, token)
            return _answer(ErrorCode.none, proving.exchange.server)
        assert proving.caller is not None
        return _answer(ErrorCode.none, _verify(broker, connection, proving.exchange, proving.caller, token))
    except ProtocolViolation as violation:
        fields: dict[str, object] = {"peer": connection.peer, "reason": str(violation)}
        broker.emit(events.Notice("warning", "peer-proof-refused", fields, is_provoked=True))
        connection.proving = None
        if connection.login is not None:
            connection.login.state = LoginState.HANDSHAKE
        return _answer(ErrorCode.sasl_authentication_failed, b"", "the broker's authentication failed")


def _exchange(broker: Broker, token: bytes) -> tuple[Exchange, Incarnation]:
    """Begin an exchange with this broker's hello and a nonce of this connection. Raises ProtocolViolation."""
    caller = Hello.decode(token).broker
    hello = Hello(broker.peers.incarnation(), broker.rng.secret_bytes(NONCE_BYTES))
    return Exchange(broker.peers.cluster_id, token, hello.encode()), caller


def _verify(broker: Broker, connection: Connection, exchange: Exchange, caller: Incarnation, proof: bytes) -> bytes:
    """Verify the caller's proof, and return this broker's. Raises ProtocolViolation.

    A caller that is not in the image may be newer than the image: each request decides what the caller may do.
    """
    secret = broker.peers.secret
    if secret is None:
        raise ProtocolViolation("this broker is not registered yet")
    if not secret.is_caller(proof, exchange):
        raise ProtocolViolation(
            f"the caller that claims to be broker {caller.node_id} does not know the cluster's secret"
        )
    known = broker.image.brokers.get(caller.node_id)
    # a node of the metadata quorum registers through the quorum, so it connects without an epoch
    is_unregistered = broker.quorum is not None and caller.broker_epoch == 0
    is_outdated = known is not None and caller.broker_epoch < known.broker_epoch and not is_unregistered
    if caller.node_id == broker.node_id or is_outdated:
        raise ProtocolViolation(f"broker {caller.node_id} is registered in a later incarnation")
    connection.proving, connection.proven = None, caller
    broker.logins.forget(connection)
    broker.emit(events.PeerProven(connection.connection_id))
    return secret.server_proof(exchange)


def _answer(error_code: ErrorCode, auth_bytes: bytes, message: str | None = None) -> Now:
    return Now({"error_code": error_code, "error_message": message, "auth_bytes": auth_bytes})


APIS = (
    Api(17, "SaslHandshake", range(2), sasl_handshake, ("GSSAPI",)),
    Api(36, "SaslAuthenticate", range(3), sasl_authenticate),
)
