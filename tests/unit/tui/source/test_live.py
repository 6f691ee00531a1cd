"""The source of a cluster that runs, with brokers that are functions."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest

from yak.client.metadata import Partition, Topic
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import BrokerState
from yak.errors import Unreachable, YakError
from yak.ids import TopicPartition
from yak.tui.source.base import Event
from yak.tui.source.kafka import NO_ID, KafkaAnswers, Snapshot, http_addresses
from yak.tui.source.live import LiveSource

CLUSTER = {"brokers": [{"node_id": 1, "http_address": "http://new:2", "host": "new", "port": 9, "state": "ACTIVE"}]}


async def streamed(text: str) -> AsyncIterator[bytes]:
    yield f"data: {text}\n\n".encode()


def answer(request: httpx.Request) -> httpx.Response:
    """The broker at `new`; whoever asks elsewhere finds nobody."""
    if request.url.host != "new":
        raise httpx.ConnectError("refused")
    if request.url.path == "/api/events":
        return httpx.Response(200, content=streamed(json.dumps({"kind": "hello", "time_ms": 1})))
    return httpx.Response(200, json=CLUSTER)


def source(http: dict[int, str], handler=answer) -> LiveSource:
    made = LiveSource("new:9", http=http)
    made._client_made = httpx.AsyncClient(transport=httpx.MockTransport(handler))
    return made


async def kinds_until(followed: LiveSource, last: str) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(10):
        async for event in followed.follow():
            found.append(event["kind"])
            if event["kind"] == last:
                break
    await followed.close()
    return found


def test_brokers_that_came_back_on_other_ports_are_found(monkeypatch):
    monkeypatch.setattr(
        "yak.tui.source.kafka.http_addresses", lambda servers: {1: "http://new:2"} if servers == "new:9" else {}
    )
    found = asyncio.run(kinds_until(source({1: "http://old:1"}), "hello"))
    assert found[0] == "lost"
    assert found[-1] == "hello"


def test_broker_that_does_not_answer_in_time_is_reported_so():
    def hanging(_request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    with pytest.raises(Unreachable) as caught:
        asyncio.run(source({1: "http://new:2"}, hanging).ask("GET", "/api/cluster"))
    assert caught.value.why == "broker 1 at http://new:2: no answer in time"


def test_broker_that_refuses_the_connection_is_reported_with_the_systems_reason():
    async def reason(port: int) -> str:
        made = LiveSource("127.0.0.1:9", http={1: f"http://127.0.0.1:{port}"})
        try:
            await made.ask("GET", "/api/cluster")
        except Unreachable as error:
            return error.why
        finally:
            await made.close()
        return ""

    with socket.socket() as held:  # bound, and not listening
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        found = asyncio.run(reason(port))
    assert found == f"broker 1 at http://127.0.0.1:{port}: no connection: Connection refused"


def test_broker_that_did_not_answer_in_time_gets_further_requests_last():
    hosts: list[str] = []

    def silent_first(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        if request.url.host == "one" and len(hosts) < 5:
            raise httpx.ReadTimeout("")
        if request.url.host == "two" and len(hosts) > 3:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={})

    async def scenario() -> None:
        made = source({1: "http://one:1", 2: "http://two:2"}, silent_first)
        made._up |= {1, 2}
        for _ in range(4):
            with contextlib.suppress(Unreachable):
                await made.ask("GET", "/api/groups")

    asyncio.run(scenario())
    assert hosts == ["one", "two", "two", "two", "one", "one"]


@pytest.mark.parametrize(
    "broker",
    [{}, None, {**CLUSTER["brokers"][0], "node_id": "first"}, {"node_id": 1, "http_address": "http://new:2"}],
    ids=["empty", "null", "text-as-id", "half"],
)
def test_list_of_brokers_that_cannot_be_read_is_a_lost_cluster_with_the_reason(broker):
    async def reason() -> str:
        made = source({1: "http://new:2"}, lambda _request: httpx.Response(200, json={"brokers": [broker]}))
        async with asyncio.timeout(10):
            async for event in made.follow():
                await made.close()
                return f"{event['kind']}: {event['why']}"
        return ""

    assert asyncio.run(reason()).startswith("lost: the list of brokers cannot be read: a field is missing")


def test_address_that_is_no_url_is_a_broker_that_does_not_answer():
    with pytest.raises(Unreachable, match="no broker answered"):
        asyncio.run(source({1: "http://new:port"}).ask("GET", "/api/groups"))


def test_a_stream_that_is_no_json_is_a_broken_link_and_tried_again():
    tries = 0

    def garbled_once(request: httpx.Request) -> httpx.Response:
        nonlocal tries
        if request.url.path == "/api/events":
            tries += 1
            if tries == 1:
                return httpx.Response(200, content=streamed("<html>"))
        return answer(request)

    found = asyncio.run(kinds_until(source({1: "http://new:2"}, garbled_once), "hello"))
    assert found == ["link", "link", "link", "hello"]
    assert tries == 2


def test_few_streams_of_many_begin_with_a_snapshot_but_each_one_that_broke_or_lost_events():
    """The first three brokers do not answer; the stream of broker 7 ends, that of broker 8 has a gap."""
    nodes = range(1, 51)
    requests: list[tuple[str, bool]] = []
    fails = asyncio.Event()
    events = {kind: json.dumps({"kind": kind, "time_ms": 1, "message": "too slow"}) for kind in ("snapshot", "gap")}

    async def stream(host: str, has_snapshot: bool, is_first: bool) -> AsyncIterator[bytes]:
        if has_snapshot:
            yield f"data: {events['snapshot']}\n\n".encode()
        await (fails.wait() if is_first and host in ("broker7", "broker8") else asyncio.Event().wait())
        if host == "broker8":
            yield f"data: {events['gap']}\n\n".encode()
            await asyncio.Event().wait()

    def handler(request: httpx.Request) -> httpx.Response:
        host, has_snapshot = request.url.host, "snapshot=true" in str(request.url)
        if host in ("broker1", "broker2", "broker3"):
            raise httpx.ConnectError("refused")
        if request.url.path == "/api/events":
            is_first = all(host != before for before, _ in requests)
            requests.append((host, has_snapshot))
            return httpx.Response(200, content=stream(host, has_snapshot, is_first))
        listed = [
            {**CLUSTER["brokers"][0], "node_id": node, "http_address": f"http://broker{node}:1"} for node in nodes
        ]
        return httpx.Response(200, json={"brokers": listed})

    async def scenario() -> list[str]:
        made, down = source({4: "http://broker4:1"}, handler), []
        async with asyncio.timeout(30):
            async for event in made.follow():
                if event["kind"] == "link" and len(requests) == len(nodes) - 3:
                    fails.set()
                if event["kind"] == "link" and event["state"] == "down" and event["node_id"] > 3:
                    down.append(event["why"])
                if (
                    event["kind"] == "snapshot"
                    and fails.is_set()
                    and set(requests[-2:]) == {("broker7", True), ("broker8", True)}
                ):
                    break
        await made.close()
        return sorted(down)

    assert asyncio.run(scenario()) == ["it ended the stream", "too slow"]
    assert 1 <= sum(has_snapshot for _, has_snapshot in requests[: len(nodes) - 3]) <= 6


def test_brokers_without_http_are_read_again_and_again_over_kafka(monkeypatch):
    """Also after a look that failed; what only HTTP has is refused with the reason."""
    image = Image(brokers={1: BrokerInfo(1, -1, "", (), "new", 9, None, "broker", BrokerState.ACTIVE)})
    answers = [
        Snapshot(1, 1000, image, ()),
        Unreachable("unreachable", "no broker answered"),
        Snapshot(2, 2000, image, ()),
    ]

    def next_answer(_servers: str, _before: Snapshot | None) -> Snapshot:
        found = answers.pop(0)
        if isinstance(found, YakError):
            raise found
        return found

    monkeypatch.setattr("yak.tui.source.kafka.http_addresses", lambda _servers: {})
    monkeypatch.setattr("yak.tui.source.kafka.read_snapshot", next_answer)
    monkeypatch.setattr("yak.tui.source.live.POLL_SECONDS", 0.01)
    made = LiveSource("old:9,new:9")
    assert not made.lacks

    async def scenario() -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(10):
            async for event in made.follow():
                found.append(event["kind"])
                if found.count("rates") == 2:
                    break
        with pytest.raises(YakError, match="only YAK's HTTP service has the metadata log"):
            await made.ask("GET", "/metadata/log")
        await made.close()
        return found

    assert asyncio.run(scenario()) == ["snapshot", "link", "rates", "lost", "snapshot", "rates"]
    assert list(made.lacks) == ["metadata"]
    assert made.bootstrap == "new:9"


def test_answer_over_kafka_that_cannot_be_read_is_reported_and_the_cluster_is_read_again(monkeypatch):
    """An address without a port, and partition 1 of a topic without partition 0."""
    image = Image(brokers={1: BrokerInfo(1, -1, "", (), "new", 9, None, "broker", BrokerState.ACTIVE)})
    gap = TopicInfo("orders", NO_ID, (PartitionInfo(1, (1,), (IsrMember(1, -1),), (), 1, 0, 0),))
    images = [image, None, *[replace(image, topics={"orders": gap})] * 2, image]

    def next_answer(_servers: str, before: Snapshot | None) -> Snapshot:
        image = images.pop(0)
        if image is None:
            raise ValueError("invalid literal for int()")
        return Snapshot(1 if before is None else before.number + 1, 1_000, image, ())

    monkeypatch.setattr("yak.tui.source.kafka.http_addresses", lambda _servers: {})
    monkeypatch.setattr("yak.tui.source.kafka.read_snapshot", next_answer)
    monkeypatch.setattr("yak.tui.source.live.POLL_SECONDS", 0.01)
    found: list[Event] = []

    async def scenario() -> None:
        made = LiveSource("new:9")
        async with asyncio.timeout(10):
            async for event in made.follow():
                found.append(event)
                if [each["kind"] for each in found].count("snapshot") == 3:
                    break
        with pytest.raises(YakError, match="an answer of a broker cannot be read") as refused:
            await made.kafka(lambda _servers: {}["leader"])
        assert refused.value.code == "bad-answer"
        await made.close()

    asyncio.run(scenario())
    lost = [each["why"] for each in found if each["kind"] == "lost"]
    assert [why.partition(" (")[2][:10] for why in lost] == ["ValueError", "IndexError"]


@pytest.mark.parametrize(("code", "is_passed_over"), [("not-authorized", True), ("unreachable", False)])
def test_user_without_the_right_to_describe_broker_configs_has_no_http_addresses(monkeypatch, code, is_passed_over):
    class Refusing:
        def __init__(self, *_: object, **__: object) -> None: ...

        def metadata(self) -> SimpleNamespace:
            return SimpleNamespace(brokers={1: None, 2: None})

        def configs(self, *_: object) -> None:
            raise YakError(code, "configs could not be read")

    monkeypatch.setattr("yak.tui.source.kafka.Admin", Refusing)
    with contextlib.nullcontext() if is_passed_over else pytest.raises(YakError):
        assert http_addresses("here:9") == {}


def test_topic_over_kafka_has_no_configs_for_a_user_without_the_right_to_describe_them(monkeypatch):
    class Refusing:
        def metadata(self) -> SimpleNamespace:
            return SimpleNamespace(require_topic=lambda name: Topic(name, (Partition(0, 1, (1,), (1,)),)))

        def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, SimpleNamespace]:
            return dict.fromkeys(wanted, SimpleNamespace(offset=3))

        def configs(self, *_: object) -> None:
            raise YakError("not-authorized", "configs could not be read")

    monkeypatch.setattr("yak.tui.source.kafka.replica_sizes", lambda *_, **__: {1: {("orders", 0): 10}})
    answers = KafkaAnswers("here:9")
    monkeypatch.setattr(answers, "_admin", Refusing)
    found = answers.ask("GET", "/topics/orders", {}, {})
    assert found == {"configs": None, "partitions": [{"partition": 0, "log_start_offset": 3, "size_bytes": 10}]}


def test_user_refused_over_http_reads_the_cluster_over_kafka(monkeypatch):
    def refuse(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, json={"error": "not-allowed", "message": "User:ann may not DESCRIBE cluster"})

    image = Image(brokers={1: BrokerInfo(1, 1, "", (), "new", 9, None, "leader", BrokerState.ACTIVE)})
    snapshot = Snapshot(1, 1_000, image, ())
    monkeypatch.setattr("yak.tui.source.kafka.read_snapshot", lambda _servers, _before: snapshot)
    assert "lost" not in asyncio.run(kinds_until(source({1: "http://new:2"}, refuse), "link"))


@pytest.mark.parametrize(
    "foreign",
    [
        httpx.Response(200, text="<html>It works!</html>"),
        httpx.Response(200, json=["another", "service"]),
        httpx.Response(404, json={"message": "no route matched"}),
        httpx.Response(404, json={"error": 404, "message": None}),
    ],
    ids=["page", "list", "message", "numbers"],
)
def test_other_program_at_a_brokers_address_counts_as_a_broker_that_does_not_answer(foreign, monkeypatch):
    monkeypatch.setattr("yak.tui.source.kafka.http_addresses", lambda _servers: {1: "http://new:2"})

    def handler(request: httpx.Request) -> httpx.Response:
        return foreign if request.url.host == "old" else answer(request)

    found = asyncio.run(kinds_until(source({1: "http://old:1"}, handler), "hello"))
    assert found[0] == "lost"
