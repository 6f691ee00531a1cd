"""`POST /api/failover`: moves leaders in order; `POST /api/brokers/{id}/shutdown`: a controlled shutdown.

Kafka's own requests move a leadership: AlterPartitionReassignments, then ElectLeaders.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.broker.apis import alter_partition_reassignments, elect_leaders, metadata
from yak.cluster.image import BrokerInfo, Image, PartitionInfo
from yak.cluster.leadership_moves import Move, Plan, plan_moves
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition, by_topic
from yak.lifecycle.liveness import is_serving
from yak.protocol.record_fields import INT32_MAX
from yak.server.http.answers import answer
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import checked, checked_integer, json_body
from yak.server.http.context import Context
from yak.server.http.other_brokers import ask_broker
from yak.server.http.problems import Problem, bad_body, check_error, kafka_problem
from yak.server.http.rights import note_change
from yak.server.http.route import Answer, Body, Parameter, Routes
from yak.server.http.schemas import (
    BOOLEAN,
    NODE_ID,
    NUMBER,
    PARTITION,
    TEXT,
    TOPIC_NAME,
    closed,
    given,
    listing,
    or_null,
    record,
)
from yak.server.http.topic_partitions import RetryBudget, check_partition, find_topic
from yak.view.partition_replicas import PartitionReplicas

MOVES_MAX: Final = 1000
"""Of one request: they are sent, and waited for, together."""
_HINT: Final = 'try {"topic":"orders"}, {"topic":"orders","partition":0,"to":2}, {"from":1}, {"controller":true}'
_NEW_CONTROLLER_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.01
_TIMEOUT_MS: Final = 10_000
_SEEN_SECONDS: Final = 5.0
_ANSWER_FIRST_SECONDS: Final = 0.05
"""The client gets its answer before the connections are closed."""
_SHUTDOWN_STARTED: Final = "shutdown"
_PLACE: Final = {"topic": TEXT, "partition": PARTITION}
_REASONED: Final = listing(record({**_PLACE, "reason": TEXT}))
_MOVED: Final = record(
    {
        "moved": listing(
            record(
                {
                    **_PLACE,
                    "from": NODE_ID,
                    "to": NODE_ID,
                    "leader_epoch": record({"before": NUMBER, "after": NUMBER}),
                    "partition_epoch": record({"before": NUMBER, "after": NUMBER}),
                }
            )
        ),
        "stayed": _REASONED,
        "failed": _REASONED,
        "took_ms": {"type": "number"},
    },
    optional={
        "controller": record(
            {"from": NODE_ID, "to": {"type": ["integer", "null"]}, "controller_epoch": NUMBER, "stopped": BOOLEAN}
        )
    },
)
_FIELDS: Final = {"topic": TOPIC_NAME, "partition": PARTITION, "to": NODE_ID, "from": NODE_ID, "controller": BOOLEAN}
_BODY: Final = {
    **closed({name: or_null(schema) for name, schema in _FIELDS.items()}),
    "anyOf": given("topic", "from", "controller"),
}


def _report(context: Context, plan: Plan, done: "Done") -> dict[str, Any]:
    moved = []
    image = context.broker.image
    for each in plan.moves:
        before, after = done.before.get(each.partition), image.partition(each.partition)
        if each.partition in done.failed or before is None or after is None:
            done.failed.setdefault(each.partition, "it was deleted during the request")
            continue
        moved.append(
            {
                **each.partition._asdict(),
                "from": each.leader,
                "to": each.to,
                "leader_epoch": {"before": before.leader_epoch, "after": after.leader_epoch},
                "partition_epoch": {"before": before.partition_epoch, "after": after.partition_epoch},
            }
        )
    return {
        "moved": moved,
        "stayed": _reasons(plan.stays),
        "failed": _reasons({**plan.refused, **done.failed}),
        "took_ms": round(done.took_ms, 1),
    }


def _reasons(partitions: Mapping[TopicPartition, str]) -> list[dict[str, Any]]:
    return [{**each._asdict(), "reason": why} for each, why in partitions.items()]


async def _move_controller(context: Context) -> Response:
    """Shut the controller down, the only way for it to resign in order; report the new controller."""
    began = trio.current_time()
    before = context.broker.image
    if before.controller_id < 0:
        raise Problem(503, "no-controller", "the cluster has no controller now", "retry in a moment")
    info = find_broker(context, before.controller_id)
    others = [each for each in before.active_brokers() if each.node_id != info.node_id]
    if not others:
        raise Problem(409, "no-other-broker", "no other broker can become controller", "start another one first")
    refusal = await stop_broker(context, info)
    if refusal is not None:
        return refusal
    is_seen = False
    with trio.move_on_after(0 if info.node_id == context.broker.node_id else _NEW_CONTROLLER_SECONDS):
        while not is_seen:
            await trio.sleep(_POLL_SECONDS)
            is_seen = context.broker.image.controller_epoch > before.controller_epoch
    image = context.broker.image
    controller = {
        "from": info.node_id,
        "to": image.controller_id if is_seen else None,
        "controller_epoch": image.controller_epoch,
        "stopped": True,
    }
    took_ms = round((trio.current_time() - began) * 1000, 1)
    body = {"moved": [], "stayed": [], "failed": [], "took_ms": took_ms, "controller": controller}
    return answer(body, 200 if is_seen else 202)


def _node(fields: Mapping[str, Any], name: str) -> int | None:
    return None if fields.get(name) is None else int(fields[name])


@dataclass(slots=True)
class Done:
    """The result of the moves: each partition's state before, and the failures with their reasons."""

    before: dict[TopicPartition, PartitionInfo] = field(default_factory=dict)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    took_ms: float = 0.0


