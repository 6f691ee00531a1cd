"""The demos' counts: every way in which a record can be missing, there twice, elsewhere, or out of order."""

import json

from hypothesis import given
from hypothesis import strategies as st

from yak.local.demo.delivery import Delivery, deliveries
from yak.local.demo.load import csv_record_id, record_id
from yak.sim.history_checker.history import UNREADABLE, Final, History, Outcome, Poll, Send, run

NAME = "t-0"


def counts(acked: dict[int, int | None], stored: list[int], unknown: tuple[int, ...] = ()) -> Delivery:
    """Acknowledged records with their offsets, in the order of sending; then what is stored, in offset order."""
    history = History()
    for at, (number, offset) in enumerate(acked.items()):
        history.add(Send("w", NAME, number, float(at), float(at), Outcome.OK, offset))
    for number in unknown:
        history.add(Send("w", NAME, number, 90.0, 91.0, Outcome.INFO))
    history.add(Poll("final", 99.0, 99.0, (run(NAME, list(enumerate(stored))),)))
    history.add(Final("final", {NAME: len(stored)}))
    return deliveries(history)[NAME]


def in_order(*numbers: int) -> dict[int, int | None]:
    return {number: offset for offset, number in enumerate(numbers)}


def test_same_records_at_same_offsets_hold() -> None:
    found = counts(in_order(1, 2, 3), [1, 2, 3])
    assert found.holds
    assert (found.topic, found.acknowledged, found.read) == ("t", 3, 3)


def test_acknowledged_record_not_read_is_lost() -> None:
    found = counts(in_order(1, 2, 3), [1, 2])
    assert found.lost == 1
    assert not found.holds


def test_record_read_twice_is_duplicated() -> None:
    found = counts(in_order(1, 2), [1, 2, 2])
    assert (found.duplicated, found.moved, found.lost) == (1, 0, 0)
    assert not found.holds


def test_record_at_another_offset_is_moved() -> None:
    found = counts({1: 0, 2: 5}, [1, 2])
    assert (found.moved, found.duplicated) == (1, 0)
    assert not found.holds


def test_record_before_one_that_was_sent_earlier_is_out_of_order() -> None:
    found = counts({1: None, 2: None, 3: None}, [1, 3, 2])
    assert found.out_of_order >= 1
    assert not found.holds


def test_record_without_acknowledgement_may_be_stored() -> None:
    found = counts(in_order(1), [1, 2], unknown=(2,))
    assert found.unconfirmed == 1
    assert found.holds


def test_changed_record_is_lost() -> None:
    found = counts(in_order(1, 2), [1, UNREADABLE])
    assert (found.lost, found.unconfirmed) == (1, 1)
    assert not found.holds


def test_topic_without_acknowledgement_does_not_hold() -> None:
    assert not Delivery("t").holds


def test_counts_of_partitions_add_up() -> None:
    found = Delivery.total((counts(in_order(1, 2), [1]), counts(in_order(3), [3])), "t")
    assert (found.topic, found.acknowledged, found.read, found.lost) == ("t", 3, 2, 1)


@given(st.lists(st.integers(0, 99), unique=True, min_size=1), st.data())
def test_dropping_any_records_is_counted_exactly(numbers: list[int], data: st.DataObject) -> None:
    dropped = data.draw(st.sets(st.sampled_from(numbers)))
    found = counts(dict.fromkeys(numbers), [number for number in numbers if number not in dropped])
    assert found.lost == len(dropped)
    assert found.holds == (not dropped)


def test_csv_row_is_known_whatever_the_form_of_its_json() -> None:
    row = {"row": "1", "folder": "json", "file": "x.py", "size_bytes": "12", "modified": "2026-01-01T00:00:00Z"}
    value = b'{ "file": "x.py", "row": "1", "modified": "2026-01-01T00:00:00Z", "size_bytes": "12" }'
    assert record_id(value) == csv_record_id(row)
    assert record_id(value.replace(b"12", b"13")) != csv_record_id(row)


def test_record_of_another_source_is_unreadable() -> None:
    for value in (None, b"", b"not json", b"{}", b"[1]", b'"row"', json.dumps({"sample": "x"}).encode()):
        assert record_id(value) == UNREADABLE
