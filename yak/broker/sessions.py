"""Fetch sessions (KIP-227): the broker remembers a client's partitions, and answers with those that changed.

Appends and new high watermarks mark the partition in each session that has it. So an idle session of a thousand
partitions costs nothing. Rules of ids and epochs: Kafka's FetchSession.scala.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.limits import FETCH_PARTITIONS_REMEMBERED_MAX, FETCH_SESSION_KEPT_MS_MIN, FETCH_SESSION_PARTITIONS_MAX

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.connections import Connection

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1


class FetchItem:
    """One partition of a fetch or session: the client's position, and the offsets sent last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "name",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_key",
    )

    def __init__(self, topic_key: str | uuid.UUID | None, name: str | None, request: Any) -> None:
        self.topic_key = topic_key
        self.name = name
        self.index: int = request.partition
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.fetch_offset: int = request.fetch_offset
        self.max_bytes: int = request.partition_max_bytes
        self.current_leader_epoch: int = request.current_leader_epoch
        self.last_fetched_epoch: int = request.last_fetched_epoch

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition by name, None while the topic id is unknown."""
        return None if self.name is None else TopicPartition(self.name, self.index)


class FetchSession:
    """The partitions of one client, and those that may have something new."""

    __slots__ = (
        "connection",
        "delayed_fetch",
        "dirty",
        "epoch",
        "items",
        "last_used_ms",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, connection: Connection, now_ms: int, *, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.connection = connection
        """The connection of its last fetch."""
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_ms = now_ms
        self.items: dict[tuple[Any, int], FetchItem] = {}
        self.dirty: dict[FetchItem, None] = {}
        self.delayed_fetch: Any = None
        """The fetch of this session that waits, or None."""

    def mark_dirty(self, item: FetchItem) -> None:
        """The item may have something new."""
        self.dirty[item] = None

    def next_epoch(self) -> int:
        """The epoch that the next request must carry; it wraps to 1."""
        return 1 if self.epoch >= EPOCH_MAX else self.epoch + 1


class FetchSessions:
    """All sessions by id, least recently used first; bounded in number, and in total partitions.

    A session has only partitions that exist. A client that names another one gets no session: it names the partition in
    each fetch, and each time gets an error (Kafka remembers such partitions).
    """

    def __init__(self, slots_max: int) -> None:
        self._slots_max = slots_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.partitions_count = 0
        """Partitions of all sessions."""
        self.delayed_count = 0
        """Partitions of all delayed fetches without a session."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, broker: Broker, items: list[FetchItem], connection: Connection, now_ms: int, *, uses_topic_ids: bool
    ) -> FetchSession | None:
        """A new session over `items`; None when one of them does not exist, or there is no room."""
        if self._slots_max <= 0 or not items or len(items) > FETCH_SESSION_PARTITIONS_MAX:
            return None
        if not all(_exists(broker, item) for item in items):
            return None
        named = {(item.topic_key, item.index): item for item in items}
        if not self._make_room(broker, connection, 1, len(named), now_ms):
            return None
        dice = broker.dice
        session_id = 1 + dice.below(EPOCH_MAX - 1)
        while session_id in self._sessions:
            session_id = 1 + dice.below(EPOCH_MAX - 1)
        session = FetchSession(session_id, connection, now_ms, uses_topic_ids=uses_topic_ids)
        self._sessions[session_id] = session
        for item in named.values():
            self._add(broker, session, item)
        return session

    def _make_room(self, broker: Broker, connection: Connection, slots: int, partitions: int, now_ms: int) -> bool:
        """Evict sessions that may go, least recently used first, until the new ones fit; returns whether they fit.

        A session may go when its connection is closed or requests the new one, or when it is idle. Kafka evicts only
        idle sessions, but its clients are authenticated and under quotas.
        """
        while (
            len(self._sessions) + slots > self._slots_max
            or self.partitions_count + partitions > FETCH_PARTITIONS_REMEMBERED_MAX
        ):
            for session in self._sessions.values():
                if (
                    not session.connection.is_open
                    or session.connection is connection
                    or now_ms - session.last_used_ms >= FETCH_SESSION_KEPT_MS_MIN
                ):
                    self.close(broker, session.session_id)
                    break
            else:
                return False
        return True

    def may_delay(self, broker: Broker, connection: Connection, partitions: int) -> bool:
        """Whether a fetch of so many partitions may wait: there is room, or the connection is within its fair share."""
        if self.delayed_count + partitions <= FETCH_PARTITIONS_REMEMBERED_MAX:
            return True
        share = FETCH_PARTITIONS_REMEMBERED_MAX // max(1, len(broker.connections))
        return connection.delayed_partitions + partitions <= share

    def delay(self, connection: Connection, partitions: int) -> None:
        """Count the partitions of a fetch that starts to wait; negative when it ends."""
        self.delayed_count += partitions
        connection.delayed_partitions += partitions

    def resume(
        self, session_id: int, epoch: int, connection: Connection, now_ms: int, *, uses_topic_ids: bool
    ) -> FetchSession:
        """The session of an incremental fetch.

        Raises PeerError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise PeerError(ErrorCode.fetch_session_id_not_found, f"fetch session {session_id} is not known")
        if epoch != session.epoch:
            raise PeerError(
                ErrorCode.invalid_fetch_session_epoch, f"fetch session epoch {epoch}, expected {session.epoch}"
            )
        if uses_topic_ids != session.uses_topic_ids:
            raise PeerError(ErrorCode.fetch_session_topic_id_error, "the session mixes topic names and topic ids")
        session.epoch = session.next_epoch()
        session.last_used_ms = now_ms
        session.connection = connection
        self._sessions.move_to_end(session_id)
        return session

    def update(
        self, broker: Broker, session: FetchSession, requested: list[FetchItem], forgotten: list[tuple[Any, int]]
    ) -> None:
        """Add, move and forget partitions as an incremental fetch says.

        Raises PeerError(FETCH_SESSION_ID_NOT_FOUND) when one of them does not exist, or there is no room: the session
        is closed, and the client continues with a full fetch.
        """
        for item in requested:
            key = (item.topic_key, item.index)
            held = session.items.get(key)
            if held is None:
                if (
                    len(session.items) >= FETCH_SESSION_PARTITIONS_MAX
                    or self.partitions_count >= FETCH_PARTITIONS_REMEMBERED_MAX
                    or not _exists(broker, item)
                ):
                    self.close(broker, session.session_id)
                    raise PeerError(
                        ErrorCode.fetch_session_id_not_found, "the session is full, or the partition is unknown"
                    )
                self._add(broker, session, item)
            else:
                held.fetch_offset = item.fetch_offset
                held.max_bytes = item.max_bytes
                held.current_leader_epoch = item.current_leader_epoch
                held.last_fetched_epoch = item.last_fetched_epoch
                session.mark_dirty(held)
        for key in forgotten:
            item_gone = session.items.pop(key, None)
            if item_gone is not None:
                self.partitions_count -= 1
                session.dirty.pop(item_gone, None)
                self._detach(broker, session, item_gone)

    def close(self, broker: Broker, session_id: int) -> None:
        """Close a session; an unknown id is ignored."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions_count -= len(session.items)
            for item in session.items.values():
                self._detach(broker, session, item)

    def attach(self, broker: Broker, session: FetchSession, item: FetchItem) -> None:
        """Subscribe the session to the partition; again after the partition was created again.

        A session that was closed while its last fetch waited is ignored: nothing would ever unsubscribe it.
        """
        if self._sessions.get(session.session_id) is not session:
            return
        topic_partition = item.topic_partition
        partition = None if topic_partition is None else broker.partitions.get(topic_partition)
        if partition is not None:
            if partition.sessions is None:
                partition.sessions = {}
            partition.sessions[session] = item

    def _add(self, broker: Broker, session: FetchSession, item: FetchItem) -> None:
        self.partitions_count += 1
        session.items[item.topic_key, item.index] = item
        session.mark_dirty(item)
        self.attach(broker, session, item)

    def _detach(self, broker: Broker, session: FetchSession, item: FetchItem) -> None:
        topic_partition = item.topic_partition
        partition = None if topic_partition is None else broker.partitions.get(topic_partition)
        if partition is not None and partition.sessions:
            partition.sessions.pop(session, None)


def _exists(broker: Broker, item: FetchItem) -> bool:
    """Whether it is a partition of the cluster, or still one of this broker."""
    topic = None if item.name is None else broker.image.topics.get(item.name)
    if topic is not None and 0 <= item.index < len(topic.partitions):
        return True
    return item.topic_partition in broker.partitions
