"""How clients of a cluster find leaders: one shared view of the metadata, and channels that follow it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from yak.sim.cluster import CLIENTS, Cluster
from yak.sim.network import Dial, Line
from yak.sim.node import PORT
from yak.sim.request_fields import Fields, frame_of
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import read_answer

METADATA, METADATA_VERSION = 3, 12
ANSWER_WAIT_US = 4_000_000
REFRESH_US = 60_000
_PRODUCE, _FETCH, _LIST_OFFSETS = 0, 1, 2
STALE = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.replica_not_available,
    }
)
Done = Callable[[Any | None], None]


class Connection:
    """One connection to one broker; responses match by correlation id, and all pending requests fail when it ends."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.node_id = node_id
        self.client_id = "sim"
        self.is_open = True
        self._world = cluster.world
        self._correlation = 0
        self._unsent: list[bytes] = []
        self._line: Line | None = None
        self._pending: dict[int, tuple[int, int, int, Done]] = {}
        self._watched = False
        self._dial: Dial = cluster.network.connect(CLIENTS, cluster.node(node_id).host, PORT, self)

    @property
    def is_busy(self) -> bool:
        return bool(self._pending)

    @property
    def connection_id(self) -> int | None:
        """The broker's id of this connection; None before it accepted, and after the end."""
        return self._line.connection_id if self._line is not None and self.is_open else None

    def send(self, api_key: int, version: int, fields: Fields, done: Done) -> None:
        """Send a request; `done` gets the response body, or None after a lost connection or a timeout."""
        self._correlation += 1
        self._pending[self._correlation] = (api_key, version, self._world.now_us, done)
        self._send(api_key, version, fields)
        self._watch()

    def send_oneway(self, api_key: int, version: int, fields: Fields) -> None:
        """Send a request that gets no response."""
        self._correlation += 1
        self._send(api_key, version, fields)

    def _send(self, api_key: int, version: int, fields: Fields) -> None:
        frame = frame_of(api_key, version, self._correlation, fields, self.client_id)
        if self._line is None:
            self._unsent.append(frame)
        else:
            self._line.send(frame)

    def connected(self, line: Line) -> None:
        self._line = line
        for frame in self._unsent:
            line.send(frame)
        self._unsent.clear()

    def answered(self, frames: list[bytes]) -> None:
        for frame in frames:
            held = self._pending.pop(int.from_bytes(frame[4:8], "big"), None)
            if held is not None:
                api_key, version, _sent_us, done = held
                done(read_answer(api_key, version, frame)[1])

    def lost(self, how: str, reason: str) -> None:  # noqa: ARG002
        self.is_open = False
        pending, self._pending = self._pending, {}
        for _api_key, _version, _sent_us, done in pending.values():
            done(None)

    def close(self) -> None:
        if self.is_open:
            self._dial.close()
            self.lost("closed", "")

    def _watch(self) -> None:
        """One timer per connection: the oldest request must get its response in time."""
        if not self._watched and self._pending:
            self._watched = True
            oldest_us = next(iter(self._pending.values()))[2]
            self._world.after(oldest_us + ANSWER_WAIT_US - self._world.now_us, self._check_timeout)

    def _check_timeout(self) -> None:
        self._watched = False
        if not self._pending:
            return
        if self._world.now_us - next(iter(self._pending.values()))[2] >= ANSWER_WAIT_US:
            self.close()
        else:
            self._watch()


class Leader(NamedTuple):
    """The leader of a partition in the clients' view."""

    node_id: int
    epoch: int


