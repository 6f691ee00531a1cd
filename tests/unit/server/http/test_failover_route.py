"""Moves of leaders over HTTP: which broker gets their requests."""

from types import SimpleNamespace
from typing import Any

import trio

from yak.broker.apis import alter_partition_reassignments, elect_leaders, metadata
from yak.cluster.image import Image
from yak.cluster.leadership_moves import Move
from yak.ids import TopicPartition
from yak.server import log
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.context import HttpLimits
from yak.server.http.problems import Problem
from yak.server.http.routes import failover
from yak.server.http.routes.failover import carry_out

CONTROLLER = 2


class Brokers:
    """Answers the requests, and notes them with their node; the first `absent` requests get no answer."""

    def __init__(self, *, absent: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> None:
        self.requests: list[tuple[int, int | None]] = []
        self._absent = absent
        partition = SimpleNamespace(partition_index=0, replica_nodes=replicas)
        self._topics = [SimpleNamespace(name="t", partitions=[partition])]

    async def ask(self, key: int, fields: object, *, node_id: int | None = None) -> Any:
        self.requests.append((key, node_id))
        if len(self.requests) <= self._absent:
            raise Problem(503, "broker-unreachable", "", "")
        return SimpleNamespace(error_code=0, responses=(), replica_election_results=(), topics=self._topics)


def moved_with(brokers: Brokers) -> dict[TopicPartition, str]:
    """The partitions that were not moved, of one that broker 3 leads after the requests."""
    led = SimpleNamespace(partitions=[SimpleNamespace(leader=3)])
    image = Image(controller_id=CONTROLLER, topics={"t": led})
    context: Any = SimpleNamespace(
        broker=SimpleNamespace(image=image), broker_client=brokers, limits=HttpLimits(retry_ms=1_000)
    )
    move = Move(TopicPartition("t", 0), 1, 3, (3, 1, 2))
    return trio.run(carry_out, context, [move]).failed


def test_the_controller_gets_both_requests_since_another_may_answer_before_it_has_the_new_order() -> None:
    brokers = Brokers()
    assert moved_with(brokers) == {}
    keys = metadata.KEY, alter_partition_reassignments.KEY, elect_leaders.KEY
    assert brokers.requests == [(key, CONTROLLER) for key in keys]


def test_move_planned_from_an_image_before_a_reassignment_does_not_undo_it() -> None:
    brokers = Brokers(replicas=(4, 1, 3))
    assert moved_with(brokers) == {TopicPartition("t", 0): "its replicas have changed: they are 4,1,3 now"}
    assert [key for key, _node in brokers.requests] == [metadata.KEY]


def test_request_to_a_silent_controller_is_retried() -> None:
    brokers = Brokers(absent=1)
    assert moved_with(brokers) == {}
    assert [key for key, _node in brokers.requests] == [
        metadata.KEY,
        metadata.KEY,
        alter_partition_reassignments.KEY,
        elect_leaders.KEY,
    ]


async def test_shutdown_over_http_is_in_the_audit_log_with_its_caller(monkeypatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(log, "write", lambda *line, **_: written.append(line))
    monkeypatch.setattr(failover, "stop_this_broker", lambda _context: None)
    CALLER.set(Caller("User:ann", None, "10.0.0.9:4711"))
    context: Any = SimpleNamespace(broker=SimpleNamespace(node_id=1))
    assert await failover.stop_broker(context, SimpleNamespace(node_id=1)) is None  # type: ignore[arg-type]
    known = {"result": "done", "principal": "User:ann", "host": "10.0.0.9", "api": "Shutdown", "resources": "broker 1"}
    assert written == [("info", "audit", known)]
