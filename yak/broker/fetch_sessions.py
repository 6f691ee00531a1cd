"""Fetch sessions (KIP-227): the broker remembers the partitions of a reader, and answers with those that changed.

A consumer's session is notified of commits, a follower's session of appends. So an idle session of a thousand partitions
costs nothing. Rules of ids and epochs: Kafka's FetchSession.scala.

A follower's session belongs to one connection. After an answer that the follower must act on (records, an error, a
divergence), a partition is not answered again until the follower names it. So the follower may send its next request
while one waits, and nothing is sent twice. An append completes a waiting fetch. A high watermark alone travels with the
next records, or by itself after `WATERMARK_WAIT_MS`.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicPartition
from yak.limits import FETCH_PARTITIONS_REMEMBERED_MAX, FETCH_SESSION_KEPT_MS_MIN, FETCH_SESSION_PARTITIONS_MAX
from yak.ports.disk import Buffer
from yak.protocol.hot_pieces import id_bytes
from yak.protocol.repeated_fetch import FetchPattern, partition_name
from yak.replication.partition import Partition
from yak.replication.throttle import Throttle

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.call import Call
    from yak.broker.connections import Connection
    from yak.broker.delayed_fetch import DelayedFetch
    from yak.cluster.image import Image

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
WATERMARK_WAIT_MS = 50
THROTTLED_PAUSE_MS = 20


class FetchItem:
    """One partition of a fetch or session: the reader's position, and the offsets sent last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_key",
    )

    topic_key: Any
    """The topic as an answer names it: its name, its id, or the id's bytes."""
    index: int
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch
    max_bytes: int
    sent_high_watermark: Offset
    sent_log_start_offset: Offset


class ConsumerItem(FetchItem):
    """One partition that a consumer fetches."""

    __slots__ = ("name",)

    def __init__(self, topic_key: str | uuid.UUID | None, name: str | None, request: Any) -> None:
        self.topic_key = topic_key
        self.name = name
        self.index = request.partition
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = request.current_leader_epoch
        self.last_fetched_epoch = request.last_fetched_epoch

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition by name, None while the topic id is unknown."""
        return None if self.name is None else TopicPartition(self.name, self.index)


class FollowerItem(FetchItem):
    """One partition of one follower's session."""

    __slots__ = (
        "asks_again",
        "given_offset",
        "is_fresh",
        "log_start_offset",
        "partition",
        "topic_id",
        "waits_for_follower",
    )

    def __init__(self, topic_id: uuid.UUID, index: int) -> None:
        self.topic_id = topic_id
        self.topic_key = id_bytes(topic_id)
        self.index = index
        self.partition: Partition | None = None
        self.fetch_offset = 0
        self.last_fetched_epoch = -1
        self.current_leader_epoch = -1
        self.log_start_offset = -1
        self.max_bytes = 0
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.is_fresh = True
        """Named by the follower since the last read: its fetch offset is not counted yet."""
        self.waits_for_follower = False
        """The last answer needs an action of the follower; no further one until it names the partition again."""
        self.given_offset = -1
        """Base offset of the records that were sent last."""
        self.asks_again = False
        """The follower fetches the same records again: it may have refused them as damaged."""

    def ask(
        self,
        fetch_offset: Offset,
        last_fetched_epoch: LeaderEpoch,
        current_leader_epoch: LeaderEpoch,
        log_start_offset: Offset,
        max_bytes: int,
    ) -> None:
        """Take a partition of the follower's request: its fetch position and limits."""
        self.asks_again = fetch_offset == self.given_offset
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.is_fresh, self.waits_for_follower = True, False


class FetchSession:
    """The partitions of one reader, and those that may have something new."""

    __slots__ = ("connection", "delayed_fetch", "dirty", "epoch", "items", "session_id")

    dirty: dict[Any, None]
    items: dict[tuple[Any, int], Any]

    def __init__(self, session_id: int, connection: Connection) -> None:
        self.session_id = session_id
        self.connection = connection
        """The connection of its last fetch."""
        self.epoch = 1
        self.items = {}
        self.dirty = {}
        self.delayed_fetch: DelayedFetch | None = None
        """The fetch of this session that waits, or None."""

    def next_epoch(self) -> int:
        """The epoch that the next request must carry; it wraps to 1."""
        return 1 if self.epoch >= EPOCH_MAX else self.epoch + 1


class ConsumerSession(FetchSession):
    """The partitions of one consumer."""

    __slots__ = ("last_used_ms", "uses_topic_ids")

    items: dict[tuple[Any, int], ConsumerItem]
    dirty: dict[ConsumerItem, None]

    def __init__(self, session_id: int, connection: Connection, now_ms: int, *, uses_topic_ids: bool) -> None:
        super().__init__(session_id, connection)
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms

    def mark_dirty(self, item: ConsumerItem) -> None:
        """The item may have something new."""
        self.dirty[item] = None


