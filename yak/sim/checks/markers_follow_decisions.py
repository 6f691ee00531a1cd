"""I12: a marker stands in a log only after the coordinator's decision is committed in `__transaction_state`.

Otherwise the coordinator's successor may decide differently, and part of the transaction is committed. A client would
notice only if the coordinator died in between. With protocol 1 transactions share an epoch: the first decision of a kind
then vouches for later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, NewBatch, Watcher
from yak.transactions.records import TRANSACTION_TOPIC, read_transaction
from yak.transactions.transaction import PREPARE_COMMIT, PREPARED

if TYPE_CHECKING:
    from yak.sim.node import SimNode

_Decision = tuple[int, int, bool]
"""Producer id, producer epoch, and whether the transaction commits."""


class MarkersFollowDecisions(Watcher):
    """Reads every marker after the step that appended it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._appended: list[tuple[Copy, _Decision]] = []
        self._decided: set[_Decision] = set()
        self._read = 0
        self._is_forfeited = False

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """Markers may be among the batches."""
        self._appended += [(copy, batch.decision) for batch in batches if batch.decision is not None]

    def stepped(self, node: SimNode) -> None:
        """Compare the markers of this step with the decisions, which the same step may have committed."""
        appended, self._appended = self._appended, []
        for copy, decision in appended:
            self._history.counts["markers checked"] += 1
            if not self._is_decided(decision) and not self._is_forfeited:
                producer_id, epoch, is_commit = decision
                raise Violation(
                    f"I12: {copy} has a marker of producer {producer_id}, epoch {epoch}, {is_commit=}, and no such"
                    f" decision is committed, after a step of broker {node.node_id}"
                )

    def _is_decided(self, decision: _Decision) -> bool:
        if decision not in self._decided:
            self._read_on()
        return decision in self._decided

    def _read_on(self) -> None:
        """Read the decisions that were committed since."""
        for key, copies in self._history.copies.items():
            if all(copy.topic_partition.topic != TRANSACTION_TOPIC for copy in copies.values()):
                continue
            if key in self._history.forfeited:
                self._is_forfeited = True
            originals, chain = self._history.originals.get(key), self._history.committed.get(key)
            if originals is None or chain is None:
                continue
            begin, self._read = self._read, chain.end
            for record in originals.records_in(chain, begin):
                if record.key is not None and record.value is not None:
                    each = read_transaction(record.key, record.value)
                    if each.state in PREPARED:
                        self._decided.add((each.producer_id, each.producer_epoch, each.state is PREPARE_COMMIT))
