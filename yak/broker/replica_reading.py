"""The leader's answer for one partition of a follower's fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.reading import Reading
from yak.broker.recent_reads import RecentReads
from yak.broker.replica_sessions import ReplicaItem, ReplicaSession
from yak.broker.replica_throttle import UNLIMITED, Throttle, is_named
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.fail_stop import changes_state
from yak.ids import Offset
from yak.protocol.hot import DivergingEpoch, FetchPartitionAnswer
from yak.replication.isr import may_join
from yak.replication.partition import Partition
from yak.seams.disk import Buffer
from yak.storage.log import Log
from yak.storage.reader import OffsetOutOfRange, PendingRead

if TYPE_CHECKING:
    from yak.broker.broker import Broker

NO_ROOM = FetchPartitionAnswer(-1)
"""More records than this answer may hold: the partition comes with the next."""


class ReplicaReader:
    """Reads one partition at a time; `throttle` limits replicas that catch up."""

    def __init__(self, broker: Broker, throttle: Throttle) -> None:
        self._broker = broker
        self.throttle = throttle
        self._recent = RecentReads()

    def look(
        self, session: ReplicaSession, item: ReplicaItem, reading: Reading, room: int
    ) -> FetchPartitionAnswer | None:
        """The answer for one partition; None when the follower has everything."""
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

    @changes_state
    def _take_progress(
        self, session: ReplicaSession, partition: Partition, item: ReplicaItem
    ) -> FetchPartitionAnswer | None:
        """Count the fetch offset as acknowledged, once the follower's log is known to match up to there."""
        log = partition.log
        assert log is not None
        replica = partition.replica_states.get(session.node_id)
        if replica is None:
            raise PeerError(
                ErrorCode.not_leader_or_follower, f"broker {session.node_id} is not a replica of this partition"
            )
        offset, end = item.fetch_offset, log.log_end_offset
        if offset > end or item.last_fetched_epoch != log.epochs.latest:
            diverging = _where_they_part(item, log)
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
        was_regressed = replica.is_regressed
        if replica.fetched(session.broker_epoch, offset, item.log_start_offset, end, self._broker.now_ms):
            metadata = self._broker.metadata
            if not metadata.moved:
                metadata.report_soon()
            metadata.moved[partition] = None
            if partition.advance_high_watermark():
                self._broker.advanced(partition)
            if may_join(partition, session.node_id):
                self._broker.isr_changes.look(partition)
            if start_moved:
                self._broker.replica_log_start_moved(partition)
        elif replica.is_regressed and not was_regressed:
            self._broker.notice(
                "warning",
                "replica-end-regressed",
                partition=str(partition.topic_partition),
                follower=session.node_id,
                fetch_offset=offset,
                acknowledged_offset=replica.furthest_offset,
            )
        return None

    def _read(
        self, session: ReplicaSession, partition: Partition, item: ReplicaItem, reading: Reading, room: int
    ) -> FetchPartitionAnswer | None:
        log = partition.log
        assert log is not None
        high_watermark, log_start_offset = partition.high_watermark, log.log_start_offset
        offset, end = item.fetch_offset, log.log_end_offset
        if (
            offset >= end
            and high_watermark == item.sent_high_watermark
            and log_start_offset == item.sent_log_start_offset
            and (room > 0 or not reading.bytes_count)
        ):
            return None
        answer = FetchPartitionAnswer(item.index, 0, high_watermark, high_watermark, log_start_offset, b"")
        if room <= 0 and reading.bytes_count:
            return NO_ROOM
        if offset < end:
            size = min(item.max_bytes, max(room, 0))
            is_held_back = session.node_id not in partition.isr and self._is_throttled(session, partition)
            if is_held_back:
                now_ms = self._broker.now_ms
                if self.throttle.must_wait(session, item, now_ms):
                    return None
                size = min(size, self.throttle.room(now_ms))
            try:
                if item.asks_again:
                    found: Buffer | PendingRead = log.checked_read(
                        offset, size, end, at_least_one=not reading.bytes_count
                    )
                else:
                    found = self._find(partition, log, offset, size, end, at_least_one=not reading.bytes_count)
            except OffsetOutOfRange as error:
                return FetchPartitionAnswer(
                    item.index, ErrorCode.offset_out_of_range, high_watermark, -1, error.log_start_offset, b""
                )
            taken = max(size, 1) if isinstance(found, PendingRead) else len(found)
            reading.bytes_count += taken
            if is_held_back:
                self.throttle.took(taken, self._broker.now_ms)
            if taken:
                item.given_offset = offset
            if isinstance(found, PendingRead):
                reading.pending.append((len(reading.answers), found))
                return answer
            if not taken:
                # The next batch exceeds the room that is left. Only this mark brings it into the next answer.
                return NO_ROOM
            answer.records = found
        return answer

    def _find(
        self, partition: Partition, log: Log, offset: Offset, size: int, end: Offset, *, at_least_one: bool
    ) -> Buffer | PendingRead:
        at_hand = log.newest_batch(offset, end, size) or self._recent.take(log, offset, size)
        if at_hand is not None:
            return at_hand
        found = log.read(offset, size, end, at_least_one=at_least_one)
        if not isinstance(found, PendingRead):
            self._recent.keep(log, offset, found, len(partition.replica_sessions or ()) - 1)
        return found

    def _is_throttled(self, session: ReplicaSession, partition: Partition) -> bool:
        if self.throttle.rate >= UNLIMITED:
            return False
        assert partition.log is not None
        named = partition.log.config.leader_replication_throttled_replicas
        return is_named(named, partition.topic_partition.partition, session.node_id)


def _where_they_part(item: ReplicaItem, log: Log) -> DivergingEpoch | None:
    """The largest epoch that both logs may share, if they diverge before the fetch offset (KIP-595); else None."""
    offset, end = item.fetch_offset, log.log_end_offset
    if item.last_fetched_epoch < 0:
        return DivergingEpoch(log.latest_epoch, end) if offset > end else None
    epoch, end_offset = log.end_offset_for_epoch(item.last_fetched_epoch)
    if epoch < 0:
        # A later epoch than any of ours: the records of a leader that lost an unclean election.
        return DivergingEpoch(log.latest_epoch, end)
    if epoch < item.last_fetched_epoch or end_offset < offset:
        return DivergingEpoch(epoch, end_offset)
    return None
