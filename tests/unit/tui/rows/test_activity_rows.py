from yak.tui.formatter import Formatter
from yak.tui.rows.activity import activity_rows
from yak.tui.rows.failover import failover_moves
from yak.tui.state.activity import Activity
from yak.tui.state.elections import Failover

FMT = Formatter("utc", False)


def event(topic, partition, time_ms=0):
    kind = "leader-elected"
    return {"kind": kind, "time_ms": time_ms, "topic": topic, "partition": partition, "message": f"{topic}-{partition}"}


def test_events_of_an_internal_topic_are_one_row():
    activity = Activity()
    for partition in range(50):
        activity.take(event("__consumer_offsets", partition))
        if partition < 2:
            activity.take(event("orders", partition))
    rows = activity_rows(activity.lines, FMT, 0)
    assert [row.cells[2].text for row in rows] == ["orders-1", "orders-0", "__consumer_offsets: 50 partitions"]
    activity.take(event("__consumer_offsets", 0, 60_000))
    assert activity_rows(activity.lines, FMT, 0)[0].cells[2].text == "__consumer_offsets-0"


def test_a_failover_counts_moved_partitions_of_internal_topics():
    moved = {f"__consumer_offsets-{number}": (1, 2, 1) for number in range(17)} | {"orders-0": (1, 2, 4)}
    text = failover_moves(Failover(node_id=1, began_ms=0, moved=moved), FMT, 80)
    assert text.startswith("orders-0 1 ")
    assert text.endswith(" and 17 internal")
    assert "__consumer" not in text
