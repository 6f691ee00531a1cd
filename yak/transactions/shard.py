"""One partition of `__transaction_state`: its transactional ids, and how they are loaded from its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from yak.errors import ErrorCode
from yak.ids import ConnectionId, Offset, ProducerId, TopicPartition
from yak.protocol.record_fields import UnreadableRecord
from yak.transactions.marker_sender import PendingMarkers
from yak.transactions.records import read_transaction
from yak.transactions.transaction import ProducerIdAndEpoch, Transaction


class Addition(NamedTuple):
    """A request that adds partitions to a transaction. It waits for changes under way until `due_ms`."""

    producer: ProducerIdAndEpoch
    client_version: int
    partitions: frozenset[TopicPartition]
    due_ms: int
    then: Callable[[ErrorCode], None]


@dataclass(slots=True, eq=False)
class TransactionalId:
    """A transactional id here: its transaction as committed, and the change that is being appended."""

    transaction: Transaction
    pending: Transaction | None = None
    """While it is there, every request gets CONCURRENT_TRANSACTIONS."""
    markers: PendingMarkers | None = None
    """The markers of the end that are not written yet."""
    connection_id: ConnectionId = 0
    """The newest connection that sent a request of protocol 1."""
    open_since_ms: int = 0
    """Since when its transaction is open here, in ms of the clock that never goes back."""
    waiting: list[Addition] = field(default_factory=list)
    """Those that wait for the change or the end that is under way."""


@dataclass(slots=True, eq=False)
class TransactionShard:
    """The transactional ids of one partition."""

    ids: dict[str, TransactionalId] = field(default_factory=dict)
    open: dict[str, TransactionalId] = field(default_factory=dict)
    """Those with an open transaction."""
    is_committed: bool = False
    """Whether everything that was loaded is below the high watermark. Until then it may not be acted on."""
    gathered: dict[bytes, bytes] = field(default_factory=dict)
    """Values by key, until `restore` has decoded them."""
    unreadable: int = 0

    def note_open(self, entry: TransactionalId, now_ms: int) -> None:
        """The entry's transaction is open, at the latest since `now_ms`."""
        name = entry.transaction.transactional_id
        if name not in self.open:
            self.open[name] = entry
            entry.open_since_ms = now_ms

    def timed_out(self, now_ms: int, wall_ms: int) -> list[TransactionalId]:
        """Those whose transaction is open for longer than its timeout, and does not change now.

        Its start is by the wall clock. Where the coordinator before had a clock that was ahead, the time here does.
        """
        return [
            entry
            for entry in self.open.values()
            if entry.pending is None
            and (entry.transaction.is_timed_out(wall_ms) or now_ms - entry.open_since_ms > entry.transaction.timeout_ms)
        ]

    def gather(self, key: bytes | None, value: bytes | None, offset: Offset, producer_id: ProducerId | None) -> None:  # noqa: ARG002
        """Collect one record of the log, in log order."""
        if key is None:
            self.unreadable += 1
        elif value is None:
            self.gathered.pop(key, None)
        else:
            self.gathered[key] = value

    def gather_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Nothing: no transaction writes to this topic."""

    def restore(self) -> Iterator[None]:
        """Decode the gathered records, one a step."""
        gathered, self.gathered = self.gathered, {}
        for key, value in gathered.items():
            try:
                transaction = read_transaction(key, value)
            except UnreadableRecord:
                self.unreadable += 1
            else:
                self.ids[transaction.transactional_id] = TransactionalId(transaction)
            yield
