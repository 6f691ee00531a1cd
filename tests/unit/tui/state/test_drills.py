"""The time line of a failover, from events as brokers tell them."""

from dataclasses import replace
from typing import Any

from yak.local.demo.delivery_statistics import Pause
from yak.tui.state.drills import Drill, Drills, Timeline, timeline
from yak.tui.state.picture import Partition, Picture

T0 = 1_000_000


def event(kind: str, after_ms: int, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "time_ms": T0 + after_ms, "node_id": 2, "message": kind, **fields}


def leader(partition: int, after_ms: int, came: int | None, to: int | None, epoch: int = 5) -> dict[str, Any]:
    fields = {"leader": to, "leader_epoch": epoch, "partition_epoch": epoch, "from": came, "to": to}
    return event("leader-changed", after_ms, topic="orders", partition=partition, **fields)


KILLED = (
    event("broker-dead", 12, broker=1),
    event("broker-dead", 14, broker=1, detected_ms=3),
    event("controller-changed", 20, controller_epoch=7, to=2, **{"from": 1}),
    event("broker-fenced", 21, broker=1, broker_epoch=4, state="FENCED"),
    leader(0, 30, 1, 2),
    leader(1, 34, 1, 3),
)
DRILL = Drill("kill", 1, T0, "kill -9 of broker 1", "yak node kill 1", frozenset({"orders-0", "orders-1"}), True)


def fold(*events: dict[str, Any], drill: Drill = DRILL, pauses: tuple[Pause, ...] = ()) -> Timeline:
    picture = Picture()
    for each in events:
        picture.take(each)
    return timeline(drill, picture.activity.lines, pauses, picture.partitions)


def test_a_kill_is_detected_fenced_elected_and_the_first_sign_of_each_counts() -> None:
    found = fold(*KILLED)
    assert [(step.name, step.after_ms) for step in found.steps()] == [
        ("kill -9", 0),
        ("detected", 12),
        ("new controller", 20),
        ("fenced", 21),
        ("elected", 34),
    ]
    assert found.moved["orders-1"].to_node == 3


def test_drill_has_no_election_time_while_one_partition_has_no_leader() -> None:
    found = fold(*KILLED[:4], leader(0, 30, 1, 2), leader(1, 34, 1, None))
    assert found.elected_ms is None
    assert found.leaderless == ["orders-1"]
    found = fold(*KILLED[:4], leader(0, 30, 1, 2), leader(1, 34, 1, None), leader(1, 90, None, 3, epoch=6))
    assert found.elected_ms == 90
    assert (found.moved["orders-1"].from_node, found.moved["orders-1"].to_node) == (1, 3)


def test_drill_omits_earlier_events_and_events_of_other_brokers() -> None:
    found = fold(event("broker-dead", -500, broker=1), event("broker-dead", 5, broker=3), leader(7, 6, 3, 2))
    assert [step.name for step in found.steps()] == ["kill -9"]
    assert found.moved == {}


def test_the_leadership_that_is_handed_back_later_is_no_part_of_it() -> None:
    found = fold(*KILLED, leader(0, 5_000, 2, 1, epoch=6))
    assert found.elected_ms == 34
    assert found.moved["orders-0"].to_node == 2


def test_the_first_write_and_the_longest_wait_are_what_the_clients_noted() -> None:
    pauses = (
        Pause("orders-0", T0 - 8, T0 + 61),
        Pause("orders-1", T0 - 2, T0 + 75),
        Pause("other-0", T0, T0 + 900),
        Pause("orders-0", T0 - 700, T0 - 600),
        Pause("orders-0", T0 + 4_000, T0 + 4_050),
    )
    found = fold(*KILLED, pauses=pauses)
    assert found.first_write_ms == 61
    assert found.longest == pauses[1]


def test_without_clients_the_first_write_is_seen_in_the_high_watermark_and_stays_known() -> None:
    picture = Picture()
    (key, partition) = ("orders", 0), Partition("orders", 0, 1, 4, 4, (1, 2, 3), (1, 2, 3))
    picture.partitions[key] = partition
    for each in KILLED:
        picture.take(each)

    def first_write_ms(after_ms: int, high_watermark: int, leader_epoch: int) -> float | None:
        row = {"topic": "orders", "partition": 0, "leader_epoch": leader_epoch, "high_watermark": high_watermark}
        progress = {**row, "log_end_offsets": {"2": high_watermark}}
        picture.take({"kind": "progress", "time_ms": T0 + after_ms, "node_id": 2, "partitions": [progress]})
        return timeline(DRILL, picture.activity.lines, (), picture.partitions).first_write_ms

    epoch = next(each["leader_epoch"] for each in KILLED if each["kind"] == "leader-changed")
    partition.high_watermark = 10
    assert first_write_ms(90, 10, epoch) is None
    assert first_write_ms(190, 14, epoch) == 190
    for later in range(50):
        assert first_write_ms(300 + 100 * later, 15 + later, epoch) == 190
    for later in range(20):
        first_write_ms(8_000 + later, 90 + later, epoch + 1 + later)
    assert len(partition.first_writes_ms) < 20


