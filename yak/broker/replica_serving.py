"""The leader's side of replication: followers' fetches, in sessions that appends mark (KIP-227).

A follower's fetch offset is its acknowledgement: all records before it are in its log. It counts for the high watermark
only with the current leader epoch and the follower's current broker epoch (KIP-320, KIP-903), over a connection that
has proven that incarnation (`yak.protocol.peer_proof`). A follower whose log diverges gets the diverging epoch
(KIP-595) before anything is read for it.

A session belongs to one connection. After an answer that the follower must act on (records, an error, a divergence), a
partition is not answered again until the follower names it. So the follower may send its next request while one waits,
and nothing is sent twice.

An append completes a waiting fetch. A high watermark alone travels with the next records, or by itself after
`WATERMARK_NEWS_MS`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Later, Outcome, Prebuilt
from yak.broker.cold_fetch import ColdFetch
from yak.broker.counters import FOLLOWER_FETCH
from yak.broker.reading import Reading
from yak.broker.replica_reading import NO_ROOM, ReplicaReader
from yak.broker.replica_sessions import ReplicaItem, ReplicaSession
from yak.broker.replica_throttle import Throttle
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition
from yak.protocol.hot import FetchPartitionAnswer, FetchTopicAnswer, fetch_response
from yak.protocol.replica_fetch import VERSION
from yak.replication.partition import Partition
from yak.seams.disk import Buffer

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.connections import Connection

WATERMARK_NEWS_MS = 50
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1


class ReplicaServing:
    """The sessions of all followers that fetch from this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[NodeId, ReplicaSession] = {}
        self._next_session_id = 1
        self.heard_ms: dict[NodeId, int] = {}
        """When each follower last fetched."""
        self._appended: dict[ReplicaSession, None] = {}
        self._news_due: OrderedDict[ReplicaSession, int] = OrderedDict()
        self.throttle = Throttle(broker.config.leader_replication_throttled_rate)
        self.reader = ReplicaReader(broker, self.throttle)

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
        """The high watermark or the log start moved: followers get it within `WATERMARK_NEWS_MS`."""
        for session, item in (partition.replica_sessions or {}).items():
            session.mark_dirty(item)
            if session.delayed_fetch is not None and session not in self._news_due:
                self._news_due[session] = self._broker.now_ms + WATERMARK_NEWS_MS

    def news_travel(self, session: ReplicaSession) -> None:
        """An answer of this session carries its high watermarks: cancel the separate one."""
        self._news_due.pop(session, None)

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
                if session.delayed_fetch is not None:
                    self._broker.purgatory.complete(session.delayed_fetch)

    def next_due(self) -> int | None:
        """When `on_timer` is due, in ms."""
        due_ms = self._news_due[next(iter(self._news_due))] if self._news_due else None
        throttled_ms = self.throttle.next_due()
        return due_ms if throttled_ms is None else throttled_ms if due_ms is None else min(due_ms, throttled_ms)

    def on_timer(self) -> None:
        """Send high watermarks that are due, and resume throttled partitions."""
        now_ms = self._broker.now_ms
        while self._news_due:
            session = next(iter(self._news_due))
            if self._news_due[session] > now_ms:
                break
            del self._news_due[session]
            if session.delayed_fetch is not None:
                self._broker.purgatory.complete(session.delayed_fetch)
        for session, item in self.throttle.take_due(now_ms):
            session.mark_dirty(item)
            if session.delayed_fetch is not None:
                self._broker.purgatory.complete(session.delayed_fetch)

    # ------------------------------------------------------------------------------------------------- sessions

    def forget_connection(self, connection: Connection) -> None:
        """Close the sessions of a closed connection."""
        for session in [held for held in self._sessions.values() if held.connection is connection]:
            self._close(session)

    def ask_anew(self, partition: Partition) -> None:
        """End the sessions of followers that left the ISR on their own request but still fetch; a new full fetch lets
        them rejoin.

        A request to leave may be executed late, when the broker is in sync again. A partition without writes would not
        be named again in the old session.
        """
        for session in list(partition.replica_sessions or ()):
            state = partition.replica_states.get(session.node_id)
            if state is not None and state.has_left:
                self._close(session)

    def handle(self, call: Call) -> Outcome:
        """Serve a follower's Fetch."""
        call.api_key = FOLLOWER_FETCH  # from here on the key only selects counters
        request = call.request
        refusal = self._refusal(call.connection, request)
        if refusal is not None:
            return _refused(call, refusal)
        node_id, broker_epoch = request.replica_id, request.replica_epoch
        self.heard_ms[node_id] = self._broker.now_ms
        session = self._sessions.get(node_id)
        if request.session_epoch == INITIAL_EPOCH:
            if session is not None:
                self._note_replaced(session, call.connection)
                self._close(session)
            session = ReplicaSession(self._next_session_id, node_id, broker_epoch, call.connection)
            self._next_session_id = self._next_session_id % EPOCH_MAX + 1
            self._sessions[node_id] = session
            call.connection.replica_session = session
        elif session is None or session.session_id != request.session_id or session.connection is not call.connection:
            return _refused(call, ErrorCode.fetch_session_id_not_found)
        elif request.session_epoch == FINAL_EPOCH:
            self._close(session)
            return Prebuilt(fetch_response(call.version, call.correlation_id, 0, ErrorCode.none, 0, []))
        elif request.session_epoch != session.epoch:
            return _refused(call, ErrorCode.invalid_fetch_session_epoch)
        else:
            session.epoch = session.epoch % EPOCH_MAX + 1
            session.may_learn = session.pattern is None
        session.image = self._broker.image
        session.request_wait_ms, session.request_bytes_max = max(0, request.max_wait_ms), request.max_bytes
        if session.delayed_fetch is not None:
            self._broker.purgatory.complete(session.delayed_fetch)
        self._update(session, request)
        return self._give_or_wait(session, call, must_answer=request.session_epoch == INITIAL_EPOCH)

    def handle_repeated(self, session: ReplicaSession, frame: Buffer) -> tuple[Call, Outcome] | None:
        """Serve a Fetch that differs from the last one in one partition only; None for any other frame.

        All checks of `handle` still hold: the other bytes are the same, and so is the cluster's image.
        """
        repeated = None if session.pattern is None else session.pattern.read(frame)
        if repeated is None:
            return None
        broker = self._broker
        correlation_id, epoch, name, leader_epoch, offset, last_epoch, start_offset, bytes_max = repeated
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
        call = Call(session.connection, FOLLOWER_FETCH, VERSION, correlation_id, None, broker.now_ms)
        return call, self._give_or_wait(session, call, must_answer=False)

    def _give_or_wait(self, session: ReplicaSession, call: Call, *, must_answer: bool) -> Outcome:
        fetch = ReplicaFetch(self, session, call)
        must_answer = must_answer or fetch.timeout_ms == 0
        reading = fetch.read(with_news=must_answer)
        if reading.answers or must_answer:
            return fetch.reply(self._broker, reading)
        session.delayed_fetch = fetch
        if session.dirty:
            self._news_due[session] = self._broker.now_ms + WATERMARK_NEWS_MS
        return Later(fetch)

    def _refusal(self, connection: Connection, request: Any) -> ErrorCode | None:
        """Why the sender is no valid follower; None when it is one."""
        image, proven = self._broker.image, connection.proven
        if proven is None or request.replica_id != proven.node_id:
            return ErrorCode.cluster_authorization_failed
        if request.cluster_id and image.cluster_id and request.cluster_id != image.cluster_id:
            return ErrorCode.inconsistent_cluster_id
        known = image.brokers.get(request.replica_id)
        if known is None or known.state is BrokerState.CLOSED:
            return ErrorCode.stale_broker_epoch
        present = (known.broker_epoch, known.boot_id)
        # The registration is not in our image yet, or is over.
        is_present = present == (proven.broker_epoch, proven.boot_id) and request.replica_epoch == known.broker_epoch
        return None if is_present else ErrorCode.stale_broker_epoch

    def _note_replaced(self, session: ReplicaSession, connection: Connection) -> None:
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

    def _update(self, session: ReplicaSession, request: Any) -> None:
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
        if session.connection.replica_session is session:
            session.connection.replica_session = None
        self._appended.pop(session, None)
        self._news_due.pop(session, None)
        for item in session.items.values():
            self._drop(session, item)
        session.items.clear()
        session.named.clear()
        if session.delayed_fetch is not None:
            self._broker.purgatory.complete(session.delayed_fetch)


