"""M1: at most one of the two metadata stores is open, whatever is moved, killed or late; and the one that has the
metadata has all that it had before the move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.sim.deliveries import Violation

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import MovingStore


class OneStoreOpen:
    """Looks at both stores after each of their calls."""

    def __init__(self, store: MovingStore) -> None:
        self._store = store
        self._offset = 0

    def called(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        """A script was executed in one of them."""
        store = self._store
        if store.is_in_quorum and store.redis.state.cluster.get("state") == "LIVE":
            raise Violation(f"M1: both metadata stores are open after {request.script} {outcome.code}")
        if store.state.cluster.get("state") == "MOVED":
            raise Violation(f"M1: neither metadata store has the metadata after {request.script} {outcome.code}")
        offset = store.state.cluster.get("mo", 0)
        if offset < self._offset:
            raise Violation(f"M1: after {request.script} the metadata end at {offset}, before at {self._offset}")
        self._offset = offset
