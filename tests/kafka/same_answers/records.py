"""Produce requests with odd batches of all codecs, and records that no client writes; and what the log has afterwards.

Known differences: Kafka stores wrong offset deltas, corrects maximum timestamps, takes any negative length of a key or value
for null, answers unknown codecs with UNKNOWN_SERVER_ERROR, and does not answer records that are null.
"""

from __future__ import annotations

import random
import struct
import uuid
from typing import Any, Final

from tests.kafka.same_answers.data import T0, create, fetch
from tests.kafka.same_answers.engine import Scenario, Side
from yak.protocol.compression import compress
from yak.protocol.record_batch import compute_crc, with_records
from yak.protocol.record_writer import build_batch

_HEADER_FIELDS: Final = {
    "attributes": (21, ">h", (0x08, 0x20, 0x40, 0x80, 0x100)),
    "last_offset_delta": (23, ">i", (0, 1, 2, 5, -1)),
    "base_timestamp": (27, ">q", (0, T0 + 10**11, T0 - 10**11)),
    "producer_id": (43, ">q", (5,)),
    "producer_epoch": (51, ">h", (0, 5)),
    "base_sequence": (53, ">i", (0, -1, 3)),
    "records_count": (57, ">i", (0, 1, 2, 5, -1)),
}
_ODD: Final = ["attributes", "timestamp", "length", "key", "value", "headers", "tail"]
_OLD: Final = struct.pack(">qi", 0, 20) + struct.pack(">IbbQ", 0, 1, 0, T0) + b"\xff\xff\xff\xff"


def _record(rng: random.Random, index: int, odd: str | None) -> bytes:
    """A record, with one odd field if it is named."""
    key, value = rng.choice([None, b"k"]), rng.choice([None, b"v", b""])
    body = bytes([rng.choice([1, 0xFF]) if odd == "attributes" else 0])
    body += _zigzag(rng.choice([5, -5]) if odd == "timestamp" else 0) + _zigzag(index)
    body += _zigzag(100) if odd == "key" else _bytes(key)
    body += _zigzag(100) if odd == "value" else _bytes(value)
    headers = rng.choice([[], [], [(b"h", b"x")], [(b"", None)], [(b"h", None), (b"h", b"")]])
    body += _zigzag(rng.choice([-1, 9]) if odd == "headers" else len(headers))
    body += b"".join(_zigzag(len(name)) + name + _bytes(text) for name, text in headers)
    body += b"\0" if odd == "tail" else b""
    return _zigzag(len(body) + (rng.choice([1, -1]) if odd == "length" else 0)) + body


def _zigzag(value: int) -> bytes:
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def _bytes(value: bytes | None) -> bytes:
    return _zigzag(-1) if value is None else _zigzag(len(value)) + value


def records(side: Side, rng: random.Random) -> None:
    """One topic; a batch is odd in its header, in a record, in its codec or in its place."""
    side.hidden = frozenset(["log_append_time", "timestamp", "log_start_offset", "max_timestamp"])
    configs: dict[str, str] = rng.choice(
        [
            {},
            {"message_timestamp_type": "LogAppendTime"},
            {"cleanup_policy": "compact"},
            {"compression_type": rng.choice(["zstd", "snappy", "lz4", "uncompressed"])},
            {"max_message_bytes": "150"},
            {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "1000"},
        ]
    )
    if configs.get("message_timestamp_type"):
        side.hidden |= {"base_timestamp"}
    topic = create(side, "odd", **configs)
    found = side.once(3, 12, topics=[{"name": topic, "topic_id": None}])["topics"][0]
    for _ in range(40):
        count, codec = rng.randint(1, 3), rng.choice([0, 0, 1, 2, 3, 4])
        odd = [None if codec else rng.choice([None] * 8 + _ODD) for _ in range(count)]
        body = b"".join(_record(rng, index, each) for index, each in enumerate(odd))
        batch = with_records(
            build_batch([(b"k", b"v")], T0, producer_epoch=0), compress(codec, body) if codec else body, codec
        )
        changed = bytearray(batch)
        struct.pack_into(">i", changed, 57, count)
        fields = [
            name for name in sorted(_HEADER_FIELDS) if not codec or name not in ("last_offset_delta", "records_count")
        ]
        names = rng.sample(fields, rng.choice([0, 0, 1, 1, 2]))
        values = {name: rng.choice(_HEADER_FIELDS[name][2]) for name in names}
        for name, value in values.items():
            struct.pack_into(_HEADER_FIELDS[name][1], changed, _HEADER_FIELDS[name][0], value)
        if "base_timestamp" in values:
            struct.pack_into(">q", changed, 35, values["base_timestamp"])
        struct.pack_into(">I", changed, 17, compute_crc(changed))
        one = bytes(changed)
        shape = rng.choice(["one"] * 12 + (["old"] if codec == 4 else ["two", "old"]))
        given = {"one": one, "two": one + batch, "old": _OLD}[shape]
        version, acks = rng.choice([3, 6, 7, 8, 9, 11, 12, 13]), rng.choice([-1, -1, 1])
        place = {"topic_id": found["topic_id"]} if version >= 13 else {"name": topic}
        if version >= 13 and rng.random() < 0.1:
            place = {"topic_id": uuid.UUID(int=rng.choice([0, 9]))}
        data: list[dict[str, Any]] = [{**place, "partition_data": [{"index": 0, "records": given}]}]
        note = f"{odd} {body.hex()} codec {codec} {values} {shape} acks {acks}"
        side.ask(0, version, note=note, transactional_id=None, acks=acks, topic_data=data)
    fetch(side, topic, 0)


SCENARIOS: Final[tuple[Scenario, ...]] = (records,)
