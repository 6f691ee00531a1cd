"""Members of a consumer group that still use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A JoinGroup acts as a heartbeat with changes. Its response is sent at once, without a leader; the generation is the
member's epoch. SyncGroup returns the partitions that the member may use. Heartbeat returns REBALANCE_IN_PROGRESS when
the member has to rejoin for its next step: GroupMetadataManager.classicGroup*ToConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import CONSUMER_PROTOCOL, Join, Sync
from yak.groups.consumer.checks import known_member
from yak.groups.consumer.consumer_protocol import (
    Subscription,
    assignment_bytes,
    read_subscription,
    subscription_version,
    with_ids,
)
from yak.groups.consumer.heartbeat import catch_up, check_room, replace_member, step
from yak.groups.consumer.member import Member, MemberState
from yak.groups.consumer.records import ClassicMetadata
from yak.groups.consumer.settings import MigrationPolicy
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.subscriptions import CheckedVersions, DecisionInputs
from yak.groups.consumer.topics import TopicsView
from yak.protocol.record_fields import UnreadableRecord


def join(
    draft: Draft, request: Join, new_member_id: str, seen: CheckedVersions, world: DecisionInputs
) -> tuple[dict[str, Any], CheckedVersions]:
    """The JoinGroup response, and the new `CheckedVersions`. A new member has an empty `member_id` and gets `new_member_id`.

    Raises PeerError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if world.settings.migration_policy is MigrationPolicy.DISABLED:
        raise _inconsistent(
            f"Cannot join the consumer group {draft.state.group_id} with the classic protocol because the group migration "
            "is disabled."
        )
    member_id = request.member_id or new_member_id
    check_room(draft.state, member_id, request.instance_id, world.settings.max_size)
    _check_protocols(draft.state, member_id, request)
    if request.requires_known_member_id and not request.member_id and request.instance_id is None:
        return {"error_code": ErrorCode.member_id_required, "member_id": member_id}, seen
    subscription = _subscription(member_id, request)
    before = _joining(draft, member_id, request)
    member = updated(before, request, subscription)
    seen, changed = catch_up(draft, before, member, seen, world)
    owned = with_ids(subscription.owned, world.topics)
    after = step(draft, member_id, owned, world.topics, subscription_changed=changed)
    return joined(after), seen


def joined(member: Member) -> dict[str, Any]:
    """The JoinGroup response to a member."""
    assert member.classic is not None
    return {
        "error_code": ErrorCode.none,
        "generation_id": member.epoch,
        "protocol_type": CONSUMER_PROTOCOL,
        "protocol_name": member.classic.protocols[0][0],
        "leader": "",
        "member_id": member.member_id,
        "members": [],
    }


def updated(member: Member, request: Join, subscription: Subscription) -> Member:
    """The member with the fields of its JoinGroup. It has topic names only: the classic protocol has no regular
    expressions that a broker resolves."""
    changed = replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )
    return member if changed == member else changed


def sync(state: GroupState, member: Member, request: Sync, topics: TopicsView, newest_epoch: int) -> dict[str, Any]:
    """The SyncGroup response: the partitions that the member may use.

    `newest_epoch` is the one that a JoinGroup would give: the group's, or that of the targets until the next assignment
    is due. Raises PeerError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, or
    REBALANCE_IN_PROGRESS when it has grown since the member joined, so that it must rejoin.
    """
    classic = _classic_of(member, request.generation)
    chosen, subscription = classic.protocols[0]
    for named, right in ((request.protocol_type, CONSUMER_PROTOCOL), (request.protocol, chosen)):
        if named is not None and named != right:
            raise _inconsistent(f"Member {member.member_id} names {named} where the group has {right}.")
    # A member that must revoke partitions has rejoined already; a Heartbeat response makes it rejoin again.
    if newest_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        raise PeerError(
            ErrorCode.rebalance_in_progress,
            f"A new rebalance is triggered in group {state.group_id} and member {member.member_id} should rejoin to "
            "catch up.",
        )
    return {
        "error_code": ErrorCode.none,
        "protocol_type": request.protocol_type,
        "protocol_name": request.protocol,
        "assignment": assignment_bytes(member.assigned, subscription_version(subscription), topics),
    }


