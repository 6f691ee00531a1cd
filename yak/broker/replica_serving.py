"""The leader's side of replication: followers' fetches, in sessions that are told what is appended (KIP-227).

A follower's fetch offset is its acknowledgement: all before it is in its log. It counts for the high watermark only from a fetch in
the present leader epoch and in the follower's present boot (KIP-320, KIP-903). Where its log parts from ours it is told
by the diverging epoch (KIP-595), before anything is read for it.

A session belongs to one connection. A partition that was answered with anything the follower must act on (records, an
error, a divergence) is left alone until the follower names it again: so the follower may send its next request while one waits, and
nothing is sent twice.

A waiting fetch is woken by what is appended. News of the high watermark alone travel with the next records, or after
`WATERMARK_NEWS_MS` by themselves.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Later, Outcome, Prebuilt, Waiting
from yak.broker.cold_fetch import ColdFetch
from yak.broker.reading import Reading
from yak.broker.replica_throttle import Throttle, is_named
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.ids import BrokerEpoch, NodeId, TopicPartition
from yak.protocol.hot import DivergingEpoch, FetchPartitionAnswer, fetch_response
from yak.replication.isr import may_join
from yak.replication.partition import Partition
from yak.storage.log import OffsetOutOfRange, PendingRead

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.connections import Connection

WATERMARK_NEWS_MS = 50
CLIENT_ID_PREFIX = "yak-replica:"
"""Before the follower's boot id, in the client id of its fetches: what no client knows, so none passes for a replica."""
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
NO_ROOM = FetchPartitionAnswer(-1)
"""There is more for this partition than this answer may hold: it comes with the next."""


