"""Local replicas whose log holds a damaged batch: it is found, and the log is copied again from another replica.

A read reports here a batch that fails its check twice in a row (`yak.storage.reader.PendingRead`); recovery leaves what it
found in `Log.damage_at_load`. Then:

- The broker logs `log-damaged`, and shows the partition as damaged until its log is replaced or truncated, the batch is below
  the log start, or a later read finds the batch intact.
- If another replica is in the ISR or the ELR, this broker leaves the ISR in the store as a replica that lost records
  (`leave_isr` with `lost`). It resigns, is not elected again, and copies its log again from the leader.
- Before that request the broker stops fetching the partition, and waits for the answer to its last fetch. A fetch that
  reaches the leader after the leader has learned of the resignation would bring this log back into the ISR.
- The store refuses the request of the last replica in sync, which goes on and serves its intact batches. So of two damaged
  replicas one stays leader. A replica that knows its damage rejoins the ISR only with a new copy.

A consumer gets KAFKA_STORAGE_ERROR while another replica is about to lead: clients then refresh metadata and continue there.
Otherwise it gets CORRUPT_MESSAGE: Java's consumer throws, librdkafka reports the error and waits for
`fetch.error.backoff.ms`. Neither skips the batch, and neither retries at once (Kafka's
FetchCollector.handleInitializeErrors).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from yak.core.context import Context
from yak.core.events import Notice
from yak.errors import ErrorCode, PeerError
from yak.ids import Offset
from yak.replication.isr import IsrExits, may_leave
from yak.replication.partition import Partition
from yak.storage.log import Log
from yak.storage.reader import DamagedBatch, PendingRead

ANSWER_MS: Final = 50
"""Pause before checking whether the last fetch is answered; a leader takes up to `replica.fetch.wait.max.ms`."""
RETRY_MS: Final = 2_000
"""Pause before the next attempt: the store may be back by then, or another replica in sync."""


class Damage:
    """The first damaged batch found in a log: file, position, and the offset that was read."""

    __slots__ = ("batch", "by_read", "generation", "is_leaving", "log", "offset")

    def __init__(self, log: Log, offset: Offset, batch: DamagedBatch, *, by_read: bool) -> None:
        self.log, self.generation = log, log.generation
        self.offset, self.batch = offset, batch
        self.by_read = by_read
        """Found by a client's or follower's read; a coordinator and compaction check more than such a read does."""
        self.is_leaving = False
        """Whether a request to leave the ISR is under way."""

    def is_of(self, partition: Partition) -> bool:
        """Whether the partition's log still has the batch, as far as can be known without a read."""
        log = partition.log
        if log is not self.log or self.offset < log.log_start_offset:
            return False
        # a truncation may have removed what a read found; what recovery found, the log itself remembers
        return log.generation == self.generation or log.damage_at_load is self.batch


def recovery_damage(log: Log | None) -> DamagedBatch | None:
    """The first damaged batch that recovery found, if it is in the log still."""
    if log is None or log.damage_at_load is None or log.damage_at_load.offset < log.log_start_offset:
        return None
    return log.damage_at_load


