"""The broker client: which broker gets a request, the problem of each failure, and idle connections to other brokers over real sockets."""

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from tests.unit.server.http.rig import NO_AUTHORIZER, Acls, Log
from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis import NAMES
from yak.broker.audit import Audit
from yak.cluster.image import BrokerInfo
from yak.cluster.records import BrokerState
from yak.config.listeners import PLAINTEXT_LISTENER
from yak.limits import REQUEST_BYTES_MAX
from yak.protocol.codec import decode_request, encode_response
from yak.protocol.request_header import read_request_header
from yak.server import log as log_module
from yak.server.http import broker_client
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.broker_client import BrokerClient, RemoteBrokers, RemoteLost
from yak.server.http.problems import Problem
from yak.server.in_process import ClosedByBroker

METADATA, ELECT_LEADERS = 3, 43


class FakeBroker:
    """Stands for the core and for the connections to others: answers by `how`, and notes the requests."""

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


class Core(FakeBroker):
    async def ask(self, frame: bytes, peer: str, principal: str) -> bytes:
        return await self.answer(frame)


class Others(FakeBroker):
    async def exchange(self, address: tuple[str, int], frame: bytes, *, has_answer: bool) -> bytes:
        self.addresses.append(address)
        return await self.answer(frame)


def make_broker_client(core: Any = None, others: Any = None) -> tuple[BrokerClient, Core, Others]:
    brokers = {2: BrokerInfo(2, 1, "", (), "other.example", 9093, None, "leader", BrokerState.ACTIVE)}
    identity = SimpleNamespace(inter_broker=PLAINTEXT_LISTENER)
    image = SimpleNamespace(brokers=brokers)
    broker: Any = SimpleNamespace(node_id=1, image=image, identity=identity, authorization=NO_AUTHORIZER)
    inside, outside = Core(core), Others(others)
    broker_client = BrokerClient(broker, inside, Log())  # type: ignore[arg-type]
    broker_client._remote = outside  # type: ignore[assignment]
    return broker_client, inside, outside


@pytest.mark.parametrize("node_id", [None, 1])
async def test_request_without_a_node_goes_to_this_broker(node_id):
    broker_client, core, others = make_broker_client()
    found = await broker_client.ask(METADATA, {"topics": None}, node_id=node_id, version=9)
    assert (found.cluster_id, found.controller_id) == ("c", 5)
    assert others.frames == []
    header = read_request_header(memoryview(core.frames[0]))
    assert (header.api_key, header.api_version, header.client_id) == (METADATA, 9, "yak-http")
    assert decode_request(METADATA, 9, memoryview(core.frames[0]), header.body_offset).topics is None


async def test_request_to_another_node_has_the_newest_version():
    broker_client, core, others = make_broker_client()
    found = await broker_client.ask(METADATA, {"topics": []}, node_id=2)
    assert found.controller_id == 5
    assert (core.frames, others.addresses) == ([], [("other.example", 9093)])


