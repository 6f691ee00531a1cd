"""Fetches that wait (Kafka's DelayedFetch): a consumer's for committed bytes, a follower's for an append.

A consumer's fetch waits for `min_bytes` below the high watermark. A follower's fetch is answered at the end of the turn
that appended. Each fetch reads again when it completes, or when its wait is over. If some of its bytes are not in the
page cache, a job reads them first, and the fetches of others go on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Later, Outcome, Prebuilt, Slices
from yak.broker.counters import FOLLOWER_FETCH
from yak.broker.fetch_reads import NO_ROOM, FetchParams, FetchRead, must_act, read_in_slices, read_items
from yak.broker.fetch_sessions import ConsumerItem, ConsumerSession, FollowerItem, FollowerSession
from yak.broker.leader_hints import add_hints
from yak.errors import ErrorCode, LogDirectoryFailure
from yak.limits import FETCH_SLICED_BYTES_MAX, FETCH_SLICED_BYTES_PER_PARTITION, SLICE_ELEMENTS
from yak.protocol.hot import FetchPartitionAnswer, NodeEndpoint, fetch_response, fetch_response_in_slices
from yak.protocol.versions import FETCH
from yak.replication.partition import Partition
from yak.replication.read_replicas import chooses_by_rack
from yak.storage.reader import ends_with_segment

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_DISK_WAIT_MS = 30_000
_RACK_VERSION = 11
_LEADER_VERSION = 12
_FROM_LEADER = FetchParams()
_FROM_ANY = FetchParams(takes_follower=True)


class DelayedFetch(DelayedOperation):
    """A fetch until its answer: read again when it completes."""

    __slots__ = ("_broker", "_session")
    _session: Any
    """Its ConsumerSession or FollowerSession, or None. A subclass sets it."""

    def __init__(self, broker: Broker, call: Call, timeout_ms: int) -> None:
        super().__init__(call, timeout_ms)
        self._broker = broker

    def read(self, broker: Broker) -> FetchRead:
        """Read the bytes available now."""
        raise NotImplementedError

    def build(self, broker: Broker, reading: FetchRead) -> Outcome:
        """Encode the answer."""
        raise NotImplementedError

    def reply(self, broker: Broker, reading: FetchRead) -> Outcome:
        """The answer; if some bytes must come from the device, a job reads them first."""
        if reading.pending:
            return Later(DelayedRead(broker, self, reading))
        return self.build(broker, reading)

    def is_done(self) -> bool:
        """Never: its session or partitions complete a fetch."""
        return False

    def answer(self) -> Outcome:
        """Read again, and answer with the bytes available."""
        return self.reply(self._broker, self.read(self._broker))

    def on_expiration(self) -> Outcome:
        """Answer with the bytes available, even if too few."""
        return self.answer()

    def leave(self) -> None:
        """Remove this fetch from its session."""
        if self._session is not None and self._session.delayed_fetch is self:
            self._session.delayed_fetch = None


class ConsumerFetch(DelayedFetch):
    """A consumer's fetch: completed when it has enough bytes."""

    __slots__ = (
        "_bytes_seen",
        "_has_enough",
        "_is_incremental",
        "_items",
        "_max_bytes",
        "_min_bytes",
        "_params",
        "_sliced_max_bytes",
    )

    def __init__(
        self,
        broker: Broker,
        call: Call,
        items: list[ConsumerItem],
        session: ConsumerSession | None,
        is_incremental: bool,
    ) -> None:
        request = call.request
        super().__init__(broker, call, max(0, request.max_wait_ms))
        self._session = session
        self._items = items
        self._is_incremental = is_incremental
        aim_bytes = call.connection.fetch_aim_bytes
        allowed = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._max_bytes = max(0, min(allowed, aim_bytes))
        self._sliced_max_bytes = min(
            allowed, FETCH_SLICED_BYTES_MAX, FETCH_SLICED_BYTES_PER_PARTITION * self._partitions_count()
        )
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._params = _FROM_LEADER
        if call.version >= _RACK_VERSION:
            self._params = _FROM_ANY
            if request.rack_id and chooses_by_rack(broker.config, request.rack_id):
                self._params = FetchParams(request.rack_id, takes_follower=True)
        self._bytes_seen = 0
        self._has_enough = False
        call.request = None  # the items have all that is needed of it

    def _partitions_count(self) -> int:
        return len(self._session.items if self._is_incremental else self._items)

    def _candidates(self) -> list[ConsumerItem]:
        return list(self._session.dirty) if self._is_incremental else self._items

    def read(self, broker: Broker) -> FetchRead:
        """Read the bytes available now."""
        connection = self.call.connection
        connection.fetch_rotation += 1
        rotation, params = connection.fetch_rotation, self._params
        return read_items(broker, self._candidates(), self._max_bytes, rotation, self._sliced_max_bytes, params)

    def read_in_slices(self, broker: Broker) -> Generator[None, None, FetchRead]:
        """`read` in slices."""
        connection = self.call.connection
        connection.fetch_rotation += 1
        rotation, params = connection.fetch_rotation, self._params
        return read_in_slices(broker, self._candidates(), self._max_bytes, rotation, self._sliced_max_bytes, params)

    def is_enough(self, broker: Broker, reading: FetchRead) -> bool:
        """Whether to answer now: enough bytes, an error, no wait time, no partitions, or a read to a segment's end."""
        return (
            reading.bytes_count >= self._min_bytes
            or reading.has_error
            or self.timeout_ms == 0
            or (not self._items and not self._is_incremental)
            or (reading.bytes_count > 0 and self._ends_with_segment(broker))
        )

    def may_wait(self, broker: Broker) -> bool:
        """Whether delayed fetches have room for it; an incremental fetch is in its session."""
        return self._is_incremental or broker.sessions.may_delay(broker, self.call.connection, len(self._items))

    def _ends_with_segment(self, broker: Broker) -> bool:
        """Whether `_goes_on` holds for one of its partitions."""
        for item in self._candidates():
            partition = broker.partitions.get(item.topic_partition)  # type: ignore[arg-type]
            if partition is not None and _goes_on(partition, item):
                return True
        return False

    def build_in_slices(self, broker: Broker, reading: FetchRead) -> Slices:
        """`build` in slices."""
        for start in range(0, len(reading.to_count), SLICE_ELEMENTS):
            _count(broker, reading.to_count[start : start + SLICE_ELEMENTS])
            yield
        session_id, topics, hints = self._whole(broker, reading)
        yield
        call = self.call
        code = ErrorCode.none
        parts = yield from fetch_response_in_slices(call.version, call.correlation_id, code, session_id, topics, hints)
        return Prebuilt(parts)

    def build(self, broker: Broker, reading: FetchRead) -> Outcome:
        """Encode the answer."""
        if reading.to_count:
            _count(broker, reading.to_count)
        session_id, topics, hints = self._whole(broker, reading)
        call = self.call
        return Prebuilt(fetch_response(call.version, call.correlation_id, 0, ErrorCode.none, session_id, topics, hints))

    def _whole(
        self, broker: Broker, reading: FetchRead
    ) -> tuple[int, list[tuple[Any, list[FetchPartitionAnswer]]], tuple[NodeEndpoint, ...]]:
        """The session id, the topics with their partitions, and the endpoints of new leaders."""
        answers = reading.answers
        session_id = 0
        if self._session is not None:
            session_id = self._session.session_id
            answers = self._only_changes(broker, self._session, answers)
        topics = by_topic(answers)
        hints = (
            add_hints(broker.image, broker.node_id, topics)
            if reading.has_error and self.call.version >= _LEADER_VERSION
            else ()
        )
        return session_id, topics, hints

    def _only_changes(
        self, broker: Broker, session: ConsumerSession, answers: list[tuple[ConsumerItem, FetchPartitionAnswer]]
    ) -> list[tuple[ConsumerItem, FetchPartitionAnswer]]:
        """The answers that are new to the client. A partition without new data is skipped until it is marked dirty."""
        changed = []
        for item, answer in answers:
            has_data = len(answer.records) > 0
            is_changed = (
                has_data
                or answer.error_code != ErrorCode.none
                or answer.high_watermark != item.sent_high_watermark
                or answer.log_start_offset != item.sent_log_start_offset
                or answer.diverging_epoch is not None
                or answer.preferred_read_replica >= 0
            )
            item.sent_high_watermark = answer.high_watermark
            item.sent_log_start_offset = answer.log_start_offset
            if (
                has_data
                or answer.error_code != ErrorCode.none
                or answer.diverging_epoch is not None
                or answer.preferred_read_replica >= 0
            ):
                session.mark_dirty(item)
            elif item.fetch_offset >= answer.high_watermark:
                # only the partition marks the item from now on; it may be a new object since the session began
                broker.sessions.attach(broker, session, item)
                session.dirty.pop(item, None)
            if is_changed or not self._is_incremental:
                changed.append((item, answer))
        return changed

    # ------------------------------------------------------------------------------------------------- waiting

    def delay(self, broker: Broker, reading: FetchRead) -> None:
        """Register this fetch with its partitions, which then wake it."""
        self._bytes_seen = reading.bytes_count
        if self._session is not None:
            self._session.delayed_fetch = self
            if self._is_incremental:
                for item in self._session.dirty:
                    broker.sessions.attach(broker, self._session, item)
                self._leave_out_what_was_read(broker)
                return
        broker.sessions.delay(self.call.connection, len(self._items))
        for item in self._items:
            partition = broker.partitions.get(item.topic_partition)  # type: ignore[arg-type]
            if partition is not None:
                if partition.waiting_fetches is None:
                    partition.waiting_fetches = {}
                partition.waiting_fetches[self] = item
        self._leave_out_what_was_read(broker)

    def _leave_out_what_was_read(self, broker: Broker) -> None:
        """Subtract bytes committed earlier in this turn: they were read, and the turn's end counts them again."""
        for partition in broker.purgatory.advanced:
            if self in (partition.waiting_fetches or ()) or self._session in (partition.sessions or ()):
                self._bytes_seen -= partition.committed_bytes - partition.notified_bytes

    def leave(self) -> None:
        """Remove this fetch from its session and its partitions."""
        super().leave()
        if not self._is_incremental:
            broker = self._broker
            broker.sessions.delay(self.call.connection, -len(self._items))
            for item in self._items:
                partition = broker.partitions.get(item.topic_partition)  # type: ignore[arg-type]
                if partition is not None and partition.waiting_fetches:
                    partition.waiting_fetches.pop(self, None)

    def note_growth(self, partition: Partition, item: ConsumerItem, grown_bytes: int) -> None:
        """Note that a partition has `grown_bytes` more committed bytes, or changed; `try_complete` is called next."""
        self._bytes_seen += grown_bytes
        self._has_enough = self._min_bytes <= 1 or self._bytes_seen >= self._min_bytes or _goes_on(partition, item)

    def is_done(self) -> bool:
        """Whether the fetch has enough."""
        return self._has_enough


