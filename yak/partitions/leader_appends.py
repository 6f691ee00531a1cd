"""The leader's appends: what fences each, producers' sequences, the write, and the conditions of the acknowledgement.

`LeaderAppends.append` takes a batch of a client (Kafka's ReplicaManager.appendRecords), `append_own_batch` one of a
coordinator. Both pass `Leadership.check_append`, which has every fence except those of the batch's producer, and end in
`append_to_leader_log`. `yak.storage.producer_state` checks the producer's epoch and sequence.

A batch to recompress, without its largest timestamp, or with many records to check, needs a job first; the later
batches of its partition queue behind it (`PendingAppends`), so that order and producer sequences hold. All batches of a
partition queue while its log is handed over to another log directory. A transaction's first batch waits for its
verification (`TransactionalAppends`). A batch that waited passes the fences again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

from yak.config.log_config import NEVER
from yak.core.context import Context
from yak.core.events import Notice
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError, ProtocolViolation
from yak.fail_stop import changes_state
from yak.ids import LeaderEpoch, Offset, ProducerId, TopicPartition
from yak.partitions.batch_validation import (
    NoBatchError,
    RecordRules,
    check_batch,
    check_timestamps,
    follows_rules,
    lacks_max_timestamp,
    needs_recompression,
    recompress,
    record_errors_of,
    record_rules,
    wanted_codec,
    with_create_time,
    with_records_max_timestamp,
)
from yak.ports.disk import Disk
from yak.protocol.produce_answer import ProducePartitionAnswer
from yak.protocol.record_batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
    with_append_time,
)
from yak.replication.flusher import Flusher
from yak.replication.log_append_info import AppendAnswer, AppendWaiter, LogAppendInfo
from yak.replication.log_failures import APPEND, LogFailures
from yak.replication.partition import Partition
from yak.storage.epoch_cache import UNKNOWN_EPOCH
from yak.storage.log import Log
from yak.storage.producer_state import (
    DEFERRED_EXPIRY_MS,
    DEFERRED_MS,
    DeferredSequences,
    Duplicate,
    EarlierUnread,
)

ACKS_ALL: Final = -1
EARLY_PARTITIONS_MAX: Final = 1_000
"""Partitions without a replica here whose refused sequences are remembered; beyond it the oldest is dropped."""
EARLY_PRODUCERS_MAX: Final = 100
"""Producers remembered for each of them."""
PRODUCE_ADDS_PARTITIONS: Final = 12
"""The first version of Produce whose client leaves AddPartitionsToTxn to the leader (protocol 2)."""
Verify: TypeAlias = Callable[[TopicPartition, str, tuple[ProducerId, int], int, Callable[[ErrorCode], None]], None]
"""Verifies with the transaction coordinator (`yak.coordination.verification.Verification.verify`)."""

_SEQUENCE_ERRORS = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.unknown_producer_id,
    ErrorCode.not_enough_replicas,
)
_EARLY_ERRORS = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
)
_WITHOUT_LOG_START = (
    ErrorCode.corrupt_message,
    ErrorCode.invalid_required_acks,
    ErrorCode.invalid_topic_exception,
    ErrorCode.kafka_storage_error,
    ErrorCode.message_too_large,
    ErrorCode.not_leader_or_follower,
)


class Leadership:
    """The partitions that this broker has and leads."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        is_isolated: Callable[[Partition], bool],
    ) -> None:
        self._context, self._partitions, self._is_isolated = context, partitions, is_isolated

    def stop(self) -> None:
        """Lead no partition any more, and refuse the batches that wait."""
        self._context.is_stopping = True
        for partition in self._partitions.values():
            if partition.pending_appends is not None:
                partition.pending_appends.fail(ErrorCode.not_leader_or_follower)

    def replica_of(self, topic_partition: TopicPartition) -> Partition:
        """The partition, if this broker has a replica of it, as leader or follower.

        Raises PeerError: UNKNOWN_TOPIC_OR_PARTITION when it does not exist, NOT_LEADER_OR_FOLLOWER without a replica
        here, KAFKA_STORAGE_ERROR when its log is offline (Kafka's ReplicaManager.getPartitionOrError).
        """
        partition = self._partitions.get(topic_partition)
        if partition is None:
            topic = self._context.image.topics.get(topic_partition.topic)
            if topic is not None and 0 <= topic_partition.partition < len(topic.partitions):
                raise PeerError(ErrorCode.not_leader_or_follower, "this broker has no replica of the partition")
            raise PeerError(ErrorCode.unknown_topic_or_partition, f"{topic_partition} does not exist")
        if partition.log is None:
            raise _offline()
        return partition

    def leader_of(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch = UNKNOWN_EPOCH) -> Partition:
        """The partition, if this broker leads it. Raises PeerError as `replica_of`, and NOT_LEADER_OR_FOLLOWER.

        First comes the leader epoch that a client knows, also on a follower (Kafka's Partition.getLocalLog); -1: none,
        and every other negative epoch is an old one.
        """
        partition = self.replica_of(topic_partition)
        if leader_epoch != UNKNOWN_EPOCH:
            partition.check_leader_epoch(leader_epoch)
        if not self.leads(partition):
            raise _led_elsewhere(partition)
        return partition

    def leads(self, partition: Partition) -> bool:
        """Whether this broker leads the partition, has its log, and is not stopping.

        `Partition.is_leader` is false for a leader of an earlier incarnation of this broker.
        """
        return partition.is_leader and partition.log is not None and not self._context.is_stopping

    def check_append(self, partition: Partition, acks: int, *, may_queue: bool = False) -> Log:
        """The log, if this broker may append to the partition now (Kafka's Partition.appendRecordsToLeader).

        Raises PeerError: KAFKA_STORAGE_ERROR when the log is offline, NOT_LEADER_OR_FOLLOWER when another broker leads
        or may lead, NOT_ENOUGH_REPLICAS with acks=all below `min.insync.replicas`, and while the log is handed over to
        another directory, unless the batch `may_queue` until then.
        """
        log = partition.log
        if log is None:
            raise _offline()
        if not partition.is_leader or self._context.is_stopping:
            raise _led_elsewhere(partition)
        if self._is_isolated(partition):
            raise PeerError(
                ErrorCode.not_leader_or_follower,
                "this leader is isolated: it reaches neither the metadata store nor a follower; nothing was written",
            )
        if acks == ACKS_ALL and partition.is_under_min_isr:
            minimum = log.config.min_insync_replicas
            raise PeerError(
                ErrorCode.not_enough_replicas,
                f"the ISR has {len(partition.isr)} replicas, min.insync.replicas={minimum}; nothing was written",
            )
        if not may_queue and partition.is_handed_over:
            raise PeerError(ErrorCode.not_enough_replicas, "the log moves to another directory; nothing was written")
        return log


