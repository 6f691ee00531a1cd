"""I13 as the members of groups see it: each way to break it is noticed, and what Kafka allows is not."""

import pytest

from yak.cluster.settings import ClusterSettings
from yak.sim.cluster import Cluster
from yak.sim.deliveries import Deliveries, Violation
from yak.sim.group_history import GroupHistory
from yak.sim.group_wire import assignment, read_assignment
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import Recorder
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

PLACE, OTHER = ("t", 0), ("t", 1)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def history(world):
    cluster = Cluster(
        world,
        SeededRandom(1),
        size=1,
        settings={},
        cluster_settings=ClusterSettings(),
        roles=("leader",),
        racks=(None,),
    )
    return GroupHistory(cluster, Deliveries(cluster.history, lambda _topic: None, Recorder(world)))


def commit(history, world, offset, outcome=Outcome.OK, *, generation=1):
    begun = history.commits("m", "g", generation, {PLACE: offset})
    world.now_us += 1_000
    history.committed("g", begun, outcome, is_classic=True)
    world.now_us += 1_000


def found(history, world, offset):
    world.now_us += 1_000
    history.fetched("g", (world.now_us - 1_750_000_000_000_000) / 1e6, {PLACE: offset}, "n")


def test_less_than_the_last_acknowledged_commit_is_a_violation(history, world):
    commit(history, world, 5)
    found(history, world, 5)
    with pytest.raises(Violation, match="had committed 5"):
        found(history, world, 4)


def test_fetch_of_no_offset_after_a_commit_is_a_violation(history, world):
    commit(history, world, 5)
    with pytest.raises(Violation, match="fetched -1"):
        found(history, world, -1)


def test_commit_of_unknown_outcome_may_arrive_late(history, world):
    commit(history, world, 3, Outcome.INFO)
    commit(history, world, 5)
    found(history, world, 3)


def test_a_commit_that_was_refused_may_not(history, world):
    commit(history, world, 3, Outcome.FAIL)
    commit(history, world, 5)
    with pytest.raises(Violation, match="fetched 3"):
        found(history, world, 3)


def test_a_commit_for_a_generation_that_was_left_must_be_refused(history, world):
    commit(history, world, 5)
    history.assigned("g", 2, "m", b"a", [PLACE])
    commit(history, world, 6, Outcome.FAIL, generation=1)
    with pytest.raises(Violation, match="had left"):
        commit(history, world, 6, generation=1)


def test_two_assignments_of_one_generation_are_a_violation(history, world):
    commit(history, world, 5)
    history.assigned("g", 2, "m", b"a", [PLACE])
    with pytest.raises(Violation, match="two assignments"):
        history.assigned("g", 2, "n", b"b", [OTHER])


def test_two_owners_of_one_partition_in_a_generation_are_a_violation(history, world):
    commit(history, world, 5)
    history.owns("g", 2, "m", [PLACE])
    history.owns("g", 3, "n", [PLACE])
    with pytest.raises(Violation, match="belongs to m and n"):
        history.owns("g", 2, "n", [PLACE])


def test_an_assignment_is_read_as_it_was_written():
    partitions = [("a", 0), ("a", 3), ("b", 1)]
    assert read_assignment(assignment(partitions, b"token")) == (partitions, b"token")


@pytest.mark.parametrize("state", ["before its end", "aborted", "committed"])
def test_transactional_offset_is_visible_only_after_its_commit_was_requested(history, state):
    recorder = history._recorder
    begun = history.commits("m", "g", 0, {PLACE: 5})
    begun.ending = recorder.begins("m")
    if state != "before its end":
        recorder.ends(begun.ending, is_commit=state == "committed")
    if state == "committed":
        history.fetched("g", 0.0, {PLACE: 5}, "n")
        return
    with pytest.raises(Violation, match=r"n fetched 5 of .*, which g did not commit"):
        history.fetched("g", 0.0, {PLACE: 5}, "n")
