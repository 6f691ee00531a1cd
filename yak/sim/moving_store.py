"""Both metadata stores of simulated brokers that were started with both: what the checks compare the brokers with is in the
one that has the metadata.

The quorum has them from the first node that applies their import on, until the first one that applies their closing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.ports.metadata_store import StoreRequest
from yak.quorum.store_choice import has_metadata
from yak.sim.committed_store import CommittedStore
from yak.sim.store import SimStore

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState
    from yak.ports.metadata_store import TailedRecord


class MovingStore:
    """The simulated Redis, in which the cluster was made, and the committed state of the brokers' quorum."""

    has_lost_history = False
    """Lost history belongs to runs with Redis alone."""

    def __init__(self, cluster_id: str) -> None:
        self.redis, self.committed = SimStore(), CommittedStore()
        ids: dict[str, object] = {"new_cluster_id": cluster_id, "new_incarnation_id": "simulated"}
        self.redis.call(StoreRequest("bootstrap", ids), 0)

    @property
    def is_in_quorum(self) -> bool:
        """Whether the quorum has the metadata."""
        return has_metadata(self.committed.state)

    @property
    def state(self) -> StoreState:
        """The content of the store that has the metadata."""
        return self.committed.state if self.is_in_quorum else self.redis.state

    @property
    def up(self) -> bool:
        """Whether the simulated Redis runs."""
        return self.redis.up

    @up.setter
    def up(self, value: bool) -> None:
        self.redis.up = value

    def restart(self) -> None:
        """Start the simulated Redis again."""
        self.redis.restart()

    def records_after(self, offset: int, limit: int = 500) -> list[TailedRecord]:
        """Records of the metadata log after `offset`."""
        return (self.committed if self.is_in_quorum else self.redis).records_after(offset, limit)
