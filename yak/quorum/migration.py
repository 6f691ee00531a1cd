"""The move of a live cluster's metadata from Redis to the quorum, or back: the quorum's leader carries it out.

The cluster-wide config `yak.metadata.store.target` says where the metadata shall be. A move has three steps. Each is one
atomic call of a script (`yak.metadata_store.migration`), and can be repeated:

    to the quorum                                   to Redis
    export_metadata in Redis: frozen                export_metadata in the quorum: frozen
    import_metadata in the quorum: LIVE there       import_metadata in Redis: IMPORTED, not usable yet
    close_exported in Redis: content deleted        close_exported in the quorum: content deleted
                                                    open_imported in Redis: LIVE there

What decides is one commit of the quorum: of the import, or of the close. Before it the source has the metadata, after it the
other store. So no leader has to remember anything: a new one reads from the state how far the move is, and goes on. A
leader's calls of Redis may arrive after another one was elected; they name a migration id that contains the epoch, and
Redis refuses an older one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from yak.cluster.snapshot import write_snapshot
from yak.config.broker_config_table import METADATA_STORE_TARGET
from yak.core.context import Context
from yak.ids import LeaderEpoch, MetadataOffset, NodeId
from yak.metadata_store.content import Rows, rows_of, with_snapshot
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.quorum import Quorum
from yak.quorum.state_machine import facts_of_new_leader

if TYPE_CHECKING:
    from yak.quorum.store_choice import StoreChoice

_CHECK_MS: Final = 200
_FETCHED_MS_MAX: Final = 3_000
"""A broker that fetched from the quorum's leader at most this long ago follows the quorum."""
_REDIS_MS_MAX: Final = 5_000
"""For so long the metadata stay frozen while Redis does not take them; then the move is given up."""
_PAUSE_MS: Final = 30_000
"""After a move that was given up."""
_ATTEMPT_BITS: Final = 20
LOG_RECORDS: Final = 1_000
"""So many of the newest records are moved, and those that a broker lacks (`rows_of`); a snapshot replaces the others.

A store keeps 100,000 and more: too much for one entry of the quorum's log, which no follower could fetch.
"""
_Store: TypeAlias = Callable[[StoreRequest, Callable[[StoreOutcome | None], None]], None]
"""Calls a script of one of the two stores: `StoreChoice.call_redis` or `Quorum.propose`."""


