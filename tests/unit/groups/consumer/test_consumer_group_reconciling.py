"""The transition table of one member (CurrentAssignmentBuilder.java), one row each."""

from typing import NamedTuple

import pytest

from tests.unit.groups.consumer.group_model import parts, topic_id
from yak.groups.consumer.current_assignment import Goal, reconciled
from yak.groups.consumer.member import Member, MemberState
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions

STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


class Row(NamedTuple):
    """From (state, epoch, assigned, revoking) with a target for epoch 11, to the same."""

    state: MemberState
    epoch: int
    assigned: Partitions
    revoking: Partitions
    target: Partitions
    owned: Partitions | None
    of_others: Partitions
    then: tuple[MemberState, int, Partitions, Partitions]


def t(*partitions: int) -> Partitions:
    return parts("t", *partitions)


NONE = NO_PARTITIONS
TABLE = {
    "the target is there": Row(STABLE, 11, t(1), NONE, t(1), None, NONE, (STABLE, 11, t(1), NONE)),
    "a new epoch changes nothing": Row(STABLE, 10, t(1), NONE, t(1), None, NONE, (STABLE, 11, t(1), NONE)),
    "more, all free": Row(STABLE, 10, t(1), NONE, t(1, 2), None, NONE, (STABLE, 11, t(1, 2), NONE)),
    "more, some held": Row(STABLE, 10, t(1), NONE, t(1, 2, 3), None, t(3), (UNRELEASED, 11, t(1, 2), NONE)),
    "more, all held": Row(STABLE, 10, t(1), NONE, t(1, 2), None, t(2), (UNRELEASED, 11, t(1), NONE)),
    "less": Row(STABLE, 10, t(1, 2), NONE, t(1), None, NONE, (UNREVOKED, 10, t(1), t(2))),
    "less, not held any more": Row(STABLE, 10, t(1, 2), NONE, t(1), t(1), NONE, (STABLE, 11, t(1), NONE)),
    "other ones: first revoke": Row(STABLE, 10, t(1, 2), NONE, t(2, 3), t(1, 2), NONE, (UNREVOKED, 10, t(2), t(1))),
    "still held": Row(UNREVOKED, 10, t(1), t(2), t(1, 3), t(1, 2), NONE, (UNREVOKED, 10, t(1), t(2))),
    "not said": Row(UNREVOKED, 10, t(1), t(2), t(1, 3), None, NONE, (UNREVOKED, 10, t(1), t(2))),
    "given back": Row(UNREVOKED, 10, t(1), t(2), t(1, 3), t(1), NONE, (STABLE, 11, t(1, 3), NONE)),
    "given back, now waits": Row(UNREVOKED, 10, t(1), t(2), t(1, 3), t(1), t(3), (UNRELEASED, 11, t(1), NONE)),
    "given back, more to give": Row(UNREVOKED, 10, t(1, 4), t(2), t(1), t(1, 4), NONE, (UNREVOKED, 10, t(1), t(4))),
    "given back, and its own again": Row(UNREVOKED, 10, t(1), t(2), t(1, 2), t(1), NONE, (STABLE, 11, t(1, 2), NONE)),
    "nothing became free": Row(UNRELEASED, 11, t(1), NONE, t(1, 2), None, t(2), (UNRELEASED, 11, t(1), NONE)),
    "some became free": Row(UNRELEASED, 11, t(1), NONE, t(1, 2, 3), None, t(3), (UNRELEASED, 11, t(1, 2), NONE)),
    "all became free": Row(UNRELEASED, 11, t(1), NONE, t(1, 2), None, NONE, (STABLE, 11, t(1, 2), NONE)),
    "a new target while it waited": Row(UNRELEASED, 10, t(1, 2), NONE, t(2), None, NONE, (UNREVOKED, 10, t(2), t(1))),
    "a new target gives up waiting": Row(UNRELEASED, 10, t(1), NONE, t(1), None, t(2), (STABLE, 11, t(1), NONE)),
}


@pytest.mark.parametrize("name", TABLE)
def test_transition(name: str) -> None:
    row = TABLE[name]
    epochs = dict.fromkeys(row.assigned | row.revoking, 7)
    member = Member(
        *("a", row.epoch, row.epoch - 1, row.state),
        assigned=row.assigned,
        revoking=row.revoking,
        assignment_epochs=epochs,
    )
    owners = dict.fromkeys(member.held, "a") | dict.fromkeys(row.of_others, "b")
    goal = Goal(11, row.target, frozenset([topic_id("t")]), row.owned)
    after = reconciled(member, goal, owners)
    assert (after.state, after.epoch, after.assigned, after.revoking) == row.then
    assert after.previous_epoch == (member.epoch if after.epoch != member.epoch else member.previous_epoch)
    # as in Kafka, a partition that was being revoked and is assigned again has a new assignment epoch
    expected = {each: 7 if each in row.assigned or each in after.revoking else 11 for each in after.held}
    assert after.assignment_epochs == expected
    if row.then == (row.state, row.epoch, row.assigned, row.revoking):
        assert after is member


@pytest.mark.parametrize("state", [STABLE, UNREVOKED])
@pytest.mark.parametrize("owned", [None, t(1)])
def test_a_topic_that_it_no_longer_means_is_taken_at_once(state: MemberState, owned: Partitions | None) -> None:
    """Before there is a new target (KAFKA-19431)."""
    revoking = parts("u", 5) if state is UNREVOKED else NONE
    assigned = t(1) | parts("u", 0)
    epochs = dict.fromkeys(assigned | revoking, 7)
    member = Member("a", 11, 10, state, assigned=assigned, revoking=revoking, assignment_epochs=epochs)
    if state is UNREVOKED and owned is not None:
        owned |= revoking
    target = t(1) | parts("u", 0)
    after = reconciled(member, Goal(11, target, frozenset([topic_id("t")]), owned, subscription_changed=True), {})
    assert after.assigned == t(1)
    still_held = owned is None or state is UNREVOKED
    assert after.state is (UNREVOKED if still_held else STABLE)
    assert after.revoking == (revoking | parts("u", 0) if still_held else NONE)
    assert (after.epoch, after.assignment_epochs) == (11, dict.fromkeys(after.held, 7))


def test_partitions_of_unsubscribed_topics_are_not_assigned_whatever_the_target_has() -> None:
    after = reconciled(Member("a", 10), Goal(11, t(1) | parts("u", 0), frozenset([topic_id("u")]), NONE), {})
    assert (after.state, after.assigned) == (STABLE, parts("u", 0))
