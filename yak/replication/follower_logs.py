"""The logs of the partitions that this broker follows: appends, the flushes that these need, and failed writes."""

from __future__ import annotations

from collections.abc import Callable

from yak.config.log_config import NEVER
from yak.core.context import Context
from yak.protocol.replica_fetch import FetchedPartition
from yak.replication.flusher import Flusher
from yak.replication.log_failures import LogFailures
from yak.replication.partition import Partition
from yak.replication.partition_events import EmitPartitionEvent, PartitionEvent
from yak.replication.traffic import Traffic
from yak.storage.log import Log


class FollowerLogs:
    """What the replica fetchers of this broker do to logs.

    `advanced` is called with each partition whose high watermark advanced; `replicated` counts the appended bytes.
    """

    def __init__(
        self,
        context: Context,
        flusher: Flusher,
        failures: LogFailures,
        emit: EmitPartitionEvent,
        advanced: Callable[[Partition], None],
        replicated: Traffic,
    ) -> None:
        self._context, self._flusher, self.failures = context, flusher, failures
        self._emit, self._advanced, self._replicated = emit, advanced, replicated

    def append(self, partition: Partition, log: Log, fetched: FetchedPartition) -> bool:
        """Append the leader's records; returns whether the log start moved.

        Raises LogDirectoryFailure, and ProtocolViolation for broken batches.
        """
        start_moved, advanced = partition.append_as_follower(fetched, self._context.clock.now_ms)
        if start_moved:
            self._emit(partition, PartitionEvent.LOG_START_MOVED)
        if advanced:
            self._advanced(partition)
        if count := len(fetched.records):
            if self.failures.full_directories:
                self.failures.write_succeeded(log.directory)
            self._replicated.bytes_in += count
            if log.config.flush_ms != NEVER:
                self._flusher.want_within(partition, log.config.flush_ms)
            if log.has_unflushed_closed_segments:
                self._flusher.want(partition, all_of_it=False)
        return start_moved

    def gap_found(self, partition: Partition) -> None:
        """The log has gaps from now on: until a checkpoint says so, a start takes them for damage."""
        self._emit(partition, PartitionEvent.GAP_FOUND)

    def flush(self, partition: Partition) -> None:
        """Flush the whole log, before its end is acknowledged."""
        self._flusher.want(partition)
