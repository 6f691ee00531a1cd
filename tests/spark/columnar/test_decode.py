"""The decoder gives what was written, whatever was written; and for damaged bytes an error, never a crash."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from columnar_support.batch_bytes import Record, batch, marker, record_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.protocol.record_batch import CODECS, compute_crc
from yak.protocol.varint import zigzag
from yak.spark.columnar.batches import InvalidBatches, survey, unpack
from yak.spark.columnar.columns import VARIABLE_COLUMNS, decode
from yak.spark.columnar.wire import AbortedRange

EVERYTHING = 2**62

blobs = st.one_of(st.none(), st.binary(max_size=200), st.integers(100, 20_000).map(lambda size: b"x" * size))
names = st.one_of(st.text(max_size=8).map(str.encode), st.binary(max_size=4))
header_lists = st.lists(st.tuples(names, st.one_of(st.none(), st.binary(max_size=9))), max_size=40)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Records of one batch: with gaps, with equal sizes in a row, with any of the rest."""
    made: list[Record] = []
    offset_delta = -1
    for _ in range(draw(st.integers(1, 6))):
        key, value, headers = draw(blobs), draw(blobs), draw(header_lists)
        for _ in range(draw(st.sampled_from((1, 1, 3, 20, 90)))):
            offset_delta += draw(st.sampled_from((1, 1, 1, 2, 300))) if len(made) < 40 else 1
            delta = draw(st.integers(-(2**40), 2**40)) if len(made) < 20 else 0
            made.append(Record(offset_delta, key, value, delta, headers))
    return made


