"""I13 as the members of groups see it: each way to break it is noticed, and what Kafka allows is not."""

import pytest

from yak.cluster.settings import ClusterSettings
from yak.sim.books import Violation
from yak.sim.cluster import Cluster
from yak.sim.cluster_books import ClusterBooks
from yak.sim.group_books import GroupBooks
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
def books(world):
    cluster = Cluster(
        world,
        SeededRandom(1),
        size=1,
        settings={},
        cluster_settings=ClusterSettings(),
        roles=("leader",),
        racks=(None,),
    )
    return GroupBooks(cluster, ClusterBooks(cluster.history, lambda _topic: None, Recorder(world)))


def commit(books, world, offset, outcome=Outcome.OK, *, generation=1):
    begun = books.commits("m", "g", generation, {PLACE: offset})
    world.now_us += 1_000
    books.committed("g", begun, outcome, is_classic=True)
    world.now_us += 1_000


def found(books, world, offset):
    world.now_us += 1_000
    books.fetched("g", (world.now_us - 1_750_000_000_000_000) / 1e6, {PLACE: offset}, "n")


def test_less_than_the_last_acknowledged_commit_is_a_violation(books, world):
    commit(books, world, 5)
    found(books, world, 5)
    with pytest.raises(Violation, match="had committed 5"):
        found(books, world, 4)


def test_nothing_where_something_was_committed_is_a_violation(books, world):
    commit(books, world, 5)
    with pytest.raises(Violation, match="was told -1"):
        found(books, world, -1)


def test_a_commit_whose_end_nobody_knows_may_come_late(books, world):
    commit(books, world, 3, Outcome.INFO)
    commit(books, world, 5)
    found(books, world, 3)


def test_a_commit_that_was_refused_may_not(books, world):
    commit(books, world, 3, Outcome.FAIL)
    commit(books, world, 5)
    with pytest.raises(Violation, match="was told 3"):
        found(books, world, 3)


def test_a_commit_for_a_generation_that_was_left_must_be_refused(books, world):
    commit(books, world, 5)
    books.assigned("g", 2, "m", b"a", [PLACE])
    commit(books, world, 6, Outcome.FAIL, generation=1)
    with pytest.raises(Violation, match="had left"):
        commit(books, world, 6, generation=1)


def test_two_assignments_of_one_generation_are_a_violation(books, world):
    commit(books, world, 5)
    books.assigned("g", 2, "m", b"a", [PLACE])
    with pytest.raises(Violation, match="two assignments"):
        books.assigned("g", 2, "n", b"b", [OTHER])


def test_two_owners_of_one_partition_in_a_generation_are_a_violation(books, world):
    commit(books, world, 5)
    books.owns("g", 2, "m", [PLACE])
    books.owns("g", 3, "n", [PLACE])
    with pytest.raises(Violation, match="belongs to m and n"):
        books.owns("g", 2, "n", [PLACE])


def test_an_assignment_is_read_as_it_was_written():
    places = [("a", 0), ("a", 3), ("b", 1)]
    assert read_assignment(assignment(places, b"token")) == (places, b"token")


@pytest.mark.parametrize("state", ["before its end", "aborted", "committed"])
def test_an_offset_of_a_transaction_is_found_only_once_its_commit_was_asked_for(books, state):
    recorder = books._recorder
    begun = books.commits("m", "g", 0, {PLACE: 5})
    begun.ending = recorder.begins("m")
    if state != "before its end":
        recorder.ends(begun.ending, is_commit=state == "committed")
    if state == "committed":
        books.fetched("g", 0.0, {PLACE: 5}, "n")
        return
    with pytest.raises(Violation, match=r"n was told 5 of .*, which g did not commit"):
        books.fetched("g", 0.0, {PLACE: 5}, "n")
