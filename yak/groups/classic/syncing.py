"""SyncGroup, Heartbeat and LeaveGroup on a classic group (GroupMetadataManager.java)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.answers import refused_sync, synced
from yak.groups.classic.group import ClassicGroup
from yak.groups.classic.joining import known_member
from yak.groups.classic.member import Ticket
from yak.groups.classic.states import ClassicState


@dataclass(slots=True, frozen=True)
class Sync:
    """A SyncGroup. `protocol_type` and `protocol` are None before v5; only the leader sends `assignments`."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)


@changes_state
def sync(group: ClassicGroup, request: Sync, ticket: Ticket, now_ms: int) -> None:
    """Handle a SyncGroup: the response with the assignment is sent as soon as the assignment is committed."""
    try:
        member = known_member(group, request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise PeerError(ErrorCode.illegal_generation)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol not in (None, group.protocol):
            raise PeerError(ErrorCode.inconsistent_group_protocol)
        if group.state is ClassicState.PREPARING_REBALANCE:
            raise PeerError(ErrorCode.rebalance_in_progress)
        if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            raise PeerError(ErrorCode.unknown_member_id)
    except PeerError as refusal:
        ticket.reply(refused_sync(refusal.error_code))
        return
    group.unsynced.pop(member.member_id, None)
    group.heard_of(member, now_ms)
    if group.state is ClassicState.STABLE:
        ticket.reply(synced(group, member))
        return
    group.answer_sync(member, refused_sync(ErrorCode.rebalance_in_progress))
    group.hold_sync(member, ticket)
    if group.leader_id == member.member_id:
        _take_assignments(group, request.assignments)


def _take_assignments(group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Write the leader's assignment; it takes effect when committed, unless a new rebalance has started."""
    generation = group.generation

    def written(error_code: ErrorCode) -> None:
        if group.state is not ClassicState.COMPLETING_REBALANCE or group.generation != generation:
            return
        if error_code == ErrorCode.none:
            group.assigned(assignments, group.port.now_ms)
            return
        for member in group.members.values():
            if group.answer_sync(member, refused_sync(error_code)):
                group.heard_of(member, group.port.now_ms)
        group.prepare_rebalance(f"the assignment could not be written: {error_code.name}", group.port.now_ms)

    group.port.write(group, assignments, written)


def heartbeat(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
    """Renew a member's session. Raises PeerError; REBALANCE_IN_PROGRESS tells the member to rejoin."""
    member = known_member(group, member_id, instance_id)
    if group.state is ClassicState.EMPTY:
        raise PeerError(ErrorCode.unknown_member_id)
    if generation != group.generation:
        raise PeerError(ErrorCode.illegal_generation)
    group.heard_of(member, now_ms)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise PeerError(ErrorCode.rebalance_in_progress)


def leave(group: ClassicGroup, member_id: str, instance_id: str | None, reason: str | None) -> ErrorCode:
    """Remove one member; the caller then calls `ClassicGroup.member_left`, once for all removed members.

    An administrator removes a static member by its instance id alone.
    """
    if instance_id is None and member_id in group.pending:
        del group.pending[member_id]
        return ErrorCode.none
    try:
        if instance_id is not None and not member_id:
            member = group.static_member(instance_id)
            if member is None:
                return ErrorCode.unknown_member_id
        else:
            member = known_member(group, member_id, instance_id)
    except PeerError as refusal:
        return refusal.error_code
    group.port.say("group-member-left", group=group.group_id, member=member.member_id, reason=reason or "")
    group.remove(member)
    return ErrorCode.none


@changes_state
def leave_all(
    group: ClassicGroup, leaving: list[tuple[str, str | None, str | None]], now_ms: int
) -> list[dict[str, Any]]:
    """Remove these (member id, instance id, reason); returns a response for each."""
    before = len(group.members)
    answers = []
    for member_id, instance_id, reason in leaving:
        code = leave(group, member_id, instance_id, reason)
        answers.append({"member_id": member_id, "group_instance_id": instance_id, "error_code": code})
    if len(group.members) < before:
        group.member_left("members left", now_ms)
    else:
        # Kafka would start a rebalance here even if only an unused pending id was removed.
        group.try_complete_join(now_ms)
    return answers
