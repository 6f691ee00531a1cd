"""`group.consumer.assignment.interval.ms`: changes within the interval share one target assignment (KIP-848)."""

import pytest

from tests.unit.groups.consumer.group_model import Topics, assigned, parts
from tests.unit.groups.consumer.migration_model import Migrating
from yak.errors import ErrorCode
from yak.groups.consumer.settings import ConsumerGroupSettings

INTERVAL_MS = 2_000


@pytest.fixture
def one() -> Migrating:
    return Migrating(Topics(t=3), ConsumerGroupSettings(assignment_interval_ms=INTERVAL_MS))


def test_members_that_join_within_the_interval_wait_for_one_assignment(one: Migrating) -> None:
    first = one.join("a", "t")
    assert (first.member_epoch, assigned(first)) == (2, parts("t", 0, 1, 2)), "the first assignment has no interval"
    for member_id in "bc":
        one.pass_time(500)
        joined = one.join(member_id, "t")
        assert (joined.member_epoch, assigned(joined)) == (2, parts("t"))
    assert (one.group.state.epoch, one.group.state.state_name) == (4, "Assigning")
    one.pass_time(INTERVAL_MS - 1_001)
    assert assigned(one.heartbeat("a", 2)) is None
    one.pass_time(1)
    one.heartbeat("b", 2)
    assert (one.group.state.target_epoch, one.group.state.state_name) == (4, "Reconciling")
    assert len(assigned(one.heartbeat("a", 2)) or ()) == 1


def test_change_after_the_interval_is_assigned_at_once(one: Migrating) -> None:
    one.join("a", "t")
    one.pass_time(INTERVAL_MS)
    assert one.join("b", "t").member_epoch == 3
    assert one.group.state.target_epoch == 3


def test_new_coordinator_assigns_at_once(one: Migrating) -> None:
    one.join("a", "t")
    one.fail_over()
    assert one.join("b", "t").member_epoch == 3


def test_classic_member_rejoins_only_when_the_next_assignment_is_due(one: Migrating) -> None:
    one.join("a", "t")
    one.pass_time(INTERVAL_MS)
    joined = one.join_classic("made", "t")
    one.heartbeat("a", 2, owned=parts("t", 0, 1, 2))
    one.join("b", "t")
    assert (one.group.state.epoch, one.group.state.target_epoch) == (4, 3)
    assert one.sync_classic("made", joined["generation_id"]) == {}, "without the interval it had to rejoin"
    assert one.heartbeat_classic("made", 3) is ErrorCode.none
    one.pass_time(INTERVAL_MS)
    assert one.heartbeat_classic("made", 3) is ErrorCode.rebalance_in_progress
    assert one.join_classic("made", "t")["generation_id"] == 4