def led_partitions(
    image: Image, topic: str | None, partition: int | None, leader: NodeId | None
) -> Iterator[PartitionReplicas]:
    """The selected partitions; None selects all."""
    names = sorted(image.topics) if topic is None else [topic]
    for name in names:
        for info in image.topics[name].partitions:
            if partition not in (None, info.partition) or leader not in (None, info.leader):
                continue
            epochs = info.leader_epoch, info.partition_epoch
            yield PartitionReplicas(name, info.partition, info.leader, *epochs, info.replicas, info.isr, None, {})


async def carry_out(context: Context, moves: Sequence[Move]) -> "Done":
    """Move leaders and wait until the image shows them. Raises Problem when a whole request is refused."""
    done = Done()
    began = trio.current_time()
    for each in moves:
        info = context.broker.image.partition(each.partition)
        if info is not None:
            done.before[each.partition] = info
    await _reorder(context, {each.partition: each.order for each in moves if each.order is not None}, done)
    wanted = {each.partition: each.to for each in moves if each.partition not in done.failed}
    if wanted:
        await _elect(context, list(wanted), done)
    await _wait_until_led(context, {place: to for place, to in wanted.items() if place not in done.failed}, done)
    done.took_ms = (trio.current_time() - began) * 1000
    return done


async def _reorder(context: Context, orders: Mapping[TopicPartition, tuple[NodeId, ...]], done: "Done") -> None:
    orders = {} if not orders else await _with_present_replicas(context, orders, done)
    if not orders:
        return
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": each.partition, "replicas": list(orders[each])} for each in partitions],
        }
        for name, partitions in by_topic(orders).items()
    ]
    fields = {"timeout": _TIMEOUT_MS, "allow_replication_factor_change": False, "topics": topics}
    reordered = await _ask_controller(
        context, alter_partition_reassignments.KEY, fields, "the replicas were not reordered"
    )
    for topic in reordered.responses:
        for each in topic.partitions:
            if each.error_code:
                place = TopicPartition(str(topic.name), int(each.partition_index))
                done.failed[place] = each.error_message or _name_of(each.error_code)


