"""Fetches of consumers and followers: each reads its partitions, and may wait (Kafka's DelayedFetch).

Each partition of a fetch has its own error, and all share one byte limit. A consumer reads up to the high watermark, or
with the isolation level read_committed up to the last stable offset; it then gets the list of the aborted transactions
too, whose records it leaves out itself. A follower reads up to the log end. Its fetch offset is
its acknowledgement, which counts over a connection that has proven the follower's incarnation
(`FollowerSessions.take_progress`, `yak.protocol.peer_proof`).

A consumer's fetch waits for `min_bytes` below the high watermark. A follower's fetch is answered at the end of the turn
that appended. Each fetch reads again when it completes, or when its wait is over. If some of its bytes are not in the
page cache, a job reads them first, and the fetches of others go on.

A client that gets OFFSET_OUT_OF_RANGE resets its position (`auto.offset.reset`). Kafka guards this by the client's
leader epoch (KIP-320). But a client that loses the new leader may take leader and epoch from an old one that does not
know of the election. So a leader with followers answers NOT_LEADER_OR_FOLLOWER for an offset beyond its end, and the
client retries. It answers OFFSET_OUT_OF_RANGE only after the store confirmed its leadership.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, DelayedOperation, Encoded, Later, Outcome, Slices
from yak.broker.connections import Connection
from yak.broker.counters import FOLLOWER_FETCH
from yak.broker.fetch_read import FetchRead, Item
from yak.broker.leader_hints import add_hints
from yak.core.events import MuteConnection, UnmuteConnection
from yak.core.jobs import CombinedPlan
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.ids import Offset, TopicPartition
from yak.limits import (
    FETCH_PARTITIONS_READ_MAX,
    FETCH_SLICED_BYTES_MAX,
    FETCH_SLICED_BYTES_PER_PARTITION,
    LARGE_REQUEST_ELEMENTS,
    SLICE_ELEMENTS,
)
from yak.ports.disk import Buffer, Part
from yak.protocol.fetch_answer import AbortedTransaction, FetchPartitionAnswer, fetch_response, fetch_response_in_slices
from yak.protocol.hot_pieces import NodeEndpoint, TopicKey
from yak.protocol.replica_fetch import VERSION as FOLLOWER_VERSION
from yak.protocol.versions import FETCH
from yak.replication.fetch_sessions import (
    INITIAL_EPOCH,
    ConsumerItem,
    ConsumerSession,
    FetchItem,
    FollowerItem,
    FollowerSession,
)
from yak.replication.partition import Partition
from yak.replication.read_replicas import LEADER_ONLY, chooses_by_rack, preferred_replica
from yak.replication.recent_reads import RecentReads
from yak.replication.replica_fetchers import PARTITIONS_A_FETCH
from yak.replication.throttle import UNLIMITED, Throttle, is_named
from yak.storage.epoch_cache import UNKNOWN_EPOCH
from yak.storage.log import Log
from yak.storage.reader import (
    SLICE_BYTES_MIN,
    OffsetOutOfRange,
    PendingRead,
    ReadResult,
    aborted_transactions,
    ends_with_segment,
)

if TYPE_CHECKING:
    from yak.broker.broker import Broker

NO_ROOM: Final = FetchPartitionAnswer(-1)
"""More records than this answer may hold: the partition comes with the next."""
READ_COMMITTED: Final = 1
"""Kafka's IsolationLevel."""
_NONE = ErrorCode.none
_ABSENT: Final = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.topic_authorization_failed,
)
"""The errors of partitions that do not exist for the client."""
_READ_TOPIC: Final = Operation.READ, ResourceType.TOPIC
_DISK_WAIT_MS = 30_000
_STORAGE_ERROR_VERSION = 6
_SESSION_VERSION = 7
_RACK_VERSION = 11
_LEADER_VERSION = 12
_GOLDEN, _MASK = 0x9E3779B1, 0xFFFFFFFF
"""Steps of the golden ratio visit all partitions evenly, also when the client rotates its list by one."""

Topics: TypeAlias = list[tuple[TopicKey, list[FetchPartitionAnswer]]]


