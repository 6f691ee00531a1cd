"""Consumer instances with ACLs: each is its owner's, and may do what its owner may, whose rights may change."""

import json
from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from starlette.requests import Request

from tests.unit.server.http.fake_context import context_of, image_of
from tests.unit.server.http.rig import Acls, make_request
from yak.acls.bindings import Operation, ResourceType
from yak.client.consumer import Inbox
from yak.groups.consumer import regexes
from yak.ids import TopicPartition
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.consumers import instances as module
from yak.server.http.consumers.bodies import Settings
from yak.server.http.consumers.instances import Instances
from yak.server.http.consumers.kafka_consumer import Fetched
from yak.server.http.problems import Problem
from yak.server.http.routes import consumers as routes

ANN, BOB = Caller("User:ann", None, "10.0.0.9:1"), Caller("User:bob", None, "10.0.0.9:2")
READ_A = (Operation.READ, ResourceType.TOPIC, "a")
READ_B = (Operation.READ, ResourceType.TOPIC, "b")
DESCRIBE_A = (Operation.DESCRIBE, ResourceType.TOPIC, "a")


class Consumer:
    """Has read a record of `a` and of `b`, in place of librdkafka."""

    def __init__(self, _settings: Settings) -> None:
        self.log_lines: deque[str] = deque()
        self.inbox: Inbox[Fetched] = Inbox()
        self.taken: list[list[str]] = []
        """The topics of each subscription and assignment."""
        self.calls: list[object] = []
        self.is_interrupted = self.is_ending = False

    def open(self, *_: object) -> None:
        for topic in ("a", "b"):
            self.inbox.put(Fetched(TopicPartition(topic, 0), 4, None, topic.encode(), None))

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("a", 0), TopicPartition("b", 0)]

    def subscribe(self, topics: list[str]) -> None:
        self.taken.append(list(topics))

    def assign(self, partitions: Any) -> None:
        self.taken.append([each.topic for each in partitions])

    def read(self, _wait_s: float, _bytes_max: int) -> list[Fetched]:
        return self.inbox.draw(1_000, 10)

    def commit(self, marks: Any, *, waits: bool) -> None:
        self.calls.append((marks, waits))

    def committed(self, wanted: Any) -> dict[TopicPartition, Any]:
        self.calls.append(wanted)
        return {}


async def created(monkeypatch: pytest.MonkeyPatch, *allowed: Any) -> tuple[Any, Any]:
    """The context of an instance of Ann's, and its consumer."""
    context: Any = context_of(image_of({"a": [1], "b": [1]}), None, authorization=Acls(*allowed))
    context.shell.nursery = SimpleNamespace(start_soon=lambda *_: None)
    monkeypatch.setattr(module, "KafkaConsumer", Consumer)
    monkeypatch.setattr(module, "connection_settings", lambda _context: {})
    CALLER.set(ANN)
    made = await context.part(Instances).create("g", Settings("me"))
    return context, made.consumer


def request(body: object = None) -> Request:
    sent = b"" if body is None else json.dumps(body).encode()
    return make_request(body=sent, path_params={"group": "g", "instance": "me"})


def marks(*topics: str) -> dict[str, Any]:
    return {"offsets": [{"topic": topic, "partition": 0, "offset": 7} for topic in topics]}


def partitions(*topics: str) -> dict[str, Any]:
    return {"partitions": [{"topic": topic, "partition": 0} for topic in topics]}


async def test_consumer_instance_serves_only_the_user_that_created_it(monkeypatch):
    """Another user of the group would read with the rights of its owner."""
    context, consumer = await created(monkeypatch, READ_A)
    CALLER.set(BOB)
    for work, body in ((routes.subscribe, {"topics": ["a"]}), (routes.delete, None), (routes.assignments, None)):
        with pytest.raises(Problem) as refused:
            await work(context, request(body))
        assert (refused.value.status, refused.value.more["error_code"]) == (403, 40301)
    CALLER.set(ANN)
    await routes.subscribe(context, request({"topics": ["a"]}))
    assert consumer.taken == [["a"]]


@pytest.mark.parametrize(
    ("work", "body"), [(routes.subscribe, {"topics": ["a", "b"]}), (routes.assign, partitions("a", "b"))]
)
async def test_topic_that_the_owner_may_not_read_is_refused(work, body, monkeypatch):
    context, consumer = await created(monkeypatch, READ_A)
    with pytest.raises(Problem, match="User:ann may not READ topic b") as refused:
        await work(context, request(body))
    assert (refused.value.status, refused.value.more["error_code"]) == (403, 40301)
    assert consumer.taken == []


