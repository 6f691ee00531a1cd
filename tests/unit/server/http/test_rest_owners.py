"""Consumer instances with ACLs: each is its owner's, and reads topics that its owner may read."""

import json
from collections import deque
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from starlette.requests import Request

from tests.unit.server.http.fake_context import context_of, image_of
from yak.acls.bindings import Operation, ResourceType
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.consumers import instances as module
from yak.server.http.consumers.bodies import Settings
from yak.server.http.consumers.instances import Instances
from yak.server.http.problems import Problem
from yak.server.http.routes import consumers as routes

ANN, BOB = Caller("User:ann", None, "10.0.0.9:1"), Caller("User:bob", None, "10.0.0.9:2")
ACLS = {("User:ann", "a"), ("User:ann", "c")}


class Consumer:
    """Takes subscriptions and assignments, in place of librdkafka."""

    def __init__(self, _settings: Settings) -> None:
        self.taken: list[list[Any]] = []
        self.log_lines: deque[str] = deque()

    def end_soon(self) -> None:
        pass

    def open(self, *_: object) -> None:
        pass

    def subscribe(self, topics: Any) -> None:
        self.taken.append(list(topics))

    def assign(self, partitions: Any) -> None:
        self.taken.append([each.topic for each in partitions])


def run(test: Callable[[Any, Consumer], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    def authorize(principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        assert (host, operation, kind) == ("10.0.0.9", Operation.READ, ResourceType.TOPIC)
        return (principal, name) in ACLS

    async def main() -> None:
        context: Any = context_of(image_of({"a": [1], "b": [1], "c": [1]}), None)
        context.broker.authorization = SimpleNamespace(is_active=True, authorize=authorize)
        context.shell.nursery = SimpleNamespace(start_soon=lambda *_: None)
        monkeypatch.setattr(module, "KafkaConsumer", Consumer)
        monkeypatch.setattr(module, "connection_settings", lambda _context: {})
        monkeypatch.setattr(Instances, "_bootstrap", lambda _self: "")
        CALLER.set(ANN)
        made: Any = await context.part(Instances).create("g", Settings("me"))
        await test(context, made.consumer)

    trio.run(main)


def request(body: object) -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [], "path_params": {"group": "g", "instance": "me"}}
    return Request(scope, receive)


def test_consumer_instance_serves_only_the_user_that_created_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user of the group would read with the rights of its owner."""

    async def test(context: Any, consumer: Consumer) -> None:
        CALLER.set(BOB)
        for work, body in ((routes.subscribe, {"topics": ["a"]}), (routes.delete, None), (routes.assignments, None)):
            with pytest.raises(Problem) as refused:
                await work(context, request(body))
            assert (refused.value.status, refused.value.more["error_code"]) == (403, 40301)
        CALLER.set(ANN)
        await routes.subscribe(context, request({"topics": ["a"]}))
        assert consumer.taken == [["a"]]

    run(test, monkeypatch)


@pytest.mark.parametrize(
    ("work", "body"),
    [
        (routes.subscribe, {"topics": ["a", "b"]}),
        (routes.assign, {"partitions": [{"topic": "a", "partition": 0}, {"topic": "b", "partition": 0}]}),
    ],
)
def test_topic_that_the_owner_may_not_read_is_refused(
    work: Any, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(context: Any, consumer: Consumer) -> None:
        with pytest.raises(Problem, match="User:ann may not READ topic b") as refused:
            await work(context, request(body))
        assert (refused.value.status, refused.value.more["error_code"]) == (403, 40301)
        assert consumer.taken == []

    run(test, monkeypatch)


def test_pattern_matches_topics_that_the_owner_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(context: Any, consumer: Consumer) -> None:
        await routes.subscribe(context, request({"topic_pattern": ".*"}))
        assert consumer.taken == [["a", "c"]]

    run(test, monkeypatch)


def test_every_route_of_instances_needs_the_token_where_there_is_one() -> None:
    """A GET keeps an instance alive."""
    assert {route.guard for route in routes.ROUTES} == {"change"}


@pytest.mark.parametrize("fails", [False, True])
def test_instance_that_is_created_while_the_broker_stops_is_refused(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(context: Any, _consumer: Consumer) -> None:
        instances = context.part(Instances)
        instances._context.shell.nursery = SimpleNamespace(start_soon=lambda *_: None)

        def stop(_self: Consumer, *_: object) -> None:
            trio.from_thread.run_sync(lambda: instances._start_closing(instances._table["g", "late"]))
            if fails:
                raise Problem(503, "unreachable", "no broker")

        monkeypatch.setattr(Consumer, "open", stop)
        with pytest.raises(Problem) as refused:
            await instances.create("g", Settings("late"))
        assert refused.value.status == 503

    run(test, monkeypatch)
