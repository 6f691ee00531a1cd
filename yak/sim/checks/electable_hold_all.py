"""I1, before an election shows it: every replica that can be elected cleanly, from ISR or ELR, has everything
committed.

This is the property of the model in reliability.md 4.10. It finds a replica that joined the ISR too early at once,
not only when that replica leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.payload import parse_isr
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, Key, Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class ElectableHoldAll(Watcher):
    """Checks after commits, ISR and ELR changes, and losses of a copy's batches. Register it after `CommittedStays`."""

    def __init__(self, history: History, store: SimStore) -> None:
        self._history = history
        self._store = store
        self._seen: dict[Key, tuple[str, str]] = {}

    def watermark(self, copy: Copy, before: int) -> None:  # noqa: ARG002
        """More may be committed."""
        if copy.is_leader:
            self._check(copy.key)

    def may_have_less(self, copy: Copy) -> None:
        """A copy has fewer batches, or is gone."""
        self._check(copy.key)

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Other replicas may be electable."""
        partitions = self._store.state.partitions
        for key in self._history.copies:
            row = partitions.get(key)
            if row is not None and self._seen.get(key) != (row["isr"], row["elr"]):
                self._seen[key] = (row["isr"], row["elr"])
                self._check(key)

    def _check(self, key: Key) -> None:
        history, state = self._history, self._store.state
        committed = history.committed.get(key)
        row = state.partitions.get(key)
        if committed is None or not committed.ends or row is None or key in history.forfeited:
            return
        wanted = committed.hashes[-1]
        for where in ("isr", "elr"):
            for member in parse_isr(row[where]):
                broker = state.brokers.get(member.node_id)
                if broker is None or member.broker_epoch < broker["lossy_epoch"]:
                    continue
                if history.has_lost(member):
                    continue
                copy = history.copies[key].get(member.node_id)
                if copy is None or copy.chain.at(committed.end) != wanted:
                    has = "nothing" if copy is None else f"what agrees up to {copy.chain.agreement(committed)}"
                    raise Violation(
                        f"I1: {key.partition} of {state.topics[key.topic_id]['name']}: broker {member.node_id} is in the"
                        f" {where.upper()} {row[where]} with {has}, but all below {committed.end} was committed"
                    )
