"""Appending the broker's own records to a partition that it leads, and waiting for their commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from yak.broker import appending
from yak.errors import ErrorCode, PeerError
from yak.groups.record import Record
from yak.ids import Offset
from yak.protocol.record_batch import read_header
from yak.protocol.record_writer import build_batch
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

Then = Callable[[ErrorCode], None]
_NONE = ErrorCode.none


class Commit:
    """A callback that waits for an offset's commit, in the partition's queue of delayed produce requests."""

    __slots__ = ("base_offset", "error_code", "finished", "then")

    def __init__(self, then: Then) -> None:
        self.then = then
        self.finished = False
        self.error_code = _NONE
        self.base_offset = -1

    def resolve(self, broker: Broker) -> None:  # noqa: ARG002
        """Call `then`: the offset is committed, or this leader cannot commit it."""
        if not self.finished:
            self.finished = True
            self.then(self.error_code)


def append(broker: Broker, partition: Partition, records: Sequence[Record]) -> appending.Appended:
    """Append the records in one batch, as for a producer with acks=all. Raises PeerError if nothing was written."""
    log = partition.log
    if log is None:
        raise PeerError(ErrorCode.kafka_storage_error, "the log directory of this partition is offline")
    if not partition.is_leader or broker.maintenance.is_stopping:
        raise PeerError(ErrorCode.not_leader_or_follower)
    if broker.metadata.store_lost_ms is not None and broker.metadata.is_isolated(partition):
        raise PeerError(ErrorCode.not_leader_or_follower, "neither the metadata store nor a follower is heard")
    if partition.is_under_min_isr:
        raise PeerError(ErrorCode.not_enough_replicas)
    batch = build_batch(records, broker.wall_ms)
    if len(batch) > log.config.max_message_bytes:
        raise PeerError(
            ErrorCode.message_too_large, f"{len(batch)} bytes, max.message.bytes={log.config.max_message_bytes}"
        )
    return appending.place(broker, partition, read_header(batch), batch, appending.ACKS_ALL, broker.now_ms)


def when_counted(partition: Partition, appended: appending.Appended, then: Then) -> None:
    """Call `then` when the batch may be acknowledged, perhaps at once."""
    if appended.must_wait and not appended.counts(partition):
        commit = Commit(then)
        appended.wait_in(partition, commit, commit)  # type: ignore[arg-type]
    else:
        then(_NONE)


def when_committed(partition: Partition, end_offset: Offset, then: Then) -> None:
    """Call `then` when everything below an offset is committed, perhaps at once."""
    if partition.high_watermark >= end_offset:
        then(_NONE)
        return
    appended = appending.Appended(-1, end_offset, -1, -1)
    appended.wants_isr = appended.must_wait = True
    when_counted(partition, appended, then)


def as_coordinator(error_code: ErrorCode) -> ErrorCode:
    """The error that a group's client gets for a failed write (CoordinatorOperationExceptionHelper.java)."""
    if error_code in (
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    ):
        return ErrorCode.coordinator_not_available
    if error_code in (ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error):
        return ErrorCode.not_coordinator
    if error_code in (ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_fetch_size):
        return ErrorCode.unknown_server_error
    return error_code
