"""How well a partition is, and how far its replicas are behind."""

import pytest

from yak.view.partition_replicas import PartitionReplicas


def partition(**fields):
    given = {
        "topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 7, "partition_epoch": 9,
        "replicas": (1, 2, 3), "isr": (1, 2, 3), "high_watermark": 90, "log_end_offsets": {1: 100, 2: 90, 3: None},
        "min_isr": 2,
    }  # fmt: skip
    return PartitionReplicas(**(given | fields))


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "ok"),
        ({"isr": (1, 2)}, "at_min_isr"),
        ({"isr": (1, 2), "min_isr": 1}, "under_replicated"),
        ({"isr": (1,)}, "under_min_isr"),
        ({"isr": (1,), "leader": -1}, "offline"),
        ({"isr": (), "leader": -1}, "offline"),
        ({"isr": (1,), "replicas": (1,)}, "ok"),
    ],
)
def test_partition_state_is_its_worst_condition(fields, state):
    assert partition(**fields).state == state


def test_lag_is_counted_from_the_leaders_end_and_is_never_negative():
    found = partition()
    assert [found.lag(node) for node in (1, 2, 3)] == [0, 10, None]
    assert partition(log_end_offsets={1: 90, 2: 95, 3: 90}).lag(2) == 0
    assert partition(log_end_offsets={1: None, 2: 95, 3: 90}).lag(2) is None
    assert partition(leader=-1).lag(2) is None


def test_the_json_contract_has_these_keys_in_this_order():
    assert list(partition().as_json()) == [
        "topic", "partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "min_isr", "state",
        "high_watermark", "log_end_offsets",
    ]  # fmt: skip
    assert partition(leader=-1).as_json()["leader"] is None
    assert partition().as_json()["log_end_offsets"] == {"1": 100, "2": 90, "3": None}
