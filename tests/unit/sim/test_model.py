"""The model of replication: every state within small bounds, its own mutants, and the broker's partition beside it."""

import pytest

from yak.replication.partition import Partition
from yak.sim.model.search import Bounds, search
from yak.sim.model.state import canonical, first_state
from yak.sim.model.walk import Disagreement, walk

SMALL = Bounds(records=1, crashes=0, outages=0, elections=1, changes=0)


def test_every_state_within_small_bounds_is_visited_and_sound():
    found = search(SMALL)
    assert found.is_complete
    assert not found.violation
    assert (found.states, found.steps) == (3671, 14123)


def test_a_search_that_ends_early_says_so():
    assert not search(SMALL, states_max=100).is_complete


def test_the_search_finds_the_shortest_way_to_a_loss():
    found = search(Bounds(records=1, crashes=0, elections=2, changes=0), lacks="min-isr")
    assert found.violation.startswith("I1: ")
    assert len(found.path) == found.depth == 4


@pytest.mark.parametrize(
    "rule",
    ["min-isr", "isr-from-the-store", "divergence", "no-cut-to-hw", "lossy-leaves", "boots-in-isr", "maximal-isr"],
)
def test_walks_miss_a_rule_that_is_taken_out(rule):
    assert walk(1_500, lacks=rule).violation


def test_the_brokers_partition_takes_the_same_steps():
    walked = walk(600, drives=True)
    assert not walked.violation
    assert walked.steps > 30_000


def test_a_partition_that_does_otherwise_is_noticed(monkeypatch):
    monkeypatch.setattr(Partition, "is_under_min_isr", False)
    with pytest.raises(Disagreement, match="'hw'"):
        walk(100, drives=True)


def test_names_of_brokers_do_not_matter():
    first = first_state(SMALL.left())
    entry = first.history[0]
    other = first._replace(history=(entry._replace(leader=2),))
    assert canonical(first) == canonical(other)
