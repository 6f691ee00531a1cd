"""What a simulated group member says to its coordinator, and the connection to it: found, opened, and found again after a move."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from yak.ids import Offset
from yak.sim.request_fields import Fields, build
from yak.sim.routing import Connection, Done, View
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import encoded

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 10, 11, 12, 13, 14
ADD_OFFSETS, TXN_OFFSET_COMMIT = 25, 28
GROUP_HEARTBEAT = 68
VERSIONS = {OFFSET_COMMIT: 9, OFFSET_FETCH: 7, JOIN: 9, HEARTBEAT: 3, LEAVE: 3, SYNC: 3, GROUP_HEARTBEAT: 0}
PROTOCOL = "range"
_VERSION_0 = b"\0\0"
Place = tuple[str, int]


def ms(value: int) -> dt.timedelta:
    """A time span of a request."""
    return dt.timedelta(milliseconds=value)


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription v0."""
    return _VERSION_0 + encoded(build(ConsumerProtocolSubscription, {"topics": tuple(topics), "user_data": None}))


def assignment(partitions: Sequence[Place], token: bytes) -> bytes:
    """ConsumerProtocolAssignment v0; its user data is `token`, which identifies the leader's decision."""
    assigned = [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic(partitions).items()]
    return _VERSION_0 + encoded(
        build(ConsumerProtocolAssignment, {"assigned_partitions": assigned, "user_data": token})
    )


def read_assignment(data: bytes) -> tuple[list[Place], bytes]:
    """The partitions and the token."""
    found, _size = entity_reader(ConsumerProtocolAssignment)(data, len(_VERSION_0))
    partitions: list[Place] = [(each.topic, number) for each in found.assigned_partitions for number in each.partitions]
    return partitions, found.user_data or b""


def by_topic(partitions: Sequence[Place]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    named: dict[str, list[int]] = {}
    for topic, partition in partitions:
        named.setdefault(topic, []).append(partition)
    return named


def commit_request(
    group: str,
    member_id: str,
    generation: int,
    instance: str | None,
    offsets: Mapping[Place, Offset],
    metadata: str = "",
) -> Fields:
    """OffsetCommit; each offset has the same metadata."""
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": instance,
        "topics": _commit_topics(offsets, metadata),
    }


def txn_commit_request(
    transactional_id: str,
    producer: tuple[int, int],
    group: str,
    member: tuple[str, int, str | None],
    offsets: Mapping[Place, Offset],
    metadata: str,
) -> Fields:
    """TxnOffsetCommit; `member` is its id, its generation or epoch, and its instance id."""
    return {
        "transactional_id": transactional_id,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "group_id": group,
        "member_id": member[0],
        "generation_id": member[1],
        "group_instance_id": member[2],
        "topics": _commit_topics(offsets, metadata),
    }


def _commit_topics(offsets: Mapping[Place, Offset], metadata: str) -> list[Fields]:
    return [
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


def fetch_request(group: str, partitions: Sequence[Place]) -> Fields:
    """OffsetFetch."""
    topics = [{"name": topic, "partition_indexes": each} for topic, each in by_topic(partitions).items()]
    return {"group_id": group, "topics": topics, "require_stable": True}


def fetch_error(answer: Any) -> ErrorCode:
    """The error of an OffsetFetch: its own, or the first one of a partition, whose offset may be pending."""
    codes = (answer.error_code, *(each.error_code for topic in answer.topics for each in topic.partitions))
    return ErrorCode(next((code for code in codes if code), ErrorCode.none))


def committed_offsets(answer: Any) -> dict[Place, Offset]:
    """The offsets that an OffsetFetch found; -1 where there is none."""
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


MOVED = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})


class CoordinatorLink:
    """One connection to the current coordinator of a group, or of a transactional id."""

    def __init__(self, view: View, rng: SeededRandom, key: str, *, is_group: bool = True) -> None:
        self._cluster = view.cluster
        self._rng = rng
        self._key, self._is_group = key, is_group
        self._connection: Connection | None = None
        self._finder: Connection | None = None

    @property
    def node_id(self) -> int:
        """The broker that it is connected to; -1 if none."""
        return -1 if self._connection is None else self._connection.node_id

    def send(self, api_key: int, fields: Fields, done: Done, version: int | None = None) -> None:
        """Send one request; `done` gets the response body, or None without a coordinator or a response."""
        connection = self._connection
        spoken = VERSIONS[api_key] if version is None else version
        if connection is not None and connection.is_open:
            connection.send(api_key, spoken, fields, done)
            return

        def found(answer: Any | None) -> None:
            self.close()
            coordinator = answer if answer is None or self._is_group else answer.coordinators[0]
            if coordinator is None or coordinator.error_code != ErrorCode.none:
                done(None)
                return
            self._connection = Connection(self._cluster, coordinator.node_id)
            self._connection.send(api_key, spoken, fields, done)

        if self._finder is not None:
            self._finder.close()
        finder = self._finder = Connection(self._cluster, self._rng.choice(self._cluster.nodes).node_id)
        if self._is_group:
            finder.send(FIND_COORDINATOR, 3, {"key": self._key, "key_type": 0}, found)
        else:
            finder.send(FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [self._key]}, found)

    def note_answer(self, code: ErrorCode) -> None:
        """Handle a response's error code: it may mean that the coordinator has moved."""
        if code in MOVED:
            self.close()

    def leave(self) -> None:
        """Close the connection to the coordinator: the next request finds it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close the connections; their pending requests get no response."""
        for connection in (self._connection, self._finder):
            if connection is not None:
                connection.close()
        self._connection = self._finder = None
