"""Committed offsets and their records."""

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.groups.offsets import Committed, Offsets, offset_record, read_offset_key, read_offset_value
from yak.protocol.record_fields import UnreadableRecord

TEXT = st.text(max_size=40)
LONG = st.integers(-(2**63), 2**63 - 1)


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), LONG, st.integers(-1, 2**31 - 1), TEXT, LONG, st.none() | st.uuids())
def test_written_record_is_read_back_unchanged(group, topic, partition, offset, epoch, metadata, commit_ms, topic_id):
    committed = Committed(offset, epoch, metadata, commit_ms, topic_id=topic_id)
    record = offset_record(group, topic, partition, committed)
    assert read_offset_key(record.key) == (group, topic, partition)
    assert record.value is not None
    assert read_offset_value(record.value) == committed


def test_the_bytes_are_kafkas():
    record = offset_record("g", "t", 3, Committed(5, 2, "m", 1000, topic_id=uuid.UUID(int=9)))
    assert record.key.hex() == "0001" + "0001" + "67" + "0001" + "74" + "00000003"
    assert record.value is not None
    fields = "0000000000000005" + "00000002" + "02" + "6d" + "00000000000003e8"
    assert record.value.hex() == "0004" + fields + "01" + "00" + "10" + "00" * 15 + "09"


def test_value_of_version_3_has_no_topic_id():
    value = bytes.fromhex("0003" + "0000000000000005" + "00000002" + "0001" + "6d" + "00000000000003e8")
    assert read_offset_value(value) == Committed(5, 2, "m", 1000)


def test_a_time_to_forget_it_has_its_own_version_which_has_no_leader_epoch():
    record = offset_record("g", "t", 3, Committed(5, 2, "m", 1000, 2000))
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    assert read_offset_value(record.value) == Committed(5, -1, "m", 1000, 2000)


def test_a_tombstone_has_the_same_key():
    assert offset_record("g", "t", 3, None) == (offset_record("g", "t", 3, Committed(1, 1, "", 0)).key, None)


@given(st.binary(max_size=60))
def test_no_bytes_end_in_anything_but_a_refusal(data):
    for read in (read_offset_key, read_offset_value):
        with contextlib.suppress(UnreadableRecord):
            read(data)


def test_a_version_of_tomorrow_is_refused():
    with pytest.raises(UnreadableRecord, match="version 5"):
        read_offset_value(b"\0\5" + bytes(40))


def test_offsets_are_stored_by_topic_and_partition_and_removed_without_a_trace():
    offsets = Offsets()
    one, two = Committed(1, 0, "", 0), Committed(2, 0, "", 0)
    offsets.put("t", 0, one, 0)
    offsets.put("t", 1, two, 0)
    offsets.put("t", 0, two, 0)
    assert list(offsets) == [("t", 0, two), ("t", 1, two)]
    assert offsets.get("t", 1) is two
    assert offsets.get("u", 0) is None
    for index in (0, 1, 1, 7):
        offsets.remove("t", index, 0)
    assert not offsets
    assert offsets.topics == {}


def at(record_offset: int) -> Committed:
    return Committed(record_offset * 10, 0, "", 0, record_offset=record_offset)


def test_pending_offset_is_committed_or_dropped_at_the_marker():
    offsets = Offsets()
    offsets.put("t", 0, at(1), 0)
    offsets.put_pending(7, "t", 0, at(2))
    offsets.put_pending(7, "t", 1, at(3))
    offsets.put_pending(8, "t", 2, at(4))
    assert list(offsets) == [("t", 0, at(1))]
    assert [offsets.has_pending("t", index) for index in range(4)] == [True, True, True, False]
    assert list(offsets.partitions()) == [("t", 0), ("t", 1), ("t", 2)]
    offsets.end_transaction(7, 0, is_commit=True)
    assert list(offsets) == [("t", 0, at(2)), ("t", 1, at(3))]
    offsets.end_transaction(8, 0, is_commit=False)
    assert not offsets.has("t", 2)
    offsets.end_transaction(9, 0, is_commit=True)
    assert list(offsets) == [("t", 0, at(2)), ("t", 1, at(3))]
    assert offsets.pending == {}


def test_committed_offset_with_a_later_record_stays_when_the_transaction_commits():
    offsets = Offsets()
    offsets.put_pending(7, "t", 0, at(1))
    offsets.put_pending(8, "t", 0, at(2))
    offsets.put("t", 0, at(3), 0)
    offsets.end_transaction(8, 0, is_commit=True)
    offsets.end_transaction(7, 0, is_commit=True)
    assert list(offsets) == [("t", 0, at(3))]


