"""I21: a partition has at most one replica on a machine, but for those that a reassignment removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.payload import parse_nodes
from yak.cluster.placement import MACHINE
from yak.sim.deliveries import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class OneReplicaAMachine(Watcher):
    """Checks the target replicas of every partition that a script changed."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._seen: dict[tuple[str, int], str] = {}

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Compare the racks of the replicas that are to stay."""
        brokers = self._store.state.brokers
        for key, row in self._store.state.partitions.items():
            if self._seen.get(key) == row["replicas"]:
                continue
            self._seen[key] = row["replicas"]
            removing = parse_nodes(row["removing"])
            staying = [node_id for node_id in parse_nodes(row["replicas"]) if node_id not in removing]
            racks = [str(brokers[node_id]["rack"]) for node_id in staying if node_id in brokers]
            machines = [rack for rack in racks if rack.startswith(MACHINE)]
            if len(set(machines)) != len(machines):
                name = self._store.state.topics[key[0]]["name"]
                raise Violation(f"I21: {name}-{key[1]} has two of its replicas {staying} on one machine: {racks}")
