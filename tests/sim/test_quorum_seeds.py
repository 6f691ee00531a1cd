"""The metadata quorum alone under seeded faults: every invariant of Raft and KRaft after every event."""

import pytest

from tests.sim.seeds import must_be_the_same_in_another_process, must_hold, totals_of
from yak.sim.spec import Spec

SEEDS = (*range(1, 12), 31, 32, 36, 44, 50)
"""The last ones have what is rare: together they have the faults of the first 64 seeds. `make test-all` runs 3,000 more."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_of_the_quorum_holds_over_seeded_faults(seed):
    must_hold([Spec(seed, brokers=0)])


def test_commit_that_a_healing_link_delivers_is_known_before_its_answer():
    """The checks had not looked at the leader since, and took the acknowledged command for one that is not committed."""
    must_hold([Spec(940_078, brokers=0)])


def test_commit_is_known_of_a_leader_that_ends_in_a_later_step_of_the_same_event():
    """The checks looked only after the event, and took a follower for the first node that commits."""
    must_hold([Spec(18, brokers=0, faults=("kill", "kill-in-write", "isolate", "split-vote"))])


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_the_seeds_reach_the_states_that_a_quorum_is_about():
    totals = totals_of(Spec(seed, brokers=0) for seed in range(1, 301))
    for name, count in totals.items():
        assert count > 0 or name == "liveness forfeited", f"no seed has {name}: {totals}"
    assert totals["leaders elected"] > 600
    assert totals["reads"] > 5_000


def test_the_same_seed_gives_the_same_trace_in_another_process_and_under_another_hash_seed():
    must_be_the_same_in_another_process([Spec(seed, brokers=0) for seed in range(1, 5)])
