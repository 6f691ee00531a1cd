"""Upgrade a classic group to the consumer protocol while its members go on (KIP-848, "Online migration").

Each member keeps its member id and its assignment; the generation becomes its epoch. It goes on with the classic
protocol (`classic_members`) until it restarts with the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import CONSUMER_PROTOCOL
from yak.groups.classic.members import Member as ClassicMember
from yak.groups.consumer.consumer_protocol import Subscription, read_assignment, read_subscription, with_ids
from yak.groups.consumer.member import Member
from yak.groups.consumer.partitions import Partitions
from yak.groups.consumer.records import ClassicMetadata, GroupValue, Kind, TargetEpochValue, TargetValue, encode
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.topics import TopicsView, ids_of, metadata_hash
from yak.groups.record import Record
from yak.protocol.record_fields import UnreadableRecord


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A snapshot of a classic group. `protocol_name` is None during its first rebalance.

    `is_rebalancing`: some partitions may be in no member's assignment, such as those of a member that left.
    """

    group_id: str
    generation: int
    protocol_type: str
    protocol_name: str | None
    members: Sequence[ClassicMember]
    is_rebalancing: bool = False


def upgraded(group: ClassicGroup, topics: TopicsView, settings: ConsumerGroupSettings) -> list[Record]:
    """The records of the consumer group that replaces a classic one.

    The caller writes the classic group's tombstone before these. Members that wait for a rebalance get
    REBALANCE_IN_PROGRESS and rejoin.

    Raises PeerError(GROUP_ID_NOT_FOUND) with the reason when the upgrade is refused
    (GroupMetadataManager.validateOnlineUpgrade).
    """
    if not settings.migration_policy.allows_upgrade:
        raise _refused(group, "because online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise _refused(group, "because the group does not use the consumer embedded protocol")
    if len(group.members) > settings.max_size:
        raise _refused(group, "because the group size exceeds the consumer group maximum size")
    try:
        members = [_member(group, member, topics) for member in group.members]
    except UnreadableRecord as error:
        raise _refused(group, f"because the embedded consumer protocol is malformed: {error}") from None
    held = [partition for member in members for partition in member.assigned]
    if len(held) != len(set(held)):
        raise _refused(group, "because its assignor gave a partition to two members")
    if group.is_rebalancing:
        members = _with_owned(group, members, topics)
    return _records(group, members, topics)


def _with_owned(group: ClassicGroup, members: Sequence[Member], topics: TopicsView) -> list[Member]:
    """The members, those without an assignment with what their subscriptions say they own.

    A rebalance that begins again clears the assignments, and a cooperative member still reads its partitions. Kafka gives
    them to other members at once (ConsumerGroup.fromClassicGroup).
    """
    held = {partition for member in members for partition in member.assigned}
    found = []
    for member, classic in zip(members, group.members, strict=True):
        if not member.assigned:
            owned = with_ids(_subscription(group, classic).owned, topics) - held
            member = replace(member, assigned=owned, assignment_epochs=dict.fromkeys(owned, group.generation))
            held |= owned
        found.append(member)
    return found


def _subscription(group: ClassicGroup, member: ClassicMember) -> Subscription:
    protocols = dict(member.protocols)
    return read_subscription(
        protocols.get(group.protocol_name or "", member.protocols[0][1] if member.protocols else b"")
    )


def _member(group: ClassicGroup, member: ClassicMember, topics: TopicsView) -> Member:
    subscription = _subscription(group, member)
    assigned = _assigned(group, member, topics)
    return Member(
        member_id=member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assigned=assigned,
        assignment_epochs=dict.fromkeys(assigned, group.generation),
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def _assigned(group: ClassicGroup, member: ClassicMember, topics: TopicsView) -> Partitions:
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(
            group,
            "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    return with_ids(assignment.partitions, topics)


def _records(group: ClassicGroup, members: Sequence[Member], topics: TopicsView) -> list[Record]:
    draft = Draft(GroupState(group.group_id))
    for member in members:
        draft.put(Kind.MEMBER, member.member_id, member.metadata())
    names = draft.state.topic_names()
    everything = {(each, index) for each in ids_of(names, topics) for index in range(topics.num_partitions(each))}
    is_complete = everything <= {partition for member in members for partition in member.assigned}
    # Without the right hash the member that joins raises the epoch, and the targets are computed. A stable group lacks
    # partitions, too, when its leader has not seen yet that a topic grew.
    hashed = metadata_hash(names, topics) if is_complete and not group.is_rebalancing else 0
    draft.put(Kind.GROUP, "", GroupValue(group.generation, hashed))
    for member in members:
        draft.put(Kind.TARGET, member.member_id, TargetValue(member.assigned))
    draft.put(Kind.TARGET_EPOCH, "", TargetEpochValue(group.generation))
    for member in members:
        draft.put(Kind.CURRENT, member.member_id, member.current())
    return [encode(change) for change in draft.changes]


def _refused(group: ClassicGroup, why: str) -> PeerError:
    return PeerError(
        ErrorCode.group_id_not_found, f"Cannot upgrade classic group {group.group_id} to consumer group {why}."
    )