def test_tombstone_removes_pending_offsets_of_all_producers():
    offsets = Offsets()
    offsets.put_pending(7, "t", 0, at(1))
    offsets.put_pending(8, "t", 0, at(2))
    offsets.put_pending(8, "t", 1, at(3))
    assert offsets
    offsets.remove("t", 0, 0)
    assert list(offsets.pending) == [8]
    offsets.end_transaction(7, 0, is_commit=True)
    offsets.end_transaction(8, 0, is_commit=True)
    assert list(offsets) == [("t", 1, at(3))]


class Unread(dict):  # type: ignore[type-arg]
    """A dict that can be asked for a key, and not gone through."""

    def _refuse(self, *_: object) -> None:
        raise AssertionError("it went through all of them")

    __iter__ = values = items = keys = _refuse  # type: ignore[assignment]


def test_pending_offset_is_found_without_iterating_over_transactions():
    offsets = Offsets()
    for producer_id in range(3):
        offsets.put_pending(producer_id, "t", 0, at(producer_id))
        offsets.put_pending(producer_id, "t", 1 + producer_id, at(producer_id))
    offsets.pending = Unread(offsets.pending)
    assert [offsets.has_pending("t", index) for index in range(5)] == [True, True, True, True, False]
    offsets.remove("t", 1, 0)
    assert not offsets.has_pending("t", 1)
    offsets.end_transaction(1, 0, is_commit=True)
    assert [offsets.has_pending("t", index) for index in range(4)] == [True, False, False, True]
    assert sorted(offsets) == [("t", 0, at(1)), ("t", 2, at(1))]


def test_partitions_of_some_topics_are_found_without_reading_those_of_others():
    offsets = Offsets()
    offsets.put("t", 1, at(1), 0)
    offsets.put_pending(7, "t", 2, at(2))
    offsets.put_pending(7, "v", 0, at(3))
    offsets.put("u", 0, at(4), 0)
    offsets.topics["u"] = Unread(offsets.topics["u"])
    assert list(offsets.partitions({"t", "w"})) == [("t", 1), ("t", 2)]
    assert list(offsets.partitions({"v"})) == [("v", 0)]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "pending", "commit", "abort", "remove"]), st.integers(0, 2), st.integers(7, 8)
    ),
    max_size=30,
)


def changed(changes: list[tuple[str, int, int]]) -> Offsets:
    """The offsets after these changes, one record each."""
    offsets = Offsets()
    for end_offset, (change, partition, producer_id) in enumerate(changes, 1):
        topic = "tu"[partition % 2]
        if change == "put":
            offsets.put(topic, partition, at(end_offset - 1), end_offset)
        elif change == "pending":
            offsets.put_pending(producer_id, topic, partition, at(end_offset - 1))
        elif change == "remove":
            offsets.remove(topic, partition, end_offset)
        else:
            offsets.end_transaction(producer_id, end_offset, is_commit=change == "commit")
    return offsets


@given(CHANGES, st.lists(st.integers(0, 30), max_size=3), st.sampled_from([None, {"t"}]), st.booleans())
def test_offsets_at_a_high_watermark_are_those_of_the_records_below_it(changes, high_watermarks, topics, is_copy):
    offsets = changed(changes)
    for high_watermark in sorted(high_watermarks):
        now = offsets.at(high_watermark, topics, is_copy=is_copy)
        then = changed(changes[:high_watermark])
        for topic, partition in (("t", 0), ("u", 1), ("t", 2)):
            if topics is None or topic in topics:
                assert now.get(topic, partition) == then.get(topic, partition)
                # an offset that became pending since then makes a reader wait, which is right
                assert now.has_pending(topic, partition) >= then.has_pending(topic, partition)
    assert sorted(offsets) == sorted(changed(changes))


def test_offset_replaced_by_a_committed_change_is_forgotten():
    offsets = Offsets()
    for end_offset in range(1, 100):
        offsets.put("t", 0, at(end_offset), end_offset)
        offsets.forget_before(end_offset - 1)
    assert len(offsets._changes) == 1
    assert offsets.at(98).get("t", 0) == at(98)
    assert offsets.at(99) is offsets


def test_offsets_that_are_loaded_replace_nothing():
    """What was there before them is not known: a reader waits until they are committed."""
    offsets = Offsets()
    offsets.put("t", 0, at(1), 0)
    assert offsets.at(0).get("t", 0) == at(1)
