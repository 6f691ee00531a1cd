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


# The walks begin at one that misses the rule.
@pytest.mark.parametrize(
    ("rule", "first"),
    [
        *(("min-isr", 1), ("isr-from-the-store", 1), ("divergence", 1), ("no-cut-to-hw", 1), ("lossy-leaves", 1)),
        *(("boots-in-isr", 162), ("maximal-isr", 482)),
    ],
)
def test_walks_miss_a_rule_that_is_taken_out(rule, first):
    assert walk(1_500, first=first, lacks=rule).violation


def test_the_brokers_partition_takes_the_same_steps(pytestconfig):
    divisor = 1 if pytestconfig.getoption("all_examples") else 4
    walked = walk(600 // divisor, drives=True)
    assert not walked.violation
    assert walked.steps > 30_000 // divisor


def test_a_partition_that_does_otherwise_is_noticed(monkeypatch):
    monkeypatch.setattr(Partition, "is_under_min_isr", False)
    with pytest.raises(Disagreement, match="'hw'"):
        walk(100, drives=True)


def test_names_of_brokers_do_not_matter():
    first = first_state(SMALL.left())
    entry = first.history[0]
    other = first._replace(history=(entry._replace(leader=2),))
    assert canonical(first) == canonical(other)