def _offline() -> PeerError:
    return PeerError(ErrorCode.kafka_storage_error, "the log directory of this partition is offline")


def _led_elsewhere(partition: Partition) -> PeerError:
    message = f"broker {partition.leader_id} leads {partition.topic_partition}"
    return PeerError(ErrorCode.not_leader_or_follower, message)


def log_start_offset_with(error: PeerError, partition: Partition | None) -> Offset:
    """The log start offset that a refused batch is answered with; -1 where Kafka's appendToLocalLog gives none.

    A Java producer that gets UNKNOWN_PRODUCER_ID without it sends the batch again, without end.
    """
    if partition is None or partition.log is None:
        return -1
    if error.error_code in _WITHOUT_LOG_START or isinstance(error, NoBatchError):
        return -1
    return partition.log.log_start_offset


class LeaderAppends:
    """The appends to the partitions that this broker leads."""

    def __init__(
        self,
        context: Context,
        partitions: Mapping[TopicPartition, Partition],
        leadership: Leadership,
        log_failures: LogFailures,
        flusher: Flusher,
        appended: Callable[[Partition], None],
        advanced: Callable[[Partition], None],
    ) -> None:
        """`appended` is called for a partition with followers, `advanced` when the high watermark moved."""
        self._context, self._partitions, self.leadership = context, partitions, leadership
        self._log_failures, self._flusher = log_failures, flusher
        self._appended, self._advanced = appended, advanced
        self.transactional: TransactionalAppends
        """Set by the broker, since verification needs the coordinator, which appends here."""
        self.held_bytes = 0
        """Bytes of batches that wait for a job, or for their verification."""
        self._early: dict[tuple[str | UUID, int], DeferredSequences] = {}
        """Refused sequences by topic name or id, and partition index, until the partition has a role here."""

    def append(
        self,
        topic: str,
        index: int,
        records: Buffer | None,
        version: int,
        acks: int,
        now_ms: int,
        transactional_id: str | None = None,
        *,
        is_verified: bool = False,
    ) -> LogAppendInfo:
        """Validate a client's batch as Kafka's leader does, and append it; one of a transaction is verified first.

        Raises PeerError with Kafka's error code; the batch was not appended then.
        """
        partition: Partition | None = self._partitions.get((topic, index))  # type: ignore[call-overload]
        if partition is None:
            partition = self.leadership.leader_of(TopicPartition(topic, index))
        log = self.leadership.check_append(partition, acks, may_queue=True)
        config = log.config
        header = check_batch(records, version, config.max_message_bytes)
        assert records is not None
        if header.attributes & TRANSACTIONAL_BIT and not is_verified:
            held = self.transactional.admit(partition, header, records, acks, version, transactional_id)
            if held is not None:
                return held
        wall_ms = self._context.clock.wall_ms
        if header.attributes & TIMESTAMP_TYPE_BIT:
            records = with_create_time(records, config)
            header = read_header(records)
        rules = None
        if config.message_timestamp_type != "LogAppendTime":
            rules = check_timestamps(partition.topic_partition, header, config, wall_ms)
        if config.is_compacted or config.message_timestamp_before_max_ms != NEVER:
            rules = rules or record_rules(partition.topic_partition, config, wall_ms)
        is_protocol_2 = version >= PRODUCE_ADDS_PARTITIONS and header.attributes & TRANSACTIONAL_BIT != 0
        if (
            partition.pending_appends is not None
            or partition.is_handed_over
            or header.max_timestamp < header.base_timestamp
            or (config.compression_type != "producer" and needs_recompression(header, config))
            or (rules is not None and not follows_rules(rules, header, records))
        ):
            return self._append_later(
                PendingAppend(partition, header, bytes(records), acks, rules, is_protocol_2=is_protocol_2)
            )
        return self.append_to_leader_log(partition, header, records, acks, now_ms, is_protocol_2=is_protocol_2)

    def append_verified(self, partition: Partition, records: Buffer, version: int, acks: int) -> LogAppendInfo:
        """Append a batch that waited for its verification; anything may have changed meanwhile. Raises PeerError."""
        now_ms = self._context.clock.now_ms
        try:
            if self._partitions.get(partition.topic_partition, partition) is not partition:
                raise PeerError(ErrorCode.unknown_topic_or_partition, "the topic was deleted; nothing was written")
            return self.append(*partition.topic_partition, records, version, acks, now_ms, is_verified=True)
        except PeerError as error:
            self.note_refusal(partition, records, error)
            raise

    def append_own_batch(self, partition: Partition, batch: Buffer) -> LogAppendInfo:
        """Append a batch of a coordinator of this broker, as for a producer with acks=all.

        Raises PeerError if nothing was written.
        """
        log = self.leadership.check_append(partition, ACKS_ALL)
        if len(batch) > log.config.max_message_bytes:
            raise PeerError(
                ErrorCode.message_too_large, f"{len(batch)} bytes, max.message.bytes={log.config.max_message_bytes}"
            )
        return self.append_to_leader_log(partition, read_header(batch), batch, ACKS_ALL, self._context.clock.now_ms)

    # ---------------------------------------------------------------------------------------------------- the append

    @changes_state
    def append_to_leader_log(
        self,
        partition: Partition,
        header: BatchHeader,
        records: Buffer,
        acks: int,
        now_ms: int,
        *,
        is_protocol_2: bool = False,
    ) -> LogAppendInfo:
        """Append a validated batch, unless it is a duplicate; returns its offsets and the conditions of its acknowledgement.

        Raises PeerError: KAFKA_STORAGE_ERROR when the write fails, else for the producer's epoch or sequence.
        """
        log = partition.log
        assert log is not None
        config = log.config
        if header.producer_id == NO_PRODUCER_ID:
            pass
        elif header.base_sequence == NO_SEQUENCE:
            log.producers.check_epoch(header.producer_id, header.producer_epoch)
        else:
            if partition.deferred_sequences:
                partition.deferred_sequences.check(header, log.producers, now_ms)
            begins_at_0 = is_protocol_2 or (
                partition.leader_epoch > 0
                and now_ms - partition.leads_since_ms < DEFERRED_EXPIRY_MS
                and len(partition.replicas) > 1
            )
            try:
                duplicate = log.producers.check(header, begins_at_0=begins_at_0)
            except EarlierUnread:
                partition.deferred_sequences.defer(header, now_ms)
                self._search_earlier(partition, log)
                message = "the broker is still restoring this producer's state from the log; nothing was written"
                raise PeerError(ErrorCode.not_enough_replicas, message) from None
            except PeerError as error:
                self._defer_after_gap(partition, header, error, now_ms)
                raise
            if duplicate is not None:
                return self._acknowledge_duplicate(partition, log, duplicate, acks)
        append_time_ms = -1
        if config.message_timestamp_type == "LogAppendTime":
            records = with_append_time(records, self._context.clock.wall_ms)
            header = read_header(records)
            append_time_ms = self._context.clock.wall_ms
        try:
            base_offset = log.append(header, records, partition.leader_epoch, now_ms)
        except LogDirectoryFailure as failure:
            if self._log_failures.write_failed(APPEND, failure):
                partition.deferred_sequences.defer(header, now_ms)
            raise PeerError(
                ErrorCode.kafka_storage_error, f"the log directory failed: {failure.error.strerror}"
            ) from failure
        if self._log_failures.full_directories:
            self._log_failures.write_succeeded(log.directory)
        end_offset = log.log_end_offset
        size_bytes = len(records)
        partition.appended_bytes += size_bytes
        traffic = partition.traffic
        traffic.bytes_in += size_bytes
        traffic.messages_in += header.records_count
        wants_isr, log_start_offset = acks == ACKS_ALL, log.log_start_offset
        info = LogAppendInfo(partition, base_offset, end_offset, append_time_ms, log_start_offset, wants_isr)
        if config.flush_messages != NEVER or config.flush_ms != NEVER or log.has_unflushed_closed_segments:
            self._want_flush(log, info)
        if partition.replica_sessions or not partition.is_alone:
            self._appended(partition)
        if partition.advance_high_watermark():
            self._advanced(partition)
        return info

    def _acknowledge_duplicate(self, partition: Partition, log: Log, duplicate: Duplicate, acks: int) -> LogAppendInfo:
        """The offsets of a batch that is in the log already; it is acknowledged like the first copy."""
        config = log.config
        append_time_ms = duplicate.timestamp if config.message_timestamp_type == "LogAppendTime" else -1
        offsets = duplicate.base_offset, duplicate.last_offset + 1
        info = LogAppendInfo(partition, *offsets, append_time_ms, log.log_start_offset, acks == ACKS_ALL)
        if config.flush_messages != NEVER and info.end_offset > log.recovery_point:
            self._want_flush(log, info)
        return info

    def _want_flush(self, log: Log, info: LogAppendInfo) -> None:
        config, partition = log.config, info.partition
        if log.unflushed_messages >= config.flush_messages:
            self._flusher.want(partition)
            info.wants_flush = True
        elif config.flush_ms != NEVER:
            self._flusher.want_within(partition, config.flush_ms)
        if log.has_unflushed_closed_segments:
            self._flusher.want(partition, all_of_it=False)

    def _search_earlier(self, partition: Partition, log: Log) -> None:
        """Search the log, in a job, for the batches that a producer snapshot lacks.

        Until then batches out of sequence are refused with NOT_ENOUGH_REPLICAS, which clients retry.
        """
        producers = log.producers
        if producers.is_reading or producers.unread_before is None:
            return
        producers.is_reading = True
        before, generation = producers.unread_before, log.generation

        def done(headers: Any, error: BaseException | None) -> None:
            producers.is_reading = False
            if error is not None and not isinstance(error, OSError):
                raise error
            if partition.log is not log:
                return
            if error is not None:
                self._log_failures.directory_failed(LogDirectoryFailure(log.directory, error))
            # else the log was truncated meanwhile: the next batch out of sequence starts another search
            elif log.generation == generation:
                producers.earlier_read(headers)

        self._context.jobs.run("read", producers.search_plan(log.segments, before), done)

    def _defer_after_gap(self, partition: Partition, header: BatchHeader, error: PeerError, now_ms: int) -> None:
        """Raise a retriable error in place of `error` for the first batch behind a gap that a former leader may fill.

        The missing batch waits at that leader, which may be paused, or its refusal is on its way to the client. So the
        gap is across the election: what precedes it was appended in an earlier leader epoch, or the election is recent.
        A producer that is new here has its gap before its first batch.
        """
        log = partition.log
        assert log is not None
        if error.error_code != ErrorCode.out_of_order_sequence_number or partition.leader_epoch == 0:
            return
        gap = log.producers.gap_before(header)
        if gap is None or len(partition.replicas) < 2:
            return
        if gap.last_offset < partition.epoch_start_offset or now_ms - partition.leads_since_ms < DEFERRED_MS:
            partition.deferred_sequences.defer_sequence(header.producer_id, header.producer_epoch, gap.sequence, now_ms)
            message = f"{error.message}, which a former leader may have; nothing was written"
            raise PeerError(ErrorCode.not_enough_replicas, message) from error

    def note_refusal(self, partition: Partition, records: Buffer | None, error: PeerError) -> None:
        """Defer the sequence of a batch that a fence refused: it may come again when this replica leads, or has its ISR.

        Log any other refusal for the sequence or producer epoch. After `producer-deferred` the client retries by itself.
        After `producer-refused` it begins a new epoch or fails: batches of that epoch are new to the log, even if
        another leader has them already.
        """
        if records is None or len(records) < HEADER_BYTES:
            return
        header, is_deferred = read_header(records), error.error_code == ErrorCode.not_enough_replicas
        if error.error_code == ErrorCode.not_leader_or_follower or (is_deferred and partition.is_under_min_isr):
            partition.deferred_sequences.defer(header, self._context.clock.now_ms, comes_again=is_deferred)
            return
        if error.error_code not in _SEQUENCE_ERRORS or header.producer_id == NO_PRODUCER_ID:
            return
        fields: dict[str, object] = {
            "partition": str(partition.topic_partition),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "sequence": header.base_sequence,
            "code": error.error_code.name,
            "reason": str(error),
        }
        event = "producer-deferred" if is_deferred else "producer-refused"
        self._context.emit(Notice("info", event, fields, is_provoked=True))

    def note_early(self, topic: str | UUID | None, index: int, records: Buffer | None, error: PeerError) -> None:
        """Defer the sequence of a batch for a partition without a replica here: it may come again when this broker leads.

        The client heard of the topic or the election before this broker did. `topic` is the name or id in the request.
        """
        if topic is None or records is None or len(records) < HEADER_BYTES or error.error_code not in _EARLY_ERRORS:
            return
        header = read_header(records)
        if header.producer_id == NO_PRODUCER_ID:
            return
        held = self._early.setdefault((topic, index), DeferredSequences())
        held.defer(header, self._context.clock.now_ms, comes_again=False)
        if len(held) > EARLY_PRODUCERS_MAX:
            del held[next(iter(held))]
        if len(self._early) > EARLY_PARTITIONS_MAX:
            del self._early[next(iter(self._early))]

    def defer_early(self, partition: Partition) -> None:
        """Defer what `note_early` noted, in a partition that got a role here."""
        for topic in (partition.topic_partition.topic, partition.topic_id):
            held = self._early.pop((topic, partition.topic_partition.partition), None)
            if held is not None:
                partition.deferred_sequences.update(held)

    @changes_state
    def _append_later(self, pending: PendingAppend) -> LogAppendInfo:
        """Queue a batch that needs a job, or follows one that does."""
        partition = pending.partition
        queue = partition.pending_appends
        if queue is None:
            queue = partition.pending_appends = PendingAppends(self, self._context, partition)
        assert isinstance(queue, PendingAppends)
        queue.add(pending)
        return pending