class FollowerFetch(DelayedFetch):
    """A follower's fetch: completed by an append, a change, or a new high watermark after a while."""

    __slots__ = ("_max_bytes", "_reader")

    def __init__(self, broker: Broker, session: FollowerSession, call: Call) -> None:
        super().__init__(broker, call, session.request_wait_ms)
        self._session = session
        self._reader = broker.follower_reader
        self._max_bytes = session.request_bytes_max

    def start(self, broker: Broker, *, must_answer: bool) -> Outcome:
        """Answer if there is something that the follower must act on, else wait."""
        must_answer = must_answer or self.timeout_ms == 0
        reading = self.read(broker, with_watermarks=must_answer)
        if reading.answers or must_answer:
            return self.reply(broker, reading)
        session = self._session
        session.delayed_fetch = self
        if session.dirty:
            broker.follower_sessions.delay_watermark(session)
        return Later(self)

    def read(self, broker: Broker, *, with_watermarks: bool = True) -> FetchRead:
        """Read the marked partitions; those without room in the answer stay marked.

        A high watermark alone is included only beside other data, or `with_watermarks`, or when as many partitions have
        one as an answer holds: otherwise they would stay in front of partitions with records.
        """
        session, look = self._session, self._reader.look
        broker.follower_sessions.watermark_sent(session)
        max_bytes, partitions_max = self._max_bytes, broker.replica_fetchers.partitions_a_fetch
        reading = FetchRead()
        idle: list[tuple[FollowerItem, FetchPartitionAnswer]] = []
        for item in list(session.dirty):
            is_full = len(reading.answers) + len(idle) >= partitions_max
            room = 0 if is_full else max_bytes - reading.bytes_count
            if room <= 0 and not item.is_fresh:
                continue
            pending = len(reading.pending)
            answer = look(session, item, reading, room)
            if answer is NO_ROOM:
                continue
            if answer is None:
                session.dirty.pop(item, None)
            elif answer.records or must_act(answer) or len(reading.pending) > pending:
                item.waits_for_follower = True
                self._give(reading, item, answer)
            else:
                idle.append((item, answer))
        if reading.answers or with_watermarks or len(idle) >= partitions_max:
            for item, answer in idle:
                self._give(reading, item, answer)
        return reading

    def _give(self, reading: FetchRead, item: FollowerItem, answer: FetchPartitionAnswer) -> None:
        self._session.dirty.pop(item, None)
        item.sent_high_watermark, item.sent_log_start_offset = answer.high_watermark, answer.log_start_offset
        reading.answers.append((item, answer))

    def build(self, broker: Broker, reading: FetchRead) -> Outcome:
        """Encode the answer."""
        size_bytes = 0
        for item, answer in reading.answers:
            if item.waits_for_follower and not answer.records and not must_act(answer):
                # The records were removed meanwhile, or are damaged: the follower retries in a moment.
                answer.error_code = ErrorCode.kafka_storage_error
            size_bytes += len(answer.records)
            if answer.error_code:
                broker.counters.failed(FOLLOWER_FETCH, answer.error_code)
        broker.counters.replicated.bytes_out += size_bytes
        call, topics = self.call, by_topic(reading.answers)
        session_id = self._session.session_id
        return Prebuilt(fetch_response(call.version, call.correlation_id, 0, ErrorCode.none, session_id, topics))