def heartbeat(
    state: GroupState, member: Member, generation_id: int, newest_epoch: int, *, is_behind: bool
) -> ErrorCode:
    """REBALANCE_IN_PROGRESS when the member must rejoin, else NONE.

    It must rejoin when the newest epoch has grown, as for `sync`, when it has partitions to revoke, or when partitions
    that it waits for are free. It must also rejoin when the group's topics changed; Kafka leaves that to members of the
    consumer protocol. Raises PeerError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION.
    """
    _classic_of(member, generation_id)
    must_rejoin = (
        is_behind
        or member.epoch < newest_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(state, member))
    )
    return ErrorCode.rebalance_in_progress if must_rejoin else ErrorCode.none


def leaving(state: GroupState, identities: Sequence[tuple[str, str | None]]) -> tuple[list[str], list[dict[str, Any]]]:
    """The leaving members of a LeaveGroup's (member id, instance id) pairs, and the response for each pair.

    An administrator may send an instance id alone.
    """
    going: dict[str, None] = {}
    answers = []
    for member_id, instance_id in identities:
        code = ErrorCode.none
        try:
            holder = state.static_member(instance_id)
            by_instance = holder.member_id if member_id == "" and holder is not None else member_id
            going[known_member(state, by_instance, instance_id).member_id] = None
        except PeerError as error:
            code = error.error_code
        answers.append({"member_id": member_id, "group_instance_id": instance_id, "error_code": code})
    return list(going), answers


def _is_waiting(state: GroupState, member: Member) -> bool:
    """Whether other members still hold partitions that it waits for."""
    missing = state.target_of(member.member_id) - member.assigned
    return any(partition in state.owners for partition in missing)


def _classic_of(member: Member, generation_id: int) -> ClassicMetadata:
    if member.classic is None:
        raise PeerError(ErrorCode.unknown_member_id, f"Member {member.member_id} does not use the classic protocol.")
    if member.epoch != generation_id:
        raise PeerError(
            ErrorCode.illegal_generation,
            f"The request generation id {generation_id} is not equal to the member epoch {member.epoch} of member "
            f"{member.member_id}.",
        )
    return member.classic


def _joining(draft: Draft, member_id: str, request: Join) -> Member:
    state = draft.state
    if request.instance_id is None:
        return state.members.get(member_id) or Member(member_id)
    if request.member_id:
        return known_member(state, member_id, request.instance_id)
    holder = state.static_member(request.instance_id)
    # A classic member takes over the instance id at once. Only a consumer protocol member waits until the old one has
    # left.
    return Member(member_id) if holder is None else replace_member(draft, holder, member_id)


def _check_protocols(state: GroupState, member_id: str, request: Join) -> None:
    """Raise PeerError(INCONSISTENT_GROUP_PROTOCOL) unless the member shares a protocol with all other classic members."""
    names = {name for name, _ in request.protocols}
    others = [
        {name for name, _ in member.classic.protocols}
        for member in state.members.values()
        if member.classic is not None and member.member_id != member_id
    ]
    if request.protocol_type != CONSUMER_PROTOCOL or not names.intersection(*others):
        raise _inconsistent(f"Member {member_id}'s protocols are not supported.")


def _subscription(member_id: str, request: Join) -> Subscription:
    """The subscription of the first protocol; all protocols of a member have the same one.

    Raises PeerError(INCONSISTENT_GROUP_PROTOCOL) when it cannot be read.
    """
    try:
        return read_subscription(request.protocols[0][1])
    except UnreadableRecord as error:
        raise _inconsistent(f"Member {member_id}'s subscription cannot be read: {error}.") from None


def _inconsistent(message: str) -> PeerError:
    return PeerError(ErrorCode.inconsistent_group_protocol, message)