class Fetches:
    """Begins the fetches of consumers and followers; `sessions` of the former, `follower_sessions` of the latter."""

    def __init__(self, broker: Broker) -> None:
        self.context, self.node_id, self.throttling = broker.context, broker.node_id, broker.throttling
        self.authorization, self.partitions = broker.authorization, broker.partitions
        self.leadership, self.store_outage = broker.leadership, broker.store_outage
        self.log_failures, self.damaged_replicas = broker.log_failures, broker.damaged_replicas
        self.sessions, self.follower_sessions = broker.sessions, broker.follower_sessions
        self.purgatory, self.counters = broker.purgatory, broker.counters
        self.throttle = Throttle(self.context, self.node_id, "leader.replication.throttled.rate")
        """Limits followers that catch up."""
        self.recent_reads = RecentReads()
        self.follower_partitions_max = PARTITIONS_A_FETCH
        """Partitions in one answer to a follower."""

    def of_consumer(self, call: Call, items: list[ConsumerItem], *, by_id: bool) -> ConsumerFetch | Encoded:
        """A consumer's fetch with its session, or the answer that refuses it."""
        request = call.request
        if request.replica_id >= 0:
            return self._refuse(call, ErrorCode.cluster_authorization_failed, items)
        session: ConsumerSession | None = None
        is_incremental = False
        if call.version >= _SESSION_VERSION:
            try:
                session, is_incremental = self.sessions.session_of(
                    request, items, call.connection, uses_topic_ids=by_id
                )
            except PeerError as error:
                return self._refuse(call, error.error_code, [])
            if call.fault is not None and session is not None:
                call.fault.mark_dirty(session)
        return ConsumerFetch(self, call, items, session, is_incremental)

    def _refuse(self, call: Call, error_code: ErrorCode, items: list[ConsumerItem]) -> Encoded:
        self.counters.failed(FETCH, error_code)
        answers = [(item, FetchPartitionAnswer(item.index, error_code, -1, -1, -1, b"")) for item in items]
        top = error_code if call.version >= _SESSION_VERSION else _NONE
        return fetch_response(call.version, call.correlation_id, 0, top, 0, _by_topic(answers))

    def answer_follower(self, call: Call) -> Outcome:
        """Answer a follower's fetch, or delay it."""
        request = call.request
        call.api_key = FOLLOWER_FETCH  # from here on the key only selects counters
        error_code = _NONE
        try:
            session = self.follower_sessions.session_of(request, call.connection)
        except PeerError as error:
            session, error_code = None, error.error_code
        if session is None:
            return fetch_response(call.version, call.correlation_id, 0, error_code, 0, [])
        return FollowerFetch(self, session, call).start(must_answer=request.session_epoch == INITIAL_EPOCH)

    def answer_repeated(
        self, connection: Connection, session: FollowerSession, frame: Buffer
    ) -> tuple[Call, Outcome] | None:
        """Serve a follower's fetch that differs from its last one in one partition only; None for any other frame."""
        correlation_id = self.follower_sessions.repeated(session, frame)
        if correlation_id is None:
            return None
        call = Call(connection, FOLLOWER_FETCH, FOLLOWER_VERSION, correlation_id, None, self.context.clock.now_ms)
        return call, FollowerFetch(self, session, call).start(must_answer=False)


class DelayedFetch(DelayedOperation, Generic[Item]):
    """A fetch until its answer: read again when it completes. A subclass limits the partitions and offsets."""

    __slots__ = ("_fetches", "_job_id", "_max_bytes", "_reading", "_session")
    _session: ConsumerSession | FollowerSession | None

    def __init__(self, fetches: Fetches, call: Call, timeout_ms: int, max_bytes: int) -> None:
        super().__init__(call, timeout_ms)
        self._fetches, self._max_bytes = fetches, max_bytes
        self._reading: FetchRead[Item] | None = None
        """The read that a job completes, if some of its bytes must come from the device."""

    def read(self) -> FetchRead[Item]:
        """Read the bytes available now."""
        raise NotImplementedError

    def build(self, reading: FetchRead[Item]) -> Encoded:
        """Encode the answer."""
        raise NotImplementedError

    def _readable(self, item: Item) -> Partition:
        """The partition, with its log, if this broker may serve it in the reader's leader epoch. Raises PeerError."""
        raise NotImplementedError

    def _position(self, partition: Partition, item: Item) -> FetchPartitionAnswer | None:
        """The answer without records where the reader must go elsewhere or truncate first. Raises PeerError."""
        raise NotImplementedError

    def _read(
        self, partition: Partition, item: Item, reading: FetchRead[Item], room: int
    ) -> FetchPartitionAnswer | None:
        """The records from the fetch offset on, at most `room` bytes; None for no answer. Raises PeerError."""
        raise NotImplementedError

    def read_partition(
        self, item: Item, reading: FetchRead[Item], room: int, partition: Partition | None = None
    ) -> FetchPartitionAnswer | None:
        """The answer for one partition; None when the reader has everything. A `partition` is readable for certain."""
        try:
            answer = None
            if partition is None:
                partition = self._readable(item)
                answer = self._position(partition, item)
            return answer or self._read(partition, item, reading, room)
        except PeerError as error:
            error_code = error.error_code
        except LogDirectoryFailure as failure:
            self._fetches.log_failures.directory_failed(failure)
            error_code = ErrorCode.kafka_storage_error
        return FetchPartitionAnswer(item.index, error_code, -1, -1, -1, b"")

    def reply(self, reading: FetchRead[Item]) -> Outcome:
        """The answer; if some bytes must come from the device, a job reads them first."""
        if not reading.pending:
            return self.build(reading)
        self._reading, self.timeout_ms = reading, _DISK_WAIT_MS
        plans = tuple(pending.plan for _index, pending in reading.pending)
        self._job_id = self._fetches.context.jobs.run("read", CombinedPlan(plans), self._read_ended)
        return Later(self)

    def _read_ended(self, found: list[object] | None, error: BaseException | None) -> None:
        assert self._reading is not None
        self._reading.found, self._reading.error = found or [], error
        for each in self._reading.found:
            if isinstance(each, LogDirectoryFailure):
                self._fetches.log_failures.directory_failed(each)
        self.complete()

    def complete(self) -> None:
        """Read again, and answer."""
        self._fetches.purgatory.complete(self)

    def answer(self) -> Outcome:
        """Read again, and answer with the bytes available. Raises the job's exception unless it was a disk failure."""
        if self._reading is None:
            return self.reply(self.read())
        self._take_found(self._reading)
        return self.build(self._reading)

    def on_expiration(self) -> Outcome:
        """Answer with the bytes available, even if too few. The reader fetches again what the device was too slow for."""
        return self.answer() if self._reading is None else self.build(self._reading)

    def _take_found(self, reading: FetchRead[Item]) -> None:
        """Put the job's records into the answers; a failed read is a storage error."""
        fetches = self._fetches
        if reading.error is not None:
            raise reading.error
        for (index, pending), found in zip(reading.pending, reading.found, strict=True):
            answer = reading.answers[index][1]
            if not isinstance(found, ReadResult):
                answer.error_code = ErrorCode.kafka_storage_error
            else:
                answer.records = pending.take(found)
                answer.next_offset = pending.next_offset
                partition = fetches.partitions.get(pending.log.topic_partition)
                error_code = fetches.damaged_replicas.read(partition, pending)
                if not len(answer.records):
                    answer.error_code = error_code

    def leave(self) -> None:
        """Remove this fetch from its session."""
        if self._session is not None and self._session.delayed_fetch is self:
            self._session.delayed_fetch = None


