"""Committed offsets and their records."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.groups.fields import BadGroupRecord
from yak.groups.offsets import (
    Committed,
    Offsets,
    offset_record,
    read_offset_key,
    read_offset_value,
)

TEXT = st.text(max_size=40)
LONG = st.integers(-(2**63), 2**63 - 1)


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), LONG, st.integers(-1, 2**31 - 1), TEXT, LONG)
def test_what_is_written_is_read(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, commit_ms: int
) -> None:
    committed = Committed(offset, epoch, metadata, commit_ms)
    record = offset_record(group, topic, partition, committed)
    assert read_offset_key(record.key) == (group, topic, partition)
    assert record.value is not None
    assert read_offset_value(record.value) == committed


def test_the_bytes_are_kafkas() -> None:
    record = offset_record("g", "t", 3, Committed(5, 2, "m", 1000))
    assert record.key.hex() == "0001" + "0001" + "67" + "0001" + "74" + "00000003"
    assert record.value is not None
    assert record.value.hex() == "0003" + "0000000000000005" + "00000002" + "0001" + "6d" + "00000000000003e8"


def test_a_time_to_forget_it_has_its_own_version_which_has_no_leader_epoch() -> None:
    record = offset_record("g", "t", 3, Committed(5, 2, "m", 1000, 2000))
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert read_offset_value(record.value) == Committed(5, -1, "m", 1000, 2000)


def test_a_tombstone_has_the_same_key() -> None:
    assert offset_record("g", "t", 3, None) == (offset_record("g", "t", 3, Committed(1, 1, "", 0)).key, None)


@given(st.binary(max_size=60))
def test_no_bytes_end_in_anything_but_a_refusal(data: bytes) -> None:
    for read in (read_offset_key, read_offset_value):
        with contextlib.suppress(BadGroupRecord):
            read(data)


def test_a_version_of_tomorrow_is_refused() -> None:
    with pytest.raises(BadGroupRecord, match="version 4"):
        read_offset_value(b"\0\4" + bytes(40))


def test_offsets_are_kept_by_topic_and_partition_and_forgotten_without_a_trace() -> None:
    offsets = Offsets()
    one, two = Committed(1, 0, "", 0), Committed(2, 0, "", 0)
    offsets.put("t", 0, one)
    offsets.put("t", 1, two)
    offsets.put("t", 0, two)
    assert list(offsets) == [("t", 0, two), ("t", 1, two)]
    assert offsets.get("t", 1) is two
    assert offsets.get("u", 0) is None
    for index in (0, 1, 1, 7):
        offsets.remove("t", index)
    assert not offsets
    assert offsets.topics == {}


def at(record_offset: int) -> Committed:
    return Committed(record_offset * 10, 0, "", 0, record_offset=record_offset)


def test_pending_offset_is_committed_or_dropped_at_the_marker() -> None:
    offsets = Offsets()
    offsets.put("t", 0, at(1))
    offsets.put_pending(7, "t", 0, at(2))
    offsets.put_pending(7, "t", 1, at(3))
    offsets.put_pending(8, "t", 2, at(4))
    assert list(offsets) == [("t", 0, at(1))]
    assert [offsets.has_pending("t", index) for index in range(4)] == [True, True, True, False]
    assert list(offsets.partitions()) == [("t", 0), ("t", 1), ("t", 2)]
    offsets.end_transaction(7, is_commit=True)
    assert list(offsets) == [("t", 0, at(2)), ("t", 1, at(3))]
    offsets.end_transaction(8, is_commit=False)
    assert not offsets.has("t", 2)
    offsets.end_transaction(9, is_commit=True)
    assert list(offsets) == [("t", 0, at(2)), ("t", 1, at(3))]
    assert offsets.pending == {}


def test_committed_offset_with_a_later_record_stays_when_the_transaction_commits() -> None:
    offsets = Offsets()
    offsets.put_pending(7, "t", 0, at(1))
    offsets.put_pending(8, "t", 0, at(2))
    offsets.put("t", 0, at(3))
    offsets.end_transaction(8, is_commit=True)
    offsets.end_transaction(7, is_commit=True)
    assert list(offsets) == [("t", 0, at(3))]


def test_tombstone_removes_pending_offsets_of_all_producers() -> None:
    offsets = Offsets()
    offsets.put_pending(7, "t", 0, at(1))
    offsets.put_pending(8, "t", 0, at(2))
    offsets.put_pending(8, "t", 1, at(3))
    assert offsets
    offsets.remove("t", 0)
    assert list(offsets.pending) == [8]
    offsets.end_transaction(7, is_commit=True)
    offsets.end_transaction(8, is_commit=True)
    assert list(offsets) == [("t", 1, at(3))]


class Unread(dict):  # type: ignore[type-arg]
    """A dict that can be asked for a key, and not gone through."""

    def _refuse(self, *_: object) -> None:
        raise AssertionError("it went through all of them")

    __iter__ = values = items = keys = _refuse  # type: ignore[assignment]


def test_pending_offset_is_looked_up_whatever_the_number_of_transactions() -> None:
    offsets = Offsets()
    for producer_id in range(3):
        offsets.put_pending(producer_id, "t", 0, at(producer_id))
        offsets.put_pending(producer_id, "t", 1 + producer_id, at(producer_id))
    offsets.pending = Unread(offsets.pending)
    assert [offsets.has_pending("t", index) for index in range(5)] == [True, True, True, True, False]
    offsets.remove("t", 1)
    assert not offsets.has_pending("t", 1)
    offsets.end_transaction(1, is_commit=True)
    assert [offsets.has_pending("t", index) for index in range(4)] == [True, False, False, True]
    assert sorted(offsets) == [("t", 0, at(1)), ("t", 2, at(1))]


def test_partitions_of_some_topics_are_found_without_reading_those_of_others() -> None:
    offsets = Offsets()
    offsets.put("t", 1, at(1))
    offsets.put_pending(7, "t", 2, at(2))
    offsets.put_pending(7, "v", 0, at(3))
    offsets.put("u", 0, at(4))
    offsets.topics["u"] = Unread(offsets.topics["u"])
    assert list(offsets.partitions({"t", "w"})) == [("t", 1), ("t", 2)]
    assert list(offsets.partitions({"v"})) == [("v", 0)]