class ReplicaItem:
    """One partition of one follower's session."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_fresh",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_id",
        "waits_for_follower",
    )

    def __init__(self, topic_id: uuid.UUID, index: int) -> None:
        self.topic_id = topic_id
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
        """Named by the follower since it was last looked at: what it says was not taken yet."""
        self.waits_for_follower = False
        """It was given something to act on; nothing more for it until it is named again."""


class ReplicaSession:
    """What one follower fetches from us over one connection."""

    __slots__ = ("broker_epoch", "connection", "dirty", "epoch", "items", "node_id", "parked", "session_id")

    def __init__(self, session_id: int, node_id: NodeId, broker_epoch: BrokerEpoch, connection: Connection) -> None:
        self.session_id = session_id
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.connection = connection
        self.epoch = 1
        self.items: dict[tuple[uuid.UUID, int], ReplicaItem] = {}
        self.dirty: dict[ReplicaItem, None] = {}
        self.parked: ReplicaFetch | None = None

    def mark_dirty(self, item: ReplicaItem) -> None:
        """There may be something new for the follower."""
        if not item.waits_for_follower:
            self.dirty[item] = None


class ReplicaServing:
    """The sessions of all followers that fetch from this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[NodeId, ReplicaSession] = {}
        self._next_session_id = 1
        self.heard_ms: dict[NodeId, int] = {}
        """When each follower last fetched anything."""
        self._appended: dict[ReplicaSession, None] = {}
        self._news_due: OrderedDict[ReplicaSession, int] = OrderedDict()
        self.throttle = Throttle(broker.config.leader_replication_throttled_rate)

    # -------------------------------------------------------------------------------------------------- wake-ups

    def appended(self, partition: Partition) -> None:
        """Records were appended: the followers are told at the end of the turn."""
        if not partition.is_watched:
            self._broker.isr_changes.watch(partition)
        for session, item in (partition.replica_sessions or {}).items():
            if not item.waits_for_follower:
                session.dirty[item] = None
                if session.parked is not None:
                    self._appended[session] = None

    def watermark_moved(self, partition: Partition) -> None:
        """The high watermark or the log start moved: the followers hear of it soon."""
        for session, item in (partition.replica_sessions or {}).items():
            session.mark_dirty(item)
            if session.parked is not None and session not in self._news_due:
                self._news_due[session] = self._broker.now_ms + WATERMARK_NEWS_MS

    def news_travel(self, session: ReplicaSession) -> None:
        """An answer is being made: it carries what there is of news, so none need to go by themselves."""
        self._news_due.pop(session, None)

    def changed(self, partition: Partition) -> None:
        """The leader, its epoch, or the log is another: waiting followers see for themselves."""
        for session, item in (partition.replica_sessions or {}).items():
            session.mark_dirty(item)
            if session.parked is not None:
                self._appended[session] = None

    def wake(self) -> None:
        """The turn ends: answer the waiting fetches of those that have something to get."""
        while self._appended:
            appended, self._appended = self._appended, {}
            for session in appended:
                if session.parked is not None:
                    self._broker.finish(session.parked)

    def next_due(self) -> int | None:
        """When `on_timer` is wanted, in ms."""
        due_ms = self._news_due[next(iter(self._news_due))] if self._news_due else None
        throttled_ms = self.throttle.next_due()
        return due_ms if throttled_ms is None else throttled_ms if due_ms is None else min(due_ms, throttled_ms)

    def on_timer(self) -> None:
        """Tell of high watermarks that nobody asked for in time, and let throttled partitions go on."""
        now_ms = self._broker.now_ms
        while self._news_due:
            session = next(iter(self._news_due))
            if self._news_due[session] > now_ms:
                break
            del self._news_due[session]
            if session.parked is not None:
                self._broker.finish(session.parked)
        for session, item in self.throttle.take_due(now_ms):
            session.mark_dirty(item)
            if session.parked is not None:
                self._broker.finish(session.parked)

    # ------------------------------------------------------------------------------------------------- sessions

    def forget_connection(self, connection: Connection) -> None:
        """A connection is gone, and the session with it."""
        for session in [held for held in self._sessions.values() if held.connection is connection]:
            self._close(session)

    def handle(self, call: Call) -> Outcome:
        """A follower's Fetch."""
        request = call.request
        refusal = self._refusal(call)
        if refusal is not None:
            return _refused(call, refusal)
        node_id, broker_epoch = request.replica_id, request.replica_epoch
        self.heard_ms[node_id] = self._broker.now_ms
        session = self._sessions.get(node_id)
        if request.session_epoch == INITIAL_EPOCH:
            if session is not None:
                self._close(session)
            session = ReplicaSession(self._next_session_id, node_id, broker_epoch, call.connection)
            self._next_session_id = self._next_session_id % EPOCH_MAX + 1
            self._sessions[node_id] = session
        elif session is None or session.session_id != request.session_id or session.connection is not call.connection:
            return _refused(call, ErrorCode.fetch_session_id_not_found)
        elif request.session_epoch == FINAL_EPOCH:
            self._close(session)
            return Prebuilt(fetch_response(call.version, call.correlation_id, 0, ErrorCode.none, 0, []))
        elif request.session_epoch != session.epoch:
            return _refused(call, ErrorCode.invalid_fetch_session_epoch)
        else:
            session.epoch = session.epoch % EPOCH_MAX + 1
        if session.parked is not None:
            self._broker.finish(session.parked)
        self._update(session, request)
        fetch = ReplicaFetch(self, session, call)
        reading = fetch.read(self._broker)
        if reading.answers or reading.has_error or fetch.timeout_ms == 0 or request.session_epoch == INITIAL_EPOCH:
            return fetch.reply(self._broker, reading)
        session.parked = fetch
        return Later(fetch)

    def _refusal(self, call: Call) -> ErrorCode | None:
        """Why this cannot be a follower of ours; None when it is one."""
        request, image = call.request, self._broker.image
        if request.cluster_id and image.cluster_id and request.cluster_id != image.cluster_id:
            return ErrorCode.inconsistent_cluster_id
        known = image.brokers.get(request.replica_id)
        boot_id = (call.client_id or "").removeprefix(CLIENT_ID_PREFIX)
        if known is None or known.boot_id != boot_id:
            # A client that says it is a replica, or a broker whose registration our image does not show yet.
            return ErrorCode.cluster_authorization_failed
        if request.replica_epoch != known.broker_epoch:
            return ErrorCode.stale_broker_epoch
        return None if known.state is not BrokerState.CLOSED else ErrorCode.stale_broker_epoch

    def _update(self, session: ReplicaSession, request: Any) -> None:
        broker = self._broker
        for topic in request.topics:
            name = broker.topic_name(topic.topic_id)
            for wanted in topic.partitions:
                key = (topic.topic_id, wanted.partition)
                item = session.items.get(key)
                if item is None:
                    item = session.items[key] = ReplicaItem(*key)
                item.fetch_offset = wanted.fetch_offset
                item.last_fetched_epoch = wanted.last_fetched_epoch
                item.current_leader_epoch = wanted.current_leader_epoch
                item.log_start_offset = wanted.log_start_offset
                item.max_bytes = wanted.partition_max_bytes
                item.is_fresh, item.waits_for_follower = True, False
                partition = None if name is None else broker.partitions.get(TopicPartition(name, wanted.partition))
                self._attach(session, item, partition)
                session.dirty[item] = None
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                gone = session.items.pop((topic.topic_id, index), None)
                if gone is not None:
                    self._drop(session, gone)

    def _attach(self, session: ReplicaSession, item: ReplicaItem, partition: Partition | None) -> None:
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

    def _detach(self, session: ReplicaSession, item: ReplicaItem) -> None:
        if item.partition is not None and item.partition.replica_sessions:
            item.partition.replica_sessions.pop(session, None)
        item.partition = None

    def _drop(self, session: ReplicaSession, item: ReplicaItem) -> None:
        session.dirty.pop(item, None)
        self.throttle.forget(session, item)
        self._detach(session, item)

    def _close(self, session: ReplicaSession) -> None:
        if self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
        self._appended.pop(session, None)
        self._news_due.pop(session, None)
        for item in session.items.values():
            self._drop(session, item)
        session.items.clear()
        if session.parked is not None:
            self._broker.finish(session.parked)

    # ------------------------------------------------------------------------------------------- one partition

    def look(
        self, session: ReplicaSession, item: ReplicaItem, reading: Reading, room: int
    ) -> FetchPartitionAnswer | None:
        """What one partition has for the follower; None when it is no news."""
        try:
            partition = self._readable(item)
            if item.is_fresh:
                answer = self._take_progress(session, partition, item)
                if answer is not None:
                    return answer
            return self._read(session, partition, item, reading, room)
        except PeerError as error:
            return FetchPartitionAnswer(item.index, error.error_code, -1, -1, -1, b"")
        except LogDirectoryFailure as failure:
            self._broker.directory_failed(failure)
            return FetchPartitionAnswer(item.index, ErrorCode.kafka_storage_error, -1, -1, -1, b"")

    def _readable(self, item: ReplicaItem) -> Partition:
        partition = item.partition
        if partition is None or self._broker.partitions.get(partition.topic_partition) is not partition:
            raise PeerError(ErrorCode.unknown_topic_id)
        if partition.log is None:
            raise PeerError(ErrorCode.kafka_storage_error)
        if not partition.is_leader or self._broker.maintenance.is_stopping:
            raise PeerError(ErrorCode.not_leader_or_follower)
        epoch = item.current_leader_epoch
        if epoch != partition.leader_epoch:
            is_old = epoch < partition.leader_epoch
            raise PeerError(ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch)
        return partition

    def _take_progress(
        self, session: ReplicaSession, partition: Partition, item: ReplicaItem
    ) -> FetchPartitionAnswer | None:
        """Let the fetch offset count, once it is known that the follower's log is ours up to there."""
        log = partition.log
        assert log is not None
        replica = partition.replica_states.get(session.node_id)
        if replica is None:
            raise PeerError(ErrorCode.not_leader_or_follower, f"node {session.node_id} is no replica")
        offset, end = item.fetch_offset, log.log_end_offset
        diverging = None
        if item.last_fetched_epoch >= 0:
            epoch, end_offset = log.end_offset_for_epoch(item.last_fetched_epoch)
            if epoch < 0:
                # A later epoch than any of ours: records of a leader that was passed over in an unclean election.
                diverging = DivergingEpoch(log.latest_epoch, end)
            elif epoch < item.last_fetched_epoch or end_offset < offset:
                diverging = DivergingEpoch(epoch, end_offset)
        elif offset > end:
            diverging = DivergingEpoch(log.latest_epoch, end)
        if diverging is not None:
            answer = FetchPartitionAnswer(item.index, 0, partition.high_watermark, -1, log.log_start_offset, b"")
            answer.diverging_epoch = diverging
            return answer
        if offset < log.log_start_offset:
            return FetchPartitionAnswer(
                item.index, ErrorCode.offset_out_of_range, partition.high_watermark, -1, log.log_start_offset, b""
            )
        item.is_fresh = False
        start_moved = item.log_start_offset > replica.log_start_offset
        if replica.fetched(session.broker_epoch, offset, item.log_start_offset, end, self._broker.now_ms):
            if partition.advance_high_watermark():
                self._broker.advanced(partition)
            if may_join(partition, session.node_id):
                self._broker.isr_changes.look(partition)
            if start_moved:
                self._broker.replica_log_start_moved(partition)
        return None

    def _read(
        self, session: ReplicaSession, partition: Partition, item: ReplicaItem, reading: Reading, room: int
    ) -> FetchPartitionAnswer | None:
        log = partition.log
        assert log is not None
        high_watermark, log_start_offset = partition.high_watermark, log.log_start_offset
        answer = FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log_start_offset, b"")
        offset, end = item.fetch_offset, log.log_end_offset
        if room <= 0 and reading.bytes_count:
            return NO_ROOM
        if offset < end:
            if session.node_id not in partition.isr and self.throttle.must_wait(
                session, item, self._is_throttled(session, partition), self._broker.now_ms
            ):
                return None
            try:
                found = log.read(offset, min(item.max_bytes, max(room, 0)), end, at_least_one=not reading.bytes_count)
            except OffsetOutOfRange as error:
                return FetchPartitionAnswer(
                    item.index, ErrorCode.offset_out_of_range, high_watermark, -1, error.log_start_offset, b""
                )
            if isinstance(found, PendingRead):
                reading.pending.append((len(reading.answers), found))
                reading.bytes_count += max(min(item.max_bytes, room), 1)
                return answer
            answer.records = found
            reading.bytes_count += len(found)
            if session.node_id not in partition.isr and self._is_throttled(session, partition):
                self.throttle.took(len(found), self._broker.now_ms)
            if len(found):
                return answer
        if high_watermark != item.sent_high_watermark or log_start_offset != item.sent_log_start_offset:
            return answer
        return None

    def _is_throttled(self, session: ReplicaSession, partition: Partition) -> bool:
        assert partition.log is not None
        named = partition.log.config.leader_replication_throttled_replicas
        return is_named(named, partition.topic_partition.partition, session.node_id)


