"""How brokers prove to each other that they belong to one cluster: an HMAC over both identities and both nonces.

The exchange uses SaslHandshake and two SaslAuthenticate (like SCRAM, RFC 5802, whose shape it has), with YAK's own
mechanism:

    caller -> SaslHandshake(MECHANISM), SaslAuthenticate(hello of the caller)          one send
    server -> hello of the server
    caller -> SaslAuthenticate(proof of the caller), and its first request             one send
    server -> proof of the server, and the response to the first request

A hello contains node id, broker epoch, boot id and 32 random bytes. Both proofs cover the cluster id and both hellos,
so a proof holds for one connection between two incarnations: it cannot be replayed, relayed to another broker, or used
by an earlier or later incarnation. The secret itself never crosses a connection.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from typing import Final, NamedTuple

from yak.errors import ProtocolViolation
from yak.ids import BrokerEpoch, NodeId

MECHANISM: Final = "YAK-PEER-HMAC-SHA256"
SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = hashlib.sha256().digest_size
_HELLO: Final = struct.Struct(f">iq{NONCE_BYTES}sB")
_CALLER, _SERVER = b"caller", b"server"
_TEXT: Final = re.compile(f"[0-9a-f]{{{2 * SECRET_BYTES}}}")


class Incarnation(NamedTuple):
    """One broker in one registration."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    boot_id: str


class Hello(NamedTuple):
    """The first message of each end."""

    broker: Incarnation
    nonce: bytes

    def encode(self) -> bytes:
        """The bytes that are sent, and that both proofs cover."""
        boot_id = self.broker.boot_id.encode()
        return _HELLO.pack(self.broker.node_id, self.broker.broker_epoch, self.nonce, len(boot_id)) + boot_id

    @classmethod
    def decode(cls, raw: bytes) -> Hello:
        """Decode a hello. Raises ProtocolViolation."""
        try:
            node_id, broker_epoch, nonce, length = _HELLO.unpack_from(raw)
            boot_id = raw[_HELLO.size :].decode()
        except (struct.error, UnicodeDecodeError):
            raise ProtocolViolation("the bytes are not a broker's hello") from None
        if len(raw) != _HELLO.size + length:
            raise ProtocolViolation("the hello of a broker has the wrong length")
        return cls(Incarnation(node_id, broker_epoch, boot_id), nonce)


class ClusterSecret:
    """The shared secret of the brokers of one cluster. Its `repr` hides it, so that no log line can contain it."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        assert len(key) == SECRET_BYTES
        self._key = key

    @classmethod
    def parse(cls, text: object) -> ClusterSecret | None:
        """The secret from its hex form in the metadata store and on disk; None when the text is invalid."""
        return cls(bytes.fromhex(text)) if isinstance(text, str) and _TEXT.fullmatch(text) else None

    def to_text(self) -> str:
        """The hex form, only for the metadata store and this broker's own disk."""
        return self._key.hex()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSecret) and hmac.compare_digest(self._key, other._key)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "ClusterSecret(hidden)"

    def caller_proof(self, exchange: Exchange) -> bytes:
        """The proof that the caller sends once it knows the server's hello."""
        return self._sign(_CALLER, exchange)

    def server_proof(self, exchange: Exchange) -> bytes:
        """The proof that the server sends to a proven caller."""
        return self._sign(_SERVER, exchange)

    def is_caller(self, proof: bytes, exchange: Exchange) -> bool:
        """Whether the caller holds the secret; takes the same time for every wrong proof."""
        return hmac.compare_digest(proof, self._sign(_CALLER, exchange))

    def is_server(self, proof: bytes, exchange: Exchange) -> bool:
        """Whether the server holds the secret; takes the same time for every wrong proof."""
        return hmac.compare_digest(proof, self._sign(_SERVER, exchange))

    def derive(self, purpose: str) -> bytes:
        """Another secret of the same brokers, from which this one cannot be computed."""
        return hmac.digest(self._key, f"{MECHANISM} {purpose}".encode(), hashlib.sha256)

    def _sign(self, side: bytes, exchange: Exchange) -> bytes:
        signer = hmac.new(self._key, digestmod=hashlib.sha256)
        parts = (MECHANISM.encode(), side, exchange.cluster_id.encode(), exchange.caller, exchange.server)
        for part in parts:
            signer.update(len(part).to_bytes(4, "big") + part)
        return signer.digest()


class Exchange(NamedTuple):
    """The input of both proofs of one connection: the cluster, and both hellos as sent."""

    cluster_id: str
    caller: bytes
    server: bytes
