"""What a Fetch gave, from an offset on: holes, control batches, the middle of a batch, bounds."""

import datetime as dt
import struct
from types import SimpleNamespace

import cramjam
import pytest

from tests.unit.server.http.fake_context import context_of, image_of
from yak.ids import TopicPartition
from yak.protocol.record_batch import compute_crc
from yak.protocol.record_writer import build_batch
from yak.protocol.versions import FETCH
from yak.server.http import record_reader
from yak.server.http.problems import Problem
from yak.server.http.record_reader import walk_from

BOUNDS = {"records_max": 100, "bytes_max": 10_000, "decompressed_bytes_max": 10_000}


def at(offset, values, attributes=0, holes_after=0):
    batch = bytearray(build_batch([(None, value) for value in values], 1))
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">i", batch, 23, len(values) - 1 + holes_after)
    struct.pack_into(">I", batch, 17, compute_crc(batch))
    return bytes(batch)


def of(producer_id, offset, value):
    """A batch of a transaction; a value of None is its marker."""
    batch = bytearray(build_batch([(None, value)], 1, producer_id=producer_id, producer_epoch=0))
    struct.pack_into(">q", batch, 0, offset)
    struct.pack_into(">h", batch, 21, 0x30 if value is None else 0x10)
    struct.pack_into(">I", batch, 17, compute_crc(batch))
    return bytes(batch)


def test_records_of_aborted_transactions_are_left_out():
    batches = [
        of(1, 0, b"aborted"), of(2, 1, b"kept"), of(1, 2, b"aborted"), of(1, 3, None), of(1, 4, b"committed"),
        at(5, [b"plain"]), of(2, 6, None), of(1, 7, None), of(1, 8, b"aborted again"), of(1, 9, None),
    ]  # fmt: skip
    data = b"".join(batches)

    def values(start, offset, aborted):
        read = walk_from(b"".join(batches[start:]), offset, **BOUNDS, aborted=aborted)
        assert read.next_offset == 10
        return [record.value for record in read.records]

    assert values(0, 0, {1: [0, 8]}) == [b"kept", b"committed", b"plain"]
    assert values(2, 2, {1: [0, 8]}) == [b"committed", b"plain"]
    assert values(0, 4, {1: [0, 8]}) == [b"committed", b"plain"]
    assert values(4, 4, {1: [8]}) == [b"committed", b"plain"]
    assert len(walk_from(data, 0, **BOUNDS).records) == 6


def test_holes_and_control_batches_are_passed():
    data = at(10, [b"a", b"b"], holes_after=5) + at(20, [b"commit"], attributes=0x30) + at(30, [b"c"])
    read = walk_from(data, 11, **BOUNDS)
    assert [(record.offset, record.value) for record in read.records] == [(11, b"b"), (30, b"c")]
    assert read.next_offset == 31
    assert walk_from(data[: len(at(10, [b"a", b"b"]))], 12, **BOUNDS) == ([], 17)
    assert walk_from(at(20, [b"commit"], attributes=0x30), 20, **BOUNDS) == ([], 21)
    assert walk_from(b"", 7, **BOUNDS) == ([], 7)


def test_a_batch_without_records_is_passed():
    empty = bytearray(at(10, [b"a"], holes_after=4)[:61])
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    assert walk_from(bytes(empty), 10, **BOUNDS) == ([], 15)


def test_incomplete_batch_at_the_end_is_left_to_the_next_fetch():
    data = at(0, [b"a"]) + at(1, [b"b"])[:-3]
    assert walk_from(data, 0, **BOUNDS).next_offset == 1


def test_bounds_of_records_and_bytes_hold_but_for_the_first():
    data = at(0, [b"x" * 50] * 10)
    read = walk_from(data, 0, records_max=3, bytes_max=10_000, decompressed_bytes_max=10_000)
    assert (len(read.records), read.next_offset) == (3, 3)
    read = walk_from(data, 4, records_max=100, bytes_max=120, decompressed_bytes_max=10_000)
    assert ([record.offset for record in read.records], read.next_offset) == ([4, 5], 6)
    read = walk_from(data, 0, records_max=100, bytes_max=1, decompressed_bytes_max=10_000)
    assert (len(read.records), read.next_offset) == (1, 1)


def test_unreadable_batch_names_the_next_offset():
    plain = at(5, [b"x" * 9000, b"y" * 9000])
    packed = bytes(cramjam.zstd.compress(plain[61:]))
    batch = bytearray(plain[:61] + packed)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, 4)
    assert (
        len(walk_from(bytes(batch), 5, **BOUNDS | {"bytes_max": 20_000, "decompressed_bytes_max": 20_000}).records) == 2
    )
    with pytest.raises(Problem) as refused:
        walk_from(bytes(batch), 5, **BOUNDS)
    assert (refused.value.status, refused.value.more) == (422, {"next_offset": 7})
    # behind records that can be, it is for the next look
    assert walk_from(at(4, [b"a"]) + bytes(batch), 4, **BOUNDS).next_offset == 5


async def test_read_that_a_quota_left_empty_is_too_busy():
    answer = SimpleNamespace(responses=(), throttle_time=dt.timedelta(milliseconds=1_500))

    context = context_of(image_of({"orders": [2]}), lambda *_: answer)
    with pytest.raises(Problem) as caught:
        await record_reader._ask(context, TopicPartition("orders", 0), FETCH, {}, 12, 5.0)
    assert (caught.value.status, caught.value.error) == (503, "too-busy")
    assert "1.5 s" in caught.value.hint
