"""The requests of members of classic groups: JoinGroup, Heartbeat, LeaveGroup and SyncGroup.

JoinGroup (key 11, v0-9) is answered when all members have joined. v1: own rebalance time-out. v4: a new member gets an id
first (KIP-394). v7: the protocol type in the answer. v8: a reason. v9: a static leader may skip assigning
(KIP-814). LeaveGroup (key 13, v0-5) is an administrator's too. v3: several members. v5: a reason (KIP-800). SyncGroup (key
14, v0-5) is answered when the assignment is committed. v5: protocol type and name, to refuse clients that confuse groups.
Heartbeat: key 12, v0-4. Static members (KIP-345): JoinGroup v5, the others v3. Flexible: JoinGroup v6, the others v4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.api_table import Api
from yak.broker.call import Call, Fields, Later, Now, Outcome, milliseconds
from yak.broker.delayed_answers import DelayedMemberAnswer, answer_when_safe
from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import Join, Sync, refused_join, refused_sync
from yak.limits import GROUP_STRING_BYTES_MAX

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.config.broker_configs import BrokerConfig
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.coordination.runtime import Then
    from yak.groups.group import Group

_KNOWN_MEMBER_ID_VERSION = 4
_NULL_PROTOCOL_VERSION = 7
_SKIPS_VERSION = 9


def join_group(broker: Broker, call: Call) -> Outcome:
    """Check the request without the group, then let the group decide."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        join = _join_of(call)
        coordinated = broker.group_coordinator.of(request.group_id)
        _check_session_timeout(broker.config, join.session_timeout_ms)
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            if join.member_id:
                raise PeerError(ErrorCode.unknown_member_id)
            group = coordinated.shard.ensure(request.group_id)
        if group.consumer is not None and not group.consumer.state.members:
            broker.group_coordinator.consumers.make_room(coordinated, group)
        if group.consumer is not None:
            return _join_consumer_group(broker, call, coordinated, group, join)
    except PeerError as refusal:
        return Now(_shape(call, refused_join(request.member_id, refusal.error_code)))
    waiting = DelayedMemberAnswer(
        broker.purgatory,
        call,
        group.members,
        lambda fields: _shape(call, fields),
        refused_join(request.member_id, ErrorCode.rebalance_in_progress),
    )
    group.members.join(join, waiting, broker.now_ms)
    coordinated.shard.drop_if_void(group)
    return Later(waiting)


def _join_of(call: Call) -> Join:
    request = call.request
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout = getattr(request, "rebalance_timeout", None)
    protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
    instance_id, client_id = getattr(request, "group_instance_id", None), call.client_id or ""
    names = (name for name, _metadata in protocols)
    for text in (request.member_id, instance_id or "", client_id, request.protocol_type, *names):
        if len(text.encode()) > GROUP_STRING_BYTES_MAX:
            raise PeerError(ErrorCode.invalid_request, "a name is longer than 32,000 bytes")
    return Join(
        request.member_id,
        instance_id,
        client_id,
        client_host(call),
        session_timeout_ms if rebalance_timeout is None else max(0, milliseconds(rebalance_timeout)),
        session_timeout_ms,
        request.protocol_type,
        protocols,
        requires_known_member_id=call.version >= _KNOWN_MEMBER_ID_VERSION,
        skips_assignment=call.version >= _SKIPS_VERSION,
    )


def _join_consumer_group(broker: Broker, call: Call, coordinated: GroupsPartition, group: Group, join: Join) -> Outcome:
    """A member of the classic protocol joins a consumer group; the answer does not wait for other members."""

    def refused(error_code: ErrorCode) -> Fields:
        return _shape(call, refused_join("", error_code))  # as GroupCoordinatorService.joinGroup

    def operation(then: Then) -> Fields:
        answer = broker.group_coordinator.consumers.join_classic(coordinated, group, join, then)
        return _shape(call, refused_join(answer["member_id"], ErrorCode.none) | answer)

    try:
        return answer_when_safe(broker, call, operation, refused)
    except PeerError as error:
        return Now(refused(error.error_code))


def _check_session_timeout(config: BrokerConfig, session_timeout_ms: int) -> None:
    least_ms, most_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not least_ms <= session_timeout_ms <= most_ms:
        raise PeerError(
            ErrorCode.invalid_session_timeout,
            f"session timeout {session_timeout_ms} ms is not in [{least_ms}, {most_ms}]",
        )


def client_host(call: Call) -> str:
    """The client's address as Kafka shows it, after a slash."""
    return "/" + call.connection.peer.rpartition(":")[0].strip("[]")


def _shape(call: Call, fields: Fields) -> Fields:
    if fields["protocol_name"] is None and call.version < _NULL_PROTOCOL_VERSION:
        return fields | {"protocol_name": ""}
    return fields