class DamagedReplicas:
    """The partitions of this broker that are known to be damaged."""

    def __init__(
        self,
        context: Context,
        exits: IsrExits,
        changed: Callable[[Partition], None],
        is_naming: Callable[[Partition], bool],
        log_damaged: Callable[[Partition, str], None],
    ) -> None:
        self._context, self._exits = context, exits
        self._changed, self._is_naming = changed, is_naming
        """The fetches of this broker: starts or stops them; whether one that names the partition has no answer yet."""
        self._log_damaged = log_damaged
        """Takes a partition's log offline, for this reason, until it is copied again."""
        self.reads = 0
        """Reads of clients, followers, coordinators and compaction that met a damaged batch."""
        self._found: dict[Partition, Damage] = {}

    def of(self, partition: Partition) -> Damage | None:
        """The known damage of a partition's log; None if no read found any."""
        damage = self._found.get(partition)
        return damage if damage is not None and damage.is_of(partition) else None

    def offsets(self, topic: str) -> list[tuple[int, Offset]]:
        """(partition, first offset known to be damaged) of a topic's local replicas, by partition."""
        return sorted(
            (partition.topic_partition.partition, damage.offset)
            for partition, damage in self._found.items()
            if partition.topic_partition.topic == topic and damage.is_of(partition)
        )

    def __len__(self) -> int:
        return sum(damage.is_of(partition) for partition, damage in self._found.items()) if self._found else 0

    def read(self, partition: Partition | None, plan: PendingRead) -> ErrorCode:
        """Record whether a read from the device met damage; returns the error to answer if it got no records."""
        if partition is None or partition.log is not plan.log:
            return ErrorCode.kafka_storage_error if plan.damage is not None else ErrorCode.none
        if plan.damage is not None:
            return self.found(partition, max(plan.offset, plan.next_offset), plan.damage, by_read=True)
        known = self._found.get(partition)
        if known is None or not known.by_read or known.is_leaving:
            return ErrorCode.none
        if plan.offset <= known.offset < plan.next_offset:
            del self._found[partition]
            self._stays(partition)
            self._context.notice(
                "info", "damaged-batch-read", partition=str(partition.topic_partition), offset=known.offset
            )
            self.added(partition)
        return ErrorCode.none

    def found(self, partition: Partition, offset: Offset, batch: DamagedBatch, *, by_read: bool = False) -> ErrorCode:
        """Record that the batch with `offset` is damaged; returns the error to answer to a read of it."""
        assert partition.log is not None
        self.reads += 1
        known = self.of(partition)
        place = batch.file, batch.position
        if known is None or (place != (known.batch.file, known.batch.position) and offset < known.offset):
            known = self._found[partition] = Damage(partition.log, offset, batch, by_read=by_read)
            fields: dict[str, object] = {
                "partition": str(partition.topic_partition),
                "file": batch.file,
                "position": batch.position,
                "offset": offset,
                "reason": batch.reason or "not a valid batch for this position",
                "served": True,
            }
            self._context.emit(Notice("error", "log-damaged", fields, is_provoked=True))
            self._context.after(self, 0, self._leave_all)
        return ErrorCode.kafka_storage_error if may_leave(partition) else ErrorCode.corrupt_message

    def added(self, partition: Partition) -> None:
        """Resign also for damage that recovery found and logged: no read may ever meet it, and the last stable offset of a
        log that lacks a marker stays where it is.
        """
        log, batch = partition.log, recovery_damage(partition.log)
        if log is not None and batch is not None:
            self._found[partition] = Damage(log, batch.offset, batch, by_read=False)
            self._context.after(self, 0, self._leave_all)

    # ------------------------------------------------------------------------------------------------ leaving the ISR

    def _leave_all(self) -> None:
        """Leave the ISRs where another replica may lead; retry the others later."""
        if self._context.is_stopping:
            return
        for partition in [each for each, damage in self._found.items() if not damage.is_of(each)]:
            del self._found[partition]
            self._stays(partition)
        if self._found:
            self._context.after(self, RETRY_MS, self._leave_all)
        for partition, damage in self._found.items():
            if damage.is_leaving:
                continue
            if not may_leave(partition):
                self._stays(partition)
                continue
            is_new = not partition.is_resigning
            if is_new:
                partition.is_resigning = True
                self._changed(partition)
            if is_new or self._is_naming(partition):
                # the leader may take that fetch after the resignation, and let this log into the ISR again
                self._context.after(self, ANSWER_MS, self._leave_all)
            else:
                self._leave(partition, damage)

    def _leave(self, partition: Partition, damage: Damage) -> None:
        try:
            self._exits.request([(partition, True)], partial(self._answered, partition, damage))
            damage.is_leaving = True
        except PeerError:
            # the metadata store is down: the replica continues to fetch, and the timer retries
            self._stays(partition)

    def _answered(
        self, partition: Partition, damage: Damage, error: PeerError | None, values: tuple[dict[str, Any], ...]
    ) -> None:
        damage.is_leaving = False
        if error is not None:
            # the store may have executed the request, or may do so later: the timer retries
            return
        self._stays(partition)
        if values[0]["codes"][0] != "OK" or partition.log is not damage.log:
            return
        self._context.notice(
            "warning",
            "damaged-replica-resigned",
            partition=str(partition.topic_partition),
            what="the replica left the ISR and does a full resync from the leader",
        )
        self._found.pop(partition, None)
        self._log_damaged(partition, str(damage.batch))

    def _stays(self, partition: Partition) -> None:
        """End the resignation: the replica fetches again, if it still has a log."""
        if partition.is_resigning:
            partition.is_resigning = False
            self._changed(partition)
