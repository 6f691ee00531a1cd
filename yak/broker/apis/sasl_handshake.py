"""SaslHandshake (key 17, v0-1): choose a mechanism: one for clients, or that of brokers (`yak.protocol.peer_proof`).

Brokers authenticate on every listener, clients on those with SASL (`yak.broker.login`). On other listeners, and after a
login without an end, a client gets ILLEGAL_SASL_STATE, as in Kafka (KafkaApis.handleSaslHandshakeRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call, Now, Outcome
from yak.broker.connections import Proving
from yak.broker.login import LoginState
from yak.errors import ErrorCode, ProtocolViolation
from yak.protocol.peer_proof import MECHANISM

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 17, "SaslHandshake", range(2)
ABSENT = ("GSSAPI",)

_FRAMED_VERSION = 1
"""Brokers prove themselves with SaslAuthenticate only; before v1 tokens have no Kafka header (KIP-152)."""


def handle(broker: Broker, call: Call) -> Outcome:
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
    connection.proving = Proving()
    if login is not None:
        login.state, login.is_bare = LoginState.AUTHENTICATE, False
    return Now({"error_code": ErrorCode.none, "mechanisms": [MECHANISM]})
