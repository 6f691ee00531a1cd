"""I1, before an election shows it: a broker that was unregistered, or whose disk was replaced, is no former member.

Its disk may be empty, or older than what it acknowledged. So no place in an ISR or ELR that it had before makes it
eligible once it has registered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.cluster.payload import parse_isr
from yak.sim.deliveries import Violation
from yak.sim.history import History, Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class ReplacedBrokersAreLossy(Watcher):
    """Checks each registration of such a broker."""

    def __init__(self, history: History, store: SimStore) -> None:
        self._history = history
        self._store = store

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        node_id = request.arguments.get("node_id")
        if request.script != "register" or not isinstance(node_id, int) or node_id not in self._history.replaced:
            return
        broker = self._history.nodes[node_id].broker
        if broker is None or broker.identity.boot_id != request.arguments["boot_id"]:
            return  # a late call of a process that had the disk of before; the next one registers by another boot
        state, replaced = self._store.state, self._history.replaced[node_id]
        lossy_epoch = state.brokers[node_id]["lossy_epoch"]
        for (topic_id, partition), row in state.partitions.items():
            for member in (*parse_isr(row["isr"]), *parse_isr(row["elr"])):
                if member.node_id == node_id and lossy_epoch <= member.broker_epoch <= replaced:
                    raise Violation(
                        f"I1: broker {node_id} was replaced after epoch {replaced}, and as a former member of"
                        f" {state.topics[topic_id]['name']}-{partition} in epoch {member.broker_epoch} it may lead: its last"
                        f" loss is of epoch {lossy_epoch}"
                    )