_PROTOCOL_VERSION = 5


def _of_consumer_group(broker: Broker, call: Call, coordinated: GroupsPartition, group: Group, sync: Sync) -> Outcome:
    """A member of the classic protocol in a consumer group."""

    def operation(then: Then) -> Fields:
        answer = broker.group_coordinator.consumers.sync_classic(group, sync)
        broker.group_coordinator.when_committed(coordinated, group.group_id, then)
        return answer

    return answer_when_safe(broker, call, operation, refused_sync)


def sync_group(broker: Broker, call: Call) -> Outcome:
    """Pass the request to the group."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        if call.version >= _PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
            raise PeerError(ErrorCode.inconsistent_group_protocol)
        coordinated = broker.group_coordinator.of(request.group_id)
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            raise PeerError(ErrorCode.unknown_member_id)
        sync = Sync(
            request.member_id,
            getattr(request, "group_instance_id", None),
            request.generation_id,
            getattr(request, "protocol_type", None),
            getattr(request, "protocol_name", None),
            {each.member_id: bytes(each.assignment) for each in request.assignments},
        )
        if group.consumer is not None:
            return _of_consumer_group(broker, call, coordinated, group, sync)
    except PeerError as refusal:
        code = refusal.error_code
        if code == ErrorCode.coordinator_load_in_progress:
            # The rebalance is lost, so the member has to join again. The present error, which Kafka 4 answers, ends a Java
            # client: "Unexpected error from SyncGroup" (GroupCoordinator.handleSyncGroup of Kafka 3.8).
            code = ErrorCode.rebalance_in_progress
        return Now(refused_sync(code))
    waiting = DelayedMemberAnswer(
        broker.purgatory, call, group.members, lambda fields: fields, refused_sync(ErrorCode.rebalance_in_progress)
    )
    group.members.sync(sync, waiting, broker.now_ms)
    return Later(waiting)


def heartbeat(broker: Broker, call: Call) -> Outcome:
    """Renew the member's session."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        try:
            coordinated = broker.group_coordinator.of(request.group_id)
        except PeerError as refusal:
            if refusal.error_code == ErrorCode.coordinator_load_in_progress:
                # loading renews the session, whatever the answer (KafkaApis: no error while loading)
                return Now({"error_code": ErrorCode.none})
            raise
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            raise PeerError(ErrorCode.unknown_member_id)
        if group.consumer is not None:
            return Now({"error_code": broker.group_coordinator.consumers.heartbeat_classic(group, request)})
        group.members.heartbeat(
            request.member_id, getattr(request, "group_instance_id", None), request.generation_id, broker.now_ms
        )
    except PeerError as refusal:
        return Now({"error_code": refusal.error_code})
    return Now({"error_code": ErrorCode.none})


_SEVERAL_VERSION = 3


def leave_group(broker: Broker, call: Call) -> Outcome:
    """Remove each member; the remaining members rebalance once."""
    request = call.request
    if call.version >= _SEVERAL_VERSION:
        leaving = [(each.member_id, each.group_instance_id, getattr(each, "reason", None)) for each in request.members]
    else:
        leaving = [(request.member_id, None, None)]
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        coordinated = broker.group_coordinator.of(request.group_id)
    except PeerError as refusal:
        return Now({"error_code": refusal.error_code, "members": []})
    group = coordinated.shard.groups.get(request.group_id)
    if group is None:
        answers = [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": ErrorCode.unknown_member_id}
            for member_id, instance_id, _reason in leaving
        ]
    elif group.consumer is not None:
        return _leave_consumer_group(broker, call, coordinated, group, leaving)
    else:
        answers = group.members.leave_all(leaving, broker.now_ms)
        coordinated.shard.drop_if_void(group)
    return Now(_answer(call, answers))


def _answer(call: Call, answers: list[Fields]) -> Fields:
    if call.version >= _SEVERAL_VERSION:
        return {"error_code": ErrorCode.none, "members": answers}
    return {"error_code": answers[0]["error_code"], "members": []}


def _leave_consumer_group(
    broker: Broker,
    call: Call,
    coordinated: GroupsPartition,
    group: Group,
    leaving: list[tuple[str, str | None, str | None]],
) -> Outcome:
    def operation(then: Then) -> Fields:
        return _answer(call, broker.group_coordinator.consumers.leave_classic(coordinated, group, leaving, then))

    return answer_when_safe(broker, call, operation, lambda code: {"error_code": code, "members": []})


APIS = (
    Api(11, "JoinGroup", range(10), join_group),
    Api(12, "Heartbeat", range(5), heartbeat),
    Api(13, "LeaveGroup", range(6), leave_group),
    Api(14, "SyncGroup", range(6), sync_group),
)