async def test_records_of_a_topic_that_the_owner_may_no_longer_read_are_not_returned(monkeypatch):
    """They stay for the owner, who may get the right back."""
    context, consumer = await created(monkeypatch, READ_A)
    context.part(Instances).find("g", "me").source = "topics"
    with pytest.raises(Problem, match="User:ann may not READ topic b") as refused:
        await routes.records(context, request())
    assert (refused.value.status, refused.value.more["error_code"]) == (403, 40301)
    assert (len(consumer.inbox), consumer.inbox.uncommitted()) == (2, {})
    context.broker.authorization = Acls(READ_A, READ_B)
    found = json.loads((await routes.records(context, request())).body)
    assert [each["topic"] for each in found] == ["a", "b"]


@pytest.mark.parametrize("body", [None, marks("a", "b"), marks("nosuch")], ids=["positions", "given", "missing"])
async def test_commit_for_a_topic_that_the_owner_may_not_read_is_refused(body, monkeypatch):
    context, consumer = await created(monkeypatch, READ_A)
    with pytest.raises(Problem, match="User:ann may not READ topic") as refused:
        await routes.commit(context, request(body))
    assert (refused.value.status, refused.value.more["error_code"]) == (403, 40301)
    assert consumer.calls == []
    await routes.commit(context, request(marks("a")))
    assert len(consumer.calls) == 1


@pytest.mark.parametrize(
    "body", [None, partitions("a", "b"), partitions("nosuch")], ids=["assigned", "given", "missing"]
)
async def test_committed_offsets_of_a_topic_that_the_owner_may_not_describe_are_refused(body, monkeypatch):
    context, consumer = await created(monkeypatch, DESCRIBE_A)
    with pytest.raises(Problem, match="User:ann may not DESCRIBE topic"):
        await routes.committed(context, request(body))
    assert consumer.calls == []
    await routes.committed(context, request(partitions("a")))
    assert consumer.calls == [[TopicPartition("a", 0)]]


async def test_pattern_matches_a_topic_from_the_acl_on_that_lets_the_owner_read_it(monkeypatch):
    context, consumer = await created(monkeypatch, READ_A)
    instances = context.part(Instances)
    instance = instances.find("g", "me")
    await routes.subscribe(context, request({"topic_pattern": ".*"}))
    context.broker.authorization = Acls(READ_A, READ_B)
    context.broker.image = replace(context.broker.image, acls={"another": {}})
    instances.follow_pattern(instance, await instances.matchable(instance))
    assert consumer.taken == [["a"], ["a", "b"]]
    assert await instances.matchable(instance) is None


def test_every_route_of_instances_needs_the_token_where_there_is_one():
    """A GET keeps an instance alive."""
    assert {route.guard for route in routes.ROUTES} == {"change"}


@pytest.mark.parametrize("fails", [False, True])
async def test_instance_that_is_created_while_the_broker_stops_is_refused(fails, monkeypatch):
    context, _ = await created(monkeypatch)
    instances = context.part(Instances)

    def stop(_self: Any, *_: object) -> None:
        trio.from_thread.run_sync(lambda: instances._start_closing(instances._table["g", "late"]))
        if fails:
            raise Problem(503, "unreachable", "no broker")

    monkeypatch.setattr(Consumer, "open", stop)
    with pytest.raises(Problem) as refused:
        await instances.create("g", Settings("late"))
    assert refused.value.status == 503


@pytest.mark.parametrize("header", ["Basic !!!", "Basic a", "Basic /w==", "Basic YW5u"])
async def test_instance_for_a_header_that_is_no_user_and_password_is_refused(header):
    """Without `yak.http.authentication=basic` no other code reads the header."""
    CALLER.set(Caller("User:ANONYMOUS", header, "10.0.0.9:1"))
    with pytest.raises(Problem) as refused:
        module._login(("SCRAM-SHA-256",))
    assert (refused.value.status, refused.value.error) == (401, "login-failed")


@pytest.mark.parametrize("earlier", [None, "a"])
async def test_pattern_that_is_refused_while_it_is_matched_leaves_the_instance_as_it_was(earlier, monkeypatch):
    context, consumer = await created(monkeypatch, READ_A)
    instance = context.part(Instances).find("g", "me")
    if earlier is not None:
        await routes.subscribe(context, request({"topic_pattern": earlier}))
    before = instance.source, instance.pattern, instance.matched, instance.topics
    with monkeypatch.context() as small:
        small.setattr(regexes, "STEPS_MAX", 0)
        with pytest.raises(Problem, match="too large to be compared") as refused:
            await routes.subscribe(context, request({"topic_pattern": "[a-z]+"}))
    assert refused.value.status == 422
    assert (instance.source, instance.pattern, instance.matched, instance.topics) == before
    if earlier is None:
        await routes.subscribe(context, request({"topics": ["a"]}))
    assert consumer.taken == [["a"]]
