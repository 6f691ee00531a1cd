"""Replicas here whose log holds a damaged batch: found by a read, shown, and replaced by a whole copy where there is one.

A read that meets a batch which is not what was written, twice in a row (`yak.storage.reader.PendingRead`), says so here. Then:

- One line is written (`log-damaged`), and the partition is shown as damaged until its log is another one, the batch is no longer
  in it, or a later read finds it whole.
- With another replica in the ISR, or one that may be elected (ELR), this broker leaves the ISR in the store, as one that lost
  something (`leave_isr` with `lost`). Before that request it names the partition in no further fetch, and waits for the answer to
  the last one that did: a fetch that the leader takes after it has heard of the leave would bring this log back into the ISR. So
  the broker leads no longer, is not elected again, and its log is copied again from the leader.
  The store refuses that for the last replica in sync. So of two replicas that are known to be damaged one leads on, and a replica
  that knows its own damage never takes leadership back: it comes into the ISR with a new copy only.
- The last replica in sync goes on and serves what is whole.

A consumer hears KAFKA_STORAGE_ERROR while another replica is about to lead: clients then ask for the leader and go on there. It
hears CORRUPT_MESSAGE where none is: Java's consumer throws, librdkafka reports the error and waits for
`fetch.error.backoff.ms`. Neither skips the batch, and neither asks again at once (Kafka's FetchCollector.handleInitializeErrors).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from yak.broker.events import Notice
from yak.broker.lost_directories import give_up_log
from yak.errors import ErrorCode, PeerError
from yak.ids import FilePosition, Offset
from yak.replication.partition import Partition
from yak.seams.metadata_store import StoreRequest
from yak.storage.log import Log
from yak.storage.reader import DamagedBatch, PendingRead

if TYPE_CHECKING:
    from yak.broker.broker import Broker

ANSWER_MS: Final = 50
"""A leader that waits for records answers a fetch within `replica.fetch.wait.max.ms`."""
RETRY_MS: Final = 2_000
"""A store that is away, or a replica that was not in sync, may be back by then."""


class Damage:
    """The first damaged batch that a read met in a log: file, position, and the offset that was asked for."""

    __slots__ = ("batch", "by_read", "generation", "is_asked", "log", "offset")

    def __init__(self, log: Log, offset: Offset, batch: DamagedBatch, *, by_read: bool) -> None:
        self.log, self.generation = log, log.generation
        self.offset, self.batch = offset, batch
        self.by_read = by_read
        """Found by a client's or follower's read; a coordinator and compaction see more than such a read does."""
        self.is_asked = False
        """A request to leave the ISR is under way."""

    def is_at(self, place: tuple[str, FilePosition]) -> bool:
        """Whether it is the batch there."""
        return (self.batch.file, self.batch.position) == place

    def is_of(self, partition: Partition) -> bool:
        """Whether the partition's log still has it, as far as that is known without a read."""
        log = partition.log
        return log is self.log and log.generation == self.generation and self.offset >= log.log_start_offset


