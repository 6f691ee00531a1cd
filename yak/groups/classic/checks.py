"""Checks before offsets are committed or deleted (ClassicGroup.validateOffsetCommit and its neighbours)."""

from __future__ import annotations

from yak.errors import ErrorCode, PeerError
from yak.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup
from yak.groups.classic.joining import known_member
from yak.groups.classic.states import ClassicState


def check_commit(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
    """Raise PeerError unless the client may commit: a member of this generation, or any client of an empty group.

    A member's commit also counts as a heartbeat.
    """
    if generation < 0 and group.state is ClassicState.EMPTY:
        return
    if generation < 0 and not member_id and instance_id is None:
        raise PeerError(ErrorCode.unknown_member_id, "the group has members; only members may commit")
    member = known_member(group, member_id, instance_id)
    if generation != group.generation:
        raise PeerError(ErrorCode.illegal_generation)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        raise PeerError(ErrorCode.rebalance_in_progress)
    group.heard_of(member, now_ms)


def check_transactional_commit(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    """Raise PeerError unless a producer may commit offsets in a transaction: in any state of the group.

    TxnOffsetCommit before v3 names no member (KIP-447). A member that is named must be one of this generation.
    """
    if generation < 0 and (group.state is ClassicState.EMPTY or (not member_id and instance_id is None)):
        return
    known_member(group, member_id, instance_id)
    if generation != group.generation:
        raise PeerError(ErrorCode.illegal_generation)


def is_subscribed(group: ClassicGroup, topic: str) -> bool:
    """Whether a member consumes the topic, which protects its offsets; True when the subscriptions are unknown."""
    return bool(group.members) and (group.topics is None or topic in group.topics)


def check_deletion_of_offsets(group: ClassicGroup) -> None:
    """Raise NON_EMPTY_GROUP when the group has members that are not consumers (validateOffsetDelete)."""
    if group.members and group.protocol_type != CONSUMER_PROTOCOL:
        raise PeerError(ErrorCode.non_empty_group)
