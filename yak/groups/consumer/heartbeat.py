"""One heartbeat: join or continue, bring the group up to date, take the member's next step, and build the response.

The rules are those of GroupMetadataManager.consumerGroupHeartbeat of Kafka 4.2, with one of 4.4: another preferred
assignor raises the epoch. There are two relaxations:

- A member with epoch 0 rejoins although its session goes on (KAFKA-19233, Kafka 4.3), also a static one with its old
  id.
- Regular expressions are resolved at once, not by a thread that finishes later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.checks import Heartbeat, check_epoch_of, known_member
from yak.groups.consumer.current_assignment import Goal, reconciled
from yak.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Member
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions, by_topic
from yak.groups.consumer.records import Change, Kind, TargetValue
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.subscriptions import (
    CheckedVersions,
    DecisionInputs,
    drop_unused_regexes,
    renew_epoch,
    renew_regexes,
)
from yak.groups.consumer.targets import update_targets
from yak.groups.consumer.topics import TopicsView, ids_of
from yak.groups.consumer.upgrade import ClassicGroup


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a request: changes to append as records and to replay, and the response once they are committed.

    `answer` has the fields of the response. With `downgrade` the changes delete the group, and this classic group
    replaces it: Stable, or rebalancing at once. The other fields are for `ConsumerGroup.accepted`:
    the heartbeat's member, whether its current assignment changed, and the new `CheckedVersions`.
    """

    changes: list[Change]
    answer: dict[str, Any]
    member_id: str | None = None
    is_reconciling: bool = False
    seen: CheckedVersions = field(default_factory=CheckedVersions)
    downgrade: ClassicGroup | None = None


def join_or_renew(
    draft: Draft, heartbeat: Heartbeat, seen: CheckedVersions, world: DecisionInputs
) -> tuple[dict[str, Any], CheckedVersions]:
    """Handle a heartbeat that does not leave. Returns its response and the new `CheckedVersions`.

    Raises PeerError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
    """
    check_room(draft.state, heartbeat.member_id, heartbeat.instance_id, world.settings.max_size)
    before = _joining(draft, heartbeat) if heartbeat.epoch == JOIN_EPOCH else _present(draft.state, heartbeat)
    member = updated(before, heartbeat)
    seen, subscription_changed = catch_up(draft, before, member, seen, world)
    after = step(draft, member.member_id, heartbeat.owned, world.topics, subscription_changed=subscription_changed)
    sends_assignment = heartbeat.epoch == JOIN_EPOCH or heartbeat.is_full or after.assigned != before.assigned
    answer = {
        "error_code": ErrorCode.none,
        "error_message": None,
        "member_id": after.member_id,
        "member_epoch": after.epoch,
        "heartbeat_interval": world.settings.heartbeat_interval_ms,
        "assignment": {"topic_partitions": listed(after.assigned)} if sends_assignment else None,
    }
    return answer, seen


def leave_as_static(draft: Draft, heartbeat: Heartbeat) -> dict[str, Any]:
    """A static member leaves for a while: it keeps its assignment until its session expires. Returns the response.

    Raises PeerError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member = known_member(draft.state, heartbeat.member_id, heartbeat.instance_id)
    # the epochs of the next member with this instance id begin below these assignment epochs
    epochs = dict.fromkeys(member.assigned, 0)
    gone = replace(member, epoch=STATIC_LEAVE_EPOCH, revoking=NO_PARTITIONS, assignment_epochs=epochs)
    draft.put(Kind.CURRENT, member.member_id, gone.current())
    return leave_answer(heartbeat)


def leave_answer(heartbeat: Heartbeat) -> dict[str, Any]:
    """The response to a leaving member."""
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "member_id": heartbeat.member_id,
        "member_epoch": heartbeat.epoch,
        "heartbeat_interval": 0,
        "assignment": None,
    }


def listed(partitions: Partitions) -> list[dict[str, Any]]:
    """Partitions in the format of a response."""
    return [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in by_topic(partitions)]


def catch_up(
    draft: Draft, before: Member, member: Member, seen: CheckedVersions, world: DecisionInputs
) -> tuple[CheckedVersions, bool]:
    """Record the member's changes, and update regular expressions, group epoch and targets.

    Returns the new `CheckedVersions`, and whether this member's subscription changed.
    """
    default_assignor = world.settings.assignors[0]
    assignor = draft.state.assignor_name(default_assignor) if member.assignor != before.assignor else None
    subscription_changed = (member.topic_names, member.topic_regex) != (before.topic_names, before.topic_regex)
    topics_before = draft.state.topic_names_of(before) if subscription_changed else None
    is_new = before.member_id not in draft.state.members
    if is_new or member is not before:
        draft.put(Kind.MEMBER, member.member_id, member.metadata())
    assignor_changed = assignor is not None and assignor != draft.state.assignor_name(default_assignor)
    topics_changed = False
    if member.classic is not None:
        # A JoinGroup resolves no expressions (GroupMetadataManager.java): they match what the users of a heartbeat see.
        drop_unused_regexes(draft)
    elif draft.state.regex_members or draft.state.regexes:
        topics_changed, seen = renew_regexes(draft, member.topic_regex, seen, world)
    # a new expression without topics leaves the epoch as it is
    topics_changed |= subscription_changed and draft.state.topic_names_of(member) != topics_before
    seen = renew_epoch(draft, world.topics, seen, bump=topics_changed or assignor_changed)
    if seen.may_assign(world.settings, world.now_ms) and update_targets(draft, world.topics, default_assignor):
        seen = replace(seen, targets_ms=world.now_ms)
    return seen, subscription_changed


def step(
    draft: Draft, member_id: str, owned: Partitions | None, topics: TopicsView, *, subscription_changed: bool
) -> Member:
    """Take the member's next step towards its target, if there is one, and record it. Returns the member."""
    state = draft.state
    member = state.members[member_id]
    if member.is_reconciled_to(state.target_epoch) and not subscription_changed:
        return member
    goal = Goal(
        target_epoch=state.target_epoch,
        target=state.target_of(member_id),
        subscribed=ids_of(state.topic_names_of(member), topics),
        owned=owned,
        subscription_changed=subscription_changed,
    )
    after = reconciled(member, goal, state.owners)
    if after is not member:
        draft.put(Kind.CURRENT, member_id, after.current())
    return after


