"""External brokers (static registrations) have no replicas, lead nothing, and are in no list of brokers.

The epoch of an external broker never falls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.payload import parse_isr, parse_nodes
from yak.sim.books import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class GuestsApart(Watcher):
    """Reads the store after every change."""

    def __init__(self, store: SimStore) -> None:
        self._store = store
        self._epochs: dict[int, int] = {}

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Check every external broker, and every list of brokers."""
        state = self._store.state
        if not state.guests and not self._epochs:
            return
        for node_id, guest in state.guests.items():
            if guest["broker_epoch"] < self._epochs.get(node_id, 0):
                raise Violation(f"guest {node_id}: its epoch fell to {guest['broker_epoch']}")
            self._epochs[node_id] = guest["broker_epoch"]
        # Once a YAK broker has taken its id, an external broker is gone. The id is free for one again only where no YAK
        # broker ever had it.
        for node_id in state.guests:
            if node_id in state.brokers or node_id in state.unregistered:
                raise Violation(f"{node_id} is a guest and a broker")
        if state.cluster.get("ctl_id") in state.guests:
            raise Violation(f"guest {state.cluster['ctl_id']} is the controller")
        for (topic_id, number), row in state.partitions.items():
            named = {*parse_nodes(row["replicas"]), *(m.node_id for m in parse_isr(row["isr"])), row["leader"]}
            if found := sorted(named & state.guests.keys()):
                raise Violation(f"guest {found[0]} has partition {number} of {topic_id}")