async def _with_present_replicas(
    context: Context, orders: Mapping[TopicPartition, tuple[NodeId, ...]], done: "Done"
) -> dict[TopicPartition, tuple[NodeId, ...]]:
    """The orders of the replicas that the controller has. This broker's image may be of before a reassignment, which an
    order would undo."""
    fields = {"topics": [{"name": name} for name in by_topic(orders)], "allow_auto_topic_creation": False}
    found = await _ask_controller(context, metadata.KEY, fields, "the replicas were not reordered")
    for topic in found.topics:
        for each in topic.partitions:
            place = TopicPartition(str(topic.name), int(each.partition_index))
            if place in orders and set(orders[place]) != set(each.replica_nodes):
                now = ",".join(map(str, each.replica_nodes))
                done.failed[place] = f"its replicas have changed: they are {now} now"
    return {place: order for place, order in orders.items() if place not in done.failed}


async def _elect(context: Context, partitions: Sequence[TopicPartition], done: "Done") -> None:
    fields: dict[str, Any] = {
        "election_type": elect_leaders.PREFERRED,
        "timeout": _TIMEOUT_MS,
        "topic_partitions": [
            {"topic": name, "partitions": [each.partition for each in of]} for name, of in by_topic(partitions).items()
        ],
    }
    elected = await _ask_controller(context, elect_leaders.KEY, fields, "no leader was elected")
    for topic in elected.replica_election_results:
        for result in topic.partition_result:
            if result.error_code not in (ErrorCode.none, ErrorCode.election_not_needed):
                place = TopicPartition(str(topic.topic), int(result.partition_id))
                done.failed[place] = result.error_message or _name_of(result.error_code)


async def _ask_controller(context: Context, key: int, fields: dict[str, Any], failure: str) -> Any:
    """The controller's answer, with retries: a second request finds what the first one did.

    A broker answers a change of replicas once its own image has it. Another broker than the
    controller could answer before the controller has it, which would then find no need for an election.
    """
    budget = RetryBudget(context)
    while True:
        controller = context.broker.image.controller_id
        try:
            if controller < 0:
                raise kafka_problem(ErrorCode.not_controller, failure, "the cluster has no controller now")
            found = await context.broker_client.ask(key, fields, node_id=controller)
            check_error(found, failure)
        except Problem as problem:
            if problem.status != 503 or not await budget.again():
                raise
        else:
            return found


async def _wait_until_led(context: Context, leaders: Mapping[TopicPartition, NodeId], done: "Done") -> None:
    until = trio.current_time() + _SEEN_SECONDS
    late = dict(leaders)
    while True:
        image = context.broker.image
        late = {
            place: to for place, to in late.items() if (info := image.partition(place)) is None or info.leader != to
        }
        if not late:
            return
        if trio.current_time() >= until:
            done.failed |= dict.fromkeys(
                late, f"it was requested, but this broker has not seen it after {_SEEN_SECONDS:g} s"
            )
            return
        await trio.sleep(_POLL_SECONDS)


def _name_of(code: int) -> str:
    return ErrorCode(code).name.replace("_", " ")


def find_broker(context: Context, node_id: NodeId) -> BrokerInfo:
    """A running broker. Raises Problem: 404 `broker-id-not-registered`, 409 `broker-not-running`."""
    info = _registered(context, node_id)
    if not is_serving(info):
        raise Problem(
            409,
            "broker-not-running",
            f"broker {node_id} is {info.state.value}",
            "only an active broker can be shut down",
        )
    return info


def _registered(context: Context, node_id: NodeId) -> BrokerInfo:
    brokers = context.broker.image.brokers
    if node_id not in brokers:
        known = ", ".join(map(str, sorted(brokers))) or "none"
        raise Problem(404, "broker-id-not-registered", f"broker {node_id} does not exist", f"brokers are {known}")
    return brokers[node_id]


