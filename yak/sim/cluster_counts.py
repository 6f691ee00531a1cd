"""How often a run reached the states that replication is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import parse_isr
from yak.ids import Offset
from yak.sim.compacted_records import COMPACT
from yak.sim.history import Chain, Copy, NewBatch, Watcher

if TYPE_CHECKING:
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.cluster import Cluster


_NOTICED = {
    "replica-append-refused": "damage refused by followers",
    "log-damaged": "damage found by brokers",
    "damaged-replica-resigned": "damaged replicas resigned",
    "short-replica-resigned": "damaged replicas resigned",
    "replica-resync-started": "full resyncs",
    "metadata-snapshot-requested": "positions trimmed",
    "coordinator-log-unreadable": "damage noticed by coordinators",
    "replica-moved": "replicas moved",
    "transaction-timed-out": "transactions timed out",
    "transaction-markers-fenced": "transactions ended by another coordinator",
}
"""Log events of brokers that report damaged bytes, trimmed metadata, moves to another directory, and ends of transactions."""


class Counts(Watcher):
    """Counts elections, truncations, ISR changes, controller elections, fencings and reassignments."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._counts: Counter[str] = Counter()
        self._rows: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._controller_epoch = 0

    def read(self) -> dict[str, int]:
        counts = self._counts.copy()
        for node in self._cluster.nodes:
            lost = node.peers.sessions_lost + sum(notice.event == "replica-fetch-lost" for notice in node.notices)
            counts["fetch sessions lost"] += lost
            for event, what in _NOTICED.items():
                counts[what] += sum(notice.event == event for notice in node.notices)
            for notice in node.notices:
                if notice.event == "log-compacted":
                    what = "logs" if str(notice.fields["partition"]).startswith(COMPACT) else "committed offsets"
                    counts[f"{what} compacted"] += 1
            counts.update(node.counts)
            counts["calls executed late"] += node.store_line.late_count
        for name, number in self._cluster.calls.items():
            if not name.endswith(" OK"):
                counts[f"store: {name}"] = number
        return counts

    def cut(self, copy: Copy, before: Chain, high_watermark: Offset) -> None:  # noqa: ARG002
        self._counts["truncations" if copy.chain.agreement(before) < before.end else "truncations of nothing"] += 1

    def reopened(self, copy: Copy, before: Chain) -> None:
        """A broker restarted with fewer batches than before."""
        if copy.chain.agreement(before) < before.end:
            self._counts["tails lost"] += 1

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:  # noqa: ARG002
        self._counts["appends by leaders" if copy.is_leader else "appends by followers"] += 1

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        state = self._cluster.store.state
        if outcome.code == "OK" and request.script == "fence":
            self._counts["fast fencings" if request.arguments.get("fast") else "session fencings"] += 1
        if state.cluster["ctl_epoch"] != self._controller_epoch:
            self._controller_epoch = state.cluster["ctl_epoch"]
            self._counts["takeovers, fast" if request.arguments.get("fast") else "takeovers"] += 1
        for key, row in state.partitions.items():
            seen = (row["leader_epoch"], row["isr"], row.get("adding", ""), row.get("removing", ""))
            before = self._rows.get(key)
            if before == seen:
                continue
            self._rows[key] = seen
            if before is not None:
                self._changed(row, before, request)

    def _changed(self, row: dict[str, Any], before: tuple[Any, ...], request: StoreRequest) -> None:
        if row["leader_epoch"] != before[0]:
            self._counts["elections" if row["leader"] >= 0 else "partitions without a leader"] += 1
            if request.script == "elect" and not any(m.node_id == row["leader"] for m in parse_isr(before[1])):
                self._counts["elections outside of the ISR"] += 1
        size, size_before = len(parse_isr(row["isr"])), len(parse_isr(before[1]))
        if size != size_before:
            self._counts[f"ISR {'expansions' if size > size_before else 'shrinks'}"] += 1
        if (before[2] or before[3]) and not row.get("adding") and not row.get("removing"):
            self._counts["moves completed" if request.script != "alter_replicas" else "moves ended by another"] += 1
