"""F13: an outage of the store is held against nobody: who is fenced for his silence was watched for long enough after it.

Wrong fencing costs no record, only service, so no other check sees it: all brokers of a cluster would go at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.sim.books import Violation
from yak.sim.history import Watcher

if TYPE_CHECKING:
    from yak.seams.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.cluster import Cluster


class OutageFencesNobody(Watcher):
    """Looks at every fencing for silence, by the controller or by who takes its office. `patience_ms` is how long one watches."""

    def __init__(self, cluster: Cluster, patience_ms: int) -> None:
        self._cluster = cluster
        self._patience_ms = patience_ms

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        """Somebody may have been fenced."""
        asked = request.arguments
        fences = request.script == "fence" or (request.script == "acquire_lease" and "claimed_renewals" in asked)
        back_ms = self._cluster.store_back_ms
        if not fences or asked.get("fast") or outcome.code != "OK" or back_ms is None:
            return
        since_ms = self._cluster.world.now_ms - back_ms
        if since_ms < self._patience_ms:
            raise Violation(
                f"F13: broker {asked.get('target_id', 'with the office')} was fenced for its silence by broker"
                f" {asked['node_id']}, {since_ms} ms after the store came back; {self._patience_ms} ms are to be waited"
            )
