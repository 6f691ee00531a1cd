"""Transaction markers, as this broker writes them and in other valid forms."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.control_batch import EndTransactionMarker, build_marker, read_marker
from yak.protocol.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT
from yak.protocol.record_writer import build_batch

EPOCHS = st.integers(min_value=-(2**31), max_value=2**31 - 1)


def control(key: bytes | None, value: bytes | None) -> bytes:
    return build_batch([(key, value)], 5, attributes=TRANSACTIONAL_BIT | CONTROL_BIT, producer_id=1, producer_epoch=2)


@given(is_commit=st.booleans(), coordinator_epoch=EPOCHS)
def test_marker_is_read_as_it_was_written(is_commit, coordinator_epoch):
    marker = EndTransactionMarker(is_commit, coordinator_epoch)
    assert read_marker(build_marker(1, 2, marker, 5)) == marker


@given(is_commit=st.booleans(), coordinator_epoch=EPOCHS, more=st.binary(min_size=1, max_size=9))
def test_marker_of_a_later_version_is_read_too(is_commit, coordinator_epoch, more):
    key, value = struct.pack(">hh", 1, is_commit), struct.pack(">hi", 1, coordinator_epoch)
    marker = EndTransactionMarker(is_commit, coordinator_epoch)
    assert read_marker(control(key + more, value)) == marker
    assert read_marker(control(key, value + more)) == marker


def test_another_control_record_of_the_same_size_is_no_marker():
    assert read_marker(control(struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 7))) is None


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"x" * 10), (b"x" * 4, None), (b"\0\0\0", b"\0" * 7), (b"\0\0\0\1", b"\0" * 5)]
)
def test_marker_without_a_whole_key_and_value_is_refused(key, value):
    with pytest.raises(ProtocolViolation):
        read_marker(control(key, value))
