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
from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from yak.cluster.image import Image
from yak.cluster.records import BrokerState
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicPartition
from yak.limits import (
    FETCH_PARTITIONS_REMEMBERED_MAX,
    FETCH_SESSION_EVICTION_MS_MIN,
    FETCH_SESSION_PARTITIONS_MAX,
    TOPIC_NAME_LENGTH_MAX,
)
from yak.ports.disk import Buffer
from yak.ports.random_source import RandomSource
from yak.protocol.fetch_answer import DivergingEpoch, FetchPartitionAnswer
from yak.protocol.hot_pieces import TopicKey, id_bytes
from yak.protocol.peer_proof import Incarnation
from yak.protocol.repeated_fetch import FetchPattern, partition_name
from yak.replication.isr import IsrChanges, may_join
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.storage.log import Log

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
WATERMARK_WAIT_MS = 50
THROTTLED_PAUSE_MS = 20


class FetchConnection(Protocol):
    """A connection as its fetch sessions see it (`yak.broker.connections.Connection`)."""

    is_open: bool
    peer: str
    proven: Incarnation | None
    delayed_partitions: int
    replica_session: FollowerSession | None


class WaitingFetch(Protocol):
    """The fetch of a session that waits (`yak.broker.fetches.DelayedFetch`)."""

    def complete(self) -> None:
        """Read again, and answer."""


class WaitingConsumerFetch(WaitingFetch, Protocol):
    """The fetch of a consumer that waits for bytes."""

    def note_growth(self, partition: Partition, item: ConsumerItem, grown_bytes: int) -> None:
        """Note that a partition has `grown_bytes` more committed bytes, or changed; complete the fetch if it has
        enough."""


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

    topic_key: TopicKey
    """The topic as an answer names it: its name, its id, or the id's bytes."""
    index: int
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch
    max_bytes: int
    sent_high_watermark: Offset
    sent_log_start_offset: Offset

    def diverging_epoch(self, log: Log) -> DivergingEpoch | None:
        """The largest epoch that both logs may share, if they diverge before the fetch offset (KIP-595); else None.

        Its epoch is negative when the reader's last epoch is later than all of this log.
        """
        epoch, end_offset = log.end_offset_for_epoch(self.last_fetched_epoch)
        if epoch >= self.last_fetched_epoch and end_offset >= self.fetch_offset:
            return None
        return DivergingEpoch(epoch, end_offset)


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
        "given_offset",
        "is_fresh",
        "is_repeated",
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
        self.log_start_offset: Offset = -1
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.is_fresh = True
        """Named by the follower since the last read: its fetch offset is not counted yet."""
        self.waits_for_follower = False
        """The last answer needs an action of the follower; no further one until it names the partition again."""
        self.given_offset = -1
        """Base offset of the records that were sent last."""
        self.is_repeated = False
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
        self.is_repeated = fetch_offset == self.given_offset
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.current_leader_epoch = current_leader_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.is_fresh, self.waits_for_follower = True, False

    def diverging_epoch(self, log: Log) -> DivergingEpoch | None:
        """Where the follower truncates, if its log diverges before the fetch offset; else None."""
        end = log.log_end_offset
        if self.last_fetched_epoch < 0:
            return DivergingEpoch(log.epochs.latest, end) if self.fetch_offset > end else None
        diverging = super().diverging_epoch(log)
        if diverging is not None and diverging.epoch < 0:
            # A later epoch than any of ours: the records of a leader that lost an unclean election.
            return DivergingEpoch(log.epochs.latest, end)
        return diverging


Item = TypeVar("Item", bound=FetchItem)


