"""The broker_client: whom it asks, and which problem each failure is."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from yak.protocol.codec import decode_request, encode_response, read_request_header
from yak.server.http.broker_client import BrokerClient, RemoteLost
from yak.server.http.problems import Problem
from yak.server.in_process import Closed

METADATA = 3


class Asked:
    """Stands for the core and for the connections to others: answers by `how`, and notes what was asked."""

    def __init__(self, how: Any = None) -> None:
        self.how = how
        self.frames: list[bytes] = []
        self.addresses: list[tuple[str, int]] = []

    async def answer(self, frame: bytes) -> bytes:
        self.frames.append(frame)
        if isinstance(self.how, Exception):
            raise self.how
        if isinstance(self.how, bytes):
            return self.how
        if self.how == "never":
            await trio.sleep_forever()
        version = read_request_header(memoryview(frame)).api_version
        return b"".join(map(bytes, encode_response(METADATA, version, 0, {"cluster_id": "c", "controller_id": 5})))[4:]


class Core(Asked):
    async def ask(self, frame: bytes, peer: str) -> bytes:
        return await self.answer(frame)


class Others(Asked):
    async def ask(self, host: str, port: int, frame: bytes) -> bytes:
        self.addresses.append((host, port))
        return await self.answer(frame)


def make_broker_client(core: Any = None, others: Any = None) -> tuple[BrokerClient, Core, Others]:
    brokers = {2: SimpleNamespace(host="other.example", port=9093)}
    broker: Any = SimpleNamespace(node_id=1, image=SimpleNamespace(brokers=brokers))
    inside, outside = Core(core), Others(others)
    broker_client = BrokerClient(broker, inside)  # type: ignore[arg-type]
    broker_client._remote = outside  # type: ignore[assignment]
    return broker_client, inside, outside


@pytest.mark.parametrize("node_id", [None, 1])
def test_without_a_node_this_broker_is_asked(node_id: int | None) -> None:
    broker_client, core, others = make_broker_client()
    found = trio.run(lambda: broker_client.ask(METADATA, {"topics": None}, node_id=node_id, version=9))
    assert (found.cluster_id, found.controller_id) == ("c", 5)
    assert others.frames == []
    header = read_request_header(memoryview(core.frames[0]))
    assert (header.api_key, header.api_version, header.client_id) == (METADATA, 9, "yak-http")
    assert decode_request(METADATA, 9, memoryview(core.frames[0]), header.body_offset).topics is None


def test_another_node_is_asked_at_its_address_in_the_newest_version() -> None:
    broker_client, core, others = make_broker_client()
    found = trio.run(lambda: broker_client.ask(METADATA, {"topics": []}, node_id=2))
    assert found.controller_id == 5
    assert (core.frames, others.addresses) == ([], [("other.example", 9093)])


@pytest.mark.parametrize(
    ("node_id", "how", "status", "error", "words"),
    [
        (1, Closed("internal error"), 503, "broker-unreachable", "node 1 did not answer: internal error"),
        (2, RemoteLost("connection refused"), 503, "broker-unreachable", "node 2 did not answer: connection refused"),
        (9, None, 503, "broker-unreachable", "node 9 did not answer: it is not registered"),
        (2, b"\0\0\0\0nonsense", 503, "broker-unreachable", "the response is not a valid"),
        (2, "never", 504, "no-answer", "node 2 did not answer within 0.05 s"),
        (None, "never", 504, "no-answer", "node 1 did not answer within 0.05 s"),
    ],
)
def test_each_failure_is_a_problem(node_id: int | None, how: Any, status: int, error: str, words: str) -> None:
    broker_client, _, _ = make_broker_client(how, how)
    with pytest.raises(Problem) as raised:
        trio.run(lambda: broker_client.ask(METADATA, {"topics": None}, node_id=node_id, timeout_s=0.05))
    assert (raised.value.status, raised.value.error) == (status, error)
    assert words in raised.value.message
    assert raised.value.hint