class DamagedReplicas:
    """The partitions of this broker that are known to be damaged."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._found: dict[Partition, Damage] = {}
        self._resigning: dict[Partition, None] = {}
        """Those that fetch no more: they are about to leave the ISR, or asked to and have no definite answer yet."""
        self._due_ms: int | None = None

    def is_resigning(self, partition: Partition) -> bool:
        """Whether the partition's replica here leaves the ISR, or may have left it: it must not fetch."""
        return partition in self._resigning

    def of(self, partition: Partition) -> Damage | None:
        """What is known of a partition's log; None for a whole one, as far as reads have told."""
        damage = self._found.get(partition)
        return damage if damage is not None and damage.is_of(partition) else None

    def offsets(self, topic: str) -> list[tuple[int, Offset]]:
        """(partition, first offset that is known to be damaged) of a topic's replicas here, by partition."""
        return sorted(
            (partition.topic_partition.partition, damage.offset)
            for partition, damage in self._found.items()
            if partition.topic_partition.topic == topic and damage.is_of(partition)
        )

    def __len__(self) -> int:
        return sum(damage.is_of(partition) for partition, damage in self._found.items())

    def read(self, plan: PendingRead) -> ErrorCode:
        """Take what a read from the device says of its log; the error to answer where it gave nothing for damage."""
        partition = self._broker.partitions.get(plan.log.topic_partition)
        if partition is None or partition.log is not plan.log:
            return ErrorCode.kafka_storage_error if plan.damage is not None else ErrorCode.none
        if plan.damage is not None:
            return self.found(partition, max(plan.offset, plan.next_offset), plan.damage, by_read=True)
        known = self._found.get(partition)
        if known is None or not known.by_read or known.is_asked:
            return ErrorCode.none
        if plan.offset <= known.offset < plan.next_offset:
            del self._found[partition]
            self._stays(partition)
            self._broker.notice(
                "info", "damaged-batch-read", partition=str(partition.topic_partition), offset=known.offset
            )
        return ErrorCode.none

    def found(self, partition: Partition, offset: Offset, batch: DamagedBatch, *, by_read: bool = False) -> ErrorCode:
        """The batch of a partition's log that holds `offset` is damaged; returns what to answer to a read of it."""
        assert partition.log is not None
        broker = self._broker
        broker.counters.damaged_reads += 1
        known = self.of(partition)
        if known is None or not (known.is_at((batch.file, batch.position)) or known.offset <= offset):
            known = self._found[partition] = Damage(partition.log, offset, batch, by_read=by_read)
            fields: dict[str, object] = {
                "partition": str(partition.topic_partition),
                "file": batch.file,
                "position": batch.position,
                "offset": offset,
                "reason": batch.reason or "no batch that could be there",
                "served": True,
            }
            broker.emit(Notice("error", "log-damaged", fields, is_provoked=True))
            self._due_ms = broker.now_ms
        return ErrorCode.kafka_storage_error if self._may_leave(partition) else ErrorCode.corrupt_message

    def _may_leave(self, partition: Partition) -> bool:
        """Whether another replica may lead with everything, as far as the image tells; the store decides."""
        others = {*partition.isr, *partition.elr} - {self._broker.node_id}
        return bool(others)

    # ------------------------------------------------------------------------------------------------ leaving the ISR

    def next_due(self) -> int | None:
        """When `on_timer` is wanted, in ms."""
        return self._due_ms

    def on_timer(self) -> None:
        """Leave the ISRs that can be left; look again later at the others."""
        broker = self._broker
        if self._due_ms is None or self._due_ms > broker.now_ms or broker.maintenance.is_stopping:
            return
        for partition in [each for each, damage in self._found.items() if not damage.is_of(each)]:
            del self._found[partition]
            self._stays(partition)
        self._due_ms = broker.now_ms + RETRY_MS if self._found else None
        for partition, damage in self._found.items():
            if damage.is_asked:
                continue
            if not self._may_leave(partition):
                self._stays(partition)
                continue
            is_new = partition not in self._resigning
            if is_new:
                self._resigning[partition] = None
                broker.replication.changed(partition)
            if is_new or broker.replication.is_naming(partition):
                # The leader may take that fetch after it has heard of the leave, and let this log into the ISR again.
                self._due_ms = broker.now_ms + ANSWER_MS
            else:
                self._leave(partition, damage)

    def _leave(self, partition: Partition, damage: Damage) -> None:
        item = {
            "topic_id": str(partition.topic_id),
            "partition": partition.topic_partition.partition,
            "lost": True,
        }
        request = StoreRequest("leave_isr", {"partitions": [item]})
        try:
            self._broker.metadata.begin_own((request,), partial(self._answered, partition, damage))
            damage.is_asked = True
        except PeerError:
            # the metadata store is away: the replica fetches on, and the timer asks again
            self._stays(partition)

    def _answered(
        self, partition: Partition, damage: Damage, error: PeerError | None, values: tuple[dict[str, Any], ...]
    ) -> None:
        damage.is_asked = False
        if error is not None:
            # the store may have executed the request, or may do so later: the timer asks again
            return
        self._stays(partition)
        if values[0]["codes"][0] != "OK" or partition.log is not damage.log:
            return
        self._broker.notice(
            "warning",
            "damaged-replica-resigned",
            partition=str(partition.topic_partition),
            what="it left the ISR and is copied again from its leader",
        )
        self._found.pop(partition, None)
        give_up_log(self._broker, partition, str(damage.batch))

    def _stays(self, partition: Partition) -> None:
        """No request to leave is under way any more: the replica fetches again, if it still has a log."""
        if partition in self._resigning:
            del self._resigning[partition]
            self._broker.replication.changed(partition)