@pytest.mark.parametrize(
    ("node_id", "how", "status", "error", "text"),
    [
        (1, ClosedByBroker("internal error"), 503, "broker-unreachable", "node 1 did not answer: internal error"),
        (2, RemoteLost("connection refused"), 503, "broker-unreachable", "node 2 did not answer: connection refused"),
        (9, None, 503, "broker-unreachable", "node 9 did not answer: it is not registered"),
        (2, b"\0\0\0\0nonsense", 503, "broker-unreachable", "the response is not a valid"),
        (2, "never", 504, "no-answer", "node 2 did not answer within 0.05 s"),
        (None, "never", 504, "no-answer", "node 1 did not answer within 0.05 s"),
    ],
)
async def test_each_failure_is_a_problem(node_id, how, status, error, text):
    broker_client, _, _ = make_broker_client(how, how)
    with pytest.raises(Problem) as raised:
        await broker_client.ask(METADATA, {"topics": None}, node_id=node_id, timeout_s=0.05)
    assert (raised.value.status, raised.value.error) == (status, error)
    assert text in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (0, ("info", {"result": "done"})),
        (29, ("warning", {"result": "denied"})),
        (84, ("warning", {"result": "failed", "error": "ELECTION_NOT_NEEDED"})),
    ],
)
async def test_change_by_another_broker_is_in_the_audit_log_with_the_caller(monkeypatch, code, line):
    fields = {"error_code": code, "replica_election_results": []}
    partition = {"partition_id": 0, "error_code": code, "error_message": None}
    fields["replica_election_results"] = [{"topic": "orders", "partition_result": [partition]}]
    answer = b"".join(map(bytes, encode_response(ELECT_LEADERS, 2, 0, fields)))[4:]
    broker_client, _, _ = make_broker_client(others=answer)
    broker: Any = broker_client._broker
    broker.authorization = Acls((Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster"))
    broker.audit = Audit(lambda _effect: None, NAMES)
    limited: Any = broker_client._rate_limit
    written = Log()
    monkeypatch.setattr(log_module, "write", written.write)
    CALLER.set(Caller("User:ann", None, "10.0.0.9:4711"))
    wanted = {"election_type": 0, "timeout": 1000, "topic_partitions": [{"topic": "orders", "partitions": [0]}]}
    await broker_client.ask(ELECT_LEADERS, wanted, node_id=2)
    ((level, event, logged),) = (*limited.lines, *written.lines)
    known = {"principal": "User:ann", "host": "10.0.0.9", "api": "ElectLeaders", "resources": "partition orders-0"}
    assert (level, event) == (line[0], "audit")
    assert {name: value for name, value in logged.items() if name != "raised"} == known | line[1]


Handler = Callable[[trio.SocketStream], Awaitable[None]]


class OtherBroker:
    """Answers each frame by `handle(frame)`; counts connections."""

    def __init__(self, handle: Callable[[bytes, trio.SocketStream], Awaitable[bytes | None]]) -> None:
        self._handle = handle
        self.connections = 0
        self.open: list[trio.SocketStream] = []
        self.port = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        self.open.append(stream)
        try:
            async with stream:
                while frame := await receive_frame(stream):
                    answer = await self._handle(frame, stream)
                    if answer is None:
                        return
                    await stream.send_all(answer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


async def receive_frame(stream: trio.SocketStream) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
        more = await stream.receive_some(65536)
        if not more:
            return b""
        data += more
    return data[4:]


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


async def echo(frame: bytes, _stream: trio.SocketStream) -> bytes:
    return framed(b"corr" + frame)


@asynccontextmanager
async def other_broker(
    handle: Callable[[bytes, trio.SocketStream], Awaitable[bytes | None]] = echo,
) -> AsyncIterator[OtherBroker]:
    made = OtherBroker(handle)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        made.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, made.serve, listeners)
        yield made
        nursery.cancel_scope.cancel()


async def test_connection_to_a_broker_serves_one_request_after_the_other():
    async with other_broker() as other:
        brokers = RemoteBrokers()
        for number in range(5):
            frame = b"question %d" % number
            assert await brokers.exchange(("127.0.0.1", other.port), frame) == b"corr" + frame
        assert other.connections == 1


async def test_parallel_requests_have_own_connections_and_few_stay_idle(monkeypatch):
    monkeypatch.setattr(broker_client, "_IDLE_PER_BROKER_MAX", 3)
    everybody = trio.Event()
    waiting = 0

    async def handle(frame: bytes, _stream: trio.SocketStream) -> bytes:
        nonlocal waiting
        waiting += 1
        if waiting == 10:
            everybody.set()
        await everybody.wait()
        return framed(b"corr" + frame)

    async with other_broker(handle) as other:
        brokers = RemoteBrokers()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(brokers.exchange, ("127.0.0.1", other.port), b"%d" % number)
        assert other.connections == 10
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(brokers.exchange, ("127.0.0.1", other.port), b"%d" % number)
        assert other.connections == 10
        await trio.testing.wait_all_tasks_blocked(0.01)
        still_open = [stream for stream in other.open if stream.socket.fileno() != -1]
        assert len(still_open) == 3


@pytest.mark.parametrize("says_more", [True, False])
async def test_an_idle_connection_that_was_closed_or_spoken_on_is_not_used_again(says_more):
    async with other_broker() as other:
        brokers = RemoteBrokers()
        await brokers.exchange(("127.0.0.1", other.port), b"first")
        await trio.testing.wait_all_tasks_blocked(0.01)
        if says_more:
            await other.open[0].send_all(framed(b"unasked"))
        else:
            await other.open[0].aclose()
        await trio.sleep(0.05)
        assert await brokers.exchange(("127.0.0.1", other.port), b"second") == b"corrsecond"
        assert other.connections == 2


async def test_an_idle_connection_that_is_old_is_not_used_again(monkeypatch):
    monkeypatch.setattr(broker_client, "_IDLE_SECONDS_MAX", 0.02)
    async with other_broker() as other:
        brokers = RemoteBrokers()
        for frame in (b"first", b"second"):
            assert await brokers.exchange(("127.0.0.1", other.port), frame) == b"corr" + frame
            await trio.sleep(0.05)
        assert other.connections == 2


async def test_idle_connection_to_an_address_that_is_not_used_any_more_is_closed(monkeypatch):
    monkeypatch.setattr(broker_client, "_IDLE_SECONDS_MAX", 0.02)
    async with other_broker() as former, other_broker() as present:
        brokers = RemoteBrokers()
        await brokers.exchange(("127.0.0.1", former.port), b"first")
        await trio.sleep(0.05)
        await brokers.exchange(("127.0.0.1", present.port), b"second")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert [stream.socket.fileno() for stream in former.open] == [-1]
        assert [stream.socket.fileno() for stream in present.open] != [-1]


async def test_a_broker_that_came_back_is_found_again():
    brokers = RemoteBrokers()
    async with other_broker() as other:
        await brokers.exchange(("127.0.0.1", other.port), b"first")
        port = other.port
    with pytest.raises(RemoteLost):
        await brokers.exchange(("127.0.0.1", port), b"second")
    async with other_broker() as other:
        assert await brokers.exchange(("127.0.0.1", other.port), b"third") == b"corrthird"


async def test_cancelled_request_to_a_broker_closes_its_connection():
    async def handle(frame: bytes, _stream: trio.SocketStream) -> bytes:
        if frame == b"slow":
            await trio.sleep(0.1)
        return framed(b"corr" + frame)

    async with other_broker(handle) as other:
        brokers = RemoteBrokers()
        await brokers.exchange(("127.0.0.1", other.port), b"first")
        with trio.move_on_after(0.02):
            await brokers.exchange(("127.0.0.1", other.port), b"slow")
        for _ in range(5):  # the answer to the slow one must never come to another
            assert await brokers.exchange(("127.0.0.1", other.port), b"next") == b"corrnext"
            await trio.sleep(0.03)
        assert other.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"\0\0",
        framed(b"corr and more")[:-3],
        struct.pack(">i", -1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", REQUEST_BYTES_MAX + 1) + b"x",
        framed(b"one") + framed(b"two"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
async def test_invalid_broker_answer_is_a_lost_broker_and_its_connection_is_dropped(answer):
    async def handle(frame: bytes, stream: trio.SocketStream) -> bytes | None:
        if frame == b"well":
            return framed(b"corrwell")
        if answer:
            await stream.send_all(answer)
        return None

    async with other_broker(handle) as other:
        brokers = RemoteBrokers()
        with pytest.raises(RemoteLost, match=r"\w"), trio.fail_after(5):
            await brokers.exchange(("127.0.0.1", other.port), b"badly")
        assert await brokers.exchange(("127.0.0.1", other.port), b"well") == b"corrwell"
        assert other.connections == 2


async def test_refused_connection_is_a_lost_broker():
    async with other_broker() as other:
        port = other.port
    with pytest.raises(RemoteLost, match=rf"^Connection refused \(127\.0\.0\.1:{port}\)$"):
        await RemoteBrokers().exchange(("127.0.0.1", port), b"question")


async def test_name_that_does_not_resolve_is_a_lost_broker(monkeypatch):
    async def resolve(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
    expected = r'^the name "no.such.host" does not resolve \(Name or service not known\) \(no.such.host:9093\)$'
    with pytest.raises(RemoteLost, match=expected):
        await RemoteBrokers().exchange(("no.such.host", 9093), b"question")


async def test_broker_that_takes_no_request_in_time_is_a_problem_with_a_reason(monkeypatch):
    monkeypatch.setattr(broker_client, "TIMEOUT_SECONDS", 0.05)
    client, _, _ = make_broker_client("never", "never")
    with pytest.raises(Problem) as raised:
        await client.send(METADATA, 9, {"topics": []}, 2)
    assert raised.value.message == "node 2 did not take the request within 0.05 s"


async def test_an_answer_in_many_pieces_is_put_together():
    async def handle(frame: bytes, stream: trio.SocketStream) -> bytes:
        whole = framed(b"corr" + bytes(1_000_000))
        for start in range(20):
            await stream.send_all(whole[start : start + 1])
            await trio.sleep(0.001)
        return whole[20:]

    async with other_broker(handle) as other:
        assert len(await RemoteBrokers().exchange(("127.0.0.1", other.port), b"much")) == 1_000_004