class FetchSession(Generic[Item]):
    """The partitions of one reader, and those that may have something new."""

    __slots__ = ("connection", "delayed_fetch", "dirty", "epoch", "items", "session_id")

    def __init__(self, session_id: int, connection: FetchConnection) -> None:
        self.session_id = session_id
        self.connection = connection
        """The connection of its last fetch."""
        self.epoch = 1
        self.items: dict[tuple[TopicKey, int], Item] = {}
        self.dirty: dict[Item, None] = {}
        self.delayed_fetch: WaitingFetch | None = None
        """The fetch of this session that waits, or None."""

    def next_epoch(self) -> int:
        """The epoch that the next request must carry; it wraps to 1."""
        return 1 if self.epoch >= EPOCH_MAX else self.epoch + 1


def _weight(item: ConsumerItem) -> int:
    """As how many partitions it counts in a session: a client may fetch names that are longer than any topic's."""
    return 1 + len(item.name or "") // (TOPIC_NAME_LENGTH_MAX + 1)


class ConsumerSession(FetchSession[ConsumerItem]):
    """The partitions of one consumer. Its id is 0 while a fetch without a session waits."""

    __slots__ = ("last_used_ms", "marked_since_read", "uses_topic_ids")

    delayed_fetch: WaitingConsumerFetch | None

    def __init__(self, session_id: int, connection: FetchConnection, now_ms: int, *, uses_topic_ids: bool) -> None:
        super().__init__(session_id, connection)
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.marked_since_read: dict[ConsumerItem, None] = {}
        """What its last fetch read may be older than these: a job, or other slices, lie between a read and its answer."""

    def mark_dirty(self, item: ConsumerItem) -> None:
        """The item may have something new."""
        self.dirty[item] = self.marked_since_read[item] = None


