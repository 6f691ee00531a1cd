"""Offsets and sizes of local replicas, lag of the followers of partitions led here, and unhealthy partitions.

One pass over all partitions writes the lines of every family, because looking up partitions is the main cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yak.ids import NodeId
from yak.replication.partition import Partition
from yak.server.http.metrics.text import Samples, counter, gauge
from yak.storage.compaction import dirty_ratio
from yak.view.lag import lag_records
from yak.view.partition_state import Replication, is_offline
from yak.views.partitions import present_partitions

if TYPE_CHECKING:
    from yak.broker.broker import Broker

REPLICAS: Final = gauge("yak_replicas", "Replicas on this broker")
LEADERS: Final = gauge("yak_leaders", "Partitions led by this broker")
UNDER_REPLICATED: Final = gauge("yak_under_replicated_partitions", "Under-replicated partitions led by this broker")
UNDER_MIN_ISR: Final = gauge(
    "yak_under_min_isr_partitions", "Partitions led by this broker that are under min.insync.replicas"
)
OFFLINE_REPLICAS: Final = gauge("yak_offline_replicas", "Offline replicas on this broker, for example on a failed disk")
OFFLINE: Final = gauge(
    "yak_offline_partitions",
    "Offline partitions of the cluster, as this broker knows it: no leader, or a dead one while the metadata store is down",
)
CLUSTER_PARTITIONS: Final = gauge("yak_cluster_partitions", "Partitions of the cluster, from this broker's metadata")
LATE_TRANSACTIONS: Final = gauge(
    "yak_partitions_with_late_transactions",
    "Partitions led by this broker with an open transaction that got no record for transaction.max.timeout.ms and 5 minutes",
)
LOGS_SIZE: Final = gauge("yak_logs_size_bytes", "Size of all logs on this broker")
LAG_MAX_MESSAGES: Final = gauge(
    "yak_replica_lag_max_messages",
    "Maximum replica lag of a follower in records, over the partitions led by this broker",
)
LAG_MAX_SECONDS: Final = gauge(
    "yak_replica_lag_max_seconds",
    "Longest time that a follower has not been caught up, over the partitions led by this broker",
)
DIRTY_RATIO_MAX: Final = gauge(
    "yak_log_cleaner_max_dirty_ratio",
    "Largest dirty ratio of a compacted log on this broker: bytes of closed segments not yet compacted, divided by all",
)
UNCLEANABLE: Final = gauge(
    "yak_log_cleaner_uncleanable_partitions", "Compacted logs on this broker that cannot be compacted"
)
REMOVED_BYTES: Final = counter(
    "yak_log_cleaner_removed_bytes", "Bytes that compaction removed from logs on this broker"
)

LOG_START: Final = gauge("yak_partition_log_start_offset", "Log start offset of this replica")
LOG_END: Final = gauge("yak_partition_log_end_offset", "Log end offset of this replica")
HIGH_WATERMARK: Final = gauge("yak_partition_high_watermark", "High watermark of this replica")
STABLE_LAG: Final = gauge(
    "yak_partition_last_stable_offset_lag",
    "Committed records that read_committed consumers cannot read yet, for partitions led by this broker",
)
LOG_SIZE: Final = gauge("yak_partition_log_size_bytes", "Size of this replica's log segments, without indexes")
IN_SYNC: Final = gauge("yak_partition_in_sync_replicas", "ISR size of partitions led by this broker")
REPLICA_LAG: Final = gauge(
    "yak_replica_lag_messages",
    "Replica lag of a follower in records, for partitions led by this broker; the whole log while it does not fetch",
)

_LATE_MS: Final = 5 * 60_000
"""Kafka's ProducerStateManager.LATE_TRANSACTION_BUFFER_MS: the time in which a coordinator ends what timed out."""
_PER_STEP: Final = 32
_IMAGE_PER_STEP: Final = 500


@dataclass(slots=True)
class _Sums:
    replicas: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    late_transactions: int = 0
    offline: int = 0
    size_bytes: int = 0
    dirty_ratio: float = 0.0
    lag_messages: dict[NodeId, int] = field(default_factory=dict)
    lag_ms: dict[NodeId, int] = field(default_factory=dict)


def gather(broker: Broker, samples: Samples, partitions_max: int, now_ms: int) -> Iterator[int]:
    """Yields 0 after each step, and at the end the number of omitted partitions."""
    partitions = list(broker.partitions.values())
    sums = _Sums()
    late_before_ms = now_ms - broker.config.transaction_max_timeout_ms - _LATE_MS
    writer = _Writer(samples)
    for number, partition in enumerate(partitions):
        _sum(sums, partition, now_ms, late_before_ms)
        if number < partitions_max:
            writer.write(partition)
        if number % _PER_STEP == 0:
            yield 0
    _add_sums(samples, sums)
    samples.add(UNCLEANABLE, broker.log_cleaner.uncleanable_logs)
    samples.add(REMOVED_BYTES, broker.log_cleaner.removed_bytes)
    yield from _cluster(broker, samples)
    yield max(0, len(partitions) - partitions_max)