def replace_member(draft: Draft, old: Member, member_id: str) -> Member:
    """Give a static member's assignment to a new member with its instance id and epoch 0, and return that member."""
    target = draft.state.target_of(old.member_id)
    new = replace(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    remove_members(draft, [old.member_id])
    draft.put(Kind.MEMBER, member_id, new.metadata())
    draft.put(Kind.TARGET, member_id, TargetValue(target))
    draft.put(Kind.CURRENT, member_id, new.current())
    return new


def remove_members(draft: Draft, member_ids: Iterable[str]) -> None:
    """Write the tombstones of these members, in the order in which Kafka must read them."""
    for member_id in member_ids:
        for kind in (Kind.CURRENT, Kind.TARGET, Kind.MEMBER):
            draft.put(kind, member_id, None)


def check_room(state: GroupState, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Raise PeerError(GROUP_MAX_SIZE_REACHED) when the group is full and the member is not one of it, whatever its epoch.

    A member that replaces a static one counts as that one (GroupMetadataManager.throwIfConsumerGroupIsFull, Kafka 4.4).
    """
    returns = member_id in state.members or state.static_member(instance_id) is not None
    if len(state.members) >= max_size and not returns:
        raise PeerError(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def updated(member: Member, heartbeat: Heartbeat) -> Member:
    """The member with the fields of the heartbeat, now of the consumer protocol; the same object if nothing changed."""
    fields = {
        "instance_id": heartbeat.instance_id,
        "rack_id": heartbeat.rack_id,
        "rebalance_timeout_ms": heartbeat.rebalance_timeout_ms,
        "topic_names": heartbeat.topic_names,
        "topic_regex": heartbeat.topic_regex,
        "assignor": heartbeat.assignor,
        "client_id": heartbeat.client_id,
        "client_host": heartbeat.client_host,
    }
    changes: dict[str, Any] = {
        name: value for name, value in fields.items() if value is not None and value != getattr(member, name)
    }
    if member.classic is not None:
        changes["classic"] = None
    return replace(member, **changes) if changes else member


def _joining(draft: Draft, heartbeat: Heartbeat) -> Member:
    state = draft.state
    holder = state.static_member(heartbeat.instance_id)
    if holder is None or holder.member_id == heartbeat.member_id:
        return state.members.get(heartbeat.member_id) or Member(heartbeat.member_id)
    if holder.epoch != STATIC_LEAVE_EPOCH and holder.classic is None:
        raise PeerError(
            ErrorCode.unreleased_instance_id,
            f"Static member {heartbeat.member_id} with instance id {heartbeat.instance_id} cannot join the group because "
            f"the instance id is owned by {holder.member_id} member.",
        )
    return replace_member(draft, holder, heartbeat.member_id)


def _present(state: GroupState, heartbeat: Heartbeat) -> Member:
    member = known_member(state, heartbeat.member_id, heartbeat.instance_id)
    check_epoch_of(member, heartbeat)
    return member