class FollowerSession(FetchSession[FollowerItem]):
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

    def __init__(
        self, session_id: int, node_id: NodeId, broker_epoch: BrokerEpoch, connection: FetchConnection
    ) -> None:
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

    As in Kafka, a session may have partitions that do not exist: each fetch gets their errors again.
    """

    def __init__(
        self, context: Context, partitions: Mapping[TopicPartition, Partition], rng: RandomSource, connections: Sized
    ) -> None:
        self._context, self._partitions, self._rng, self._connections = context, partitions, rng, connections
        self._slots_max = context.config.max_incremental_fetch_session_cache_slots
        self._sessions: OrderedDict[int, ConsumerSession] = OrderedDict()
        self.partitions_count = 0
        """Partitions of all sessions, by weight."""
        self.delayed_count = 0
        """Partitions of all delayed fetches without a session."""

    def __len__(self) -> int:
        return len(self._sessions)

    def items(self, session_id: int) -> list[ConsumerItem]:
        """The partitions of a session; none when it is not known."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.items.values())

    def session_of(
        self, request: Any, items: list[ConsumerItem], connection: FetchConnection, *, uses_topic_ids: bool
    ) -> tuple[ConsumerSession | None, bool]:
        """The session of a consumer's fetch, if it has one, and whether the fetch names only what changed in it.

        Raises PeerError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id:
                self._close(session_id)
            if epoch == FINAL_EPOCH:
                return None, False
            return self._open(items, connection, uses_topic_ids=uses_topic_ids), False
        session = self._resume(session_id, epoch, connection, uses_topic_ids=uses_topic_ids)
        forgotten = [
            (topic.topic_id if uses_topic_ids else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ]
        self._update(session, items, forgotten)
        if not session.items:
            self._close(session_id)
            return None, False
        return session, True

    def _open(
        self, items: list[ConsumerItem], connection: FetchConnection, *, uses_topic_ids: bool
    ) -> ConsumerSession | None:
        """A new session over `items`; None when there is no room for them."""
        if self._slots_max <= 0 or len(items) > FETCH_SESSION_PARTITIONS_MAX:
            return None
        named = {(item.topic_key, item.index): item for item in items}
        if not self._make_room(connection, 1, sum(map(_weight, named.values()))):
            return None
        session_id = 1 + self._rng.below(EPOCH_MAX - 1)
        while session_id in self._sessions:
            session_id = 1 + self._rng.below(EPOCH_MAX - 1)
        now_ms = self._context.clock.now_ms
        session = ConsumerSession(session_id, connection, now_ms, uses_topic_ids=uses_topic_ids)
        self._sessions[session_id] = session
        for item in named.values():
            self._add(session, item)
        return session

    def _make_room(self, connection: FetchConnection, slots: int, partitions: int) -> bool:
        """Evict sessions that may go, least recently used first, until the new ones fit; returns whether they fit.

        A session may go when its connection is closed or requests the new one, or when it is idle. Kafka evicts only
        idle sessions, but its clients are authenticated and under quotas.
        """
        now_ms = self._context.clock.now_ms
        while (
            len(self._sessions) + slots > self._slots_max
            or self.partitions_count + partitions > FETCH_PARTITIONS_REMEMBERED_MAX
        ):
            for session in self._sessions.values():
                if (
                    not session.connection.is_open
                    or session.connection is connection
                    or now_ms - session.last_used_ms >= FETCH_SESSION_EVICTION_MS_MIN
                ):
                    self._close(session.session_id)
                    break
            else:
                return False
        return True

    def _resume(
        self, session_id: int, epoch: int, connection: FetchConnection, *, uses_topic_ids: bool
    ) -> ConsumerSession:
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
        session.last_used_ms = self._context.clock.now_ms
        if not session.connection.is_open:
            for item in session.items.values():
                session.mark_dirty(item)
                self._subscribe(session, item)
        session.connection = connection
        self._sessions.move_to_end(session_id)
        return session

    def _update(
        self, session: ConsumerSession, requested: list[ConsumerItem], forgotten: list[tuple[TopicKey, int]]
    ) -> None:
        """Add, move and forget partitions as an incremental fetch says.

        Raises PeerError(FETCH_SESSION_ID_NOT_FOUND) when there is no room: the session is closed, and the client
        continues with a full fetch.
        """
        for item in requested:
            key = (item.topic_key, item.index)
            held = session.items.get(key)
            if held is None:
                if (
                    len(session.items) >= FETCH_SESSION_PARTITIONS_MAX
                    or self.partitions_count >= FETCH_PARTITIONS_REMEMBERED_MAX
                ):
                    self._close(session.session_id)
                    raise PeerError(ErrorCode.fetch_session_id_not_found, "the session is full")
                self._add(session, item)
            else:
                held.fetch_offset = item.fetch_offset
                held.max_bytes = item.max_bytes
                held.current_leader_epoch = item.current_leader_epoch
                held.last_fetched_epoch = item.last_fetched_epoch
                session.mark_dirty(held)
        for key in forgotten:
            item_gone = session.items.pop(key, None)
            if item_gone is not None:
                self.partitions_count -= _weight(item_gone)
                session.dirty.pop(item_gone, None)
                session.marked_since_read.pop(item_gone, None)
                self._detach(session, item_gone)

    def throttled(self, session: ConsumerSession | None, *, keep: bool) -> int:
        """The session id of an empty answer to a throttled fetch: a session does not begin with one, so it is closed.

        The client sends its full fetch again (Kafka's FetchContext.getThrottledResponse).
        """
        if session is None or not session.session_id:
            return 0
        if not keep:
            self._close(session.session_id)
            return 0
        return session.session_id

    def _close(self, session_id: int) -> None:
        """Close a session, and answer its waiting fetch, which no partition notifies any more. An unknown id is ignored."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            for item in session.items.values():
                self.partitions_count -= _weight(item)
                self._detach(session, item)
            if session.delayed_fetch is not None:
                session.delayed_fetch.complete()

    # ------------------------------------------------------------------------------------------ delayed fetches

    def may_delay(self, connection: FetchConnection, partitions: int) -> bool:
        """Whether a fetch without a session may wait: there is room, or the connection is within its fair share."""
        if self.delayed_count + partitions <= FETCH_PARTITIONS_REMEMBERED_MAX:
            return True
        share = FETCH_PARTITIONS_REMEMBERED_MAX // max(1, len(self._connections))
        return connection.delayed_partitions + partitions <= share

    def delay(self, connection: FetchConnection, items: list[ConsumerItem]) -> ConsumerSession:
        """The partitions of a fetch without a session that starts to wait."""
        session = ConsumerSession(0, connection, 0, uses_topic_ids=False)
        self._count_delayed(connection, len(items))
        for item in items:
            self._subscribe(session, item)
        return session

    def end_delay(self, session: ConsumerSession, items: list[ConsumerItem]) -> None:
        """Forget the partitions of a fetch without a session whose wait is over."""
        self._count_delayed(session.connection, -len(items))
        for item in items:
            self._detach(session, item)

    def _count_delayed(self, connection: FetchConnection, partitions: int) -> None:
        self.delayed_count += partitions
        connection.delayed_partitions += partitions

    def attach(self, session: ConsumerSession, item: ConsumerItem) -> None:
        """Subscribe the session to the partition; again after the partition was created again.

        A closed session is ignored: nothing would ever unsubscribe it.
        """
        if self._sessions.get(session.session_id) is session:
            self._subscribe(session, item)

    def _subscribe(self, session: ConsumerSession, item: ConsumerItem) -> None:
        partition: Partition | None = self._partitions.get((item.name, item.index))  # type: ignore[call-overload]
        if partition is None or item.topic_key not in (partition.topic_id, item.name):
            return  # there is none, or it is another topic's of that name
        partition.sessions[session] = item

    def _add(self, session: ConsumerSession, item: ConsumerItem) -> None:
        self.partitions_count += _weight(item)
        session.items[item.topic_key, item.index] = item
        session.mark_dirty(item)
        self.attach(session, item)

    def _detach(self, session: ConsumerSession, item: ConsumerItem) -> None:
        partition: Partition | None = self._partitions.get((item.name, item.index))  # type: ignore[call-overload]
        if partition is not None and partition.sessions.get(session) is item:
            # else the session has it under the id of a later topic of that name
            del partition.sessions[session]


class FollowerSessions:
    """The sessions of all followers that fetch from this broker, by node."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        isr_changes: IsrChanges,
        emit: EmitPartitionEvent,
        advanced: Callable[[Partition], None],
        progressed: Callable[[Partition], None],
    ) -> None:
        self._context, self._partitions = context, partitions
        self._isr_changes, self._emit = isr_changes, emit
        self._advanced, self._progressed = advanced, progressed
        """Called with a partition whose high watermark advanced, or of which only a follower's log end did."""
        self._sessions: dict[NodeId, FollowerSession] = {}
        self._next_session_id = 1
        self.last_fetch_ms: dict[NodeId, int] = {}
        """When each follower last fetched."""
        self._appended: dict[FollowerSession, None] = {}

    # -------------------------------------------------------------------------------------------------- wake-ups

    def appended(self, partition: Partition) -> None:
        """Mark the partition for its followers after an append; their fetches are answered at the end of the turn."""
        if not partition.is_watched:
            self._isr_changes.watch(partition)
        for session, item in partition.replica_sessions.items():
            if not item.waits_for_follower:
                session.dirty[item] = None
                if session.delayed_fetch is not None:
                    self._appended[session] = None

    def watermark_moved(self, partition: Partition) -> None:
        """The high watermark or the log start moved: followers get it within `WATERMARK_WAIT_MS`."""
        for session, item in partition.replica_sessions.items():
            session.mark_dirty(item)
            if session.delayed_fetch is not None:
                self.delay_watermark(session)

    def watermark_sent(self, session: FollowerSession) -> None:
        """An answer of this session carries its high watermarks: cancel the separate one."""
        self._context.timers.disarm(session)

    def delay_watermark(self, session: FollowerSession) -> None:
        """The session's fetch waits, and there is a high watermark to send: send it within `WATERMARK_WAIT_MS`."""
        self._context.within(session, WATERMARK_WAIT_MS, partial(self._complete_fetch, session))

    def delay_throttled(self, session: FollowerSession, item: FollowerItem) -> None:
        """The throttle delays the partition: read it again after a pause."""
        self._context.within((session, item), THROTTLED_PAUSE_MS, partial(self._read_again, session, item))

    def changed(self, partition: Partition) -> None:
        """The leader, its epoch, or the log changed: complete the waiting fetches, which read again."""
        for session, item in partition.replica_sessions.items():
            session.mark_dirty(item)
            if session.delayed_fetch is not None:
                self._appended[session] = None

    def wake(self) -> None:
        """At the end of the turn, answer the waiting fetches of sessions that were marked."""
        while self._appended:
            appended, self._appended = self._appended, {}
            for session in appended:
                self._complete_fetch(session)

    def _read_again(self, session: FollowerSession, item: FollowerItem) -> None:
        session.mark_dirty(item)
        self._complete_fetch(session)

    def _complete_fetch(self, session: FollowerSession) -> None:
        if session.delayed_fetch is not None:
            session.delayed_fetch.complete()

    # ------------------------------------------------------------------------------------------------- progress

    @changes_state
    def take_progress(
        self, session: FollowerSession, partition: Partition, item: FollowerItem
    ) -> FetchPartitionAnswer | None:
        """Count the fetch offset as acknowledged, once the follower's log is known to match up to there.

        All records before the fetch offset are in the follower's log. It counts for the high watermark only with the
        current leader epoch and the follower's current broker epoch (KIP-320, KIP-903).
        """
        log = partition.log
        assert log is not None
        replica = partition.replica_states.get(session.node_id)
        if replica is None:
            raise PeerError(
                ErrorCode.not_leader_or_follower, f"broker {session.node_id} is not a replica of this partition"
            )
        offset, end = item.fetch_offset, log.log_end_offset
        if offset > end or item.last_fetched_epoch != log.epochs.latest:
            diverging = item.diverging_epoch(log)
            if diverging is not None:
                answer = FetchPartitionAnswer(item.index, 0, partition.high_watermark, -1, log.log_start_offset)
                answer.diverging_epoch = diverging
                return answer
        if offset < log.log_start_offset:
            return FetchPartitionAnswer(
                item.index, ErrorCode.offset_out_of_range, partition.high_watermark, -1, log.log_start_offset
            )
        item.is_fresh = False
        start_moved = item.log_start_offset > replica.log_start_offset
        was_regressed = replica.is_regressed
        now_ms = self._context.clock.now_ms
        if replica.fetched(session.broker_epoch, offset, item.log_start_offset, end, now_ms):
            if partition.advance_high_watermark():
                self._advanced(partition)
            else:
                self._progressed(partition)
            if may_join(partition, session.node_id):
                self._isr_changes.check(partition)
            if start_moved:
                self._emit(partition, PartitionEvent.FOLLOWER_LOG_START_MOVED)
        elif replica.is_regressed and not was_regressed:
            self._context.notice(
                # a follower that is behind may copy again what it had
                "warning" if partition.waits_for(session.node_id) else "info",
                "replica-end-regressed",
                partition=str(partition.topic_partition),
                follower=session.node_id,
                fetch_offset=offset,
                acknowledged_offset=replica.furthest_offset,
            )
        return None

    # ------------------------------------------------------------------------------------------------- sessions

    def forget_connection(self, connection: FetchConnection) -> None:
        """Close the sessions of a closed connection."""
        for session in [held for held in self._sessions.values() if held.connection is connection]:
            self._close(session)

    def request_full_fetches(self, partition: Partition) -> None:
        """End the sessions of followers that left the ISR on their own request but still fetch; a new full fetch lets
        them rejoin.

        A request to leave may be executed late, when the broker is in sync again. A partition without writes would not
        be named again in the old session.
        """
        for session in list(partition.replica_sessions):
            state = partition.replica_states.get(session.node_id)
            if state is not None and state.has_left:
                self._close(session)

    def session_of(self, request: Any, connection: FetchConnection) -> FollowerSession | None:
        """The session of a follower's fetch, with the partitions that it names; None when the follower ends it.

        Raises PeerError: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, STALE_BROKER_EPOCH,
        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH.
        """
        self._check_sender(connection, request)
        node_id, broker_epoch = request.replica_id, request.replica_epoch
        self.last_fetch_ms[node_id] = self._context.clock.now_ms
        session = self._sessions.get(node_id)
        if request.session_epoch == INITIAL_EPOCH:
            if session is not None:
                self._note_replaced(session, connection)
                self._close(session)
            session = FollowerSession(self._next_session_id, node_id, broker_epoch, connection)
            self._next_session_id = self._next_session_id % EPOCH_MAX + 1
            self._sessions[node_id] = session
            connection.replica_session = session
        elif session is None or session.session_id != request.session_id or session.connection is not connection:
            raise PeerError(ErrorCode.fetch_session_id_not_found)
        elif request.session_epoch == FINAL_EPOCH:
            self._close(session)
            return None
        elif request.session_epoch != session.epoch:
            raise PeerError(ErrorCode.invalid_fetch_session_epoch)
        else:
            session.epoch = session.next_epoch()
            session.may_learn = session.pattern is None
        session.image = self._context.image
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
        correlation_id, epoch, name, leader_epoch, offset, last_epoch, start_offset, bytes_max = found
        item = session.named.get(name)
        if item is None or epoch != session.epoch or session.image is not self._context.image:
            return None
        partition = item.partition
        if partition is None or self._partitions.get(partition.topic_partition) is not partition:
            return None
        self.last_fetch_ms[session.node_id] = self._context.clock.now_ms
        session.epoch = epoch % EPOCH_MAX + 1
        self._complete_fetch(session)
        item.ask(offset, last_epoch, leader_epoch, start_offset, bytes_max)
        session.dirty[item] = None
        return correlation_id

    def _check_sender(self, connection: FetchConnection, request: Any) -> None:
        """Raise PeerError when the sender is no valid follower."""
        image, proven = self._context.image, connection.proven
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

    def _note_replaced(self, session: FollowerSession, connection: FetchConnection) -> None:
        """Log that a follower reconnected before its old connection was seen to end."""
        if session.connection is not connection:
            self._context.notice(
                "info",
                "replica-session-replaced",
                follower=session.node_id,
                broker_epoch=session.broker_epoch,
                peer=connection.peer,
                replaced_peer=session.connection.peer,
            )

    def _update(self, session: FollowerSession, request: Any) -> None:
        for topic in request.topics:
            known = self._context.image.topic_by_id(topic.topic_id)
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
                partition = None
                if known is not None:
                    partition = self._partitions.get(TopicPartition(known.name, wanted.partition))
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
            partition.replica_sessions[session] = item

    def _detach(self, session: FollowerSession, item: FollowerItem) -> None:
        if item.partition is not None:
            item.partition.replica_sessions.pop(session, None)
        item.partition = None

    def _drop(self, session: FollowerSession, item: FollowerItem) -> None:
        session.dirty.pop(item, None)
        self._context.timers.disarm((session, item))
        self._detach(session, item)

    def _close(self, session: FollowerSession) -> None:
        if self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
        if session.connection.replica_session is session:
            session.connection.replica_session = None
        self._appended.pop(session, None)
        self._context.timers.disarm(session)
        for item in session.items.values():
            self._drop(session, item)
        session.items.clear()
        session.named.clear()
        self._complete_fetch(session)
