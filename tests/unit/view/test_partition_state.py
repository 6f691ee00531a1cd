"""One rule for a partition's state, and Kafka's conditions beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import (
    ALL,
    Conditions,
    PartitionState,
    Replication,
    StateCounts,
    count_by_broker,
    is_whole,
    out_of_sync,
    worst,
)

REPLICATIONS = st.integers(1, 5).flatmap(
    lambda replicas: st.builds(
        Replication, st.booleans(), st.just(replicas), st.integers(0, replicas), st.integers(1, 6)
    )
)

PARTITIONS = st.sets(st.integers(1, 6), min_size=1).flatmap(
    lambda nodes: st.builds(
        lambda leader, isr, min_isr: PartitionReplicas(
            "t", 0, leader, 1, 1, tuple(nodes), tuple(isr), None, {}, min_isr
        ),
        st.sampled_from([-1, *nodes]),
        st.sets(st.sampled_from(sorted(nodes))),
        st.integers(1, 6),
    )
)


@pytest.mark.parametrize(
    ("replication", "state"),
    [
        (Replication(False, 3, 3, 2), "ok"),
        (Replication(False, 3, 2, 1), "under_replicated"),
        (Replication(False, 3, 2, 2), "at_min_isr"),
        (Replication(False, 3, 1, 2), "under_min_isr"),
        (Replication(True, 3, 1, 2), "offline"),
        (Replication(False, 1, 1, 1), "ok"),
        (Replication(False, 2, 2, 5), "ok"),
    ],
)
def test_state_of_a_partition_is_its_worst_condition(replication: Replication, state: str) -> None:
    assert replication.state == state


@given(REPLICATIONS)
def test_state_names_a_condition_that_the_partition_fulfils(replication: Replication) -> None:
    found = Conditions(*(count == 1 for count in StateCounts.of([replication])))
    state = replication.state
    if state is PartitionState.OK:
        assert found in (ALL, Conditions(at_min_isr=True))
    else:
        assert getattr(found, state)
        assert Conditions(**{state.value: True}).match(replication)


@given(st.lists(REPLICATIONS))
def test_counts_are_the_numbers_of_matches(partitions: list[Replication]) -> None:
    counts = StateCounts.of(partitions)
    for name in Conditions._fields:
        wanted = Conditions(**{name: True})
        assert getattr(counts, name) == sum(map(wanted.match, partitions))
    assert all(map(ALL.match, partitions))
    assert worst(each.state for each in partitions) is max(
        (each.state for each in partitions), key=lambda state: state.severity, default=PartitionState.OK
    )


def test_severity_falls_from_offline_to_ok() -> None:
    assert [state.severity for state in PartitionState] == [4, 3, 2, 1, 0]


@given(PARTITIONS)
def test_partition_is_whole_if_its_state_is_ok(partition: PartitionReplicas) -> None:
    assert is_whole(partition) is (partition.state is PartitionState.OK)
    assert bool(out_of_sync(partition)) is partition.replication.is_under_replicated


@given(st.lists(PARTITIONS))
def test_counts_by_broker_are_those_of_each_partition(partitions: list[PartitionReplicas]) -> None:
    for node, counts in count_by_broker(partitions).items():
        assert counts.leaders == sum(each.leader == node for each in partitions)
        assert counts.replicas == sum(node in each.replicas for each in partitions)
        assert counts.out_of_sync == sum(node in out_of_sync(each) for each in partitions)