class ConsumerFetch(DelayedFetch[ConsumerItem]):
    """A consumer's fetch: reads up to the high watermark, and completes when it has enough bytes."""

    __slots__ = (
        "_bytes_seen",
        "_denied",
        "_is_incremental",
        "_is_read_committed",
        "_items",
        "_min_bytes",
        "_rack_id",
        "_sliced_max_bytes",
        "_takes_follower",
    )
    _session: ConsumerSession | None

    def __init__(
        self,
        fetches: Fetches,
        call: Call,
        items: list[ConsumerItem],
        session: ConsumerSession | None,
        is_incremental: bool,
    ) -> None:
        request, config = call.request, fetches.context.config
        allowed = min(request.max_bytes, config.fetch_max_bytes)
        if fetches.throttling.is_active:
            allowed = min(allowed, fetches.throttling.fetch_bytes_max(call))
        max_bytes = max(0, min(allowed, call.connection.fetch_aim_bytes))
        super().__init__(fetches, call, max(0, request.max_wait_ms), max_bytes)
        self._session = session
        self._items = items
        self._is_incremental = is_incremental
        self._is_read_committed = request.isolation_level == READ_COMMITTED
        count = len(session.items if is_incremental and session is not None else items)
        sliced = min(allowed, FETCH_SLICED_BYTES_MAX, FETCH_SLICED_BYTES_PER_PARTITION * count)
        self._sliced_max_bytes = max(max_bytes, sliced)
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._takes_follower = call.version >= _RACK_VERSION
        """Whether a follower may answer (KIP-392)."""
        self._rack_id = ""
        """The rack of the followers that the leader may name; empty where the leader serves every consumer."""
        if self._takes_follower and request.rack_id and chooses_by_rack(config, request.rack_id):
            self._rack_id = request.rack_id
        self._bytes_seen = 0
        self._denied: frozenset[str] = frozenset()
        """Topics that the client may not read."""
        call.request = None  # the items have all that is needed of it

    @property
    def is_large(self) -> bool:
        """Whether it reads many partitions: also a short request does, in a session with as many."""
        return self._is_incremental and self._session is not None and len(self._session.dirty) > LARGE_REQUEST_ELEMENTS

    def start(self) -> Outcome:
        """Answer with the bytes available, or wait if they are too few."""
        reading = self.read()
        if self._is_enough(reading) or not self._may_wait():
            return self.reply(reading)
        self._delay(reading)
        return Later(self)

    def start_in_slices(self) -> Slices:
        """`start` in slices. A fetch that has to wait first reads all partitions again."""
        reading = yield from self._read_in_slices()
        if not self._is_enough(reading) and self._may_wait():
            # commits since a partition was read would not wake this fetch
            reading = self.read()
            if not self._is_enough(reading):
                self._delay(reading)
                return Later(self)
        return self.reply(reading) if reading.pending else (yield from self._build_in_slices(reading))

    # ------------------------------------------------------------------------------------------------- reading

    def read(self) -> FetchRead[ConsumerItem]:
        """Read every partition, starting at another one each time; the answers are in the order of the request.

        The kernel sends long runs of records from their files. Where that is not possible, records are read here, up to
        the smaller limit of an answer in memory.
        """
        reading: FetchRead[ConsumerItem] = FetchRead()
        items, first = self._in_turn()
        self._read_some(reading, items)
        if first:
            reading.rotate(first)
        return reading

    def _read_in_slices(self) -> Generator[None, None, FetchRead[ConsumerItem]]:
        reading: FetchRead[ConsumerItem] = FetchRead()
        items, first = self._in_turn()
        for start in range(0, len(items), SLICE_ELEMENTS):
            some = items[start : start + SLICE_ELEMENTS]
            self._attach(some)
            self._read_some(reading, some)
            yield
        if first:
            reading.rotate(first)
        return reading

    def _attach(self, items: Iterable[ConsumerItem]) -> None:
        """Let the partitions mark these items of the session from now on: one may be a new object since it began."""
        if self._session is not None:
            for item in items:
                self._fetches.sessions.attach(self._session, item)

    def reply(self, reading: FetchRead[ConsumerItem]) -> Outcome:
        """The answer, or a job first, during which the partitions may change.

        No further request of the connection is read meanwhile, as in Kafka: a thousand could wait for megabytes each.
        """
        if reading.pending:
            self._attach(self._candidates())
            self._fetches.context.emit(MuteConnection(self.call.connection.connection_id))
        return super().reply(reading)

    def _candidates(self) -> list[ConsumerItem]:
        return list(self._session.dirty) if self._is_incremental and self._session is not None else self._items

    def _in_turn(self) -> tuple[list[ConsumerItem], int]:
        """The partitions in the order in which they are read, and the index of the first one."""
        items, connection = self._candidates(), self.call.connection
        if self._session is not None:
            self._session.marked_since_read.clear()
        connection.fetch_rotation += 1
        first = ((connection.fetch_rotation * _GOLDEN) & _MASK) * len(items) >> 32
        return (items[first:] + items[:first] if first else items), first

    def _read_some(self, reading: FetchRead[ConsumerItem], items: list[ConsumerItem]) -> None:
        fetches, answers = self._fetches, reading.answers
        find = fetches.partitions.get
        if fetches.authorization.is_active:
            self._denied = self._topics_denied({item.name for item in items})
        takes_care = (
            fetches.context.is_stopping or self._rack_id != "" or bool(self._denied) or self.call.fault is not None
        )
        for item in items:
            partition: Partition | None = find((item.name, item.index))  # type: ignore[call-overload]
            if (
                partition is None
                or partition.log is None
                or partition.log.producers.has_transactions
                or not partition.is_leader
                or takes_care
                or item.last_fetched_epoch >= 0
                or item.current_leader_epoch not in (-1, partition.leader_epoch)
                or (item.topic_key is not partition.topic_id and type(item.topic_key) is not str)
            ):
                self._read_carefully(reading, item)
                continue
            high_watermark, offset = partition.high_watermark, item.fetch_offset
            log_start_offset = partition.log.log_start_offset
            if offset != high_watermark or offset < log_start_offset:
                if not log_start_offset <= offset < high_watermark:
                    self._read_carefully(reading, item)
                    continue
                if not 0 < self._sliced_max_bytes <= reading.bytes_count:
                    self._read_carefully(reading, item, partition)
                    continue
            # nothing new, true for most partitions of a large fetch; or no room
            answers.append(
                (item, FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log_start_offset))
            )

    def _topics_denied(self, names: set[str | None]) -> frozenset[str]:
        """Those topics that the client may not read, in a session as of now; one without a name is not known yet."""
        allows, call = self._fetches.authorization.allows, self.call
        return frozenset([name for name in names if name is not None and not allows(call, *_READ_TOPIC, name)])

    def _read_carefully(
        self, reading: FetchRead[ConsumerItem], item: ConsumerItem, partition: Partition | None = None
    ) -> None:
        answer = self.read_partition(item, reading, self._max_bytes - reading.bytes_count, partition)
        assert answer is not None
        if answer.error_code or answer.diverging_epoch is not None or answer.preferred_read_replica >= 0:
            reading.has_error = True
        if answer.error_code:
            reading.to_count.append((item, answer))
        reading.answers.append((item, answer))

    def _readable(self, item: ConsumerItem) -> Partition:
        fetches = self._fetches
        if item.name is None:
            assert not isinstance(item.topic_key, (str, bytes))
            topic = fetches.context.image.topic_by_id(item.topic_key)
            if topic is None:
                raise PeerError(ErrorCode.unknown_topic_id)
            item.name = topic.name
            self._denied |= self._topics_denied({item.name})
        if item.name in self._denied:
            raise PeerError(ErrorCode.topic_authorization_failed)
        if self.call.fault is not None:
            self.call.fault.check(item.name, item.index)
        partition: Partition | None = fetches.partitions.get((item.name, item.index))  # type: ignore[call-overload]
        if (
            partition is None
            or partition.log is None
            or not (partition.is_leader or (self._takes_follower and partition.is_follower))
            or fetches.context.is_stopping
        ):
            place = TopicPartition(item.name, item.index)
            # In Kafka's Fetch each negative epoch stands for none.
            partition = fetches.leadership.leader_of(place, max(UNKNOWN_EPOCH, item.current_leader_epoch))
        if type(item.topic_key) is not str and partition.topic_id != item.topic_key:
            raise PeerError(ErrorCode.unknown_topic_id)
        if item.current_leader_epoch >= 0:
            partition.check_leader_epoch(item.current_leader_epoch)
        return partition

    def _position(self, partition: Partition, item: ConsumerItem) -> FetchPartitionAnswer | None:
        if not self._rack_id and item.last_fetched_epoch < 0:
            return None
        log = partition.log
        assert log is not None
        answer = self._without_records(partition, item, log)
        if self._rack_id and partition.is_leader:
            image = self._fetches.context.image
            listener = self.call.connection.listener.name
            answer.preferred_read_replica = preferred_replica(
                image, partition, self._rack_id, item.fetch_offset, listener
            )
            if answer.preferred_read_replica != LEADER_ONLY:
                return answer
        if item.last_fetched_epoch >= 0:
            answer.diverging_epoch = item.diverging_epoch(log)
            if answer.diverging_epoch is not None:
                if answer.diverging_epoch.epoch < 0:
                    raise PeerError(ErrorCode.offset_out_of_range)
                return answer
        return None

    def _read(
        self, partition: Partition, item: ConsumerItem, reading: FetchRead[ConsumerItem], room: int
    ) -> FetchPartitionAnswer:
        log, end_offset, offset = partition.log, self._end_offset(partition), item.fetch_offset
        assert log is not None
        answer = self._without_records(partition, item, log)
        if offset >= end_offset or offset < log.log_start_offset:
            if offset < log.log_start_offset or offset > log.log_end_offset:
                if self._may_be_elsewhere(partition, log, item):
                    raise PeerError(ErrorCode.not_leader_or_follower)
                raise PeerError(ErrorCode.offset_out_of_range)
            return answer
        if len(reading.to_count) >= FETCH_PARTITIONS_READ_MAX:
            return answer
        at_least_one = reading.bytes_count == 0
        size = max(min(item.max_bytes, room), 0)
        sliced_bytes = min(item.max_bytes, self._sliced_max_bytes - reading.bytes_count)
        found: Part | PendingRead | None = None
        try:
            if sliced_bytes >= SLICE_BYTES_MIN and partition.is_leader:  # a follower may truncate what it has sent
                found = log.slice(offset, sliced_bytes, end_offset)
            if found is None:
                if not size and not at_least_one:
                    return answer
                # librdkafka takes answers without records for a record that is too large
                found = log.read(offset, size, end_offset, at_least_one=at_least_one, skips_emptied=True)
        except OffsetOutOfRange as error:
            raise PeerError(ErrorCode.offset_out_of_range, str(error)) from error
        reading.to_count.append((item, answer))
        reading.add(answer, found, size)
        answer.next_offset = log.positions.read_end
        if self._is_read_committed and log.producers.has_transactions:
            read_end = end_offset if isinstance(found, PendingRead) else log.positions.read_end
            answer.aborted_transactions = [
                AbortedTransaction(aborted.producer_id, aborted.first_offset)
                for aborted in aborted_transactions(log.segments, offset, read_end)
            ]
        return answer

    def _end_offset(self, partition: Partition) -> Offset:
        """The offset up to which this consumer reads."""
        return partition.last_stable_offset if self._is_read_committed else partition.high_watermark

    def _without_records(self, partition: Partition, item: ConsumerItem, log: Log) -> FetchPartitionAnswer:
        high_watermark, last_stable_offset = partition.high_watermark, partition.last_stable_offset
        return FetchPartitionAnswer(item.index, _NONE, high_watermark, last_stable_offset, log.log_start_offset, b"")

    def _may_be_elsewhere(self, partition: Partition, log: Log, item: ConsumerItem) -> bool:
        """Whether a consumer with an offset outside of the log must find the leader first."""
        store_outage = self._fetches.store_outage
        if partition.is_follower:
            # A client without a leader epoch takes this follower for the leader.
            return item.current_leader_epoch < 0
        if item.fetch_offset < log.log_start_offset:
            return item.current_leader_epoch < 0 and store_outage.may_be_fenced(partition)
        return bool(partition.replica_states) and not store_outage.still_leads(partition)

    # ------------------------------------------------------------------------------------------------- the answer

    def _build_in_slices(self, reading: FetchRead[ConsumerItem]) -> Slices:
        """`build` in slices."""
        if self._fetches.throttling.is_active and (throttled := self._throttled(reading)):
            return throttled
        for start in range(0, len(reading.to_count), SLICE_ELEMENTS):
            self._count(reading.to_count[start : start + SLICE_ELEMENTS])
            yield
        session_id, topics, hints = self._whole(reading)
        yield
        call = self.call
        parts = yield from fetch_response_in_slices(call.version, call.correlation_id, _NONE, session_id, topics, hints)
        return parts

    def build(self, reading: FetchRead[ConsumerItem]) -> Encoded:
        """Encode the answer."""
        if self._fetches.throttling.is_active and (throttled := self._throttled(reading)):
            return throttled
        if reading.to_count:
            self._count(reading.to_count)
        session_id, topics, hints = self._whole(reading)
        call = self.call
        return fetch_response(call.version, call.correlation_id, 0, _NONE, session_id, topics, hints)

    def _throttled(self, reading: FetchRead[ConsumerItem]) -> Encoded | None:
        """The empty answer to a consumer that exceeds a quota (KafkaApis.handleFetchRequest)."""
        call, fetches = self.call, self._fetches
        throttle_ms = fetches.throttling.fetched(call, sum(len(answer.records) for _item, answer in reading.to_count))
        if not throttle_ms:
            return None
        session_id = fetches.sessions.throttled(self._session, keep=self._is_incremental)
        return fetch_response(call.version, call.correlation_id, throttle_ms, _NONE, session_id, [])

    def _count(self, answers: list[tuple[ConsumerItem, FetchPartitionAnswer]]) -> None:
        """Count bytes and records out, and errors."""
        counters = self._fetches.counters
        for item, answer in answers:
            size_bytes = len(answer.records)
            if size_bytes:
                traffic = counters.topics.get(item.name)  # type: ignore[arg-type]
                if traffic is not None:
                    traffic.bytes_out += size_bytes
                    traffic.messages_out += answer.next_offset - item.fetch_offset
            elif answer.error_code:
                counters.failed(FETCH, answer.error_code)

    def _whole(self, reading: FetchRead[ConsumerItem]) -> tuple[int, Topics, tuple[NodeEndpoint, ...]]:
        """The session id, the topics with their partitions, and the endpoints of new leaders.

        Clients before v6 find the next leader only after NOT_LEADER_OR_FOLLOWER (KafkaApis.maybeDownConvertStorageError).
        """
        answers, session_id = reading.answers, 0
        if self.call.version < _STORAGE_ERROR_VERSION:
            for _item, answer in answers:
                if answer.error_code == ErrorCode.kafka_storage_error:
                    answer.error_code = ErrorCode.not_leader_or_follower
        if self._session is not None and self._session.session_id:
            session_id = self._session.session_id
            answers = self._only_changes(self._session, answers)
        if reading.has_error:
            # absent partitions come last (KafkaApis.handleFetchRequest)
            answers = sorted(answers, key=lambda entry: entry[1].error_code in _ABSENT)
        topics = _by_topic(answers)
        if not reading.has_error or self.call.version < _LEADER_VERSION:
            return session_id, topics, ()
        listener = self.call.connection.listener.name
        return session_id, topics, add_hints(self._fetches.context.image, self._fetches.node_id, listener, topics)

    def _only_changes(
        self, session: ConsumerSession, answers: list[tuple[ConsumerItem, FetchPartitionAnswer]]
    ) -> list[tuple[ConsumerItem, FetchPartitionAnswer]]:
        """The answers that are new to the client. A partition without new data is skipped until it is marked dirty."""
        changed = []
        for item, answer in answers:
            must_repeat = must_act(answer) or answer.preferred_read_replica >= 0
            is_changed = (
                must_repeat
                or answer.high_watermark != item.sent_high_watermark
                or answer.log_start_offset != item.sent_log_start_offset
            )
            item.sent_high_watermark = answer.high_watermark
            item.sent_log_start_offset = answer.log_start_offset
            if must_repeat:
                session.mark_dirty(item)
            elif item.fetch_offset >= (answer.last_stable_offset if self._is_read_committed else answer.high_watermark):
                # only the partition marks the item from now on
                self._fetches.sessions.attach(session, item)
                if item not in session.marked_since_read:
                    session.dirty.pop(item, None)
            if is_changed or not self._is_incremental:
                changed.append((item, answer))
        return changed

    # ------------------------------------------------------------------------------------------------- waiting

    @property
    def is_waiting_for_more(self) -> bool:
        """Whether it waits for its partitions, not for a job that reads records."""
        return self._reading is None

    def _is_enough(self, reading: FetchRead[ConsumerItem]) -> bool:
        """Whether to answer now: enough bytes, an error, no wait time, no partitions, or a read to a segment's end."""
        return (
            reading.bytes_count >= self._min_bytes
            or reading.has_error
            or len(reading.to_count) >= FETCH_PARTITIONS_READ_MAX
            or self.timeout_ms == 0
            or (not self._items and not self._is_incremental)
            or (reading.bytes_count > 0 and self._ends_with_segment())
        )

    def _ends_with_segment(self) -> bool:
        """Whether `_goes_on` holds for one of its partitions."""
        find = self._fetches.partitions.get
        for item in self._candidates():
            partition = find(item.topic_partition)  # type: ignore[arg-type]
            if partition is not None and self._goes_on(partition, item):
                return True
        return False

    def _goes_on(self, partition: Partition, item: ConsumerItem) -> bool:
        """Whether readable records continue in a later segment than the one at the client's offset."""
        log = partition.log
        return log is not None and ends_with_segment(log, item.fetch_offset, self._end_offset(partition))

    def _may_wait(self) -> bool:
        """Whether delayed fetches have room for it; a fetch with a session is in its session."""
        return self._session is not None or self._fetches.sessions.may_delay(self.call.connection, len(self._items))

    def _delay(self, reading: FetchRead[ConsumerItem]) -> None:
        """Subscribe this fetch to its partitions, which then wake it."""
        sessions, session = self._fetches.sessions, self._session
        if session is None:
            session = self._session = sessions.delay(self.call.connection, self._items)
        elif self._is_incremental:
            self._attach(session.dirty)
        session.delayed_fetch = self
        self._bytes_seen = reading.bytes_count
        for partition in self._fetches.purgatory.advanced:
            if session in partition.sessions:
                # committed earlier in this turn: it was read, and the turn's end counts it again
                self._bytes_seen -= partition.committed_bytes - partition.notified_bytes

    def note_growth(self, partition: Partition, item: ConsumerItem, grown_bytes: int) -> None:
        """Note that a partition has `grown_bytes` more committed bytes, or changed; complete the fetch if it has
        enough."""
        self._bytes_seen += grown_bytes
        if self._is_read_committed and grown_bytes and partition.last_stable_offset <= item.fetch_offset:
            # these bytes belong to an undecided transaction, or are behind one
            return
        if self._min_bytes <= 1 or self._bytes_seen >= self._min_bytes or self._goes_on(partition, item):
            self.complete()

    def leave(self) -> None:
        """Remove this fetch from its session, or from its partitions."""
        if self._reading is not None:
            self._fetches.context.emit(UnmuteConnection(self.call.connection.connection_id))
            self._fetches.context.jobs.drop(self._job_id)
        session = self._session
        if session is not None and session.delayed_fetch is self:
            session.delayed_fetch = None
            if not session.session_id:
                self._fetches.sessions.end_delay(session, self._items)


