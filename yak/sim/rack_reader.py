"""Fetches of a consumer that reads in its own rack (KIP-392): from the follower that the leader names, while it answers.

Kafka's consumer fetches from the leader again after an error of the follower, and after its metadata expire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import FETCH
from yak.sim.routing import Connection

if TYPE_CHECKING:
    from yak.sim.deliveries import Deliveries
    from yak.sim.request_fields import Fields
    from yak.sim.routing import Channel, Done

EXPIRES_PERCENT = 10
"""How often a fetch goes to the leader although the follower answers."""


class RackChannel:
    """Requests of one consumer, with the interface of `Channel`; `leader` sends those that the leader gets."""

    def __init__(self, leader: Channel, deliveries: Deliveries, rack_id: str) -> None:
        self.world, self.rng = leader.world, leader.rng
        self._leader, self._deliveries, self._rack_id = leader, deliveries, rack_id
        self._follower: Connection | None = None
        """To the replica that the leader named last."""

    def send(self, api_key: int, version: int, fields: Fields, done: Done) -> None:
        """Send a request; a follower that cannot answer a fetch is left, and the fetch fails as after a lost connection."""
        if api_key != FETCH:
            self._leader.send(api_key, version, fields, done)
            return
        if self._follower is not None and (not self._follower.is_open or self.rng.chance(EXPIRES_PERCENT)):
            self._leave()
        follower = self._follower
        sender = self._leader if follower is None else follower

        def answered(answer: Any | None) -> None:
            result: Any = (
                None if answer is None or answer.error_code != ErrorCode.none else answer.responses[0].partitions[0]
            )
            if result is None or result.error_code != ErrorCode.none:
                self._leave()
                done(answer if follower is None else None)
                return
            if follower is None and result.preferred_read_replica >= 0:
                self._follower = Connection(self._leader.view.cluster, result.preferred_read_replica)
            elif follower is not None and result.records:
                is_committed = bool(fields["isolation_level"])
                self._deliveries.count(f"{'committed ' * is_committed}fetches from followers")
            done(answer)

        sender.send(api_key, version, fields | {"rack_id": self._rack_id}, answered)

    def _leave(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
