import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.errors import ProtocolViolation
from yak.protocol.tagged_fields import TaggedField, iterate_tags, read_tag_count, skip_tags
from yak.protocol.varint import UVARINT_MAX, read_uvarint, uvarint


@given(st.integers(0, UVARINT_MAX), st.binary(max_size=3))
def test_a_number_is_read_as_it_was_written(value, rest):
    data = uvarint(value)
    assert read_uvarint(data + rest, 0) == (value, len(data))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"]
)
def test_a_number_that_is_cut_or_too_long_is_a_violation(data):
    with pytest.raises(ProtocolViolation):
        read_uvarint(data, 0)


def test_fields_are_found_where_they_stand():
    data = b"?" + uvarint(2) + uvarint(3) + uvarint(2) + b"ab" + uvarint(300) + uvarint(0)
    count, position = read_tag_count(data, 1, len(data))
    assert list(iterate_tags(data, position, len(data), count)) == [
        TaggedField(start=2, tag=3, size_start=3, value_start=4, value_end=6),
        TaggedField(start=6, tag=300, size_start=8, value_start=9, value_end=9),
    ]
    assert skip_tags(data, 1, len(data)) == len(data)
    assert skip_tags(b"\0more", 0, 5) == 1
