"""I18: a log start offset only grows, and never past the committed records.

Only topics that delete records start above 0: up to a DeleteRecords request, or what retention had to take, by age or by
size. A broker deletes a replica only after the metadata took it away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from yak.cluster.payload import parse_nodes
from yak.ids import NodeId, Offset, TopicPartition
from yak.sim.deliveries import Violation
from yak.sim.history import Copy, History, Key, NewBatch, Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.store import SimStore


class LogStartSound(Watcher):
    """Checks when a log start moves and when a replica is removed.

    `may_delete`: whether a topic deletes records; `delete_before`: the offset up to which a client may have deleted
    those of a partition.
    """

    def __init__(
        self,
        history: History,
        store: SimStore,
        may_delete: Callable[[str], bool],
        delete_before: Callable[[TopicPartition], float],
    ) -> None:
        self._history = history
        self._store = store
        self._may_delete = may_delete
        self._delete_before = delete_before
        self._times: dict[Key, dict[Offset, int]] = {}
        """The largest timestamp of each batch, by its base offset."""
        self._starts: dict[Key, Offset] = {}
        """How far some replica's log start rose lawfully: others follow."""
        self._replicas: dict[Key, tuple[str, str]] = {}
        self._relieved: set[tuple[Key, NodeId]] = set()
        """Replicas that the metadata once took from their brokers."""

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """Remember how old the records are."""
        if self._may_delete(copy.topic_partition.topic):
            self._times.setdefault(copy.key, {}).update((batch.base_offset, batch.max_timestamp) for batch in batches)

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
            history.counts["log starts moved on replicas"] += 1
            if start > max(self._delete_before(copy.topic_partition), self._starts.get(copy.key, 0)):
                self._is_due(copy, before)
        self._starts[copy.key] = max(start, self._starts.get(copy.key, 0))

    def _is_due(self, copy: Copy, before: Offset) -> None:
        """Raise Violation unless retention had to remove the records from `before` to the log start."""
        log, times = copy.log, self._times.get(copy.key, {})
        assert log is not None
        config = log.config
        newest = max((at_ms for base, at_ms in times.items() if before <= base < copy.log_start), default=-1)
        is_old = 0 <= config.retention_ms < copy.node.wall_ms - newest or not copy.node.is_clock_steady
        is_large = 0 <= config.retention_bytes <= log.size_bytes
        if not is_old and not is_large:
            raise Violation(
                f"I18: {copy}: the records from {before} to {copy.log_start} were removed, {copy.node.wall_ms - newest} ms old"
                f" and with {log.size_bytes} bytes behind them"
            )

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:  # noqa: ARG002
        """Brokers may have lost assignments."""
        partitions = self._store.state.partitions
        for key in self._history.copies:
            row = partitions.get(key)
            now = ("", "") if row is None else (row["replicas"], row.get("adding", ""))
            before = self._replicas.get(key)
            if now != before:
                self._replicas[key] = now
                held = self._nodes(now)
                for node_id in () if before is None else self._nodes(before):
                    if node_id not in held:
                        self._relieved.add((key, node_id))

    def _nodes(self, row: tuple[str, str]) -> list[NodeId]:
        return [node_id for text in row if text for node_id in parse_nodes(text)]

    def dropped(self, copy: Copy) -> None:
        """A broker removed a replica: the metadata must have taken it away."""
        row = self._store.state.partitions.get(copy.key)
        if copy.life != copy.node.starts_count:
            # another incarnation, which has not opened its replicas yet, or found an empty disk
            return
        if row is None or (copy.key, copy.node.node_id) in self._relieved:
            return
        if copy.node.node_id in self._nodes((row["replicas"], row.get("adding", ""))):
            raise Violation(f"I18: {copy} was deleted, and the metadata has it: {row}")