def test_timeline_knows_whether_a_client_wrote_before_the_drill() -> None:
    picture = Picture()
    for each in KILLED:
        picture.take(each)
    partition = picture.partitions["orders", 0] = Partition("orders", 0, 2, 5, 5, (1, 2, 3), (2, 3), high_watermark=10)
    assert not timeline(DRILL, picture.activity.lines, (), picture.partitions).is_written
    partition.wrote(5, T0 + 180)
    assert not timeline(DRILL, picture.activity.lines, (), picture.partitions).is_written
    partition.wrote(4, T0 - 9_000)
    assert timeline(DRILL, picture.activity.lines, (), picture.partitions).is_written


def test_a_wait_that_ended_before_the_election_does_not_hide_the_first_write() -> None:
    picture = Picture()
    for each in KILLED:
        picture.take(each)
    partition = picture.partitions["orders", 0] = Partition("orders", 0, 2, 5, 5, (1, 2, 3), (2, 3), high_watermark=10)
    partition.wrote(5, T0 + 80)
    kill = replace(DRILL, began_ms=T0 - 100)
    found = timeline(kill, picture.activity.lines, (Pause("orders-0", T0 - 150, T0 - 90),), picture.partitions)
    assert found.longest is not None
    assert found.first_write_ms == 180


def test_planned_move_counts_only_the_requested_partitions() -> None:
    drill = Drill("failover", 1, T0, "planned", "", frozenset({"orders-0"}))
    found = fold(event("broker-stopping", 3, broker=1, state="STOPPING"), leader(0, 40, 1, 2), drill=drill)
    assert [step.name for step in found.steps()] == ["requested", "moved"]


def test_drills_end_where_the_next_one_begins() -> None:
    picture, drills = Picture(), Drills()
    for each in (*KILLED, event("broker-dead", 3_010, broker=2), leader(0, 3_050, 2, 3, epoch=6)):
        picture.take(each)
    drills.add(DRILL)
    drills.add(Drill("kill", 2, T0 + 3_000, "kill -9 of broker 2", "", frozenset({"orders-0"})))
    first, second = drills.timelines(picture, (), T0 + 4_000)
    assert (first.elected_ms, second.detected_ms, second.elected_ms) == (34, 10, 50)


def test_drills_list_a_lost_broker_once() -> None:
    picture, drills = Picture(), Drills()
    for each in KILLED:
        picture.take(each)
    (seen,) = drills.timelines(picture, (), T0 + 100)
    assert (seen.drill.action, seen.drill.node_id, seen.drill.title) == ("seen", 1, "broker 1 was lost")
    assert seen.elected_ms is not None
    drills.add(DRILL)
    (done,) = drills.timelines(picture, (), T0 + 100)
    assert done.drill is DRILL


def test_drills_list_a_late_detected_pause_once() -> None:
    picture, drills = Picture(), Drills()
    drills.add(Drill("pause", 1, T0, "SIGSTOP of broker 1", "", frozenset({"orders-0"})))
    picture.take(event("broker-fenced", 9_000, broker=1, broker_epoch=4, state="FENCED"))
    picture.take(leader(0, 9_010, 1, 2))
    (found,) = drills.timelines(picture, (), T0 + 10_000)
    assert (found.drill.action, found.fenced_ms, found.elected_ms) == ("pause", 9_000, 9_010)


def test_finished_drill_timeline_is_unchanged_when_its_events_are_forgotten() -> None:
    picture, drills = Picture(), Drills()
    for each in KILLED:
        picture.take(each)
    drills.add(DRILL)
    (before,) = drills.timelines(picture, (), T0 + 61_000)
    picture.activity.lines.clear()
    (after,) = drills.timelines(picture, (), T0 + 62_000)
    assert after is before


def test_figures_stay_as_they_are_once_the_first_write_is_some_seconds_ago() -> None:
    picture, drills = Picture(), Drills()
    for each in KILLED:
        picture.take(each)
    drills.add(DRILL)
    waits = (Pause("orders-0", T0 - 10, T0 + 120),)
    (before,) = drills.timelines(picture, waits, T0 + 6_000)
    assert (before.first_write_ms, before.longest) == (120, waits[0])
    later = (*waits, Pause("orders-0", T0 - 10, T0 + 20_000))
    drills.add(Drill("kill", 2, T0 + 30, "kill -9 of broker 2", "", frozenset()))
    assert drills.timelines(picture, later, T0 + 21_000)[0] is before


def test_figures_grow_while_the_clients_may_still_report_their_waits() -> None:
    picture, drills = Picture(), Drills()
    for each in KILLED:
        picture.take(each)
    drills.add(DRILL)
    assert drills.timelines(picture, (), T0 + 100)[0].longest is None
    wait = Pause("orders-0", T0 - 10, T0 + 120)
    assert drills.timelines(picture, (wait,), T0 + 1_000)[0].longest == wait


def test_refused_drill_is_forgotten() -> None:
    drills = Drills()
    drills.add(DRILL)
    drills.forget(DRILL)
    assert drills.last is None
    assert drills.timelines(Picture(), (), T0) == []