class Migration:
    """Drives the move while this node leads the quorum; `StoreChoice` lets every node follow it."""

    def __init__(self, context: Context, quorum: Quorum, choice: StoreChoice) -> None:
        self._context, self._quorum, self._choice = context, quorum, choice
        self._begin_term(-1)
        self._newest_id = 0
        """The newest migration id that Redis named."""
        self.log_records = LOG_RECORDS
        """The simulator lowers it."""

    def _begin_term(self, epoch: LeaderEpoch) -> None:
        self._epoch = epoch
        self._attempts = 0
        self._is_busy = False
        self._id = 0
        """The id of the export that this leader began."""
        self._settled: tuple[str, int] | None = None
        """The last step in Redis that needs no repetition: the script, and its migration id."""
        self._exported_ms: int | None = None
        self._not_before_ms = 0
        self._said: object = None
        self._moves_all = False

    # ------------------------------------------------------------------------------------------------- inputs

    def on_leader(self) -> None:
        """The leader changed: go on with what the state says."""
        if not self._quorum.is_ready_leader:
            self._context.timers.disarm(self)
        elif self._epoch != self._quorum.epoch:
            self._begin_term(self._quorum.epoch)
            self._check()

    def _check(self) -> None:
        """Do the next step, if there is one. It is called again and again: brokers, Redis and the target may change."""
        if not self._quorum.is_ready_leader or self._epoch != self._quorum.epoch:
            return
        self._context.after(self, _CHECK_MS, self._check)
        if self._is_busy:
            return
        cluster = self._quorum.machine.state.cluster
        held = cluster.get("state")
        if held == "LIVE":
            self._when_in_quorum(cluster)
        elif held == "EXPORTED":
            self._when_exported(cluster["migration_id"])
        elif self._choice.redis_is_connected:
            self._when_in_redis(cluster.get("migration_id", 0))

    @property
    def _target(self) -> str:
        return self._context.image.default_broker_configs.get(METADATA_STORE_TARGET, "")

    # ------------------------------------------------------------------------------------------------- to the quorum

    def _when_in_redis(self, moved_id: int) -> None:
        """Redis has the metadata; `moved_id` is the id of the move that brought them there, or 0."""
        if moved_id and self._settled != ("open_imported", moved_id):
            self._settle("open_imported", moved_id)
        elif self._choice.redis_is_frozen:
            # another leader began it
            self._export_from_redis()
        elif self._target == "raft" and self._is_time and self._all_follow():
            self._export_from_redis()

    def _all_follow(self) -> bool:
        """Whether every live broker follows the quorum: one that does not would lose the metadata from sight."""
        leader, now_ms = self._quorum.leader, self._context.clock.now_ms
        assert leader is not None
        missing: list[NodeId] = []
        for info in self._context.image.active_brokers():
            follower = leader.followers.get(info.node_id)
            is_here = follower is not None and now_ms - follower.last_fetch_ms <= _FETCHED_MS_MAX
            if info.node_id != self._quorum.config.node_id and not is_here:
                missing.append(info.node_id)
        if missing:
            self._warn_once("metadata-migration-waits", brokers=missing, what="they do not follow the quorum")
        return not missing

    def _export_from_redis(self) -> None:
        self._id = self._next_id()
        done, more = partial(self._on_exported, self._id), {"log_from": self._log_from}
        self._call(self._choice.call_redis, "export_metadata", self._id, done, more)

    @property
    def _log_from(self) -> MetadataOffset:
        return 0 if self._moves_all else max(0, self._context.image.offset - self.log_records)

    def _movable(self, content: Rows) -> Rows | None:
        """The content, with this broker's image in the place of the records that are left out.

        None if the image is of another history: the next attempt leaves nothing out.
        """
        rows = with_snapshot(content, write_snapshot(self._context.image))
        self._moves_all = rows is None
        return rows

    def _on_exported(self, migration_id: int, outcome: StoreOutcome) -> None:
        if outcome.code == "STALE_MIGRATION":
            self._note_newest(outcome)
        elif outcome.code != "OK":
            self._warn_once("metadata-migration-refused", by="Redis", code=outcome.code)
        else:
            exported = outcome.value["content"]
            assert isinstance(exported, dict)
            content = self._movable(exported)
            if content is None:
                return
            more = {"content": content, "state": "LIVE"}
            done = partial(self._on_imported, migration_id)
            self._call(self._quorum.propose, "import_metadata", migration_id, done, more)

    def _on_imported(self, migration_id: int, outcome: StoreOutcome) -> None:
        if outcome.code == "OK":
            leader = self._quorum.leader
            assert leader is not None
            # those of before are of an empty store
            leader.facts = facts_of_new_leader(self._quorum.machine.state, leader.epoch)
            self._context.notice("info", "metadata-moved", to="the quorum", metadata_offset=outcome.offset)
        else:
            reason = f"the quorum refuses: {outcome.code} {outcome.value.get('message', '')}".rstrip()
            self._give_up(self._choice.call_redis, migration_id, reason)

    # ------------------------------------------------------------------------------------------------- to Redis

    def _when_in_quorum(self, cluster: Mapping[str, Any]) -> None:
        self._exported_ms = None
        imported_id = max(cluster.get("migration_id", 0), self._id)
        if imported_id and self._settled != ("close_exported", imported_id):
            if self._choice.redis_is_connected:
                self._settle("close_exported", imported_id)
        elif self._target == "redis" and self._choice.redis_is_connected and self._is_time:
            # each node computes the content when it applies the command
            more = {"log_from": self._log_from}
            self._call(self._quorum.propose, "export_metadata", self._next_id(), lambda _outcome: None, more)

    @property
    def _is_time(self) -> bool:
        return self._context.clock.now_ms >= self._not_before_ms

    def _when_exported(self, migration_id: int) -> None:
        """The quorum's metadata are frozen, and Redis shall get them."""
        now_ms = self._context.clock.now_ms
        if self._exported_ms is None:
            self._exported_ms = now_ms
        if now_ms - self._exported_ms > _REDIS_MS_MAX:
            self._give_up(self._quorum.propose, migration_id, "Redis does not answer")
        elif self._choice.redis_is_connected:
            content = self._movable(rows_of(self._quorum.machine.state, self._log_from))
            if content is None:
                return
            more, done = {"content": content, "state": "IMPORTED"}, self._on_written
            self._call(self._choice.call_redis, "import_metadata", migration_id, partial(done, migration_id), more)

    def _on_written(self, migration_id: int, outcome: StoreOutcome) -> None:
        if outcome.code != "OK":
            self._note_newest(outcome)
            reason = f"Redis refuses: {outcome.code} {outcome.value.get('message', '')}".rstrip()
            self._give_up(self._quorum.propose, migration_id, reason)
            return
        self._call(self._quorum.propose, "close_exported", migration_id, self._on_closed)

    def _on_closed(self, outcome: StoreOutcome) -> None:
        if outcome.code == "OK":
            self._context.notice("info", "metadata-moved", to="Redis", metadata_offset=outcome.offset)

    def _give_up(self, source: _Store, migration_id: int, reason: str) -> None:
        """Open the metadata in their source again. What the other store may have got can never be opened: its id is spent."""
        self._context.notice("error", "metadata-migration-given-up", reason=reason)
        self._not_before_ms = self._context.clock.now_ms + _PAUSE_MS
        self._call(source, "cancel_export", migration_id, lambda _outcome: None)

    # ------------------------------------------------------------------------------------------------- inside

    def _settle(self, script: str, migration_id: int) -> None:
        """Do the last step of a move in Redis. A refusal settles it too: Redis has something newer, or nothing."""

        def done(outcome: StoreOutcome) -> None:
            if outcome.code == "STORE_ERROR":  # out of memory, read only: the next check retries
                self._warn_once("metadata-migration-refused", by="Redis", code=outcome.code)
                return
            self._settled = (script, migration_id)
            self._context.notice("info", "metadata-migration-settled", script=script, code=outcome.code)

        self._call(self._choice.call_redis, script, migration_id, done)

    def _note_newest(self, outcome: StoreOutcome) -> None:
        """Redis knows a newer id, of a quorum that was lost since: the next one must be above it."""
        if outcome.code == "STALE_MIGRATION":
            self._newest_id = max(self._newest_id, int(str(outcome.value["migration_id"])))

    def _next_id(self) -> int:
        """An id above all that either store has."""
        self._attempts += 1
        held: int = self._quorum.machine.state.cluster.get("migration_id", 0)
        return max(self._epoch << _ATTEMPT_BITS | self._attempts, self._newest_id + 1, held + 1)

    def _call(
        self,
        store: _Store,
        script: str,
        migration_id: int,
        done: Callable[[StoreOutcome], None],
        more: Mapping[str, object] | None = None,
    ) -> None:
        """Run a script of a move."""
        self._is_busy = True
        config = self._quorum.config
        who = {"node_id": config.node_id, "cluster_id": config.cluster_id, "migration_id": migration_id}
        store(StoreRequest(script, {**who, **(more or {})}), partial(self._on_answer, self._epoch, done))

    def _on_answer(
        self, epoch: LeaderEpoch, done: Callable[[StoreOutcome], None], outcome: StoreOutcome | None
    ) -> None:
        """Act on an answer, unless this node leads no more; without one the state shows the result later."""
        if epoch != self._epoch or not self._quorum.is_ready_leader or self._quorum.epoch != epoch:
            return
        self._is_busy = False
        if outcome is None:
            return
        done(outcome)
        if not self._is_busy and outcome.code == "OK":  # after a refusal the next check is soon enough
            self._context.within(self, 0, self._check)

    def _warn_once(self, event: str, **fields: object) -> None:
        said = (event, str(fields))
        if said != self._said:
            self._said = said
            self._context.notice("warning", event, **fields)
