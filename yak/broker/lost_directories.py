"""Which partitions must not begin empty: those that this broker held in data directories that are not here any more. And what
becomes of those in a directory that fails while the broker runs, and of a log that cannot be cut for damage.

A broker whose disk was not mounted, or was replaced, finds an empty directory while the cluster remembers its
partitions. To make them anew would serve nothing where there were records, from offset 0, in silence. Such partitions
stay offline until their directory is back, or an operator deletes the topic and so accepts the loss. Those with other
replicas are made anew and copied: the store counts a boot without a directory it had as one that lost everything.

Who the directories are is told by their ids (`directory.id` of `meta.properties`), which each registration carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yak.broker.events import DisksLost
from yak.cluster.image import Image
from yak.cluster.membership import Identity
from yak.cluster.records import Kind
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
    """Directories of the last registration that are not here, and what this broker held while it had them."""

    missing_ids: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()


def find_lost(image: Image, records: Sequence[TailedRecord], identity: Identity) -> LostDirectories:
    """What the metadata log says of this broker before this boot's registration, as far as `records` go on `image`."""
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
    """See `Broker.directory_failed`."""
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
    """Whether a write found no room and left everything as it was: the directory stays online, and the write may be repeated.

    Only for callers that repeat it, or whose client does. Logged once for each directory, until an append succeeds there.
    """
    if not isinstance(failure.error, DiskFull):
        return False
    if failure.directory not in broker.full_directories:
        broker.full_directories[failure.directory] = None
        broker.notice(
            "error", "log-directory-full", directory=failure.directory, path=str(failure.error.filename or "")
        )
    return True


def full_brokers(broker: Broker) -> frozenset[NodeId]:
    """The brokers that have no room for another log: this one as its disks are now, the others as their heartbeats said."""
    others = broker.metadata.membership.heart.full - {broker.node_id}
    return others if broker.log_store.has_room() else others | {broker.node_id}


def take_damaged(broker: Broker, partition: Partition, damaged: DamagedLog) -> None:
    """A log cannot be gone on with: it is as one that a start finds damaged, and all others of its directory go on."""
    broker.notice("error", "log-damaged", partition=str(partition.topic_partition), reason=str(damaged), served=False)
    give_up_log(broker, partition, str(damaged))


def give_up_log(broker: Broker, partition: Partition, reason: str) -> None:
    """Serve a damaged log no longer: the partition is offline, and is copied again once this broker has left its ISR."""
    log = partition.log
    assert log is not None
    broker.log_store.make_unavailable(log, reason)
    _close(broker, partition)
    broker.absent_replicas.is_lost(partition)


def _close(broker: Broker, partition: Partition) -> None:
    partition.log = None
    broker.fail_waiting(partition, ErrorCode.kafka_storage_error)
    broker.replication.changed(partition)
    broker.coordinate(partition)
