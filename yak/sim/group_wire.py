"""Requests of a simulated group member, as kio's structures."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from yak.ids import Offset
from yak.sim.request_fields import build
from yak.sim.wire import request_class

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
GROUP_HEARTBEAT = 68
VERSIONS = {
    OFFSET_COMMIT: 9,
    OFFSET_FETCH: 7,
    FIND_COORDINATOR: 3,
    JOIN: 9,
    HEARTBEAT: 3,
    LEAVE: 3,
    SYNC: 3,
    GROUP_HEARTBEAT: 0,
}
PROTOCOL = "range"
Place = tuple[str, int]


def request(api_key: int, **fields: Any) -> Any:
    """A request's body, in the version that members speak."""
    return build(request_class(api_key, VERSIONS[api_key]), fields)


def ms(value: int) -> dt.timedelta:
    """A time span of a request."""
    return dt.timedelta(milliseconds=value)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription v0."""
    return b"\0\0" + struct.pack(">i", len(topics)) + b"".join(map(_text, topics)) + b"\xff\xff\xff\xff"


def assignment(places: Sequence[Place], token: bytes) -> bytes:
    """ConsumerProtocolAssignment v0; its user data is `token`, which identifies the leader's decision."""
    named = by_topic(places)
    out = b"\0\0" + struct.pack(">i", len(named))
    for topic, partitions in named.items():
        out += _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return out + struct.pack(">i", len(token)) + token


def read_assignment(data: bytes) -> tuple[list[Place], bytes]:
    """The partitions and the token."""
    places: list[Place] = []
    at = 6
    for _ in range(struct.unpack_from(">i", data, 2)[0]):
        (length,) = struct.unpack_from(">h", data, at)
        topic = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = struct.unpack_from(">i", data, at)
        places += [(topic, each) for each in struct.unpack_from(f">{count}i", data, at + 4)]
        at += 4 + 4 * count
    return places, data[at + 4 :]


def by_topic(places: Sequence[Place]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    named: dict[str, list[int]] = {}
    for topic, partition in places:
        named.setdefault(topic, []).append(partition)
    return named


def commit_request(
    group: str,
    member_id: str,
    generation: int,
    instance: str | None,
    offsets: Mapping[Place, Offset],
    metadata: str = "",
) -> Any:
    """OffsetCommit; each offset has the same metadata."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": offsets[topic, partition],
                    "committed_leader_epoch": -1,
                    "committed_metadata": metadata,
                }
                for partition in partitions
            ],
        }
        for topic, partitions in by_topic(list(offsets)).items()
    ]
    return request(
        OFFSET_COMMIT,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        topics=topics,
    )


def fetch_request(group: str, places: Sequence[Place]) -> Any:
    """OffsetFetch."""
    topics = [{"name": topic, "partition_indexes": each} for topic, each in by_topic(places).items()]
    return request(OFFSET_FETCH, group_id=group, topics=topics, require_stable=True)