class DelayedRead(DelayedOperation):
    """A fetch of which some bytes are not in the page cache, while a job reads them."""

    __slots__ = ("_broker", "_error", "_fetch", "_is_read", "_reading", "_result")

    def __init__(self, broker: Broker, fetch: DelayedFetch, reading: FetchRead) -> None:
        super().__init__(fetch.call, _DISK_WAIT_MS)
        self._broker = broker
        self._fetch = fetch
        self._reading = reading
        self._is_read = False
        self._result: list[Any] | None = None
        self._error: BaseException | None = None
        pending = reading.pending

        def work() -> list[Any]:
            return [plan.run() for _index, plan in pending]

        def done(result: Any, error: BaseException | None) -> None:
            self._is_read = True
            self._result, self._error = result, error
            if isinstance(error, LogDirectoryFailure):
                broker.offline_replicas.directory_failed(error)
            broker.purgatory.complete(self)

        broker.jobs.run("read", work, done)

    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self._is_read

    def answer(self) -> Outcome:
        """The complete answer. Raises the job's exception unless it was a disk failure."""
        self._reading.take(self._broker, self._result, self._error)
        return self._fetch.build(self._broker, self._reading)

    def on_expiration(self) -> Outcome:
        """The device takes too long: answer with the cached bytes; the client fetches the others again."""
        return self._fetch.build(self._broker, self._reading)


