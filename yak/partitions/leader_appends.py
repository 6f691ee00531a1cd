"""The leader's appends: producers' sequences, the write, and the conditions of the acknowledgement.

`LeaderAppends.append` takes a batch of a client (Kafka's ReplicaManager.appendRecords), `append_own_batch` one of a
coordinator. Both pass `Leadership.check_append` and end in `append_to_leader_log`. A batch to recompress, or with many
keys to check, needs a job first; the later batches of its partition queue behind it (`PendingAppends`), so that order
and producer sequences hold. All batches of a partition queue while its log is handed over to another log directory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from yak.config.log_config import NEVER
from yak.core.context import Context
from yak.core.events import Notice
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError, ProtocolViolation
from yak.fail_stop import changes_state
from yak.ids import ProducerId, TopicPartition
from yak.partitions.batch_validation import (
    check_batch,
    check_keys,
    check_timestamps,
    has_keys,
    needs_recompression,
    recompress,
    wanted_codec,
)
from yak.partitions.flusher import Flusher
from yak.partitions.leadership import ACKS_ALL, Leadership
from yak.partitions.pending_append import PendingAppend
from yak.partitions.transactional_appends import TransactionalAppends
from yak.ports.disk import Disk
from yak.protocol.record_batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
    with_append_time,
)
from yak.replication.log_append_info import LogAppendInfo
from yak.replication.log_failures import APPEND, LogFailures
from yak.replication.partition import Partition
from yak.storage.log import Log
from yak.storage.producer_state import DEFERRED_MS, Duplicate, EarlierUnread

_SEQUENCE_ERRORS = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.unknown_producer_id,
    ErrorCode.not_enough_replicas,
)


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
        """Bytes of batches that wait for a job."""

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
            held = self.transactional.admit(
                partition,
                header,
                records,
                acks,
                version,
                transactional_id,
                lambda kept: self._append_verified(partition, kept, version, acks),
            )
            if held is not None:
                return held
        if partition.deferred_sequences:
            partition.deferred_sequences.check(header, log.producers, now_ms)
        if config.message_timestamp_type != "LogAppendTime":
            before_max_ms, after_max_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
            check_timestamps(header, before_max_ms, after_max_ms, self._context.clock.wall_ms)
        if (
            partition.pending_appends is not None
            or partition.is_handed_over
            or (config.compression_type != "producer" and needs_recompression(header, config))
            or (config.is_compacted and not has_keys(partition.topic_partition, header, records))
        ):
            return self._append_later(partition, header, bytes(records), acks)
        return self.append_to_leader_log(partition, header, records, acks, now_ms)

    def _append_verified(self, partition: Partition, records: Buffer, version: int, acks: int) -> LogAppendInfo:
        """Append a batch that waited for its verification; anything may have changed meanwhile. Raises PeerError."""
        now_ms = self._context.clock.now_ms
        try:
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
        self, partition: Partition, header: BatchHeader, records: Buffer, acks: int, now_ms: int
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
            try:
                duplicate = log.producers.check(header)
            except EarlierUnread:
                self._search_earlier(partition, log)
                words = "the broker is still restoring this producer's state from the log; nothing was written"
                raise PeerError(ErrorCode.not_enough_replicas, words) from None
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
        info = LogAppendInfo(partition, base_offset, end_offset, append_time_ms, log.log_start_offset)
        info.wants_isr = acks == ACKS_ALL
        if config.flush_messages != NEVER or config.flush_ms != NEVER or log.has_unflushed_closed_segments:
            self._want_flush(log, info)
        if partition.replica_sessions or not partition.is_alone:
            self._appended(partition)
        if partition.advance_high_watermark():
            self._advanced(partition)
        if acks == ACKS_ALL and partition.high_watermark < end_offset:
            info.must_wait = True
        return info

    def _acknowledge_duplicate(self, partition: Partition, log: Log, duplicate: Duplicate, acks: int) -> LogAppendInfo:
        """The offsets of a batch that is in the log already; it is acknowledged like the first copy."""
        config = log.config
        append_time_ms = duplicate.timestamp if config.message_timestamp_type == "LogAppendTime" else -1
        info = LogAppendInfo(
            partition, duplicate.base_offset, duplicate.last_offset + 1, append_time_ms, log.log_start_offset
        )
        info.wants_isr = acks == ACKS_ALL
        if config.flush_messages != NEVER and info.end_offset > log.recovery_point:
            self._want_flush(log, info)
        info.must_wait = not info.may_acknowledge()
        return info

    def _want_flush(self, log: Log, info: LogAppendInfo) -> None:
        config, partition = log.config, info.partition
        if log.unflushed_messages >= config.flush_messages:
            self._flusher.want(partition)
            info.must_wait = info.wants_flush = True
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
            if error is not None:
                raise error
            # else the log was truncated meanwhile: the next batch out of sequence starts another search
            if partition.log is log and log.generation == generation:
                producers.earlier_read(headers)

        self._context.jobs.run("read", producers.search_plan(log.segments, before), done)

    def _defer_after_gap(self, partition: Partition, header: BatchHeader, error: PeerError, now_ms: int) -> None:
        """Raise a retriable error in place of `error` for the first batch behind a gap that a former leader may fill.

        The missing batch waits at that leader, which may be paused, or its refusal is on its way to the client. So the
        gap is across the election: what precedes it was appended in an earlier leader epoch, or the election is recent.
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
            words = f"{error.message}, which a former leader may have; nothing was written"
            raise PeerError(ErrorCode.not_enough_replicas, words) from error

    def note_refusal(self, partition: Partition, records: Buffer | None, error: PeerError) -> None:
        """Defer the sequence of a batch that a fence refused: it may come again when this replica leads, or has its ISR.

        Log any other refusal for the sequence or producer epoch. After `producer-put-off` the client retries by itself.
        After `producer-refused` it begins a new epoch or fails: batches of that epoch are new to the log, even if
        another leader has them already.
        """
        if records is None or len(records) < HEADER_BYTES:
            return
        header, is_deferred = read_header(records), error.error_code == ErrorCode.not_enough_replicas
        if error.error_code == ErrorCode.not_leader_or_follower or (is_deferred and partition.is_under_min_isr):
            partition.deferred_sequences.defer(header, self._context.clock.now_ms)
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
        event = "producer-put-off" if is_deferred else "producer-refused"
        self._context.emit(Notice("info", event, fields, is_provoked=True))

    @changes_state
    def _append_later(self, partition: Partition, header: BatchHeader, records: bytes, acks: int) -> LogAppendInfo:
        """Queue a batch that needs a job, or follows one that does."""
        queue = partition.pending_appends
        if queue is None:
            queue = partition.pending_appends = PendingAppends(self, self._context, partition)
        assert isinstance(queue, PendingAppends)
        pending = PendingAppend(partition, header, records, acks)
        queue.add(pending)
        return pending


