"""I7: in the store the leader is in the ISR, the ISR is a subset of the replicas, and a joining broker is ACTIVE in
that epoch.

ISR and ELR are disjoint, and not both empty unless every member lost its data. A partition's epochs rise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, parse_isr, parse_nodes
from yak.sim.deliveries import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class LeaderInIsr(Watcher):
    """Checks every partition that a script changed."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._seen: dict[tuple[str, int], tuple[int, int, str, str]] = {}

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Compare with the last state of each partition; a restore drops changes that no broker acted on."""
        is_restore = request.script == "seed_commit"
        if is_restore:
            self._seen.clear()  # a partition that the image lacks may be created again
        for key, row in self._store.state.partitions.items():
            state = (row["partition_epoch"], row["leader_epoch"], row["isr"], row["replicas"])
            before = (-1, -1, row["isr"], "") if is_restore else self._seen.get(key)
            if before != state:
                self._seen[key] = state
                name = self._store.state.topics[key[0]]["name"]
                self._compare(f"{name}-{key[1]} after {request.script}", row, before)

    def _compare(self, where: str, row: dict[str, Any], before: tuple[int, int, str, str] | None) -> None:
        isr, replicas = parse_isr(row["isr"]), parse_nodes(row["replicas"])
        if before is not None and (row["partition_epoch"] <= before[0] or row["leader_epoch"] < before[1]):
            raise Violation(f"I7: {where}: epochs {row['partition_epoch']}, {row['leader_epoch']} after {before[:2]}")
        members = [member.node_id for member in isr]
        if row["leader"] != -1 and row["leader"] not in members:
            raise Violation(f"I7: {where}: leader {row['leader']} is not in the ISR {row['isr']}")
        if len(dict.fromkeys(members)) != len(members) or not all(node_id in replicas for node_id in members):
            raise Violation(f"I7: {where}: the ISR {row['isr']} is not of the replicas {row['replicas']}")
        elr = [member.node_id for member in parse_isr(row["elr"])]
        if any(node_id in members for node_id in elr):
            raise Violation(f"I7: {where}: ISR {row['isr']} and ELR {row['elr']} share a member")
        known = parse_isr(before[2]) if before is not None else ()
        for member in isr:
            if member not in known:
                self._may_enter(where, member, is_new=before is None)
        if not isr and not elr:
            raise Violation(f"I7: {where}: ISR and ELR are empty")

    def _may_enter(self, where: str, member: IsrMember, *, is_new: bool) -> None:
        broker = self._store.state.brokers.get(member.node_id)
        if broker is None or broker["broker_epoch"] != member.broker_epoch or broker["state"] != "ACTIVE":
            state = "not registered" if broker is None else f"{broker['state']} in epoch {broker['broker_epoch']}"
            what = "begins" if is_new else "enters"
            raise Violation(f"I7: {where}: {member.node_id}@{member.broker_epoch} {what} in the ISR, but is {state}")
