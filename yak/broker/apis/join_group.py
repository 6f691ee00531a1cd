"""JoinGroup (key 11, v0-9): join or rejoin a group; answered when all members have joined.

v1: own rebalance time-out. v4: a new member gets an id first (KIP-394). v5: static members (KIP-345). v6: flexible.
v7: the protocol type in the answer. v8: a reason. v9: a static leader may be told to skip assigning (KIP-814).
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Outcome
from yak.broker.delayed_group_requests import MemberWaiting, answer_when_safe
from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import Join, refused_join
from yak.limits import GROUP_STRING_BYTES_MAX

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.config.broker_configs import BrokerConfig
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.coordination.runtime import Then
    from yak.groups.group import Group

KEY, NAME, VERSIONS = 11, "JoinGroup", range(10)
ABSENT: tuple[str, ...] = ()

_ASKS_TWICE_VERSION = 4
_NULL_PROTOCOL_VERSION = 7
_SKIPS_VERSION = 9
_MS = dt.timedelta(milliseconds=1)


def handle(broker: Broker, call: Call) -> Outcome:
    """Check the request without the group, then let the group decide."""
    request = call.request
    try:
        broker.authorization.check(call, Operation.READ, ResourceType.GROUP, request.group_id)
        asked = _join_of(call)
        coordinated = broker.group_coordinator.of(request.group_id)
        _check_session_timeout(broker.config, asked.session_timeout_ms)
        group = coordinated.shard.groups.get(request.group_id)
        if group is None:
            if asked.member_id:
                raise PeerError(ErrorCode.unknown_member_id)
            group = coordinated.shard.ensure(request.group_id)
        if group.consumer is not None and group.consumer.is_empty:
            broker.group_coordinator.consumers.make_room(coordinated, group)
        if group.consumer is not None:
            return _join_consumer_group(broker, call, coordinated, group, asked)
    except PeerError as refusal:
        return Now(_shape(call, refused_join(request.member_id, refusal.error_code)))
    waiting = MemberWaiting(
        broker.purgatory,
        call,
        group.members,
        lambda fields: _shape(call, fields),
        refused_join(request.member_id, ErrorCode.rebalance_in_progress),
    )
    group.members.join(asked, waiting, broker.now_ms)
    coordinated.shard.drop_if_void(group)
    return Later(waiting)


def _join_of(call: Call) -> Join:
    request = call.request
    session_timeout_ms = request.session_timeout // _MS
    rebalance_timeout = getattr(request, "rebalance_timeout", None)
    protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
    instance_id = getattr(request, "group_instance_id", None)
    for text in (request.member_id, instance_id or "", request.protocol_type, *(name for name, _data in protocols)):
        if len(text.encode()) > GROUP_STRING_BYTES_MAX:
            raise PeerError(ErrorCode.invalid_request, "a name is longer than 32,000 bytes")
    return Join(
        request.member_id,
        instance_id,
        call.client_id or "",
        client_host(call),
        session_timeout_ms if rebalance_timeout is None else max(0, rebalance_timeout // _MS),
        session_timeout_ms,
        request.protocol_type,
        protocols,
        must_ask_twice=call.version >= _ASKS_TWICE_VERSION,
        skips_assignment=call.version >= _SKIPS_VERSION,
    )


def _join_consumer_group(
    broker: Broker, call: Call, coordinated: GroupsPartition, group: Group, asked: Join
) -> Outcome:
    """A member of the classic protocol joins a consumer group; the answer does not wait for other members."""

    def refused(error_code: ErrorCode) -> Fields:
        return _shape(call, refused_join(asked.member_id, error_code))

    def operation(then: Then) -> Fields:
        answer = broker.group_coordinator.consumers.join_classic(coordinated, group, asked, then)
        return _shape(call, refused_join(answer["member_id"], ErrorCode.none) | answer)

    return answer_when_safe(broker.purgatory, call, broker.config.offsets_commit_timeout_ms, operation, refused)


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
