"""The metadata store of a broker that knows both, Redis and a quorum (`--metadata both`), and uses the one that has them.

The quorum's applied state decides: it has the metadata from the command that imports them on, until the one that closes
their export (`yak.metadata_store.migration`). The broker lifecycle sees a change of the store as an outage: the old store is
lost, the new one is connected, and has the history that this broker knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from yak.core.context import Context
from yak.core.events import StoreConnected, StoreLost, StoreReplied
from yak.ids import MetadataOffset, Nonce
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import MetadataStore, StoreOutcome, StoreRequest
from yak.quorum.migration import Migration
from yak.quorum.quorum import Quorum
from yak.quorum.store import QuorumStore, StoreEvent

_IN_QUORUM: Final = ("LIVE", "EXPORTED")


class StoreChoice:
    """Both stores as one. Events of the store that is not in use are dropped."""

    def __init__(
        self, context: Context, redis: MetadataStore, quorum_store: QuorumStore, report: Callable[[StoreEvent], None]
    ) -> None:
        self._context, self._redis, self._quorum_store, self._report = context, redis, quorum_store, report
        self._quorum: Quorum
        self.migration: Migration
        self.uses_quorum = False
        """Whether the quorum has the metadata, as far as this broker has applied its log."""
        self._redis_connected: StoreConnected | None = None
        self.redis_is_frozen = False
        """Whether Redis' last answer was that its metadata are being moved."""
        self._waiting: dict[Nonce, Callable[[StoreOutcome | None], None]] = {}
        self._last_nonce = 0

    def attach(self, quorum: Quorum) -> None:
        """Use this quorum; before its `start`."""
        self._quorum, self.migration = quorum, Migration(self._context, quorum, self)
        self.uses_quorum = has_metadata(quorum.machine.state)

    # ------------------------------------------------------------------------------------- as the metadata store

    def call(self, nonce: Nonce, request: StoreRequest) -> None:
        """Send one call to the store in use. Redis gets no copy of the metadata for a restore.

        This broker may not know yet that the quorum has the metadata: then an empty Redis has lost nothing, and an offer
        would make it wait for a restore, not for the move.
        """
        if request.script == "seed_offer" and not self.uses_quorum:
            self._report(StoreReplied(nonce, StoreOutcome("BAD_REQUEST", value={"message": "the metadata may move"})))
            return
        store: MetadataStore = self._quorum_store if self.uses_quorum else self._redis
        store.call(nonce, request)

    def tail(self, after: MetadataOffset) -> None:
        """(Re)start tailing the store in use."""
        store: MetadataStore = self._quorum_store if self.uses_quorum else self._redis
        store.tail(after)

    # ------------------------------------------------------------------------------------------------- Redis

    @property
    def redis_is_connected(self) -> bool:
        """Whether Redis answers this broker."""
        return self._redis_connected is not None

    def call_redis(self, request: StoreRequest, done: Callable[[StoreOutcome | None], None]) -> None:
        """Call a script in Redis for the migration; `done` gets None when the connection is lost first, or is already."""
        if self._redis_connected is None:
            done(None)
            return
        # the broker lifecycle's own nonces are positive
        self._last_nonce -= 1
        self._waiting[self._last_nonce] = done
        self._redis.call(self._last_nonce, request)

    def on_redis(self, event: StoreEvent) -> None:
        """An event of Redis."""
        match event:
            case StoreConnected():
                self._redis_connected = event
            case StoreLost():
                self._redis_connected = None
                waiting, self._waiting = self._waiting, {}
                for done in waiting.values():
                    done(None)
            case StoreReplied(nonce, outcome):
                self.redis_is_frozen = outcome.code == "MIGRATING"
                done_with = self._waiting.pop(nonce, None)
                if done_with is not None:
                    done_with(outcome)
                    return
        if not self.uses_quorum:
            self._report(event)

    # ------------------------------------------------------------------------------------------------- the quorum

    def on_quorum(self, event: StoreEvent) -> None:
        """An event of the quorum as a store."""
        if self.uses_quorum:
            self._report(event)

    def on_leader(self) -> None:
        """The quorum's leader, its epoch or its readiness changed."""
        self._quorum_store.on_leader()
        self.migration.on_leader()

    def on_applied(self) -> None:
        """Commands were applied: perhaps the one that moves the metadata."""
        uses_quorum = has_metadata(self._quorum.machine.state)
        if uses_quorum != self.uses_quorum:
            self.uses_quorum = uses_quorum
            self._switch()
        self._quorum_store.on_applied()

    def _switch(self) -> None:
        store = "the quorum" if self.uses_quorum else "Redis"
        self._context.notice("info", "metadata-store-switched", store=store)
        self._report(StoreLost(f"the metadata were moved to {store}"))
        self._quorum_store.reconnect()
        if not self.uses_quorum and self._redis_connected is not None:
            self._report(self._redis_connected)


def has_metadata(state: StoreState) -> bool:
    """Whether the quorum has the cluster's metadata: it was made there, or was imported and not moved away since."""
    return state.cluster.get("state") in _IN_QUORUM