# ---------------------------------------------------------------------------------------- batches that need a job first


@dataclass(frozen=True, slots=True)
class BatchConversion:
    """What a batch needs before its append: a check of its records, their largest timestamp, another codec."""

    header: BatchHeader
    records: bytes
    codec: int
    rules: RecordRules | None
    sets_max_timestamp: bool

    def run(self, disk: Disk) -> bytes:  # noqa: ARG002
        """The batch to append. Raises PeerError, ProtocolViolation."""
        if self.rules is not None:
            self.rules.check(self.records)
        batch = with_records_max_timestamp(self.records) if self.sets_max_timestamp else self.records
        return batch if self.codec == self.header.codec else recompress(self.header, batch, self.codec)


class PendingAppend(LogAppendInfo):
    """A client's batch without an offset yet, since its transaction is verified first, a job works on it, or its log moves.

    It has the request that waits for it.
    """

    __slots__ = (
        "acks",
        "appended",
        "header",
        "is_outdated",
        "is_protocol_2",
        "is_timed",
        "records",
        "records_checked",
        "rules",
        "waiting",
    )

    def __init__(
        self,
        partition: Partition,
        header: BatchHeader,
        records: bytes,
        acks: int,
        rules: RecordRules | None = None,
        *,
        is_protocol_2: bool = False,
    ) -> None:
        super().__init__(partition, -1, -1, -1, -1)
        self.header, self.records, self.acks, self.is_protocol_2 = header, records, acks, is_protocol_2
        self.rules = rules
        """What its records are checked against; None for the topic's rules at its turn."""
        self.records_checked = False
        self.is_timed = False
        """Whether its largest timestamp is that of its records."""
        self.is_outdated = False
        """Whether its transaction has ended: behind the marker it would open another."""
        self.appended: LogAppendInfo | None = None
        self.waiting: tuple[AppendWaiter, ProducePartitionAnswer] | None = None

    def may_acknowledge(self) -> bool:
        """Whether the batch was appended, and may be acknowledged."""
        return self.appended is not None and self.appended.may_acknowledge()

    def wait_with(self, waiting: AppendWaiter, answer: AppendAnswer) -> None:
        """Keep the request until the batch is in the log."""
        assert isinstance(answer, ProducePartitionAnswer)
        self.waiting = waiting, answer

    def on_appended(self, appended: LogAppendInfo) -> None:
        """The batch is in the log, or pending again: let the request wait for the next condition, or answer it."""
        self.appended = appended
        entry, self.waiting = self.waiting, None
        if entry is None:
            return
        waiting, answer = entry
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = appended.log_start_offset
        if (self.acks != 0 or appended.end_offset < 0) and not appended.may_acknowledge():
            appended.wait_with(waiting, answer)
        else:
            waiting.resolve()

    def refuse(self, error: PeerError) -> None:
        """Answer the request with an error, once: a failed directory fails queued batches, then this one again."""
        entry, self.waiting = self.waiting, None
        if entry is None:
            return
        waiting, answer = entry
        answer.error_code = error.error_code
        answer.error_message = error.message or None
        answer.record_errors = record_errors_of(error)
        answer.base_offset, answer.log_start_offset = -1, log_start_offset_with(error, self.partition)
        waiting.resolve()