class FollowerFetch(DelayedFetch[FollowerItem]):
    """A follower's fetch: reads up to the log end, and completes by an append, a change, or a new high watermark after
    a while."""

    __slots__ = ()
    _session: FollowerSession

    def __init__(self, fetches: Fetches, session: FollowerSession, call: Call) -> None:
        super().__init__(fetches, call, session.request_wait_ms, session.request_bytes_max)
        self._session = session

    def start(self, *, must_answer: bool) -> Outcome:
        """Answer if there is something that the follower must act on, else wait."""
        must_answer = must_answer or self.timeout_ms == 0
        reading = self.read(with_watermarks=must_answer)
        if reading.answers or must_answer:
            return self.reply(reading)
        session = self._session
        session.delayed_fetch = self
        if session.dirty:
            self._fetches.follower_sessions.delay_watermark(session)
        return Later(self)

    # ------------------------------------------------------------------------------------------------- reading

    def read(self, *, with_watermarks: bool = True) -> FetchRead[FollowerItem]:
        """Read the marked partitions; those without room in the answer stay marked.

        A high watermark alone is included only beside other data, or `with_watermarks`, or when as many partitions have
        one as an answer holds: otherwise they would stay in front of partitions with records.
        """
        session = self._session
        self._fetches.follower_sessions.watermark_sent(session)
        max_bytes, partitions_max = self._max_bytes, self._fetches.follower_partitions_max
        reading: FetchRead[FollowerItem] = FetchRead()
        idle: list[tuple[FollowerItem, FetchPartitionAnswer]] = []
        for item in list(session.dirty):
            is_full = len(reading.answers) + len(idle) >= partitions_max
            room = 0 if is_full else max_bytes - reading.bytes_count
            if room <= 0 and not item.is_fresh:
                continue
            pending = len(reading.pending)
            answer = self.read_partition(item, reading, room)
            if answer is NO_ROOM:
                continue
            if answer is None:
                session.dirty.pop(item, None)
            elif must_act(answer) or len(reading.pending) > pending:
                item.waits_for_follower = True
                self._give(reading, item, answer)
            else:
                idle.append((item, answer))
        if reading.answers or with_watermarks or len(idle) >= partitions_max:
            for item, answer in idle:
                self._give(reading, item, answer)
        return reading

    def _give(self, reading: FetchRead[FollowerItem], item: FollowerItem, answer: FetchPartitionAnswer) -> None:
        self._session.dirty.pop(item, None)
        item.sent_high_watermark, item.sent_log_start_offset = answer.high_watermark, answer.log_start_offset
        reading.answers.append((item, answer))

    def _readable(self, item: FollowerItem) -> Partition:
        partition, fetches = item.partition, self._fetches
        if partition is None or fetches.partitions.get(partition.topic_partition) is not partition:
            raise PeerError(ErrorCode.unknown_topic_id)
        if partition.log is None:
            raise PeerError(ErrorCode.kafka_storage_error)
        if not partition.is_leader or fetches.context.is_stopping:
            raise PeerError(ErrorCode.not_leader_or_follower)
        partition.check_leader_epoch(item.current_leader_epoch)
        return partition

    def _position(self, partition: Partition, item: FollowerItem) -> FetchPartitionAnswer | None:
        if not item.is_fresh:
            return None
        return self._fetches.follower_sessions.take_progress(self._session, partition, item)

    def _read(
        self, partition: Partition, item: FollowerItem, reading: FetchRead[FollowerItem], room: int
    ) -> FetchPartitionAnswer | None:
        log, high_watermark = partition.log, partition.high_watermark
        assert log is not None
        log_start_offset = log.log_start_offset
        offset, end = item.fetch_offset, log.log_end_offset
        if (
            offset >= end
            and high_watermark == item.sent_high_watermark
            and log_start_offset == item.sent_log_start_offset
            and (room > 0 or not reading.bytes_count)
        ):
            return None
        stable_offset = partition.last_stable_offset
        answer = FetchPartitionAnswer(item.index, 0, high_watermark, stable_offset, log_start_offset, b"")
        if room <= 0 and reading.bytes_count:
            return NO_ROOM
        if offset >= end:
            return answer
        size = min(item.max_bytes, max(room, 0))
        throttle = self._fetches.throttle
        is_throttled = self._session.node_id not in partition.isr and self._is_throttled(partition, log)
        if is_throttled:
            if throttle.is_full():
                self._fetches.follower_sessions.delay_throttled(self._session, item)
                return None
            size = min(size, throttle.room())
        at_least_one = not reading.bytes_count
        try:
            if item.is_repeated:
                # it rejected what `read` found: a job reads the file and checks each batch
                plan = log.plan_read(offset, size, end, at_least_one=at_least_one)
                found: Buffer | PendingRead = PendingRead(log, plan)
            else:
                found = self._find(partition, log, offset, size, end, at_least_one=at_least_one)
        except OffsetOutOfRange as error:
            return FetchPartitionAnswer(
                item.index, ErrorCode.offset_out_of_range, high_watermark, -1, error.log_start_offset, b""
            )
        taken = reading.add(answer, found, size)
        if is_throttled:
            throttle.took(taken)
        if not taken:
            # The next batch exceeds the room that is left. Only this mark brings it into the next answer.
            return NO_ROOM
        item.given_offset = offset
        return answer

    def _find(
        self, partition: Partition, log: Log, offset: Offset, size: int, end: Offset, *, at_least_one: bool
    ) -> Buffer | PendingRead:
        recent_reads = self._fetches.recent_reads
        at_hand = log.positions.newest_batch(offset, end, size) or recent_reads.take(log, offset, size)
        if at_hand is not None:
            return at_hand
        found = log.read(offset, size, end, at_least_one=at_least_one)
        if not isinstance(found, PendingRead):
            recent_reads.keep(log, offset, found, len(partition.replica_sessions) - 1)
        return found

    def _is_throttled(self, partition: Partition, log: Log) -> bool:
        if self._fetches.throttle.rate >= UNLIMITED:
            return False
        named = log.config.leader_replication_throttled_replicas
        return is_named(named, partition.topic_partition.partition, self._fetches.node_id)

    # ------------------------------------------------------------------------------------------------- the answer

    def build(self, reading: FetchRead[FollowerItem]) -> Encoded:
        """Encode the answer."""
        counters, size_bytes = self._fetches.counters, 0
        for item, answer in reading.answers:
            if item.waits_for_follower and not must_act(answer):
                # The records were removed meanwhile, or are damaged: the follower retries in a moment.
                answer.error_code = ErrorCode.kafka_storage_error
            size_bytes += len(answer.records)
            if answer.error_code:
                counters.failed(FOLLOWER_FETCH, answer.error_code)
        counters.replicated.bytes_out += size_bytes
        call, topics = self.call, _by_topic(reading.answers)
        session_id = self._session.session_id
        return fetch_response(call.version, call.correlation_id, 0, _NONE, session_id, topics)


def must_act(answer: FetchPartitionAnswer) -> bool:
    """Whether the reader must act on the answer: it has records, an error, or a divergence."""
    return bool(len(answer.records) or answer.error_code or answer.diverging_epoch is not None)


def _by_topic(answers: Sequence[tuple[FetchItem, FetchPartitionAnswer]]) -> Topics:
    """The answers of each topic, by the key that names it."""
    if len(answers) == 1:
        item, answer = answers[0]
        return [(item.topic_key, [answer])]
    topics: dict[TopicKey, list[FetchPartitionAnswer]] = {}
    for item, answer in answers:
        topics.setdefault(item.topic_key, []).append(answer)
    return list(topics.items())
