"""One member's next step towards its target (CurrentAssignmentBuilder.java of Kafka 4.2).

    STABLE ── new target ────────┐
    UNREVOKED ── revoked ────────┼─▶ must it revoke partitions?  yes: UNREVOKED, in its old epoch, until it confirms
    UNRELEASED ── any heartbeat ─┘   is some of its target held? yes: UNRELEASED, in the new epoch, with the free part
                                     else: STABLE, in the new epoch, with its whole target

No two members ever use the same partition: a member uses only those of its target that no other member holds. It takes
the target's epoch as soon as it has nothing to revoke, even while it waits for others.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from yak.errors import ErrorCode, PeerError
from yak.groups.consumer.member import Member, MemberState
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a member: the target assignment of an epoch, limited to its subscribed topics.

    `owned` are the partitions that the member reports, None if it sent none. `subscription_changed` makes it revoke
    unsubscribed topics before there is a new target.
    """

    target_epoch: int
    target: Partitions
    subscribed: AbstractSet[uuid.UUID]
    owned: Partitions | None
    subscription_changed: bool = False


def reconciled(member: Member, goal: Goal, owners: Mapping[TopicIdPartition, str]) -> Member:
    """The member after its next step; the same object when there is no step.

    Raises PeerError(FENCED_MEMBER_EPOCH) when its state is a newer version's and it may hold partitions.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.target_epoch:
                return _advanced(member, goal, owners)
            return _within_subscription(member, goal)
        case MemberState.UNREVOKED_PARTITIONS:
            if _holds_any(goal.owned, member.revoking):
                return _within_subscription(member, goal)
            return _advanced(member, goal, owners)
        case MemberState.UNRELEASED_PARTITIONS:
            return _advanced(member, goal, owners)
    if goal.owned is None or goal.owned:
        raise PeerError(
            ErrorCode.fenced_member_epoch,
            "The member is in a state that this coordinator does not know. It must give up its partitions and rejoin.",
        )
    return _advanced(member, goal, owners)


def _advanced(member: Member, goal: Goal, owners: Mapping[TopicIdPartition, str]) -> Member:
    wanted = {partition for partition in goal.target if partition[0] in goal.subscribed}
    retained = member.assigned & wanted
    surplus = member.assigned - retained
    if surplus and _holds_any(goal.owned, surplus):
        return _step(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, retained, surplus)
    # Partitions that this member itself was revoking are free for it.
    free = frozenset(
        partition for partition in wanted - retained if owners.get(partition, member.member_id) == member.member_id
    )
    assigned = retained | free
    state = MemberState.STABLE if len(assigned) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    return _step(member, state, goal.target_epoch, assigned, NO_PARTITIONS, added=free)


def _within_subscription(member: Member, goal: Goal) -> Member:
    """Revoke topics that the member no longer subscribes to, even before there is a new target."""
    if not goal.subscription_changed:
        return member
    retained = frozenset(partition for partition in member.assigned if partition[0] in goal.subscribed)
    if len(retained) == len(member.assigned):
        return member
    revoking = member.revoking | (member.assigned - retained)
    if _holds_any(goal.owned, revoking):
        return _step(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, retained, revoking)
    return _step(member, member.state, member.epoch, retained, member.revoking)


def _holds_any(owned: Partitions | None, partitions: Partitions) -> bool:
    """Whether it may still hold some of these: it reports them, or reports nothing."""
    return owned is None or not owned.isdisjoint(partitions)


def _step(
    member: Member,
    state: MemberState,
    epoch: int,
    assigned: Partitions,
    revoking: Partitions,
    *,
    added: Partitions = NO_PARTITIONS,
) -> Member:
    """The member in its next state; its previous epoch stays valid, since the response with the new one may be lost.

    The `added` ones of the assigned partitions get the epoch as their assignment epoch, the others keep theirs.
    """
    retained = member.assignment_epochs
    stepped = replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch if epoch != member.epoch else member.previous_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
        assignment_epochs={each: epoch if each in added else retained[each] for each in assigned | revoking},
    )
    return member if stepped == member else stepped
