"""Reject invalid requests: malformed heartbeats, unknown members and stale epochs (GroupCoordinatorService.java)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, Member
from yak.groups.consumer.partitions import Partitions, TopicIdPartition, flattened
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.state import GroupState
from yak.limits import GROUP_STRING_BYTES_MAX

OFFSET_COMMIT_WITH_MEMBER_EPOCH = 9
"""The first version of OffsetCommit whose generation id may be a member epoch."""
_CLIENT_MAKES_MEMBER_ID = 1
"""From this version of ConsumerGroupHeartbeat on, the client chooses its member id (KIP-1082)."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A well-formed heartbeat. None means that a field is unchanged and was not sent."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int | None
    topic_names: frozenset[str] | None
    topic_regex: str | None
    assignor: str | None
    owned: Partitions | None
    client_id: str
    client_host: str

    @property
    def is_leaving(self) -> bool:
        """Whether the member leaves: for good, or, as a static member, for a while."""
        return self.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether all fields are set: the member joins, or does not know whether its last request arrived."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms is not None and subscribes and self.owned is not None


def parse_heartbeat(
    request: Any,
    api_version: int,
    settings: ConsumerGroupSettings,
    *,
    client_id: str,
    client_host: str,
    new_member_id: str,
) -> Heartbeat:
    """Check and convert a ConsumerGroupHeartbeat. A new member of version 0, which sends no id, gets `new_member_id`.

    Raises PeerError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    rebalance_timeout_ms = request.rebalance_timeout // dt.timedelta(milliseconds=1)
    topic_names, owned = request.subscribed_topic_names, request.topic_partitions
    heartbeat = Heartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        topic_names=None if topic_names is None else frozenset(topic_names),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=None if owned is None else flattened((_id(topic.topic_id), topic.partitions) for topic in owned),
        client_id=client_id,
        client_host=client_host,
    )
    if not heartbeat.member_id.strip() and (
        api_version >= _CLIENT_MAKES_MEMBER_ID or heartbeat.epoch > 0 or heartbeat.epoch == LEAVE_EPOCH
    ):
        raise _invalid("MemberId can't be empty.")
    _check_texts(request.group_id, heartbeat)
    _check_epoch(heartbeat)
    if heartbeat.assignor is not None and heartbeat.assignor not in settings.assignors:
        supported = ", ".join(settings.assignors)
        raise PeerError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {heartbeat.assignor} is not supported. Supported assignors: {supported}.",
        )
    return heartbeat if heartbeat.member_id else replace(heartbeat, member_id=new_member_id)


def _id(topic_id: uuid.UUID | None) -> uuid.UUID:
    return topic_id or uuid.UUID(int=0)


def _check_texts(group_id: str, heartbeat: Heartbeat) -> None:
    if not group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if heartbeat.instance_id is not None and not heartbeat.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if heartbeat.rack_id is not None and not heartbeat.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    named: dict[str, Iterable[str | None]] = {
        "MemberId": [heartbeat.member_id],
        "InstanceId": [heartbeat.instance_id],
        "RackId": [heartbeat.rack_id],
        "ClientId": [heartbeat.client_id],
        "SubscribedTopicRegex": [heartbeat.topic_regex],
        "SubscribedTopicNames": heartbeat.topic_names or (),
    }
    for name, texts in named.items():
        if any(text is not None and len(text.encode()) > GROUP_STRING_BYTES_MAX for text in texts):
            raise _invalid(f"{name} can't be longer than {GROUP_STRING_BYTES_MAX} bytes.")


def _check_epoch(heartbeat: Heartbeat) -> None:
    if heartbeat.epoch == JOIN_EPOCH:
        if heartbeat.rebalance_timeout_ms is None:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if heartbeat.owned is None or heartbeat.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if heartbeat.topic_names is None and heartbeat.topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif heartbeat.epoch == STATIC_LEAVE_EPOCH:
        if heartbeat.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif heartbeat.epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if heartbeat.rebalance_timeout_ms is not None and heartbeat.rebalance_timeout_ms < 0:
        raise _invalid("RebalanceTimeoutMs can't be negative.")


def _invalid(message: str) -> PeerError:
    return PeerError(ErrorCode.invalid_request, message)


def check_epoch_of(member: Member, heartbeat: Heartbeat) -> None:
    """Raise PeerError(FENCED_MEMBER_EPOCH) unless the heartbeat has the member's epoch, its previous epoch, or 0.

    The previous epoch is valid only if all partitions that the member owns are assigned to it: the response with the
    new epoch was lost. Epoch 0 says that the member has revoked everything (KAFKA-19233).
    """
    if heartbeat.epoch in (member.epoch, JOIN_EPOCH):
        return
    relation = "greater" if heartbeat.epoch > member.epoch else "smaller"
    was_lost = (
        heartbeat.epoch == member.previous_epoch and heartbeat.owned is not None and heartbeat.owned <= member.assigned
    )
    if relation == "greater" or not was_lost:
        raise PeerError(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a {relation} member epoch ({heartbeat.epoch}) than the one known by the "
            f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )


def known_member(state: GroupState, member_id: str, instance_id: str | None) -> Member:
    """The member. Raises PeerError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id."""
    if instance_id is None:
        member = state.members.get(member_id)
        if member is None:
            raise unknown_member(state, member_id)
        return member
    member = state.static_member(instance_id)
    if member is None:
        raise PeerError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise PeerError(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def unknown_member(state: GroupState, member_id: str) -> PeerError:
    """The UNKNOWN_MEMBER_ID error for a member id that is not in the group."""
    return PeerError(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {state.group_id}.")


def check_commit(
    state: GroupState,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    partitions: Iterable[TopicIdPartition],
    *,
    is_transactional: bool = False,
    api_version: int,
) -> None:
    """Check that this member may commit offsets of these partitions (ConsumerGroup.validateOffsetCommit).

    An older epoch is enough for partitions that the member has had since then and still holds (KIP-1251): it commits
    while the answer with its new epoch is on its way.

    Raises PeerError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a member
    that uses the classic protocol.
    """
    if member_epoch < 0 and not state.members:
        return  # an admin client, or a consumer that assigns its partitions itself
    if is_transactional and member_epoch == LEAVE_EPOCH and member_id == "" and instance_id is None:
        return  # TxnOffsetCommit may leave all three out
    member = state.members.get(member_id)
    if member is None:
        raise unknown_member(state, member_id)
    if not is_transactional and member.classic is None and api_version < OFFSET_COMMIT_WITH_MEMBER_EPOCH:
        raise PeerError(
            ErrorCode.unsupported_version,
            "OffsetCommit version 9 or above must be used by members using the modern group protocol",
        )
    if member_epoch == member.epoch:
        return
    if member_epoch > member.epoch:
        raise _stale(member, f"Received member epoch {member_epoch} is newer than {member.epoch}.")
    for partition in partitions:
        since = member.assignment_epochs.get(partition)
        if since is None:
            raise _stale(member, f"Partition {partition} is neither assigned to the member nor pending revocation.")
        if member_epoch < since:
            raise _stale(member, f"Received member epoch {member_epoch} is older than {since}, that of {partition}.")


def check_fetch(state: GroupState, member_id: str | None, member_epoch: int) -> None:
    """Check that this member may fetch offsets (ConsumerGroup.validateOffsetFetch). Raises as `check_commit`."""
    if member_id is None and member_epoch < 0:
        return
    member = state.members.get(member_id or "")
    if member is None:
        raise unknown_member(state, member_id or "")
    if member_epoch != member.epoch:
        raise _stale(member, f"The received member epoch {member_epoch} does not match the expected {member.epoch}.")


def _stale(member: Member, message: str) -> PeerError:
    return PeerError(ErrorCode.stale_member_epoch if member.classic is None else ErrorCode.illegal_generation, message)