def _cluster(broker: Broker, samples: Samples) -> Iterator[int]:
    count = leaderless = seen = 0
    for topic in list(broker.image.topics.values()):
        infos = present_partitions(broker, topic)
        count += len(infos)
        leaderless += sum(map(is_offline, infos))
        seen += len(infos) + 1
        if seen > _IMAGE_PER_STEP:
            seen = 0
            yield 0
    samples.add(CLUSTER_PARTITIONS, count)
    samples.add(OFFLINE, leaderless)
    yield 0


def _sum(sums: _Sums, partition: Partition, now_ms: int, late_before_ms: int) -> None:
    sums.replicas += 1
    log = partition.log
    if log is None:
        sums.offline += 1
        return
    sums.size_bytes += log.size_bytes
    if log.config.is_compacted:
        sums.dirty_ratio = max(sums.dirty_ratio, dirty_ratio(log))
    if not partition.is_leader:
        return
    sums.leaders += 1
    replication = Replication(False, len(partition.replicas), len(partition.isr), log.config.min_insync_replicas)
    sums.under_replicated += replication.is_under_replicated
    sums.under_min_isr += replication.is_under_min_isr
    oldest_ms = log.producers.oldest_transaction_ms()
    sums.late_transactions += oldest_ms is not None and oldest_ms < late_before_ms
    end_offset = log.log_end_offset
    for node_id, replica in partition.replica_states.items():
        lag = lag_records(max(replica.log_end_offset, log.log_start_offset), end_offset)
        if lag >= sums.lag_messages.get(node_id, 0):
            sums.lag_messages[node_id] = lag
        lag_ms = max(0, now_ms - replica.last_caught_up_ms) if lag else 0
        if lag_ms >= sums.lag_ms.get(node_id, 0):
            sums.lag_ms[node_id] = lag_ms


def _add_sums(samples: Samples, sums: _Sums) -> None:
    samples.add(REPLICAS, sums.replicas)
    samples.add(LEADERS, sums.leaders)
    samples.add(UNDER_REPLICATED, sums.under_replicated)
    samples.add(UNDER_MIN_ISR, sums.under_min_isr)
    samples.add(LATE_TRANSACTIONS, sums.late_transactions)
    samples.add(OFFLINE_REPLICAS, sums.offline)
    samples.add(LOGS_SIZE, sums.size_bytes)
    samples.add(DIRTY_RATIO_MAX, round(sums.dirty_ratio, 3))
    samples.of(LAG_MAX_MESSAGES)
    samples.of(LAG_MAX_SECONDS)
    for node_id in sorted(sums.lag_messages):
        samples.add(LAG_MAX_MESSAGES, sums.lag_messages[node_id], replica=str(node_id))
        samples.add(LAG_MAX_SECONDS, sums.lag_ms[node_id] / 1000, replica=str(node_id))


class _Writer:
    """Writes the lines of each partition. Topic names need no escaping."""

    def __init__(self, samples: Samples) -> None:
        self._start = samples.of(LOG_START)
        self._end = samples.of(LOG_END)
        self._high_watermark = samples.of(HIGH_WATERMARK)
        self._size = samples.of(LOG_SIZE)
        self._in_sync = samples.of(IN_SYNC)
        self._stable_lag = samples.of(STABLE_LAG)
        self._lag = samples.of(REPLICA_LAG)

    def write(self, partition: Partition) -> None:
        """Write one partition's lines; an offline replica has none."""
        log = partition.log
        if log is None:
            return
        topic, index = partition.topic_partition
        start_offset, end_offset = log.log_start_offset, log.log_end_offset
        labels = f'topic="{topic}",partition="{index}"'
        self._start.append(f"{LOG_START.name}{{{labels}}} {start_offset}\n")
        self._end.append(f"{LOG_END.name}{{{labels}}} {end_offset}\n")
        self._high_watermark.append(f"{HIGH_WATERMARK.name}{{{labels}}} {partition.high_watermark}\n")
        self._size.append(f"{LOG_SIZE.name}{{{labels}}} {log.size_bytes}\n")
        if not partition.is_leader:
            return
        self._in_sync.append(f"{IN_SYNC.name}{{{labels}}} {len(partition.isr)}\n")
        stable_lag = partition.high_watermark - partition.last_stable_offset
        self._stable_lag.append(f"{STABLE_LAG.name}{{{labels}}} {stable_lag}\n")
        for node_id, replica in partition.replica_states.items():
            lag = lag_records(max(replica.log_end_offset, start_offset), end_offset)
            self._lag.append(f'{REPLICA_LAG.name}{{{labels},replica="{node_id}"}} {lag}\n')
