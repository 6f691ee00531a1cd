"""Partitions that must not start empty, because their data directory is missing.

It also handles a directory that fails while the broker runs, and a log that is too damaged to truncate.

A broker whose disk was not mounted, or was replaced, finds an empty directory. A new log there would silently serve
nothing, from offset 0, where there were records. So partitions without another replica stay offline until the directory
is back, or an operator deletes the topic and accepts the loss. Partitions with other replicas are created again and
replicated: the store treats an incarnation that lacks one of its directories as one that lost all data.

Directories are identified by `directory.id` of `meta.properties`, which each registration carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yak.cluster.image import Image
from yak.cluster.records import Kind
from yak.cluster.registration import Identity
from yak.core.events import DisksLost
from yak.errors import ErrorCode, LogDirectoryFailure
from yak.ids import NodeId, TopicPartition
from yak.replication.partition import Partition
from yak.seams.disk import DiskFull
from yak.seams.metadata_store import TailedRecord
from yak.storage.recovery import DamagedLog

if TYPE_CHECKING:
    from yak.broker.broker import Broker


@dataclass(slots=True, frozen=True)
class LostDirectories:
    """Directories of the last registration that are missing, and the partitions that had their only replica here."""

    missing_ids: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()


def find_lost(image: Image, records: Sequence[TailedRecord], identity: Identity) -> LostDirectories:
    """The losses, from the metadata before this incarnation's registration (`records` applied on `image`)."""
    ours = [
        record.offset
        for record in records
        if record.kind == Kind.REGISTER_BROKER and record.payload.get("boot_id") == identity.boot_id
    ]
    known = image.brokers.get(identity.node_id)
    if known is not None and known.boot_id == identity.boot_id:
        return LostDirectories()
    end = ours[0] if ours else records[-1].offset + 1
    before = image.apply_all(record for record in records if record.offset < end)[0]
    known = before.brokers.get(identity.node_id)
    missing = () if known is None else tuple(each for each in known.directories if each not in identity.directories)
    if not missing:
        return LostDirectories()
    held = (
        TopicPartition(topic.name, info.partition)
        for topic in before.topics.values()
        for info in topic.partitions
        if info.replicas == (identity.node_id,)
    )
    return LostDirectories(missing, frozenset(held))


def take_offline(broker: Broker, failure: LogDirectoryFailure) -> None:
    """Take the logs of a failed directory offline (see `Broker.directory_failed`)."""
    for log in broker.log_store.directory_failed(failure.directory, failure.error):
        partition = broker.partitions.get(log.topic_partition)
        if partition is not None and partition.log is log:
            _close(broker, partition)
            broker.absent_replicas.is_offline(partition)
    broker.notice(
        "error",
        "log-directory-offline",
        directory=failure.directory,
        error=str(failure.error.strerror or failure.error),
    )
    if not broker.log_store.online():
        broker.emit(DisksLost(failure.directory, str(failure.error)))


def is_full(broker: Broker, failure: LogDirectoryFailure) -> bool:
    """Whether a write found a full disk and changed nothing: the directory stays online, and the write may be repeated.

    Only for callers that retry, or whose client does. Logged once for each directory, until an append succeeds there.
    """
    if not isinstance(failure.error, DiskFull):
        return False
    if failure.directory not in broker.full_directories:
        broker.full_directories[failure.directory] = None
        broker.notice(
            "error", "log-directory-full", directory=failure.directory, path=str(failure.error.filename or "")
        )
        broker.metadata.lifecycle.heartbeats.report_full(is_full=not broker.log_store.has_room(), now_ms=broker.now_ms)
    return True


def full_brokers(broker: Broker) -> frozenset[NodeId]:
    """Brokers without room for another log: from this broker's disks, and from the heartbeats of the others."""
    others = broker.metadata.lifecycle.heartbeats.full - {broker.node_id}
    return others if broker.log_store.has_room() else others | {broker.node_id}


def take_damaged(broker: Broker, partition: Partition, damaged: DamagedLog) -> None:
    """Take one damaged log offline, as a start that finds it damaged does. Other logs of the directory continue."""
    broker.notice("error", "log-damaged", partition=str(partition.topic_partition), reason=str(damaged), served=False)
    give_up_log(broker, partition, str(damaged))


def give_up_log(broker: Broker, partition: Partition, reason: str) -> None:
    """Take a damaged log offline. It is replicated again once this broker has left the partition's ISR."""
    log = partition.log
    assert log is not None
    broker.log_store.make_unavailable(log, reason)
    _close(broker, partition)
    broker.absent_replicas.is_lost(partition)


def _close(broker: Broker, partition: Partition) -> None:
    partition.log = None
    broker.fail_waiting(partition, ErrorCode.kafka_storage_error)
    broker.replication.changed(partition)
    broker.group_coordinator.partition_changed(partition)
