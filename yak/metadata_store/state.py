"""The content of the metadata store: the cluster, its brokers, topics and partitions, and the log of their changes."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from yak.ports.metadata_store import TailedRecord


@dataclass(slots=True)
class StoreState:
    """The whole content of the store: the same as the keys in Redis."""

    cluster: dict[str, Any] = field(default_factory=dict)
    brokers: dict[int, dict[str, Any]] = field(default_factory=dict)
    unregistered: dict[int, bool] = field(default_factory=dict)
    heartbeats: dict[int, int] = field(default_factory=dict)
    full: dict[int, None] = field(default_factory=dict)
    """Brokers without room for another log."""
    secret: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    partitions: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    high_watermarks: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    log_end_offsets: dict[tuple[str, int], tuple[int, dict[str, int]]] = field(default_factory=dict)
    external_brokers: dict[int, str] = field(default_factory=dict)
    """The registry of external brokers: node id -> entry, as JSON. Brokers of a cluster with Redis never use it."""
    log: list[TailedRecord] = field(default_factory=list)
    snapshot: TailedRecord | None = None
    offers: dict[int, str] = field(default_factory=dict)
    """Images that brokers offered, by node id, while the store waits for a restore (`yak.metadata_store.restore`)."""

    def append(self, kind: str, payload: dict[str, Any], now_ms: int) -> int:
        """Append a record to the hash chain; returns its offset."""
        offset: int = self.cluster["mo"] + 1
        body = json.dumps({"version": 0} | payload, sort_keys=True)
        previous_hash = self.cluster["h"]
        chain_hash = hashlib.sha1(f"{previous_hash}{offset}{kind}{body}".encode(), usedforsecurity=False).hexdigest()
        self.log.append(TailedRecord(offset, chain_hash, kind, now_ms, json.loads(body), previous_hash))
        self.cluster |= {"mo": offset, "h": chain_hash}
        return offset

    def entry(self, offset: int) -> TailedRecord | None:
        """The record at an offset; None if it is absent or was trimmed."""
        if not self.log or offset < self.log[0].offset or offset > self.log[-1].offset:
            return None
        return self.log[offset - self.log[0].offset]

    def records_after(self, offset: int, limit: int) -> list[TailedRecord]:
        """Records of the metadata log after `offset`, in order; if they were trimmed, the snapshot comes first."""
        if not self.log:
            return []
        first = self.log[0].offset
        if offset + 1 < first and self.snapshot is not None:
            return [self.snapshot, *self.records_after(self.snapshot.offset, limit - 1)]
        start = max(0, offset + 1 - first)
        return self.log[start : start + limit]
