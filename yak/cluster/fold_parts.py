"""Builds the state of a partition or an external broker from single records, for `yak.cluster.fold`."""

from dataclasses import replace

from yak.cluster.image import GuestInfo, PartitionInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import BrokerState, ChangedPartition, GuestChange, NewPartition, RegisterGuest
from yak.ids import NodeId


def created_partition(new: NewPartition, changed_ms: int) -> PartitionInfo:
    """A new partition."""
    isr, isr_epochs = _split(new.isr)
    return PartitionInfo(
        new.partition,
        new.replicas,
        isr,
        isr_epochs,
        (),
        (),
        new.leader,
        new.leader_epoch,
        new.partition_epoch,
        changed_ms=changed_ms,
    )


def changed_partition(old: PartitionInfo, change: ChangedPartition, changed_ms: int) -> PartitionInfo:
    """A partition after a change."""
    isr, isr_epochs = _split(change.isr)
    elr, elr_epochs = _split(change.elr)
    return PartitionInfo(
        old.partition,
        old.replicas if change.replicas is None else change.replicas,
        isr,
        isr_epochs,
        elr,
        elr_epochs,
        change.leader,
        change.leader_epoch,
        change.partition_epoch,
        change.adding,
        change.removing,
        changed_ms=changed_ms,
    )


def new_guest(record: RegisterGuest, changed_ms: int) -> GuestInfo:
    """A new external broker."""
    return GuestInfo(
        record.node_id,
        record.broker_epoch,
        record.boot_id,
        record.host,
        record.port,
        record.rack,
        record.security_protocol,
        BrokerState.ACTIVE,
        changed_ms,
    )


def changed_guest(old: GuestInfo, record: GuestChange, changed_ms: int) -> GuestInfo:
    """An external broker after a change."""
    return replace(
        old,
        broker_epoch=record.broker_epoch,
        state=record.state,
        host=record.host,
        port=record.port,
        rack=record.rack,
        security_protocol=record.security_protocol,
        changed_ms=changed_ms,
    )


def _split(isr: tuple[IsrMember, ...]) -> tuple[tuple[NodeId, ...], tuple[int, ...]]:
    return tuple(member.node_id for member in isr), tuple(member.broker_epoch for member in isr)