class FollowerSession(FetchSession):
    """The partitions that one follower fetches over one connection."""

    __slots__ = (
        "broker_epoch",
        "image",
        "may_learn",
        "named",
        "node_id",
        "pattern",
        "request_bytes_max",
        "request_wait_ms",
    )

    items: dict[tuple[uuid.UUID, int], FollowerItem]
    dirty: dict[FollowerItem, None]

    def __init__(self, session_id: int, node_id: NodeId, broker_epoch: BrokerEpoch, connection: Connection) -> None:
        super().__init__(session_id, connection)
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.request_wait_ms = self.request_bytes_max = 0
        """Longest wait and largest answer, from the last request."""
        self.image: Image | None = None
        """The image in which the last full check accepted the follower."""
        self.pattern: FetchPattern | None = None
        """The byte pattern of this session's requests for one partition."""
        self.may_learn = False
        """Whether the current request belongs to this session and there is no pattern yet."""
        self.named: dict[bytes, FollowerItem] = {}
        """The items by their bytes in such a request."""

    def add(self, topic_id: uuid.UUID, index: int) -> FollowerItem:
        """Add a partition that the follower names for the first time."""
        item = self.items[topic_id, index] = FollowerItem(topic_id, index)
        self.named[partition_name(topic_id, index)] = item
        return item

    def remove(self, topic_id: uuid.UUID, index: int) -> FollowerItem | None:
        """Remove a partition that the follower forgets; None when it is not in the session."""
        self.named.pop(partition_name(topic_id, index), None)
        return self.items.pop((topic_id, index), None)

    def learn(self, frame: Buffer) -> None:
        """Take the current, accepted request as the pattern of later ones."""
        self.may_learn = False
        self.pattern = FetchPattern.of(frame)

    def mark_dirty(self, item: FollowerItem) -> None:
        """Mark a partition that may have something new for the follower."""
        if not item.waits_for_follower:
            self.dirty[item] = None