class ReplicaFetch(DelayedOperation):
    """A follower's fetch (Kafka's DelayedFetch): completed by an append, a change, or its time-out."""

    __slots__ = ("_max_bytes", "_serving", "_session")

    def __init__(self, serving: ReplicaServing, session: ReplicaSession, call: Call) -> None:
        super().__init__(call, session.request_wait_ms)
        self._serving = serving
        self._session = session
        self._max_bytes = session.request_bytes_max

    def read(self, *, with_news: bool) -> Reading:
        """Read the marked partitions; those without room in the answer stay marked.

        A high watermark alone is included only beside other data, or `with_news`.
        """
        session, look = self._session, self._serving.reader.look
        self._serving.news_travel(session)
        max_bytes = self._max_bytes
        reading = Reading()
        news: list[tuple[ReplicaItem, FetchPartitionAnswer]] = []
        for item in list(session.dirty):
            room = max_bytes - reading.bytes_count
            if room <= 0 and not item.is_fresh:
                continue
            pending = len(reading.pending)
            answer = look(session, item, reading, room)
            if answer is NO_ROOM:
                continue
            if answer is None:
                session.dirty.pop(item, None)
            elif answer.records or _has_something(answer) or len(reading.pending) > pending:
                item.waits_for_follower = True
                self._give(reading, item, answer)
            else:
                news.append((item, answer))
        if reading.answers or with_news:
            for item, answer in news:
                self._give(reading, item, answer)
        return reading

    def _give(self, reading: Reading, item: ReplicaItem, answer: FetchPartitionAnswer) -> None:
        self._session.dirty.pop(item, None)
        item.sent_high_watermark, item.sent_log_start_offset = answer.high_watermark, answer.log_start_offset
        reading.answers.append((item, answer))  # type: ignore[arg-type]

    def reply(self, broker: Broker, reading: Reading) -> Outcome:
        """The answer, after a job when some records must come from the device."""
        if reading.pending:
            return Later(ColdFetch(broker, self, reading))
        return self.build(broker, reading)

    def build(self, broker: Broker, reading: Reading) -> Outcome:
        """Encode the answer."""
        topics: dict[Any, list[FetchPartitionAnswer]] = {}
        size_bytes = 0
        for each, answer in reading.answers:
            item: ReplicaItem = each  # type: ignore[assignment]
            if item.waits_for_follower and not answer.records and not _has_something(answer):
                # The records were removed meanwhile, or are damaged: the follower retries in a moment.
                answer.error_code = ErrorCode.kafka_storage_error
            size_bytes += len(answer.records)
            if answer.error_code:
                broker.counters.failed(FOLLOWER_FETCH, answer.error_code)
            if len(reading.answers) == 1:
                broker.counters.replication_bytes_out += size_bytes
                return self._encode([(item.raw_topic_id, (answer,))])
            topics.setdefault(item.topic_id, []).append(answer)
        broker.counters.replication_bytes_out += size_bytes
        return self._encode(list(topics.items()))

    def _encode(self, topics: list[FetchTopicAnswer]) -> Outcome:
        call = self.call
        session_id = self._session.session_id
        return Prebuilt(fetch_response(call.version, call.correlation_id, 0, ErrorCode.none, session_id, topics))

    def is_done(self) -> bool:
        """A waiting fetch is only completed by `Broker.finish`."""
        return False

    def answer(self, broker: Broker) -> Outcome:
        """Read again, and answer."""
        return self.reply(broker, self.read(with_news=True))

    def on_expiration(self, broker: Broker) -> Outcome:
        """Answer after `max_wait_ms` without an append."""
        return self.answer(broker)

    def leave(self, broker: Broker) -> None:  # noqa: ARG002
        """Remove this fetch from its session."""
        if self._session.delayed_fetch is self:
            self._session.delayed_fetch = None


def _has_something(answer: FetchPartitionAnswer) -> bool:
    """Whether the follower must act on the answer, and then names the partition again."""
    return bool(len(answer.records) or answer.error_code or answer.diverging_epoch is not None)


def _refused(call: Call, error_code: ErrorCode) -> Outcome:
    return Prebuilt(fetch_response(call.version, call.correlation_id, 0, error_code, 0, []))
