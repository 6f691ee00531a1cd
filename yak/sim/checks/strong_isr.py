"""I4 and I5: everything that a leader counts as committed is in every member of the store's ISR, and the same there.

I5 also demands that the high watermark moves only while the committed ISR has at least `min.insync.replicas` members.
The current leader must wait for every member that the store has, including those of a change whose response it did not
get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.cluster.payload import parse_isr
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, Key, Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class StrongIsr(Watcher):
    """Checks when a high watermark, an ISR or a member's log changes."""

    def __init__(self, history: History, store: SimStore) -> None:
        self._history = history
        self._store = store
        self._isrs: dict[Key, str] = {}

    def watermark(self, copy: Copy, before: int) -> None:
        if not copy.is_leader or copy.key in self._history.forfeited:
            return
        self._members_hold(copy)
        partition = copy.partition
        if partition is None or partition.log is None or copy.high_watermark <= max(before, copy.log_start):
            return
        least = min(partition.log.config.min_insync_replicas, len(partition.replicas))
        if len(partition.isr) < least:
            raise Violation(
                f"I5: {copy} moved its high watermark to {copy.high_watermark} with {len(partition.isr)} in the ISR,"
                f" and {least} are required"
            )

    def role(self, copy: Copy) -> None:
        """A new leader starts with a high watermark."""
        if copy.is_leader and copy.key not in self._history.forfeited:
            self._members_hold(copy)

    def isr(self, copy: Copy) -> None:
        if copy.key not in self._history.forfeited:
            self._members_hold(copy)

    def may_have_less(self, copy: Copy) -> None:
        """A member lost batches, restarted, or was removed and must not be a member."""
        self._leaders_are_held(copy.key)

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        partitions = self._store.state.partitions
        for key in self._history.copies:
            row = partitions.get(key)
            if row is not None and self._isrs.get(key) != row["isr"]:
                self._isrs[key] = row["isr"]
                self._leaders_are_held(key)

    def _leaders_are_held(self, key: Key) -> None:
        if key not in self._history.forfeited:
            for copy in self._history.copies[key].values():
                if copy.is_leader and copy.is_held:
                    self._members_hold(copy)

    def _members_hold(self, leader: Copy) -> None:
        key, history = leader.key, self._history
        row = self._store.state.partitions.get(key)
        if row is None or leader.partition is None:
            return
        wanted = leader.chain.at(leader.high_watermark)
        for member in parse_isr(row["isr"]):
            node_id = member.node_id
            broker = self._store.state.brokers.get(node_id)
            is_present = broker is not None and broker["broker_epoch"] == member.broker_epoch
            copy = history.copies[key].get(node_id)
            if not is_present or history.has_lost(member) or copy is leader:
                continue
            if leader.leader_epoch == row["leader_epoch"] and not _waits_for(leader.partition, node_id):
                raise Violation(f"I5: {leader} does not wait for broker {node_id}, which is in the ISR {row['isr']}")
            if leader.high_watermark <= leader.chain.start:
                continue
            end = 0 if copy is None else copy.end
            if copy is None or end < leader.high_watermark:
                raise Violation(
                    f"I5: {leader} in epoch {leader.leader_epoch} has the high watermark {leader.high_watermark}, but broker"
                    f" {node_id}, in the ISR {row['isr']}, ends at {end}"
                )
            if copy.chain.at(leader.high_watermark) != wanted:
                raise Violation(
                    f"I4: {leader} and {copy} differ at {leader.chain.agreement(copy.chain)}, below the high watermark"
                    f" {leader.high_watermark}"
                )


def _waits_for(partition: Any, node_id: int) -> bool:
    pending = partition.pending_isr
    return node_id in partition.isr or (pending is not None and any(member[0] == node_id for member in pending.members))