class PendingAppends:
    """The batches of one partition that wait for a job, and the batches behind them, in order."""

    def __init__(self, appends: LeaderAppends, context: Context, partition: Partition) -> None:
        self._appends, self._context, self._partition = appends, context, partition
        self._queue: deque[PendingAppend] = deque()
        self._waits_for_move = False
        """Whether it waits until the log is in another log directory, and not for a job."""

    def add(self, pending: PendingAppend) -> None:
        """Queue a batch; it gets its offset when it is appended."""
        self._queue.append(pending)
        self._appends.held_bytes += len(pending.records)
        if len(self._queue) == 1:
            self._continue()

    def fail(self, error_code: ErrorCode) -> None:
        """Fail all batches: the partition can no longer append them."""
        self._partition.pending_appends = None
        for pending in self._queue:
            self._free(pending)
            pending.refuse(PeerError(error_code))

    def resume(self) -> None:
        """Append the batches that waited until the log was in another directory."""
        if self._waits_for_move:
            self._waits_for_move = False
            self._continue()

    def on_marker(self, producer_id: ProducerId) -> None:
        """Let the producer send its transactional batches again: they are verified again then."""
        for pending in self._queue:
            if pending.header.producer_id == producer_id and pending.header.is_transactional:
                pending.is_outdated = True

    def _continue(self) -> None:
        """Append the batches at the head that need no job; start the job of the first that does."""
        queue, partition = self._queue, self._partition
        while queue:
            if partition.pending_appends is not self:
                return  # the append before took the log directory offline, which failed all
            if partition.is_handed_over:
                self._waits_for_move = True
                return
            assert partition.log is not None
            pending, config = queue[0], partition.log.config
            codec = wanted_codec(config)
            if codec is None:
                codec = pending.header.codec
            rules = None
            if not pending.records_checked:
                rules = pending.rules or record_rules(partition.topic_partition, config, self._context.clock.wall_ms)
            sets_max_timestamp = not pending.is_timed and lacks_max_timestamp(pending.header, config)
            if rules is not None or codec != pending.header.codec or sets_max_timestamp:
                self._convert(pending, codec, rules, sets_max_timestamp=sets_max_timestamp)
                return
            self._append(pending)
            self._free(pending)
            queue.popleft()
        partition.pending_appends = None

    def _convert(
        self, pending: PendingAppend, codec: int, rules: RecordRules | None, *, sets_max_timestamp: bool
    ) -> None:
        partition = self._partition
        plan = BatchConversion(pending.header, pending.records, codec, rules, sets_max_timestamp)

        def done(result: Any, error: BaseException | None) -> None:
            if partition.pending_appends is not self:
                return
            if error is None:
                self._appends.held_bytes += len(result) - len(pending.records)
                pending.records = result
                pending.records_checked = pending.records_checked or rules is not None
                pending.is_timed = pending.is_timed or sets_max_timestamp
                pending.header = read_header(result)
            else:
                self._queue.popleft()
                self._free(pending)
                pending.refuse(self._conversion_error(error))
            self._continue()

        self._context.jobs.run("recompress", plan, done)

    def _conversion_error(self, error: BaseException) -> PeerError:
        """The answer to a batch whose job failed."""
        if isinstance(error, PeerError):
            return error
        if isinstance(error, ProtocolViolation):
            # not CORRUPT_MESSAGE, after which clients send the batch again
            return PeerError(ErrorCode.invalid_record, str(error))
        # An internal error says nothing about the batch (Kafka's Errors.forException). Nothing was written.
        name = type(error).__name__
        self._context.notice(
            "error", "recompression-failed", partition=str(self._partition.topic_partition), error=f"{name}: {error}"
        )
        message = f"the batch could not be recompressed ({name}); nothing was written"
        return PeerError(ErrorCode.unknown_server_error, message)

    def _append(self, pending: PendingAppend) -> None:
        appends, partition = self._appends, self._partition
        try:
            log = appends.leadership.check_append(partition, pending.acks)
            if pending.is_outdated:
                partition.deferred_sequences.defer(pending.header, self._context.clock.now_ms)
                raise PeerError(ErrorCode.not_enough_replicas, "its transaction has ended; nothing was written")
            if len(pending.records) > log.config.max_message_bytes:
                raise PeerError(
                    ErrorCode.message_too_large,
                    f"{len(pending.records)} bytes after recompression,"
                    f" max.message.bytes={log.config.max_message_bytes}",
                )
            info = appends.append_to_leader_log(
                partition,
                pending.header,
                pending.records,
                pending.acks,
                self._context.clock.now_ms,
                is_protocol_2=pending.is_protocol_2,
            )
        except PeerError as error:
            appends.note_refusal(partition, pending.records, error)
            pending.refuse(error)
            return
        pending.on_appended(info)

    def _free(self, pending: PendingAppend) -> None:
        """Release the bytes of a batch that is appended or refused; a second call does nothing."""
        self._appends.held_bytes -= len(pending.records)
        pending.records = b""