def by_topic(answers: list[tuple[Any, FetchPartitionAnswer]]) -> list[tuple[Any, list[FetchPartitionAnswer]]]:
    """The answers of each topic, by the key that names it."""
    if len(answers) == 1:
        item, answer = answers[0]
        return [(item.topic_key, [answer])]
    topics: dict[Any, list[FetchPartitionAnswer]] = {}
    for item, answer in answers:
        topics.setdefault(item.topic_key, []).append(answer)
    return list(topics.items())


def _count(broker: Broker, answers: list[tuple[ConsumerItem, FetchPartitionAnswer]]) -> None:
    """Count bytes and records out, and errors."""
    topics = broker.counters.topics
    for item, answer in answers:
        size_bytes = len(answer.records)
        if size_bytes:
            traffic = topics.get(item.name)  # type: ignore[arg-type]
            if traffic is not None:
                traffic.bytes_out += size_bytes
                traffic.messages_out += answer.next_offset - item.fetch_offset
        elif answer.error_code:
            broker.counters.failed(FETCH, answer.error_code)


def _goes_on(partition: Partition, item: ConsumerItem) -> bool:
    """Whether committed records continue in a later segment than the one at the client's offset."""
    log = partition.log
    return log is not None and ends_with_segment(log, item.fetch_offset, partition.high_watermark)
