"""I3: each leader epoch of a partition has one leader and one writer, and a batch of it is the same on every replica."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from yak.ids import NodeId, Offset
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, Key, NewBatch, Watcher


class SingleLeader(Watcher):
    """Remembers the leader of each epoch, and the batches written in it."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[Key, int], tuple[NodeId, int]] = {}
        self._written: dict[tuple[Key, int, Offset], int] = {}
        self._unseen: set[tuple[Key, int, Offset]] = set()
        """Batches that a leader had only after a restart: its process ended during the write."""

    def reopened(self, copy: Copy, before: Chain) -> None:
        """Batches that appear at a restart were written before it by this broker, if it led their epoch."""
        for base, epoch in copy.chain.batches[bisect_left(copy.chain.ends, before.end + 1) :]:
            leader = self._leaders.get((copy.key, epoch))
            if leader is not None and leader[0] == copy.node.node_id:
                self._unseen.add((copy.key, epoch, base))

    def role(self, copy: Copy) -> None:
        if not copy.is_leader:
            return
        leads = (copy.node.node_id, copy.life)
        before = self._leaders.setdefault((copy.key, copy.leader_epoch), leads)
        if before != leads:
            raise Violation(
                f"I3: {copy} leads in epoch {copy.leader_epoch} in life {copy.life},"
                f" as broker {before[0]} did in life {before[1]}"
            )

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """The leader of an epoch writes its batches; followers copy them unchanged."""
        for base, epoch, crc, *_more in batches:
            leader = self._leaders.get((copy.key, epoch))
            if leader is None:
                raise Violation(f"I3: {copy}@{base}: no broker led in epoch {epoch}")
            written = self._written.get((copy.key, epoch, base))
            if written is None:
                if leader[0] != copy.node.node_id and (copy.key, epoch, base) not in self._unseen:
                    raise Violation(
                        f"I3: {copy}@{base}: a batch of epoch {epoch}, which broker {leader[0]} did not write"
                    )
                self._written[copy.key, epoch, base] = crc
            elif written != crc:
                raise Violation(f"I3: {copy}@{base}: another batch of epoch {epoch} than the one its leader wrote")