class ConsumerSessions:
    """All sessions of consumers by id, least recently used first; bounded in number, and in total partitions.

    A session has only partitions that exist. A client that names another one gets no session: it names the partition in
    each fetch, and each time gets an error (Kafka remembers such partitions).
    """

    def __init__(self, slots_max: int) -> None:
        self._slots_max = slots_max
        self._sessions: OrderedDict[int, ConsumerSession] = OrderedDict()
        self.partitions_count = 0
        """Partitions of all sessions."""
        self.delayed_count = 0
        """Partitions of all delayed fetches without a session."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, broker: Broker, items: list[ConsumerItem], connection: Connection, now_ms: int, *, uses_topic_ids: bool
    ) -> ConsumerSession | None:
        """A new session over `items`; None when one of them does not exist, or there is no room."""
        if self._slots_max <= 0 or not items or len(items) > FETCH_SESSION_PARTITIONS_MAX:
            return None
        if not all(_exists(broker, item) for item in items):
            return None
        named = {(item.topic_key, item.index): item for item in items}
        if not self._make_room(broker, connection, 1, len(named), now_ms):
            return None
        rng = broker.rng
        session_id = 1 + rng.below(EPOCH_MAX - 1)
        while session_id in self._sessions:
            session_id = 1 + rng.below(EPOCH_MAX - 1)
        session = ConsumerSession(session_id, connection, now_ms, uses_topic_ids=uses_topic_ids)
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
    ) -> ConsumerSession:
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
        self, broker: Broker, session: ConsumerSession, requested: list[ConsumerItem], forgotten: list[tuple[Any, int]]
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

    def attach(self, broker: Broker, session: ConsumerSession, item: ConsumerItem) -> None:
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

    def _add(self, broker: Broker, session: ConsumerSession, item: ConsumerItem) -> None:
        self.partitions_count += 1
        session.items[item.topic_key, item.index] = item
        session.mark_dirty(item)
        self.attach(broker, session, item)

    def _detach(self, broker: Broker, session: ConsumerSession, item: ConsumerItem) -> None:
        topic_partition = item.topic_partition
        partition = None if topic_partition is None else broker.partitions.get(topic_partition)
        if partition is not None and partition.sessions:
            partition.sessions.pop(session, None)


class FollowerSessions:
    """The sessions of all followers that fetch from this broker, by node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[NodeId, FollowerSession] = {}
        self._next_session_id = 1
        self.heard_ms: dict[NodeId, int] = {}
        """When each follower last fetched."""
        self._appended: dict[FollowerSession, None] = {}
        self._watermark_due: OrderedDict[FollowerSession, int] = OrderedDict()
        self.throttle = Throttle(broker.context, broker.node_id, "leader.replication.throttled.rate")

    # -------------------------------------------------------------------------------------------------- wake-ups

    def appended(self, partition: Partition) -> None:
        """Mark the partition for its followers after an append; their fetches are answered at the end of the turn."""
        if not partition.is_watched:
            self._broker.isr_changes.watch(partition)
        for session, item in (partition.replica_sessions or {}).items():
            if not item.waits_for_follower:
                session.dirty[item] = None
                if session.delayed_fetch is not None:
                    self._appended[session] = None

    def watermark_moved(self, partition: Partition) -> None:
        """The high watermark or the log start moved: followers get it within `WATERMARK_WAIT_MS`."""
        for session, item in (partition.replica_sessions or {}).items():
            session.mark_dirty(item)
            if session.delayed_fetch is not None and session not in self._watermark_due:
                self.delay_watermark(session)

    def watermark_sent(self, session: FollowerSession) -> None:
        """An answer of this session carries its high watermarks: cancel the separate one."""
        self._watermark_due.pop(session, None)

    def delay_watermark(self, session: FollowerSession) -> None:
        """The session's fetch waits, and there is a high watermark to send: send it within `WATERMARK_WAIT_MS`."""
        broker = self._broker
        due_ms = self._watermark_due[session] = broker.now_ms + WATERMARK_WAIT_MS
        broker.timers.arm_at_the_latest(self, due_ms, self._send_watermarks)

    def delay_throttled(self, session: FollowerSession, item: FollowerItem) -> None:
        """The throttle delays the partition: read it again after a pause."""
        broker = self._broker
        due_ms = broker.now_ms + THROTTLED_PAUSE_MS
        broker.timers.arm_at_the_latest((session, item), due_ms, partial(self._read_again, session, item))

    def changed(self, partition: Partition) -> None:
        """The leader, its epoch, or the log changed: complete the waiting fetches, which read again."""
        for session, item in (partition.replica_sessions or {}).items():
            session.mark_dirty(item)
            if session.delayed_fetch is not None:
                self._appended[session] = None

    def wake(self) -> None:
        """At the end of the turn, answer the waiting fetches of sessions that were marked."""
        while self._appended:
            appended, self._appended = self._appended, {}
            for session in appended:
                self._complete_fetch(session)

    def _send_watermarks(self) -> None:
        broker = self._broker
        while self._watermark_due:
            session = next(iter(self._watermark_due))
            due_ms = self._watermark_due[session]
            if due_ms > broker.now_ms:
                broker.timers.arm(self, due_ms, self._send_watermarks)
                break
            del self._watermark_due[session]
            self._complete_fetch(session)

    def _read_again(self, session: FollowerSession, item: FollowerItem) -> None:
        session.mark_dirty(item)
        self._complete_fetch(session)

    def _complete_fetch(self, session: FollowerSession) -> None:
        if session.delayed_fetch is not None:
            self._broker.purgatory.complete(session.delayed_fetch)

    # ------------------------------------------------------------------------------------------------- sessions

    def forget_connection(self, connection: Connection) -> None:
        """Close the sessions of a closed connection."""
        for session in [held for held in self._sessions.values() if held.connection is connection]:
            self._close(session)

    def request_full_fetches(self, partition: Partition) -> None:
        """End the sessions of followers that left the ISR on their own request but still fetch; a new full fetch lets
        them rejoin.

        A request to leave may be executed late, when the broker is in sync again. A partition without writes would not
        be named again in the old session.
        """
        for session in list(partition.replica_sessions or ()):
            state = partition.replica_states.get(session.node_id)
            if state is not None and state.has_left:
                self._close(session)

    def session_of(self, call: Call) -> FollowerSession | None:
        """The session of a follower's fetch, with the partitions that it names; None when the follower ends it.

        Raises PeerError: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, STALE_BROKER_EPOCH,
        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH.
        """
        request = call.request
        self._check_sender(call.connection, request)
        node_id, broker_epoch = request.replica_id, request.replica_epoch
        self.heard_ms[node_id] = self._broker.now_ms
        session = self._sessions.get(node_id)
        if request.session_epoch == INITIAL_EPOCH:
            if session is not None:
                self._note_replaced(session, call.connection)
                self._close(session)
            session = FollowerSession(self._next_session_id, node_id, broker_epoch, call.connection)
            self._next_session_id = self._next_session_id % EPOCH_MAX + 1
            self._sessions[node_id] = session
            call.connection.replica_session = session
        elif session is None or session.session_id != request.session_id or session.connection is not call.connection:
            raise PeerError(ErrorCode.fetch_session_id_not_found)
        elif request.session_epoch == FINAL_EPOCH:
            self._close(session)
            return None
        elif request.session_epoch != session.epoch:
            raise PeerError(ErrorCode.invalid_fetch_session_epoch)
        else:
            session.epoch = session.next_epoch()
            session.may_learn = session.pattern is None
        session.image = self._broker.image
        session.request_wait_ms, session.request_bytes_max = max(0, request.max_wait_ms), request.max_bytes
        self._complete_fetch(session)
        self._update(session, request)
        return session

    def repeated(self, session: FollowerSession, frame: Buffer) -> int | None:
        """Take a Fetch that differs from the last one in one partition only; None for any other frame.

        Returns its correlation id. All checks of `session_of` still hold: the other bytes are the same, and so is the
        cluster's image.
        """
        found = None if session.pattern is None else session.pattern.read(frame)
        if found is None:
            return None
        broker = self._broker
        correlation_id, epoch, name, leader_epoch, offset, last_epoch, start_offset, bytes_max = found
        item = session.named.get(name)
        if item is None or epoch != session.epoch or session.image is not broker.image:
            return None
        partition = item.partition
        if partition is None or broker.partitions.get(partition.topic_partition) is not partition:
            return None
        self.heard_ms[session.node_id] = broker.now_ms
        session.epoch = epoch % EPOCH_MAX + 1
        if session.delayed_fetch is not None:
            broker.purgatory.complete(session.delayed_fetch)
        item.ask(offset, last_epoch, leader_epoch, start_offset, bytes_max)
        session.dirty[item] = None
        return correlation_id

    def _check_sender(self, connection: Connection, request: Any) -> None:
        """Raise PeerError when the sender is no valid follower."""
        image, proven = self._broker.image, connection.proven
        if proven is None or request.replica_id != proven.node_id:
            raise PeerError(ErrorCode.cluster_authorization_failed)
        if request.cluster_id and image.cluster_id and request.cluster_id != image.cluster_id:
            raise PeerError(ErrorCode.inconsistent_cluster_id)
        known = image.brokers.get(request.replica_id)
        if known is None or known.state is BrokerState.CLOSED:
            raise PeerError(ErrorCode.stale_broker_epoch)
        present = (known.broker_epoch, known.boot_id)
        # The registration is not in our image yet, or is over.
        is_present = present == (proven.broker_epoch, proven.boot_id) and request.replica_epoch == known.broker_epoch
        if not is_present:
            raise PeerError(ErrorCode.stale_broker_epoch)

    def _note_replaced(self, session: FollowerSession, connection: Connection) -> None:
        """Log that a follower reconnected before its old connection was seen to end."""
        if session.connection is not connection:
            self._broker.notice(
                "info",
                "replica-session-replaced",
                follower=session.node_id,
                broker_epoch=session.broker_epoch,
                peer=connection.peer,
                replaced_peer=session.connection.peer,
            )

    def _update(self, session: FollowerSession, request: Any) -> None:
        broker = self._broker
        for topic in request.topics:
            name = broker.topic_name(topic.topic_id)
            for wanted in topic.partitions:
                key = (topic.topic_id, wanted.partition)
                item = session.items.get(key)
                if item is None:
                    item = session.add(*key)
                item.ask(
                    wanted.fetch_offset,
                    wanted.last_fetched_epoch,
                    wanted.current_leader_epoch,
                    wanted.log_start_offset,
                    wanted.partition_max_bytes,
                )
                partition = None if name is None else broker.partitions.get(TopicPartition(name, wanted.partition))
                self._attach(session, item, partition)
                session.dirty[item] = None
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                gone = session.remove(topic.topic_id, index)
                if gone is not None:
                    self._drop(session, gone)

    def _attach(self, session: FollowerSession, item: FollowerItem, partition: Partition | None) -> None:
        if partition is not None and partition.topic_id != item.topic_id:
            partition = None
        if item.partition is partition:
            return
        self._detach(session, item)
        item.partition = partition
        if partition is not None:
            if partition.replica_sessions is None:
                partition.replica_sessions = {}
            partition.replica_sessions[session] = item

    def _detach(self, session: FollowerSession, item: FollowerItem) -> None:
        if item.partition is not None and item.partition.replica_sessions:
            item.partition.replica_sessions.pop(session, None)
        item.partition = None

    def _drop(self, session: FollowerSession, item: FollowerItem) -> None:
        session.dirty.pop(item, None)
        self._broker.timers.disarm((session, item))
        self._detach(session, item)

    def _close(self, session: FollowerSession) -> None:
        if self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
        if session.connection.replica_session is session:
            session.connection.replica_session = None
        self._appended.pop(session, None)
        self._watermark_due.pop(session, None)
        for item in session.items.values():
            self._drop(session, item)
        session.items.clear()
        session.named.clear()
        self._complete_fetch(session)


def _exists(broker: Broker, item: ConsumerItem) -> bool:
    """Whether it is a partition of the cluster, or still one of this broker."""
    topic = None if item.name is None else broker.image.topics.get(item.name)
    if topic is not None and 0 <= item.index < len(topic.partitions):
        return True
    return item.topic_partition in broker.partitions
