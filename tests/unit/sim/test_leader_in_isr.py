"""I7: the epochs of a partition rise. A restore drops what the restored image lacks."""

from types import SimpleNamespace

import pytest

from yak.sim.checks.leader_in_isr import LeaderInIsr
from yak.sim.deliveries import Violation


def partition(**changed):
    created = {"partition_epoch": 0, "leader_epoch": 0, "isr": "1@5", "elr": "", "replicas": "1,2", "leader": 1}
    return created | changed


@pytest.fixture
def store():
    topics, brokers = {"id": {"name": "t"}}, {1: {"broker_epoch": 5, "state": "ACTIVE"}}
    return SimpleNamespace(state=SimpleNamespace(partitions={}, topics=topics, brokers=brokers))


def test_partition_that_a_restore_dropped_is_created_again_with_its_first_epochs(store):
    check = LeaderInIsr(store)
    for script, partitions in (
        ("create_partitions", {("id", 0): partition()}),
        ("seed_commit", {}),
        ("create_partitions", {("id", 0): partition(replicas="1")}),
    ):
        store.state.partitions = partitions
        check.store_changed(SimpleNamespace(script=script), None)


def test_change_without_a_higher_partition_epoch_is_a_violation(store):
    check = LeaderInIsr(store)
    store.state.partitions = {("id", 0): partition()}
    check.store_changed(SimpleNamespace(script="create_partitions"), None)
    store.state.partitions = {("id", 0): partition(replicas="1")}
    with pytest.raises(Violation, match=r"I7: t-0 after elect: epochs 0, 0 after \(0, 0\)"):
        check.store_changed(SimpleNamespace(script="elect"), None)
