from typing import cast

import pytest

from yak.storage.offset_map import OffsetMap


class Unread:
    """Offsets of a batch of a thousand million records."""

    def __len__(self):
        return 10**9

    def __contains__(self, offset):
        return offset < 10**9

    def __iter__(self):
        pytest.fail("all offsets of the batch are read")


@pytest.mark.parametrize("newest", [7, 10**9])
def test_a_large_batch_is_compared_with_the_keys_and_not_with_its_offsets(newest):
    offsets = OffsetMap(10_000)
    offsets.put_all([b"key"], [newest])
    for _ in offsets.gather_newest():
        pass
    assert offsets.has_newest_in(cast("range", Unread())) is (newest < 10**9)


def test_the_newest_offsets_are_those_of_the_last_record_of_a_key():
    offsets = OffsetMap(10_000)
    offsets.put_all([b"a", b"b", b"a"], [0, 1, 2])
    for _ in offsets.gather_newest():
        pass
    assert [offsets.has_newest_in(range(start, start + 1)) for start in range(4)] == [False, True, True, False]
    assert not offsets.has_newest_in(range(3, 100))
    assert offsets.has_newest_in(range(2, 100))
