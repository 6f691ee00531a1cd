"""Work on a batch before its append, in a job: recompress its records, or check their keys.

`compression.type` other than `producer` requires the first, a compacted topic the second. While a batch of a partition
is in a job, later batches queue behind it, so that order and producer sequences hold. A batch in the topic's codec is
not recompressed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from yak.broker import appending
from yak.broker.keyed_records import check_keys, record_errors_of
from yak.broker.refused_batches import tell_refused
from yak.config.log_config import LogConfig
from yak.errors import ErrorCode, PeerError, ProtocolViolation
from yak.fail_stop import changes_state
from yak.protocol.compression import compress
from yak.protocol.record_batch import (
    CODECS,
    COMPRESSION_MASK,
    HEADER_BYTES,
    BatchHeader,
    read_header,
    with_records,
)
from yak.protocol.record_walk import decompress, walk
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_UNCOMPRESSED = "uncompressed"


def wanted_codec(config: LogConfig) -> int | None:
    """The codec of the topic's batches; None when the producer decides."""
    if config.compression_type == "producer":
        return None
    return 0 if config.compression_type == _UNCOMPRESSED else CODECS.index(config.compression_type)


def needs_recompression(header: BatchHeader, config: LogConfig) -> bool:
    """Whether the batch has another codec than the topic's."""
    wanted = wanted_codec(config)
    return wanted is not None and wanted != header.codec


class PendingAppend:
    """A checked batch that is not in the log yet, and the request that waits for it."""

    __slots__ = ("acks", "appended", "header", "keys_checked", "records", "waiting")

    def __init__(self, header: BatchHeader, records: bytes, acks: int, appended: appending.Appended) -> None:
        self.header = header
        self.records = records
        self.acks = acks
        self.appended = appended
        self.keys_checked = False
        self.waiting: Any = None
        """(appended, request, answer) once the request waits."""


@changes_state
def recompress_later(
    broker: Broker, partition: Partition, header: BatchHeader, records: bytes, acks: int
) -> appending.Appended:
    """Queue a batch; it gets its offset when it is appended."""
    appended = appending.Appended(-1, -1, -1, -1)
    appended.must_wait = True
    if partition.pending_appends is None:
        partition.pending_appends = deque()
    partition.pending_appends.append(PendingAppend(header, records, acks, appended))
    broker.held_bytes += len(records)
    if len(partition.pending_appends) == 1:
        _start(broker, partition)
    return appended


def fail_pending(broker: Broker, partition: Partition, error_code: ErrorCode) -> None:
    """Fail the queued batches of a partition that can no longer append them."""
    queue, partition.pending_appends = partition.pending_appends, None
    for pending in queue or ():
        _free(broker, pending)
        _refuse(broker, pending, PeerError(error_code))


def _start(broker: Broker, partition: Partition) -> None:
    """Append the batches at the head that need no job; start the job of the first that does."""
    queue = partition.pending_appends
    assert queue is not None
    while queue:
        log = partition.log
        if log is None or not partition.is_leader:
            fail_pending(
                broker,
                partition,
                ErrorCode.kafka_storage_error if log is None else ErrorCode.not_leader_or_follower,
            )
            return
        pending = queue[0]
        codec = wanted_codec(log.config)
        if codec is None:
            codec = pending.header.codec
        needs_keys = log.config.is_compacted and not pending.keys_checked
        if needs_keys or codec != pending.header.codec:
            _run(broker, partition, pending, codec, needs_keys=needs_keys)
            return
        _place(broker, partition, pending)
        _free(broker, pending)
        queue.popleft()
    partition.pending_appends = None


def _run(broker: Broker, partition: Partition, pending: PendingAppend, codec: int, *, needs_keys: bool) -> None:
    queue = partition.pending_appends

    def work() -> bytes:
        if needs_keys:
            check_keys(partition.topic_partition, pending.records)
        if codec == pending.header.codec:
            return pending.records
        return recompress(pending.header, pending.records, codec)

    def done(result: Any, error: BaseException | None) -> None:
        if partition.pending_appends is not queue or queue is None:
            return
        if error is not None:
            queue.popleft()
            _free(broker, pending)
            if isinstance(error, PeerError):
                _refuse(broker, pending, error)
                _start(broker, partition)
                return
            if isinstance(error, ProtocolViolation):
                _refuse(broker, pending, PeerError(ErrorCode.corrupt_message, str(error)))
            else:
                # An internal error says nothing about the batch (Kafka's Errors.forException). Nothing was written.
                name = type(error).__name__
                broker.notice(
                    "error",
                    "recompression-failed",
                    partition=str(partition.topic_partition),
                    error=f"{name}: {error}",
                )
                words = f"the batch could not be recompressed ({name}); nothing was written"
                _refuse(broker, pending, PeerError(ErrorCode.unknown_server_error, words))
        else:
            broker.held_bytes += len(result) - len(pending.records)
            pending.records = result
            pending.keys_checked = pending.keys_checked or needs_keys
            pending.header = read_header(result)
        _start(broker, partition)

    broker.jobs.run("recompress", work, done)


def _free(broker: Broker, pending: PendingAppend) -> None:
    """Release the bytes of a batch that is appended or refused; a second call does nothing."""
    broker.held_bytes -= len(pending.records)
    pending.records = b""


def _place(broker: Broker, partition: Partition, pending: PendingAppend) -> None:
    log = partition.log
    assert log is not None
    try:
        if len(pending.records) > log.config.max_message_bytes:
            raise PeerError(
                ErrorCode.message_too_large,
                f"{len(pending.records)} bytes after recompression, max.message.bytes={log.config.max_message_bytes}",
            )
        placed = appending.place(broker, partition, pending.header, pending.records, pending.acks, broker.now_ms)
    except PeerError as error:
        tell_refused(broker, partition, pending.records, error)
        _refuse(broker, pending, error)
        return
    appended = pending.appended
    appended.base_offset, appended.end_offset = placed.base_offset, placed.end_offset
    appended.wants_flush, appended.wants_isr = placed.wants_flush, placed.wants_isr
    if pending.waiting is None:
        return
    _appended, waiting, answer = pending.waiting
    answer.base_offset = placed.base_offset
    answer.log_append_time_ms = placed.log_append_time_ms
    answer.log_start_offset = placed.log_start_offset
    if placed.must_wait and pending.acks != 0:
        appended.wait_in(partition, waiting, answer)
    else:
        waiting.resolve(broker)


def _refuse(broker: Broker, pending: PendingAppend, error: PeerError) -> None:
    # Once: a directory that fails under a batch fails all queued ones, then this one again.
    entry, pending.waiting = pending.waiting, None
    if entry is None:
        return
    _appended, waiting, answer = entry
    answer.error_code = error.error_code
    answer.error_message = error.message or None
    answer.record_errors = record_errors_of(error)
    answer.base_offset = -1
    waiting.resolve(broker)


def recompress(header: BatchHeader, batch: bytes, codec: int) -> bytes:
    """The batch with its records under another codec.

    Raises ProtocolViolation when the records exceed the bounds when decompressed, or cannot be parsed.
    """
    records = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    for _ in walk(header, records):
        pass
    return with_records(batch, compress(codec, records), (header.attributes & ~COMPRESSION_MASK) | codec)
