"""The proof of identity on a connection of the HTTP server to another broker with SASL."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.rig import Rig
from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.config.listeners import Listener, SecurityProtocol
from yak.errors import ProtocolViolation
from yak.protocol.codec import decode_request, encode_response
from yak.protocol.peer_proof import ClusterSecret, Incarnation
from yak.protocol.request_header import read_request_header
from yak.server.http.broker_client import secure

SASL = Listener("SASL_PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT, "127.0.0.1", 1)
ADDRESS = ("other", 9)


class Stream:
    """A connection to the broker of a rig."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self._answers, self.is_closed = rig, b"", False

    async def send_all(self, data: bytes) -> None:
        frame = memoryview(data)[4:]
        header = read_request_header(frame)
        request = decode_request(header.api_key, header.api_version, frame, header.body_offset)
        fields = {"mechanism": request.mechanism} if header.api_key == 17 else {"auth_bytes": request.auth_bytes}
        answer = self._rig.ask(header.api_key, header.api_version, **fields)
        reply: dict[str, Any] = {"error_code": answer.error_code}
        reply |= {"mechanisms": []} if header.api_key == 17 else {
            "error_message": None, "auth_bytes": answer.auth_bytes, "session_lifetime": 0}  # fmt: skip
        self._answers += b"".join(map(bytes, encode_response(header.api_key, header.api_version, 0, reply)))

    async def receive_some(self, _size: int) -> bytes:
        found, self._answers = self._answers, b""
        return found

    async def aclose(self) -> None:
        self.is_closed = True


async def authenticate(rig: Rig, *, node_id: int = 1, epoch: int = 0, secret: ClusterSecret | None = None) -> Stream:
    """Broker 2 connects to the broker of the rig, which its image has as `node_id`."""
    there = BrokerInfo(node_id, epoch, "boot", (), *ADDRESS, None, "leader", BrokerState.ACTIVE,
                       endpoints=(Listener(SASL.name, SASL.security_protocol, *ADDRESS),))  # fmt: skip
    own = rig.node.broker.peers
    peers = SimpleNamespace(
        secret=secret or own.secret, cluster_id=own.cluster_id, incarnation=lambda: Incarnation(2, 10**6, "own")
    )
    image = SimpleNamespace(brokers={node_id: there})
    caller: Any = SimpleNamespace(identity=SimpleNamespace(inter_broker=SASL), image=image, peers=peers)
    stream: Any = Stream(rig)
    try:
        await secure(caller, None, stream, ADDRESS)
    except ProtocolViolation:
        assert stream.is_closed
        raise
    assert not stream.is_closed
    found: Stream = stream
    return found


async def test_brokers_authenticate_each_other() -> None:
    rig = Rig()
    await authenticate(rig)
    assert any(connection.proven is not None for connection in rig.node.broker.connections.values())


async def test_broker_without_the_secret_is_rejected() -> None:
    with pytest.raises(ProtocolViolation, match="rejected"):
        await authenticate(Rig(), secret=ClusterSecret(b"x" * 32))


@pytest.mark.parametrize(("node_id", "epoch"), [(3, 0), (1, 10**9)])
async def test_another_broker_or_an_earlier_incarnation_gets_no_proof(node_id: int, epoch: int) -> None:
    rig = Rig()
    with pytest.raises(ProtocolViolation, match="is not that broker"):
        await authenticate(rig, node_id=node_id, epoch=epoch)
    assert all(connection.proven is None for connection in rig.node.broker.connections.values())


async def test_address_of_no_broker_is_refused() -> None:
    caller: Any = SimpleNamespace(
        identity=SimpleNamespace(inter_broker=SASL), image=SimpleNamespace(brokers={}), peers=None
    )
    stream: Any = Stream(Rig())
    with pytest.raises(ProtocolViolation, match="no broker is registered"):
        await secure(caller, None, stream, ADDRESS)
    assert stream.is_closed
