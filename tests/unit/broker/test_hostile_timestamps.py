"""Records whose timestamp deltas no clock gives: a producer writes any, and only headers are checked on arrival."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.requests import list_offset
from yak.protocol.record_batch import with_records
from yak.protocol.record_writer import build_batch
from yak.protocol.varint import UVARINT_MAX, append_uvarint

LARGEST, SMALLEST = 2**63 - 1, -(2**68) - 2**40
"""Their sums with a base timestamp have more than 64 bits."""


def varint(value):
    number = (value << 1) ^ (value >> 69)
    out = bytearray()
    append_uvarint(out, number)
    return bytes(out)


def batch(timestamp_ms, *records):
    """A batch of (timestamp delta, key, value) records, whose header has the given timestamp only."""
    parts = []
    for index, (delta, key, value) in enumerate(records):
        body = b"\0" + varint(delta) + varint(index) + varint(len(key)) + key + varint(len(value)) + value + b"\0"
        parts.append(varint(len(body)) + body)
    whole = build_batch([(key, value) for _, key, value in records], timestamp_ms)
    return with_records(whole, b"".join(parts), 0)


@pytest.mark.parametrize("delta", [LARGEST, SMALLEST, UVARINT_MAX << 37])
def test_list_offsets_by_time_answers_where_a_timestamp_has_more_than_64_bits(delta):
    rig = Rig()
    rig.create_topic("orders")
    now_ms = rig.world.now_ms
    made = batch(now_ms, (delta, b"a", b"1"), (0, b"b", b"2"))
    assert rig.produce_raw("orders", made).error_code == ErrorCode.none
    for timestamp_ms in (now_ms, -3):
        found = list_offset(rig, timestamp_ms)
        assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.none, 1, now_ms)


@pytest.mark.parametrize("delta", [LARGEST, SMALLEST])
def test_compaction_continues_where_a_timestamp_has_more_than_64_bits(delta):
    rig = Rig(settings={"log.cleaner.backoff.ms": "100"})
    lag = {"segment_ms": "100", "max_compaction_lag_ms": "1000"}
    rig.create_topic("orders", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", **lag)
    rig.produce_raw("orders", batch(rig.world.now_ms, (0, b"a", b"1"), (delta, b"b", b"2")))
    for _ in range(3):
        rig.run_for(1000)
        rig.produce_raw("orders", batch(rig.world.now_ms, (0, b"a", b"3")))
    rig.run_for(30_000)
    events = [notice.event for notice in rig.node.notices]
    assert "log-compacted" in events
    assert "log-not-compacted" not in events