class View:
    """The clients' metadata: refreshed on demand, from any broker, and never replaced by older epochs."""

    def __init__(self, cluster: Cluster, rng: SeededRandom) -> None:
        self.cluster = cluster
        self.leaders: dict[tuple[str, int], Leader] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.stored_ids: dict[str, str] = {}
        """Topic ids as text, as the metadata store has them."""
        self._rng = rng
        self._connection: Connection | None = None
        self._waiting: list[Callable[[], None]] = []
        self._is_asking = False

    def refresh(self, then: Callable[[], None]) -> None:
        """Request the metadata; `then` is called after the response or a failure."""
        self._waiting.append(then)
        if not self._is_asking:
            self._is_asking = True
            self.cluster.world.after(self._rng.between(0, REFRESH_US), self._ask)

    def _ask(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_open or self._rng.chance(20):
            if connection is not None:
                connection.close()
            connection = self._connection = Connection(self.cluster, self._rng.choice(self.cluster.nodes).node_id)
        fields = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        connection.send(METADATA, METADATA_VERSION, fields, self._on_answer)

    def _on_answer(self, answer: Any | None) -> None:
        self._is_asking = False
        for topic in () if answer is None else answer.topics:
            if topic.error_code != ErrorCode.none:
                continue
            if self.topic_ids.get(topic.name) != topic.topic_id:
                self.topic_ids[topic.name], self.stored_ids[topic.name] = topic.topic_id, str(topic.topic_id)
                for key in [key for key in self.leaders if key[0] == topic.name]:
                    del self.leaders[key]
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                known = self.leaders.get(key)
                if known is None or partition.leader_epoch >= known.epoch:
                    self.leaders[key] = Leader(partition.leader_id, partition.leader_epoch)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()


class Channel:
    """Requests for one partition, to its leader; or to any broker, for requests without a partition."""

    def __init__(self, view: View, rng: SeededRandom, partition: tuple[str, int] | None = None) -> None:
        self.world = view.cluster.world
        self.rng = rng
        self.view = view
        self._partition = partition
        self._connection: Connection | None = None
        self._is_stale = False
        self._is_refreshing = False

    def send(self, api_key: int, version: int, fields: Fields, done: Done) -> None:
        """Send to the leader in the view; `done` gets the response body, or None."""
        target = self._target()
        connection = self._connection
        if connection is not None and connection.is_busy and connection.node_id != target:
            # requests to the old leader come first, so later ones to the new leader may not overtake them
            connection.close()
            self._is_stale = True
        if target is None or self._is_stale or self._is_refreshing:
            self._refresh(done)
            return
        if connection is None or not connection.is_open or connection.node_id != target:
            if connection is not None:
                connection.close()
            connection = self._connection = Connection(self.view.cluster, target)

        def answered(answer: Any | None) -> None:
            if answer is None or _has_stale_error(api_key, answer):
                self._is_stale = self._partition is not None
            done(answer)

        connection.send(api_key, version, fields, answered)

    def send_oneway(self, api_key: int, version: int, fields: Fields) -> None:
        """Send a request that gets no response (acks=0); it is lost silently if no leader is known.

        A broker that refuses it closes the connection: then the view is refreshed.
        """
        if self._is_refreshing:
            return
        target, connection = self._target(), self._connection
        is_closed = connection is not None and not connection.is_open
        if target is None or self._is_stale or is_closed:
            self._connection = None if is_closed else connection
            self._refresh(lambda _answer: None)
            return
        if connection is None or connection.node_id != target:
            self.close()
            connection = self._connection = Connection(self.view.cluster, target)
        connection.send_oneway(api_key, version, fields)

    def close(self) -> None:
        """Close the connection; its pending requests fail."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _refresh(self, done: Done) -> None:
        """Fail this request, and all others until the view is refreshed."""

        def refreshed() -> None:
            self._is_stale = self._is_refreshing = False
            done(None)

        self._is_refreshing = True
        self.view.refresh(refreshed)

    @property
    def leader_id(self) -> int | None:
        """The partition's leader in the view, which gets the next request."""
        leader = None if self._partition is None else self.view.leaders.get(self._partition)
        return None if leader is None or leader.node_id < 0 else leader.node_id

    def _target(self) -> int | None:
        if self._partition is None:
            if self._connection is not None and self._connection.is_open and not self.rng.chance(30):
                return self._connection.node_id
            return self.rng.choice(self.view.cluster.nodes).node_id
        return self.leader_id


def _has_stale_error(api_key: int, answer: Any) -> bool:
    if api_key == _PRODUCE:
        return answer.responses[0].partition_responses[0].error_code in STALE
    if api_key == _FETCH:
        return answer.error_code in STALE or any(
            partition.error_code in STALE for topic in answer.responses for partition in topic.partitions
        )
    if api_key == _LIST_OFFSETS:
        return answer.topics[0].partitions[0].error_code in STALE
    return False
