"""A failover's notes as pauses, a verdict and JSON, without a cluster."""

from tests.messages import kafka_message
from yak.client.bench.result import outcomes, parse_check
from yak.local.bench.failover import (
    FailoverResult,
    FailoverSettings,
    Kill,
    delivery_of,
    document,
    gone,
    measure,
    summary,
)
from yak.local.bench.ledger_load import STAMP, Notes, empty_notes, note_record


def notes(*partitions: list[tuple[int, int, float]]) -> Notes:
    """Notes from (number, offset, time) of each partition."""
    found = empty_notes(len(partitions))
    for each, rows in zip(found.partitions, partitions, strict=True):
        for row in rows:
            each.add(*row)
    return found


def steady(begin: int, end: int, pause_s: float = 0.0, pause_at: int = 0) -> list[tuple[int, int, float]]:
    """A record every 10 ms, with one pause."""
    return [(at, at, at * 0.01 + (pause_s if at >= pause_at else 0.0)) for at in range(begin, end)]


def test_each_kill_knows_the_pauses_of_what_the_broker_led_and_of_the_rest() -> None:
    written = notes(steady(0, 300, 0.5, 100), steady(0, 300, 0.2, 100))
    seen = notes(steady(0, 300, 0.6, 100), steady(0, 300))
    kill = Kill(1, 2, True, (0,), killed_s=1.0, back_s=2.0, whole_s=2.5, next_s=3.0)
    measure(kill, written, seen)
    assert round(kill.writes_s or 0, 3) == 0.51
    assert round(kill.reads_s or 0, 3) == 0.61
    assert round(kill.other_writes_s or 0, 3) == 0.21
    assert round(kill.return_s or 0, 3) == 0.01
    assert kill.as_json()["isr_whole_after_ms"] == 500.0


def test_a_partition_that_never_took_writes_again_has_no_pause() -> None:
    kill = Kill(1, 2, True, (0,), killed_s=2.995, back_s=4.0, next_s=5.0)
    measure(kill, notes(steady(0, 300)), notes(steady(0, 300)))
    assert kill.writes_s is None


def test_delivery_counts_what_is_lost_duplicated_and_moved() -> None:
    acked = notes([(0, 0, 0.0), (1, 1, 0.0), (2, 2, 0.0), (3, -1, 0.0)])
    good = delivery_of("t", acked, notes([(0, 0, 0.0), (1, 1, 0.0), (2, 2, 0.0), (3, 3, 0.0)]))
    assert good.holds
    bad = delivery_of("t", acked, notes([(0, 0, 0.0), (2, 1, 0.0), (1, 2, 0.0), (1, 3, 0.0)]))
    assert (bad.lost, bad.duplicated, bad.moved) == (1, 1, 2)
    unknown = notes([(0, -1, 0.0), (1, -1, 0.0)])
    assert delivery_of("t", unknown, notes([(1, 0, 0.0), (0, 1, 0.0)])).out_of_order > 0


def test_equal_numbers_of_two_partitions_are_two_records() -> None:
    written = notes([(0, 0, 0.0)], [(0, 0, 0.0)])
    assert delivery_of("t", written, written).holds
    assert delivery_of("t", written, notes([(0, 0, 0.0)], [])).lost == 1


def test_record_that_a_reader_saw_and_that_is_missing_counts_as_vanished() -> None:
    seen = notes([(0, 0, 0.0), (1, 1, 0.0)])
    assert gone(seen, notes([(0, 0, 0.0), (1, 1, 0.0), (2, 2, 0.0)])) == 0
    assert gone(seen, notes([(0, 0, 0.0), (2, 1, 0.0)])) == 1


def test_a_value_that_was_changed_is_not_ours_any_more() -> None:
    found = empty_notes(2)
    note_record(found, kafka_message("t", 1, 5, value=STAMP.pack(1, 7) + bytes(20)))
    note_record(found, kafka_message("t", 1, 6, value=STAMP.pack(1, 8) + bytes(19) + b"x"))
    note_record(found, kafka_message("t", 1, 7, value=STAMP.pack(0, 9) + bytes(20)))
    note_record(found, kafka_message("t", 1, 8, value=b"short"))
    assert list(found.partitions[1].numbers) == [7, -1, -1, -1]
    assert list(found.partitions[1].offsets) == [5, 6, 7, 8]


def test_the_json_can_be_held_to_limits() -> None:
    written = notes(steady(0, 300, 0.5, 100))
    kill = Kill(1, 2, True, (0,), killed_s=1.0, back_s=2.0, whole_s=2.5, next_s=3.0)
    measure(kill, written, written)
    result = FailoverResult(FailoverSettings(kills=1), [kill])
    result.delivery = delivery_of("t", written, written)
    found = document(result, {"cpu": "x"})
    assert found["holds"]
    assert found["controllers_killed"] == 1
    assert found["pauses_ms"]["writes"] == {"p50": 510.0, "p99": 510.0, "max": 510.0}
    checks = outcomes([parse_check("p99<500ms"), parse_check("max<600ms"), parse_check("errors==0")], found, None)
    assert [check["held"] for check in checks] == [False, True, True]


def test_p99_is_by_nearest_rank() -> None:
    assert summary([]) is None
    assert summary([n / 1000 for n in range(1, 201)]) == {"p50": 100.5, "p99": 198.0, "max": 200.0}
