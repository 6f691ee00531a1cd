"""F13: a store outage fences no broker: after it, a fencing needs the full observation time again.

Wrong fencing costs no record, only availability, so no other check finds it: all brokers of a cluster would be fenced
at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.sim.deliveries import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.cluster import Cluster


class OutageFencesNoBroker(Watcher):
    """Checks every fencing for missing heartbeats, by the controller or at a controller election.

    `patience_ms` is the required observation time.
    """

    def __init__(self, cluster: Cluster, patience_ms: int) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        arguments = request.arguments
        fences = request.script == "fence" or (request.script == "acquire_lease" and "claimed_renewals" in arguments)
        back_ms = self._cluster.store_back_ms
        if not fences or arguments.get("fast") or outcome.code != "OK" or back_ms is None:
            return
        since_ms = self._cluster.world.now_ms - back_ms
        if since_ms < self._patience_ms:
            raise Violation(
                f"F13: broker {arguments.get('target_id', 'that was controller')} was fenced for a missing heartbeat by broker"
                f" {arguments['node_id']}, {since_ms} ms after the store came back; {self._patience_ms} ms are to be waited"
            )
