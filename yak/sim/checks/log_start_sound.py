"""I18: a log start offset only grows, and never past the committed records.

Only topics that delete records start above 0. A broker deletes a replica only after the metadata took it away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from yak.cluster.payload import parse_nodes
from yak.ids import NodeId, Offset
from yak.sim.books import Violation
from yak.sim.history import Copy, History, Key, Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class LogStartSound(Watcher):
    """Checks when a log start moves and when a replica is removed. `may_delete`: whether a topic deletes records."""

    def __init__(self, history: History, store: SimStore, may_delete: Callable[[str], bool]) -> None:
        self._history = history
        self._store = store
        self._may_delete = may_delete
        self._replicas: dict[Key, tuple[str, str]] = {}
        self._relieved: set[tuple[Key, NodeId]] = set()
        """Replicas that the metadata once took from their brokers."""
        self.moves_count = 0

    def log_start(self, copy: Copy, before: Offset | None) -> None:
        """A log start moved; `before` is None after a restart of the broker, which may have forgotten the last move."""
        history, start = self._history, copy.log_start
        if copy.key in history.forfeited:
            return
        if before is not None and start < before:
            raise Violation(f"I18: {copy}: the log start fell from {before} to {start}")
        if start and not self._may_delete(copy.topic_partition.topic):
            raise Violation(f"I18: {copy} begins at {start}, and nothing of it was to be given up")
        committed = history.committed.get(copy.key)
        end = 0 if committed is None else committed.end
        if start > end:
            raise Violation(f"I18: {copy} begins at {start}, but only what is below {end} was committed")
        if before is not None:
            self.moves_count += 1

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Brokers may have lost assignments."""
        partitions = self._store.state.partitions
        for key in self._history.copies:
            row = partitions.get((str(key.topic_id), key.partition))
            now = ("", "") if row is None else (row["replicas"], row.get("adding", ""))
            before = self._replicas.get(key)
            if now != before:
                self._replicas[key] = now
                held = self._nodes(now)
                for node_id in () if before is None else self._nodes(before):
                    if node_id not in held:
                        self._relieved.add((key, node_id))

    def _nodes(self, row: tuple[str, str]) -> list[NodeId]:
        return [node_id for words in row if words for node_id in parse_nodes(words)]

    def dropped(self, copy: Copy) -> None:
        """A broker removed a replica: the metadata must have taken it away."""
        row = self._store.state.partitions.get((str(copy.key.topic_id), copy.key.partition))
        if copy.life != copy.node.starts_count:
            # another incarnation, which has not opened its replicas yet, or found an empty disk
            return
        if row is None or (copy.key, copy.node.node_id) in self._relieved:
            return
        if copy.node.node_id in self._nodes((row["replicas"], row.get("adding", ""))):
            raise Violation(f"I18: {copy} was deleted, and the metadata has it: {row}")