# ---------------------------------------------------------------------------------------- batches that need a job first


@dataclass(frozen=True, slots=True)
class BatchConversion:
    """What a batch needs before its append: a check of its keys, another codec, or both."""

    topic_partition: TopicPartition
    header: BatchHeader
    records: bytes
    codec: int
    needs_keys: bool

    def run(self, disk: Disk) -> bytes:  # noqa: ARG002
        """The batch to append. Raises PeerError, ProtocolViolation."""
        if self.needs_keys:
            check_keys(self.topic_partition, self.records)
        if self.codec == self.header.codec:
            return self.records
        return recompress(self.header, self.records, self.codec)


class PendingAppends:
    """The batches of one partition that wait for a job, and the batches behind them, in order."""

    def __init__(self, appends: LeaderAppends, context: Context, partition: Partition) -> None:
        self._appends, self._context, self._partition = appends, context, partition
        self._queue: deque[PendingAppend] = deque()
        self._is_held = False
        """Whether it waits for the end of a move to another log directory, and not for a job."""

    def add(self, pending: PendingAppend) -> None:
        """Queue a batch; it gets its offset when it is appended."""
        self._queue.append(pending)
        self._appends.held_bytes += len(pending.records)
        if len(self._queue) == 1:
            self._go_on()

    def fail(self, error_code: ErrorCode) -> None:
        """Fail all batches: the partition can no longer append them."""
        self._partition.pending_appends = None
        for pending in self._queue:
            self._free(pending)
            pending.refuse(PeerError(error_code))

    def resume(self) -> None:
        """Append the batches that waited until the log was in another directory."""
        if self._is_held:
            self._is_held = False
            self._go_on()

    def on_marker(self, producer_id: ProducerId) -> None:
        """Let the producer send its transactional batches again: they are verified again then."""
        for pending in self._queue:
            if pending.header.producer_id == producer_id and pending.header.is_transactional:
                pending.is_outdated = True

    def _go_on(self) -> None:
        """Append the batches at the head that need no job; start the job of the first that does."""
        queue, partition = self._queue, self._partition
        while queue:
            if partition.pending_appends is not self:
                return  # the append before took the log directory offline, which failed all
            if partition.is_handed_over:
                self._is_held = True
                return
            assert partition.log is not None
            pending, config = queue[0], partition.log.config
            codec = wanted_codec(config)
            if codec is None:
                codec = pending.header.codec
            needs_keys = config.is_compacted and not pending.keys_checked
            if needs_keys or codec != pending.header.codec:
                self._convert(pending, codec, needs_keys=needs_keys)
                return
            self._append(pending)
            self._free(pending)
            queue.popleft()
        partition.pending_appends = None

    def _convert(self, pending: PendingAppend, codec: int, *, needs_keys: bool) -> None:
        partition = self._partition
        plan = BatchConversion(partition.topic_partition, pending.header, pending.records, codec, needs_keys)

        def done(result: Any, error: BaseException | None) -> None:
            if partition.pending_appends is not self:
                return
            if error is None:
                self._appends.held_bytes += len(result) - len(pending.records)
                pending.records = result
                pending.keys_checked = pending.keys_checked or needs_keys
                pending.header = read_header(result)
            else:
                self._queue.popleft()
                self._free(pending)
                pending.refuse(self._conversion_error(error))
            self._go_on()

        self._context.jobs.run("recompress", plan, done)

    def _conversion_error(self, error: BaseException) -> PeerError:
        """The answer to a batch whose job failed."""
        if isinstance(error, PeerError):
            return error
        if isinstance(error, ProtocolViolation):
            return PeerError(ErrorCode.corrupt_message, str(error))
        # An internal error says nothing about the batch (Kafka's Errors.forException). Nothing was written.
        name = type(error).__name__
        self._context.notice(
            "error", "recompression-failed", partition=str(self._partition.topic_partition), error=f"{name}: {error}"
        )
        words = f"the batch could not be recompressed ({name}); nothing was written"
        return PeerError(ErrorCode.unknown_server_error, words)

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
                partition, pending.header, pending.records, pending.acks, self._context.clock.now_ms
            )
        except PeerError as error:
            appends.note_refusal(partition, pending.records, error)
            pending.refuse(error)
            return
        pending.go_on(info)

    def _free(self, pending: PendingAppend) -> None:
        """Release the bytes of a batch that is appended or refused; a second call does nothing."""
        self._appends.held_bytes -= len(pending.records)
        pending.records = b""
