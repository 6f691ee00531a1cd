"""The quick check of one-record batches agrees with the walk that makes records."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.record_batch import HEADER_BYTES, read_header
from yak.protocol.record_check import check_records
from yak.protocol.record_walk import check_records as walk
from yak.sim.wire import record_batch


def verdict(check, batch: bytes) -> bool:
    try:
        check(read_header(batch), batch)
    except ProtocolViolation:
        return False
    return True


@settings(max_examples=300)
@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    st.integers(-3, 3),
)
def test_both_checks_say_the_same_of_whole_and_of_damaged_batches(value, damage, cut):
    batch = bytearray(record_batch([value], 1_000))
    for place, byte in damage:
        if HEADER_BYTES + place < len(batch):
            batch[HEADER_BYTES + place] = byte
    if cut < 0:
        del batch[cut:]
    else:
        batch += b"\0" * cut
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    assert verdict(check_records, bytes(batch)) == verdict(walk, bytes(batch))


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=8))
def test_good_batches_pass(values):
    assert verdict(check_records, record_batch(values, 1_000))
