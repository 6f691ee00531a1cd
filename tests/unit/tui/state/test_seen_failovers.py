"""Which elections are one failover."""

from yak.tui.state.elections import Elections

MOVED = {"kind": "leader-changed", "topic": "orders", "partition": 0, "from": 1, "to": 2, "leader_epoch": 1}


def elections_of(*events):
    made = Elections()
    for event in events:
        made.take(event, is_new=True)
    return [(each.node_id, each.began_ms, each.moved) for each in made.failovers]


def test_second_planned_move_of_a_partition_soon_after_the_first_is_a_failover_of_its_own():
    back = {**MOVED, "from": 2, "to": 1, "leader_epoch": 2}
    assert elections_of({**MOVED, "time_ms": 1_000}, {**back, "time_ms": 6_000}, {**back, "time_ms": 6_002}) == [
        (None, 1_000, {"orders-0": (1, 2, 1)}),
        (None, 6_000, {"orders-0": (2, 1, 2)}),
    ]


def test_report_of_the_first_move_after_the_second_one_changes_nothing():
    back = {**MOVED, "from": 2, "to": 1, "leader_epoch": 2, "time_ms": 2_000}
    first = {**MOVED, "time_ms": 1_000}
    assert elections_of(first, back, {**first, "time_ms": 2_001}) == elections_of(first, back)


def test_planned_move_back_to_a_broker_that_was_lost_is_a_failover_of_its_own():
    lost = {"kind": "broker-dead", "broker": 1, "time_ms": 1_000}
    back = {**MOVED, "from": 2, "to": 1, "leader_epoch": 2, "time_ms": 9_000}
    assert elections_of(lost, {**MOVED, "time_ms": 1_050}, back) == [
        (1, 1_000, {"orders-0": (1, 2, 1)}),
        (None, 9_000, {"orders-0": (2, 1, 2)}),
    ]


def test_planned_move_from_a_living_broker_is_not_part_of_the_failover_of_another():
    lost = {"kind": "broker-dead", "broker": 1, "time_ms": 1_000}
    other = {**MOVED, "partition": 1, "from": 3, "to": 2, "time_ms": 9_000}
    assert elections_of(lost, {**MOVED, "time_ms": 1_050}, other) == [
        (1, 1_000, {"orders-0": (1, 2, 1)}),
        (None, 9_000, {"orders-1": (3, 2, 1)}),
    ]


def test_planned_moves_of_several_partitions_are_one_failover():
    assert elections_of({**MOVED, "time_ms": 1_000}, {**MOVED, "partition": 1, "time_ms": 1_200}) == [
        (None, 1_000, {"orders-0": (1, 2, 1), "orders-1": (1, 2, 1)})
    ]


def test_topic_that_is_made_again_starts_its_epochs_again():
    assert len(elections_of({**MOVED, "leader_epoch": 7, "time_ms": 1_000}, {**MOVED, "time_ms": 60_000})) == 2


def test_failover_begins_with_its_earliest_report_whichever_arrives_first():
    lost = {"kind": "broker-dead", "broker": 1}
    assert elections_of({**lost, "time_ms": 1_024}, {**lost, "time_ms": 1_000}, {**MOVED, "time_ms": 1_041}) == [
        (1, 1_000, {"orders-0": (1, 2, 1)})
    ]


def test_first_write_counts_for_the_failover_that_moved_the_partition_also_after_another_failover():
    made = Elections()
    made.take({**MOVED, "time_ms": 1_000}, is_new=True)
    made.take({**MOVED, "topic": "other", "from": 3, "time_ms": 60_000}, is_new=True)
    for partition, time_ms in (("orders-0", 60_500), ("orders-0", 60_700), ("unmoved-0", 60_800)):
        made.wrote(partition, time_ms)
    assert [each.first_write_ms for each in made.failovers] == [60_500, None]
