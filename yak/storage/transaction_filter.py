"""Which transactional batches and markers a round of compaction may drop (Kafka's CleanedTransactionMetadata)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from yak.ids import Offset, ProducerId
from yak.protocol.record_batch import BatchHeader
from yak.storage.indexes import AbortedTxn

_first_offset = attrgetter("first_offset")


class TransactionFilter:
    """Follows one round from the log's first batch on. `aborted` are all aborted transactions in its range.

    A marker must stay while a batch of its transaction does: without it the transaction would be open again after a restart.
    """

    def __init__(self, aborted: Sequence[AbortedTxn]) -> None:
        self._by_producer: dict[ProducerId, list[AbortedTxn]] = {}
        for each in sorted(aborted, key=_first_offset):
            self._by_producer.setdefault(each.producer_id, []).append(each)
        self._by_marker: dict[Offset, AbortedTxn] = {each.last_offset: each for each in aborted}
        self._with_batches: set[ProducerId] = set()
        """Producers with a batch since their last marker."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records is part of an aborted transaction."""
        transactions = self._by_producer.get(header.producer_id)
        if transactions is None or not header.is_transactional:
            return False
        index = bisect_right(transactions, header.base_offset, key=_first_offset) - 1
        return index >= 0 and header.base_offset < transactions[index].last_offset

    def saw_records(self, header: BatchHeader) -> None:
        """A batch of records was read."""
        if header.is_transactional:
            self._with_batches.add(header.producer_id)

    def saw_marker(self, header: BatchHeader) -> bool:
        """A marker was read; returns whether there are batches of its transaction."""
        has_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        return has_batches

    def aborted_by(self, header: BatchHeader) -> AbortedTxn | None:
        """The aborted transaction that a marker ends."""
        return self._by_marker.get(header.base_offset)