class ReplicaFetch(Waiting):
    """A follower's fetch: answered with what there is, or when something is appended."""

    __slots__ = ("_serving", "_session")

    def __init__(self, serving: ReplicaServing, session: ReplicaSession, call: Call) -> None:
        super().__init__(call, max(0, call.request.max_wait_ms))
        self._serving = serving
        self._session = session

    def read(self, broker: Broker) -> Reading:  # noqa: ARG002
        """Look at the partitions that may have something; those for which there is no room stay marked."""
        session, serving = self._session, self._serving
        serving.news_travel(session)
        max_bytes = self.call.request.max_bytes
        reading = Reading()
        for item in list(session.dirty):
            room = max_bytes - reading.bytes_count
            if room <= 0 and not item.is_fresh:
                continue
            pending = len(reading.pending)
            answer = serving.look(session, item, reading, room)
            if answer is NO_ROOM:
                continue
            session.dirty.pop(item, None)
            if answer is not None:
                item.sent_high_watermark, item.sent_log_start_offset = answer.high_watermark, answer.log_start_offset
                if (
                    len(answer.records)
                    or answer.error_code
                    or answer.diverging_epoch is not None
                    or len(reading.pending) > pending
                ):
                    item.waits_for_follower = True
                reading.answers.append((item, answer))  # type: ignore[arg-type]
        return reading

    def reply(self, broker: Broker, reading: Reading) -> Outcome:
        """The answer, after a job when some of it must come from the device."""
        if reading.pending:
            return Later(ColdFetch(broker, self, reading))
        return self.build(broker, reading)

    def build(self, broker: Broker, reading: Reading) -> Outcome:  # noqa: ARG002
        """The answer's bytes."""
        topics: dict[Any, list[FetchPartitionAnswer]] = {}
        for item, answer in reading.answers:
            topics.setdefault(item.topic_id, []).append(answer)  # type: ignore[attr-defined]
        call = self.call
        return Prebuilt(
            fetch_response(
                call.version,
                call.correlation_id,
                0,
                ErrorCode.none,
                self._session.session_id,
                list(topics.items()),
            )
        )

    def is_done(self) -> bool:
        """A parked fetch is done only when it is woken."""
        return False

    def answer(self, broker: Broker) -> Outcome:
        """Look again, and give what is there."""
        return self.reply(broker, self.read(broker))

    def on_expiry(self, broker: Broker) -> Outcome:
        """Nothing was appended for as long as the follower wanted to wait."""
        return self.answer(broker)

    def leave(self, broker: Broker) -> None:  # noqa: ARG002
        """Wake me no more."""
        if self._session.parked is self:
            self._session.parked = None


def _refused(call: Call, error_code: ErrorCode) -> Outcome:
    return Prebuilt(fetch_response(call.version, call.correlation_id, 0, error_code, 0, []))
