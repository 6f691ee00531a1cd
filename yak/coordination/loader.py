"""The coordinator loader: reads a partition from log start to log end into its state (Kafka's CoordinatorLoader).

Jobs read the bytes and check each batch. The broker processes them in slices of a few milliseconds, so that other
requests are not delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.core.context import Context
from yak.errors import LogDirectoryFailure
from yak.ids import Offset, ProducerId
from yak.protocol.control_batch import read_marker
from yak.protocol.record_batch import Buffer, iterate_headers
from yak.protocol.record_walk import walk_records
from yak.replication.partition import Partition
from yak.storage.reader import DamagedBatch, ReadPlan

CHUNK_BYTES: Final = 128 * 1024
RECORDS_A_SLICE: Final = 400
RETRY_MS: Final = 1_000


class Shard(Protocol):
    """The state of one partition, as it is loaded."""

    def gather(self, key: bytes | None, value: bytes | None, offset: Offset, producer_id: ProducerId | None) -> None:
        """Collect one record of the log, in log order; `producer_id` if it is part of a transaction."""

    def gather_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Collect the marker that ends the producer's transaction."""

    def restore(self) -> Iterator[None]:
        """Decode the last record of each key, one a step."""


class CoordinatorLoader:
    """Reads one partition into a shard and calls `done(records)` at the end, unless it is stopped."""

    def __init__(
        self,
        context: Context,
        partitions: CoordinatorPartitions,
        partition: Partition,
        shard: Shard,
        done: Callable[[int], None],
    ) -> None:
        log = partition.log
        assert log is not None
        self._context = context
        self._partitions = partitions
        self._partition = partition
        self._log = log
        self._shard = shard
        self._done = done
        self._offset = log.log_start_offset
        self._end = log.log_end_offset
        self._restoring: Iterator[None] | None = None
        self._failures = 0
        """Consecutive reads at `_offset` without a valid batch."""
        self._is_over = False
        self._records = 0

    def resume(self) -> None:
        """Take the next step: read a chunk, or restore gathered records."""
        if self._is_over:
            return
        if self._restoring is not None:
            self._restore()
        elif self._offset < self._end:
            self._read()
        else:
            self._restoring = self._shard.restore()
            self._restore()

    def stop(self) -> None:
        """Stop loading."""
        self._is_over = True
        self._context.timers.disarm(self)

    def _read(self) -> None:
        # retention may have removed records since the last read
        self._offset = max(self._offset, self._log.log_start_offset)
        read = self._log.plan_read(self._offset, CHUNK_BYTES, self._end, at_least_one=True)
        self._context.jobs.run("read", ReadPlan(self._log.directory, read), self._on_read)

    def _on_read(self, result: Any, error: BaseException | None) -> None:
        if self._is_over:
            return
        if isinstance(error, LogDirectoryFailure):
            self._partitions.log_failures.directory_failed(error)
            return
        if error is not None:
            raise error
        # Check the whole chunk before any record is used: only a later batch reveals one at a wrong offset.
        if result.damage is not None:
            self._failed(result.damage)
        else:
            self._failures = 0
            self._gather(result.data)
            self.resume()

    def _failed(self, damage: DamagedBatch) -> None:
        """Read again after `RETRY_MS`: compaction may have replaced the segment. A second failure in a row is reported."""
        self._failures += 1
        self._context.after(self, RETRY_MS, self.resume)
        if self._failures == 1:
            self._context.notice(
                "error",
                "coordinator-log-unreadable",
                partition=str(self._partition.topic_partition),
                offset=self._offset,
                error=str(damage),
            )
        elif self._partition.log is self._log:
            self._partitions.damaged_replicas.found(self._partition, self._offset, damage)

    def _gather(self, data: Buffer) -> None:
        if not len(data):
            # compaction left nothing up to the end, where the log was truncated
            self._offset = self._end
            return
        shard = self._shard
        for position, header in iterate_headers(data):
            batch = memoryview(data)[position : position + header.size_bytes]
            self._offset = header.next_offset
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    shard.gather_marker(header.producer_id, is_commit=marker.is_commit)
                continue
            producer_id = header.producer_id if header.is_transactional else None
            for record in walk_records(batch):
                shard.gather(record.key, record.value, record.offset, producer_id)
            self._records += header.records_count

    def _restore(self) -> None:
        assert self._restoring is not None
        if sum(1 for _ in islice(self._restoring, RECORDS_A_SLICE)) == RECORDS_A_SLICE:
            self._context.after(self, 0, self.resume)
            return
        self._is_over = True
        self._done(self._records)
