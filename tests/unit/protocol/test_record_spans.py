"""Positions and keys of records are those that a complete walk over the batch finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.record_batch import HEADER_BYTES
from yak.protocol.record_spans import spans
from yak.protocol.record_walk import walk_records
from yak.protocol.record_writer import build_batch

# A signed varint has one byte up to 63, two up to 8191.
SIZES = st.sampled_from((0, 1, 5, 62, 63, 64, 65, 8190, 8191, 8192, 20_000))
TEXTS = st.none() | st.builds(bytes, SIZES)
RECORDS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=150)


@given(RECORDS)
def test_spans_of_a_batch_are_its_records(records):
    batch = build_batch(records, 5)
    body = batch[HEADER_BYTES:]
    found = list(spans(body, len(records), len(records) - 1))
    assert [(key, has_value) for _, _, _, key, has_value in found] == [
        (key, value is not None) for key, value in records
    ]
    assert [delta for _, _, delta, _, _ in found] == [record.offset for record in walk_records(batch)]
    assert [start for start, *_ in found] == [0, *(stop for _, stop, *_ in found[:-1])]
    assert found[-1][1] == len(body)


@given(RECORDS, st.data())
def test_spans_of_a_batch_that_ends_early_raise_a_protocol_violation(records, data):
    body = build_batch(records, 5)[HEADER_BYTES:]
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(ProtocolViolation):
        list(spans(body[:end], len(records), len(records) - 1))
