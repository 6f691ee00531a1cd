"""Appends validated batches to the leader's log; an acknowledgement may wait for the high watermark and a flush."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from yak.broker.lost_directories import is_full
from yak.broker.refused_batches import note_refused, refusal_of
from yak.config.log_config import NEVER
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.fail_stop import changes_state
from yak.protocol.record_batch import NO_PRODUCER_ID, BatchHeader, Buffer, read_header, with_append_time
from yak.replication.partition import Partition
from yak.storage.log import Log
from yak.storage.producer_state import EarlierUnread

if TYPE_CHECKING:
    from yak.broker.apis.produce import ProduceWaiting
    from yak.broker.broker import Broker
    from yak.protocol.hot import ProducePartitionAnswer

ACKS_ALL = -1


class Appended:
    """The offsets of an appended batch, and the conditions of its acknowledgement (Kafka's LogAppendInfo)."""

    __slots__ = (
        "base_offset",
        "end_offset",
        "log_append_time_ms",
        "log_start_offset",
        "must_wait",
        "wants_flush",
        "wants_isr",
    )

    def __init__(self, base_offset: int, end_offset: int, log_append_time_ms: int, log_start_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.must_wait = False
        self.wants_flush = False
        self.wants_isr = False

    def counts(self, partition: Partition) -> bool:
        """Whether the batch may be acknowledged now."""
        if partition.log is None or self.end_offset < 0:
            return False
        if self.wants_isr and partition.high_watermark < self.end_offset:
            return False
        return not self.wants_flush or partition.log.recovery_point >= self.end_offset

    def wait_in(self, partition: Partition, waiting: ProduceWaiting, answer: ProducePartitionAnswer) -> None:
        """Put `waiting` into the partition's queue of the next condition: first the high watermark, then the flush."""
        entry = (self, waiting, answer)
        if self.end_offset < 0:
            # the batch is being recompressed and has no offset yet; `recompression` queues it again
            assert partition.pending_appends is not None
            partition.pending_appends[-1].waiting = entry
        elif self.wants_isr and partition.high_watermark < self.end_offset:
            if partition.waiting_produces is None:
                partition.waiting_produces = deque()
            queue = partition.waiting_produces
            while queue and queue[0][1].finished:
                # timed out before the commit; without this they would pile up while nothing is committed
                queue.popleft()
            queue.append(entry)
        else:
            if partition.waiting_flushes is None:
                partition.waiting_flushes = deque()
            partition.waiting_flushes.append(entry)


@changes_state
def place(
    broker: Broker, partition: Partition, header: BatchHeader, records: Buffer, acks: int, now_ms: int
) -> Appended:
    """Append a validated batch, unless it is a duplicate; returns its offsets and the conditions of its acknowledgement.

    Raises PeerError: KAFKA_STORAGE_ERROR when the write fails, else for the producer's epoch or sequence.
    """
    log = partition.log
    assert log is not None
    config = log.config
    if header.producer_id != NO_PRODUCER_ID:
        try:
            repeated = log.producers.check(header)
        except EarlierUnread:
            _search_earlier(broker, partition, log)
            words = "the log is searched for earlier batches of the producer; nothing was written"
            raise PeerError(ErrorCode.not_enough_replicas, words) from None
        except PeerError as error:
            raise refusal_of(partition, header, error, now_ms) from error
        if repeated is not None:
            appended = Appended(
                repeated.base_offset,
                repeated.last_offset + 1,
                _append_time(config, repeated.timestamp),
                log.log_start_offset,
            )
            appended.wants_isr = acks == ACKS_ALL
            if config.flush_messages != NEVER and appended.end_offset > log.recovery_point:
                _ask_for_flush(broker, partition, appended)
            appended.must_wait = not appended.counts(partition)
            return appended
    append_time_ms = -1
    if config.message_timestamp_type == "LogAppendTime":
        records = with_append_time(records, broker.wall_ms)
        header = read_header(records)
        append_time_ms = broker.wall_ms
    try:
        base_offset = log.append(header, records, partition.leader_epoch, now_ms)
    except LogDirectoryFailure as failure:
        if is_full(broker, failure):
            note_refused(partition, header, now_ms)
        else:
            broker.directory_failed(failure)
        raise PeerError(
            ErrorCode.kafka_storage_error, f"the log directory failed: {failure.error.strerror}"
        ) from failure
    if broker.full_directories:
        broker.full_directories.pop(log.directory, None)
    end_offset = log.log_end_offset
    size_bytes = len(records)
    partition.appended_bytes += size_bytes
    traffic = partition.traffic
    traffic.bytes_in += size_bytes
    traffic.messages_in += header.records_count
    appended = Appended(base_offset, end_offset, append_time_ms, log.log_start_offset)
    appended.wants_isr = acks == ACKS_ALL
    if config.flush_messages != NEVER or config.flush_ms != NEVER or log.has_rolled:
        _ask_for_flush(broker, partition, appended)
    if partition.replica_sessions or not partition.is_alone:
        broker.replication.serving.appended(partition)
    if partition.advance_high_watermark():
        broker.advanced(partition)
    if acks == ACKS_ALL and partition.high_watermark < end_offset:
        appended.must_wait = True
    return appended


def _search_earlier(broker: Broker, partition: Partition, log: Log) -> None:
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

    broker.jobs.run("read", producers.search_plan(log.segments, before), done)


def _ask_for_flush(broker: Broker, partition: Partition, appended: Appended) -> None:
    log = partition.log
    assert log is not None
    config = log.config
    if log.unflushed_messages >= config.flush_messages:
        broker.flusher.want(partition)
        appended.must_wait = appended.wants_flush = True
    elif config.flush_ms != NEVER:
        broker.flusher.want_within(partition, config.flush_ms)
    if log.has_rolled:
        broker.flusher.want(partition, all_of_it=False)


def _append_time(config: object, timestamp_ms: int) -> int:
    return timestamp_ms if getattr(config, "message_timestamp_type", "") == "LogAppendTime" else -1