def text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def expected(base_offset: int, records: list[Record], base_timestamp: int, append_time: int | None) -> list[dict]:
    """The rows, made record by record."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "offset": base_offset + record.offset_delta,
            "timestamp": 1000 * (base_timestamp + record.timestamp_delta if append_time is None else append_time),
            "timestampType": int(append_time is not None),
            "headers": [{"key": text(name), "value": value} for name, value in record.headers] or None,
        }
        for record in records
    ]


def decoded(
    records: bytes, start: int = 0, end: int = EVERYTHING, aborted: list[AbortedRange] | None = None
) -> list[dict]:
    """The rows of an answer; timestamps as integers, as some are beyond what datetime can say."""
    data = np.frombuffer(records, np.uint8)
    found = unpack(data, survey(data.data, start, end, aborted))
    columns = decode(found, start, end, include_headers=True)
    if columns is None:
        return []
    columns.validate(full=True)
    assert columns.num_rows, "a batch without rows is None"
    without = decode(found, start, end, include_headers=False)
    assert without.equals(columns.select(VARIABLE_COLUMNS))
    at = columns.schema.get_field_index("timestamp")
    return columns.set_column(at, "timestamp", columns["timestamp"].view(pa.int64())).to_pylist()


@settings(max_examples=60)
@given(
    st.lists(st.tuples(record_lists(), st.sampled_from(CODECS), st.one_of(st.none(), st.integers(0, 2**40)))),
    st.integers(0, 2**40),
    st.data(),
)
def test_every_record_comes_out_as_it_went_in(batches, base_offset, data):
    answer, rows, offset = b"", [], base_offset
    for records, codec, append_time in batches:
        base_timestamp = 1_700_000_000_000 + offset
        answer += batch(offset, records, codec=codec, base_timestamp=base_timestamp, append_time=append_time)
        rows += expected(offset, records, base_timestamp, append_time)
        offset += records[-1].offset_delta + 1
    start = data.draw(st.integers(base_offset, offset), label="start")
    end = data.draw(st.integers(start, offset + 1), label="end")
    assert decoded(answer, start, end) == [row for row in rows if start <= row["offset"] < end]


def test_a_batch_that_is_cut_off_is_left_for_the_next_answer():
    first, second = batch(0, [Record(0, b"a")]), batch(1, [Record(0, b"b")])
    for cut in range(len(second)):
        surveyed = survey(first + second[:cut], 0, EVERYTHING, None)
        assert (surveyed.next_offset, surveyed.needed_bytes) == (1, 0)
    assert survey(second[:-1], 1, EVERYTHING, None).needed_bytes == len(second)


def test_control_batches_and_empty_batches_give_no_rows_but_are_passed():
    answer = batch(5, [], last_offset_delta=9) + marker(15, 7, is_commit=True) + batch(16, [Record(0, b"k")])
    assert [row["offset"] for row in decoded(answer, 5)] == [16]
    assert survey(answer, 5, EVERYTHING, None).next_offset == 17


def test_aborted_transactions_are_skipped_under_read_committed():
    def of(offset: int, producer_id: int, is_transactional: bool = True) -> bytes:
        records = [Record(0, b"a"), Record(1, b"b")]
        return batch(offset, records, producer_id=producer_id, is_transactional=is_transactional)

    answer = b"".join(
        (
            of(0, 1),
            of(2, 2),
            of(4, -1, is_transactional=False),
            of(6, 3, is_transactional=False),
            marker(8, 1, is_commit=False),
            of(9, 1),  # a new transaction of the same producer, which is committed
            marker(11, 2, is_commit=True),
            marker(12, 1, is_commit=True),
            of(13, 2),
            marker(15, 2, is_commit=False),
        )
    )
    aborted = [AbortedRange(2, 13), AbortedRange(1, 0)]
    assert [row["offset"] for row in decoded(answer, aborted=aborted)] == [2, 3, 4, 5, 6, 7, 9, 10]
    assert [row["offset"] for row in decoded(answer, aborted=[])] == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 13, 14]
    assert len(decoded(answer)) == 12


def test_a_range_that_begins_inside_an_aborted_transaction_does_not_see_its_rest():
    answer = batch(10, [Record(0), Record(1)], producer_id=4, is_transactional=True) + marker(12, 4, is_commit=False)
    assert decoded(answer, 11, aborted=[AbortedRange(4, 3)]) == []


def test_times_that_microseconds_cannot_say_become_the_furthest_ones():
    rows = decoded(batch(0, [Record(0), Record(1, timestamp_delta=1)], base_timestamp=2**62))
    assert {row["timestamp"] for row in rows} == {(2**63 - 1) // 1000 * 1000}
    assert decoded(batch(0, [Record(0)], base_timestamp=-1))[0]["timestamp"] == -1000


def test_a_record_of_very_many_headers_is_read():
    headers = [(b"h%d" % index, None if index % 3 else b"v") for index in range(3000)]
    rows = decoded(batch(0, [Record(0, headers=headers), Record(1, headers=headers[:2]), Record(2)]))
    assert [len(row["headers"] or ()) for row in rows] == [3000, 2, 0]
    assert rows[0]["headers"][2997] == {"key": "h2997", "value": b"v"}


def refused(records: bytes, match: str) -> None:
    with pytest.raises(InvalidBatches, match=match):
        decoded(records)


def test_a_wrong_crc_is_refused():
    sound = batch(0, [Record(0, b"key", b"value")])
    for position in range(21, len(sound)):
        damaged = bytearray(sound)
        damaged[position] ^= 0x20  # in the attributes this makes it a control batch
        refused(bytes(damaged), "CRC")


def test_formats_before_2_are_refused():
    old = bytearray(batch(0, [Record(0)]))
    old[16] = 1
    refused(bytes(old), "format 1")


def test_batches_in_the_wrong_order_are_refused():
    refused(batch(9, [Record(0)]) + batch(3, [Record(0)]), "comes after")


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (record_bytes(Record(0)), 1000),
        (record_bytes(Record(0)) + b"\x00", 1),
        (record_bytes(Record(0, b"abc")), 2),
        (zigzag(2**31) + bytes(20), 1),
        (zigzag(-3) + bytes(20), 1),
        (b"\xff" * 40, 3),
        (b"\x80" * 100_000, 3),
        (zigzag(20) + b"\x00\x00\x00" + zigzag(-1) + zigzag(500) + bytes(15), 1),
        (zigzag(20) + b"\x00\x00\x00" + zigzag(17) + zigzag(0) + bytes(15), 1),
        (zigzag(8) + b"\x00\x00\x00\x01\x01" + zigzag(2) + b"\x02\x00", 1),
        (record_bytes(Record(3)) + record_bytes(Record(3)), 2),
        (record_bytes(Record(3)) + record_bytes(Record(1)), 2),
        (record_bytes(Record(0)) * 16 + record_bytes(Record(0, b"abc"))[:-1], 17),
    ],
)
def test_damage_under_a_right_crc_is_refused(body, count):
    with pytest.raises(InvalidBatches):
        decoded(batch(0, [], body=body, records_count=count, last_offset_delta=count))


@settings(max_examples=300)
@given(record_lists(), st.data())
def test_no_damage_under_a_right_crc_crashes_or_invents_bytes(records, data):
    plain = bytearray(b"".join(map(record_bytes, records)))
    for _ in range(data.draw(st.integers(1, 4))):
        near = data.draw(st.sampled_from((40, len(plain))))
        plain[data.draw(st.integers(0, min(near, len(plain)) - 1))] = data.draw(st.integers(0, 255))
    count = data.draw(st.sampled_from((len(records), len(records) + 1, 1)))
    answer = batch(0, records, body=bytes(plain), records_count=count)
    try:
        rows = decoded(answer)
    except InvalidBatches:
        return
    for row in rows:
        assert row["key"] is None or row["key"] in plain
        assert row["value"] is None or row["value"] in plain


@settings(max_examples=300)
@given(st.sampled_from(CODECS), st.data())
def test_no_damage_anywhere_crashes(codec, data):
    records = [Record(index, b"k", b"value" * 9, headers=[(b"a", b"b")]) for index in range(60)]
    answer = bytearray(batch(0, records, codec=codec) + batch(60, records, codec=codec))
    for _ in range(data.draw(st.integers(1, 8))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        size = struct.unpack_from(">i", answer, 8)[0] + 12
        if 61 <= size <= len(answer):
            struct.pack_into(">I", answer, 17, compute_crc(answer, 0, size))
    try:
        decoded(bytes(answer))
    except InvalidBatches:
        return
