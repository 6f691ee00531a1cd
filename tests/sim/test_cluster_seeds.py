"""Three shipped brokers under seeded faults, sometimes one, two or four: every invariant after every step."""

import pytest

from tests.sim.seeds import must_be_the_same_in_another_process, must_hold, totals_of
from yak.sim.cluster_faults import (
    ALONE,
    BUG,
    CLASSES,
    CLOCK,
    KILL_AFTER,
    LOST_HISTORY,
    MISDIRECTED,
    OLDER_DISK,
    POWER_AFTER_TRUNCATION,
    UNREGISTER,
)
from yak.sim.spec import Spec

SEEDS = {
    1: (*range(1, 13), 23, 66, 112, 137, 180, 194, 211, 245),
    3: (11, 61, 64, 76, 77, 78, 79, 83, 84, 89, 97, 98, 106, 108, 110, 113, 120, 122, 127, 129, 134, 136, 138, 139),
    2: (1, 2, 7, 8, 12, 16, 18, 20),
    4: (2, 3, 4, 5, 6, 9),
}
"""By the number of brokers. Tests below ask that those of one and of three have each class of faults. `make test-all` runs
7,000 more.
"""
MOVING = (2, 5, 6, 14, 15, 23, 28, 31, 35, 39)
"""Seeds in which the store gives each answer about its move that it gives in seeds 1 to 40."""
TRACED = [(1, 1), (2, 1), (76, 3), (77, 3), (1, 2), (2, 4)]
"""Seeds and numbers of brokers whose traces are compared."""
COVERING = (61, 301)
"""Seeds of three brokers that together reach each state below; one seed in a hundred has some of them."""


@pytest.mark.parametrize(("brokers", "seed"), [(brokers, seed) for brokers, seeds in SEEDS.items() for seed in seeds])
def test_every_invariant_of_replication_holds_over_seeded_faults(brokers, seed):
    must_hold([Spec(seed, brokers)])


def test_seeds_of_one_broker_have_each_class_of_faults():
    totals = totals_of(Spec(seed) for seed in SEEDS[1])
    for name in (
        *ALONE,
        "disk failures: sync",
        "disk failures: append",
        "disks that fail at the start",
        "halts for the last directory",
        "requests failed by a bug",
        "fail-stops",
        "killed inside a write",
        "killed inside a start",
        "stores brought back",
        "stores restored",
        "topics deleted",
        "records deleted on request",
        "log starts moved",
        "replicas moved",
        "tails lost",
        "refused kafka_storage_error",
        "acknowledged in short-lived topics",
        "transactions committed",
        "members crashed",
        "logs compacted",
    ):
        assert totals[name] > 0, f"no seed has {name}: {totals}"
    assert totals["acknowledged"] > 1_000
    assert totals["read"] > 1_000


def test_seeds_of_three_brokers_have_each_class_of_faults():
    totals = totals_of(Spec(seed, 3) for seed in SEEDS[3])
    assert [
        name for name in (*CLASSES, MISDIRECTED, BUG, POWER_AFTER_TRUNCATION, LOST_HISTORY, CLOCK) if not totals[name]
    ] == []


@pytest.mark.parametrize("seeds", [MOVING[:5], MOVING[5:]], ids=lambda seeds: str(seeds[0]))
def test_metadata_are_moved_between_redis_and_the_quorum_under_seeded_faults(seeds):
    specs = [Spec(seed, 3, metadata="both") for seed in seeds]
    assert totals_of(specs)["moves of the metadata"] > 0


@pytest.mark.parametrize(("brokers", "metadata", "seeds"), [(3, "redis", (23, 31)), (4, "raft", (1, 23, 25))])
def test_brokers_that_were_unregistered_or_have_older_disks_lose_nothing(brokers, metadata, seeds):
    classes = (OLDER_DISK, UNREGISTER, KILL_AFTER, "kill")
    specs = [Spec(seed, brokers, faults=classes, metadata=metadata) for seed in seeds]
    totals = totals_of(specs)
    for name in ("disks of an earlier time", "brokers unregistered", KILL_AFTER):
        assert totals[name] > 0, name


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_the_seeds_reach_the_states_that_replication_is_about():
    totals = totals_of(Spec(seed, 3) for seed in range(*COVERING))
    for name in (
        "elections",
        "elections outside of the ISR",
        "partitions without a leader",
        "truncations",
        "tails lost",
        "ISR shrinks",
        "ISR expansions",
        "takeovers",
        "takeovers, fast",
        "fast fencings",
        "session fencings",
        "fetch sessions lost",
        "moves completed",
        "moves taken back",
        "topics created",
        "topics deleted",
        "topics grown",
        "configs changed",
        "partitions forfeited",
        "refused not_enough_replicas",
        "refused not_leader_or_follower",
        "calls executed late",
        "coordinators loaded",
        "joins",
        "rebalances",
        "members crashed",
        "members left",
        "members fenced",
        "commits: ok",
        "commits: fail",
        "commits: info",
        "commits by the dead",
        "read by members",
        "sent with acks=0",
        "sent with acks=1",
        "sent with acks=-1",
        "refused for good",
        "log starts moved",
        "log starts moved on replicas",
        "records deleted on request",
        "positions given up",
        "transactions committed",
        "transactions aborted",
        "transactions fenced",
        "transactions unknown",
        "transactions timed out",
        "logs compacted",
        "committed offsets compacted",
        "records compacted away",
        "tombstones removed",
        "records gone before they were copied",
        "rot",
        "misread",
        "misdirected",
        "requests failed by a bug",
        "fail-stops",
        "damage found by brokers",
        "damage refused by followers",
        "damage noticed by consumers",
        "torn: holes",
        "torn: names",
        "killed inside a write",
        "killed inside a start",
        "entities changed",
        "snapshots of the metadata log",
        "positions trimmed",
        "ends listed",
        "fetches from followers",
        "committed fetches from followers",
        "producers recovered",
        "stable offsets checked",
        "offsets found by time",
    ):
        assert totals[name] > 0, f"no seed has {name}: {totals}"
    assert totals["acknowledged"] > 10_000
    assert totals["operations judged"] > totals["acknowledged"]


def test_the_same_seed_gives_the_same_trace_in_another_process_and_under_another_hash_seed():
    must_be_the_same_in_another_process([Spec(seed, brokers) for seed, brokers in TRACED])