# ------------------------------------------------------------------------- batches whose transaction is verified first


@dataclass(slots=True)
class _Question:
    """A question to the coordinator without an answer yet, and what waits for the answer."""

    transactional_id: str
    epoch: int
    leader_epoch: LeaderEpoch
    waiting: list[Callable[[ErrorCode], None]] = field(default_factory=list)
    is_outdated: bool = False
    """Whether a marker of the producer was written since the request to the coordinator."""

    def refusal(self, transactional_id: str, epoch: int) -> ErrorCode | None:
        """None if the answer counts for this producer too, else its error (AddPartitionsToTxnManager.addTxnData).

        The answer about one epoch says nothing about another. A producer with a higher one, or one that names another
        transactional id, is verified by itself when it sends the batch again.
        """
        if (transactional_id, epoch) == (self.transactional_id, self.epoch):
            return None
        is_fenced = transactional_id == self.transactional_id and epoch < self.epoch
        return ErrorCode.invalid_producer_epoch if is_fenced else ErrorCode.not_enough_replicas


class TransactionalAppends:
    """Batches that wait until the transaction coordinator knows of their partition, by partition and producer (KIP-890).

    Only the first batch of a transaction in a partition waits, and those of the same producer behind it. A marker that
    is written meanwhile outdates the answer (Kafka's VerificationGuard): the batch could open a transaction that has
    ended.
    """

    def __init__(self, context: Context, verify: Verify, appends: LeaderAppends) -> None:
        self._context, self._verify, self._appends = context, verify, appends
        self._questions: dict[tuple[Partition, ProducerId], _Question] = {}

    def admit(
        self,
        partition: Partition,
        header: BatchHeader,
        records: Buffer,
        acks: int,
        version: int,
        transactional_id: str | None,
    ) -> LogAppendInfo | None:
        """None if a transactional batch may be appended now; else it waits.

        Raises PeerError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, or the verifier's error.
        """
        if transactional_id is None:
            raise PeerError(
                ErrorCode.transactional_id_authorization_failed, "a transactional batch needs a transactional id"
            )
        producer = header.producer_id, header.producer_epoch
        code = self.verify(partition, producer, version, transactional_id)
        if code == ErrorCode.none:
            return None
        if code is not None:
            self._defer(partition, header, code)
            raise _refused(code)
        held = PendingAppend(partition, header, bytes(records), acks)
        self._appends.held_bytes += len(held.records)

        def verified(code: ErrorCode) -> None:
            self._appends.held_bytes -= len(held.records)
            self._defer(partition, header, code)
            try:
                if code != ErrorCode.none:
                    raise _refused(code)
                held.on_appended(self._appends.append_verified(partition, held.records, version, acks))
            except PeerError as error:
                held.refuse(error)

        self.wait(partition, header.producer_id, verified)
        return held

    def _defer(self, partition: Partition, header: BatchHeader, code: ErrorCode) -> None:
        """Let no later batch of the producer overtake one that it sends again (VerificationStateEntry.lowestSequence)."""
        if code == ErrorCode.not_enough_replicas:
            partition.deferred_sequences.defer(header, self._context.clock.now_ms)

    def verify(
        self, partition: Partition, producer: tuple[ProducerId, int], version: int, transactional_id: str
    ) -> ErrorCode | None:
        """Whether the producer's transaction has the partition; None if the answer comes later: `wait` for it."""
        assert partition.log is not None
        key = partition, producer[0]
        question = self._questions.get(key)
        if question is not None:
            return question.refusal(transactional_id, producer[1])
        is_needed = version >= PRODUCE_ADDS_PARTITIONS or self._context.config.transaction_partition_verification_enable
        if not is_needed or partition.log.producers.has_open_transaction(*producer):
            return ErrorCode.none
        codes: list[ErrorCode] = []

        def answered(code: ErrorCode) -> None:
            codes.append(code)
            if key in self._questions:
                self._continue(key, code)

        self._verify(partition.topic_partition, transactional_id, producer, version, answered)
        if codes:
            return codes[0]
        self._questions[key] = _Question(transactional_id, producer[1], partition.leader_epoch)
        return None

    def wait(self, partition: Partition, producer_id: ProducerId, then: Callable[[ErrorCode], None]) -> None:
        """Call `then` with the answer that `verify` could not give."""
        self._questions[partition, producer_id].waiting.append(then)

    def _continue(self, key: tuple[Partition, ProducerId], code: ErrorCode) -> None:
        question = self._questions.pop(key)
        partition = key[0]
        # Another leader may have written a marker in between. What this broker no longer leads is refused as such.
        is_led_again = partition.is_leader and partition.leader_epoch != question.leader_epoch
        if question.is_outdated or is_led_again:
            # retried by the client, and verified again
            code = ErrorCode.not_enough_replicas
        for then in question.waiting:
            then(code)

    def on_marker(self, partition: Partition, producer_id: ProducerId) -> None:
        """A marker was written: an answer about its producer, and batches that it let pass, are outdated."""
        question = self._questions.get((partition, producer_id))
        if question is not None:
            question.is_outdated = True
        if partition.pending_appends is not None:
            partition.pending_appends.on_marker(producer_id)


def _refused(code: ErrorCode) -> PeerError:
    return PeerError(code, "the transaction of this batch could not be verified; nothing was written")