def stop_this_broker(context: Context) -> None:
    """Like SIGTERM: leaders are moved away, the logs are flushed, the process ends."""
    broker = context.broker
    if broker.context.is_stopping or broker.shutdown.is_draining or context.parts.get(_SHUTDOWN_STARTED):
        return  # a second SIGTERM would end the process at once
    context.parts[_SHUTDOWN_STARTED] = True

    async def stop() -> None:
        await trio.sleep(_ANSWER_FIRST_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    context.shell.nursery.start_soon(stop)


async def stop_broker(context: Context, info: BrokerInfo) -> Response | None:
    """Start the shutdown of a broker; returns the other broker's answer if it refused. Raises Problem 503."""
    if info.node_id == context.broker.node_id:
        note_change(CALLER.get(), "Shutdown", f"broker {info.node_id}")
        stop_this_broker(context)
        return None
    answer = await ask_broker(context, info, "POST", f"/api/brokers/{info.node_id}/shutdown")
    return None if answer.status == 202 else Response(answer.body, answer.status, media_type="application/json")


ROUTES: Final = Routes("Administration")


@ROUTES.add(
    "POST /api/failover",
    "Move partitions to other leaders, or the controller to another broker",
    guard="admin",
    body=Body(_BODY, {"topic": "orders", "partition": 0, "to": 2}),
    answers={
        200: Answer("the moved, unmoved and failed partitions, with reasons", _MOVED),
        202: Answer("the controller is stopping; this broker cannot report its successor", _MOVED),
    },
    description="Without `to`, the preferred replica becomes leader; if it leads already, the next replica in the ISR. "
    "`controller` shuts down the controller's broker, so that another one is elected. Its supervisor must start it again.",
)
async def failover(context: Context, request: Request) -> Response:
    """Move the leaders and report the result for each partition."""
    async with json_body(context, request, hint=_HINT) as body:
        fields = checked(body, _BODY, hint=_HINT)
        topic, from_ = fields.get("topic"), _node(fields, "from")
        partition, to = _node(fields, "partition"), _node(fields, "to")
    if fields.get("controller"):
        if any(each is not None for each in (topic, partition, to, from_)):
            raise bad_body(
                "controller excludes the other fields", "a controller election has no partition and no target"
            )
        return await _move_controller(context)
    if topic is None and from_ is None:
        raise bad_body("name a topic, or a broker whose partitions move", _HINT)
    if partition is not None and topic is None:
        raise bad_body("partition needs topic", _HINT)
    if topic is not None:
        found = find_topic(context, topic)
        if partition is not None:
            check_partition(found, partition)
    for node_id in (to, from_):
        if node_id is not None:
            _registered(context, node_id)
    plan = plan_moves(led_partitions(context.broker.image, topic, partition, from_), to=to)
    if len(plan.moves) > MOVES_MAX:
        raise Problem(
            413, "too-many", f"{len(plan.moves)} partitions in one request", f"the maximum is {MOVES_MAX}: name a topic"
        )
    done = await carry_out(context, plan.moves)
    return answer(_report(context, plan, done))


@ROUTES.add(
    "POST /api/brokers/{id}/shutdown",
    "Shut down a broker, as SIGTERM does (controlled shutdown)",
    guard="admin",
    parameters=(Parameter("id", NODE_ID, "its node id", where="path"),),
    answers={
        202: Answer(
            "it is in controlled shutdown: its partitions move to other leaders, then its process ends",
            record({"node_id": NODE_ID, "broker_epoch": NUMBER, "state": {"const": "stopping"}}),
        )
    },
    description="This broker forwards the request to another one with the same Authorization header.",
)
async def shutdown(context: Context, request: Request) -> Response:
    """Start the controlled shutdown of a broker."""
    info = find_broker(context, checked_integer("id", request.path_params["id"], maximum=INT32_MAX))
    async with json_body(context, request, hint="send no body", optional=True) as body:
        if body not in (None, {}):
            raise bad_body("a shutdown request has no body", "send none")
    refusal = await stop_broker(context, info)
    if refusal is not None:
        return refusal
    return answer({"node_id": info.node_id, "broker_epoch": info.broker_epoch, "state": "stopping"}, 202)
