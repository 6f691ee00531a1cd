"""Batches that we write, read by another client's code and by our own walk."""

from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.protocol.record_batch import read_header
from yak.protocol.record_walk import walk_records
from yak.protocol.record_writer import RECORD_OVERHEAD_BYTES_MAX, build_batch, headers_size_bytes

blobs = (
    st.none() | st.binary(max_size=40) | st.sampled_from([b"x" * 63, b"x" * 64, b"y" * 1023, b"y" * 1024, b"z" * 9000])
)
headers = st.lists(st.tuples(st.text(max_size=5).map(str.encode), blobs), max_size=3)


@given(st.lists(st.tuples(blobs, blobs, headers), min_size=1, max_size=20))
@settings(max_examples=60)
def test_record_batch_is_readable_by_aiokafka_and_by_yak(records):
    batch = build_batch(
        [(key, value) for key, value, _ in records],
        1234,
        headers={index: each for index, (_, _, each) in enumerate(records) if each},
    )
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, [(n.encode(), v) for n, v in r.headers]) for r in theirs] == [
        (index, 1234, key, value, each) for index, (key, value, each) in enumerate(records)
    ]
    ours = list(walk_records(batch, with_headers=True))
    assert [(r.key, r.value, list(r.headers)) for r in ours] == records
    assert [r.headers for r in walk_records(batch)] == [()] * len(records)


def test_offsets_go_past_what_is_prepared():
    batch = build_batch([(None, b"v")] * 3000, 1)
    assert [record.offset for record in walk_records(batch)] == list(range(3000))
    assert read_header(batch).records_count == 3000


@given(blobs, blobs, headers)
def test_a_record_is_no_larger_than_is_counted(key, value, each):
    size = len(build_batch([(key, value)], 1, headers={0: each})) - 61
    assert size <= RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"") + headers_size_bytes(each)
