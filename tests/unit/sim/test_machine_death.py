"""A machine's death: all its brokers end at once, and each partition that one of them led has one election."""

import pytest

from tests.cluster_rig import ClusterRig
from yak.sim.checks.one_replica_a_machine import OneReplicaAMachine
from yak.sim.cluster_draws import draw_machines
from yak.sim.deliveries import Violation
from yak.sim.seeded_random import SeededRandom

MACHINES = tuple(f"machine:{number // 2}" for number in range(6))
PARTITIONS = 12


def test_death_of_a_machine_is_one_election_for_each_partition_that_it_led() -> None:
    rig = ClusterRig(size=6, racks=MACHINES, hands_back=False)
    rig.create_topic("t", partitions=PARTITIONS, replication_factor=3)
    before = {number: rig.info("t", number) for number in range(PARTITIONS)}
    led = [number for number, info in before.items() if info.leader in (3, 4)]
    assert len(led) == PARTITIONS // 3
    calls = rig.cluster.calls.get("elect OK", 0)
    for node_id in (3, 4):
        rig.nodes[node_id - 1].kill()
    rig.run_until(lambda: all(rig.leader("t", number) not in (3, 4, -1) for number in range(PARTITIONS)))
    rig.run_for(10_000)
    for number, info in before.items():
        after = rig.info("t", number)
        assert after.leader_epoch - info.leader_epoch == (1 if number in led else 0)
    assert rig.cluster.calls["elect OK"] - calls <= 2, "one batch for each of its brokers"


def test_machines_are_drawn_only_where_three_fit() -> None:
    assert draw_machines(SeededRandom("m"), 4, wanted=True) is None
    assert draw_machines(SeededRandom("m"), 5, wanted=True) == (*MACHINES[:4], "machine:2")


class _Store:
    """A store with one partition on brokers of given racks."""

    def __init__(self, replicas: str, removing: str = "") -> None:
        self.state = self
        self.brokers = {number + 1: {"rack": rack} for number, rack in enumerate(MACHINES)} | {7: {"rack": None}}
        self.partitions = {("id", 0): {"replicas": replicas, "removing": removing}}
        self.topics = {"id": {"name": "t"}}


def check(*store: str) -> None:
    OneReplicaAMachine(_Store(*store)).store_changed(None, None)  # type: ignore[arg-type]


def test_check_refuses_two_replicas_on_a_machine_but_for_those_that_are_removed() -> None:
    check("1,3,5")
    check("2,3,1", "1")
    check("7,1,3")
    with pytest.raises(Violation, match="I21"):
        check("1,2,3")
