"""SaslHandshake (key 17, v0-1): choose a mechanism; only brokers authenticate (`yak.protocol.peer_proof`).

A client gets ILLEGAL_SASL_STATE, as from a Kafka listener without SASL (KafkaApis.handleSaslHandshakeRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call, Now, Outcome
from yak.broker.connections import Proving
from yak.errors import ErrorCode
from yak.protocol.peer_proof import MECHANISM

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 17, "SaslHandshake", range(2)
ABSENT = ("mechanisms for clients: YAK has no client authentication yet",)

_FRAMED_VERSION = 1
"""Before v1, the bytes after the handshake have no Kafka header (KIP-152)."""


def handle(broker: Broker, call: Call) -> Outcome:
    """Begin the authentication of a broker."""
    del broker
    connection = call.connection
    is_first = connection.proving is None and connection.proven is None
    if not is_first or call.version < _FRAMED_VERSION or call.request.mechanism != MECHANISM:
        return Now({"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []})
    connection.proving = Proving()
    return Now({"error_code": ErrorCode.none, "mechanisms": [MECHANISM]})
