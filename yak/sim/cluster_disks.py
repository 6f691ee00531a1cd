"""Disk faults of a cluster: failing calls, flipped bits in stored data, misdirected writes, lost ends of files, wrong
bytes in single reads.

One replica of a partition is damaged at a time, and only while another electable one is sound. So no acknowledged
record may be lost, no consumer may accept a changed batch for good, no follower may copy it, and no coordinator may
load it. `yak.sim.cluster_damage` defines the damage. A broker that does not detect its damage is repaired by hand
after the faults, as in docs/operations.md: the folder is moved away, and the partition is replicated again.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence

from yak.sim.cluster import Cluster
from yak.sim.cluster_damage import batches_of, cut_synced_tail, flip, folder_of, is_damaged, lose, misdirect
from yak.sim.cluster_losses import Losses
from yak.sim.history import Copy
from yak.sim.node import SimNode
from yak.sim.seeded_random import SeededRandom
from yak.storage.names import BOOT_MARK

_OPERATIONS = ("append", "append", "sync", "sync", "sync", "open", "read", "truncate", "rename", "write_file")
_START_OPERATIONS = ("read", "open", "truncate", "write_file")
_NUMBERS = (errno.ENOSPC, errno.EIO)
_COLD_PERCENT = 60
_CHECKS_MAX = 120
"""Ten checks a second: longer than any broker stays away."""
_PATHS = ("/t-", "/t-", "/t-", "/__consumer_offsets", "/recovery-point", "/replication-offset")
"""Not the metadata copy: without it a broker goes on with its image, and a broker whose copy is gone counts as wiped.
"""


class Disks:
    """The faults of the disks. `counts` gets them, and their detections."""

    def __init__(self, cluster: Cluster, losses: Losses, counts: Counter[str]) -> None:
        self._cluster = cluster
        self._losses = losses
        self._counts = counts
        self.failed = losses.failing
        self._checks_left = _CHECKS_MAX

    def fail(self, node: SimNode, rng: SeededRandom) -> bool:
        """One call of some kind raises."""
        operation, place = rng.choice(_OPERATIONS), rng.choice(_PATHS)
        if "offset" in place or "recovery" in place:
            operation = "append" if place == "/__consumer_offsets" else "write_file"
        node.disk.fail_next(operation, rng.choice(_NUMBERS), path_contains=place)
        self.failed[node.node_id] = None
        return True

    def fail_start(self, node: SimNode, rng: SeededRandom) -> None:
        """A directory fails while the broker starts: never the first one, which has the metadata copy."""
        node.disk.fail_next(rng.choice(_START_OPERATIONS), path_contains=f"{node.directories[-1]}/")
        self.failed[node.node_id] = None
        self._counts["disks that fail at the start"] += 1

    def misread(self, node: SimNode, rng: SeededRandom) -> bool:
        """The next read of records returns one wrong bit, once."""
        node.disk.garble_next(rng.fork("which bit"), path_contains="/data/")
        self._cluster.history.may_be_damaged = True
        return True

    def rot(self, rng: SeededRandom) -> bool:
        """A stored bit of one copy flips."""
        copies = self._copies()
        if not copies:
            return False
        copy = rng.choice(copies)
        where = flip(copy, rng)
        if where:
            self._note(copy, where)
            if rng.chance(_COLD_PERCENT):
                # damage on the device shows only in reads from there, and the broker checks only such reads
                copy.node.disk.cached_bytes = 0
        return bool(where)

    def misdirect(self, rng: SeededRandom) -> bool:
        """A write landed at another place: a copy has foreign bytes, and the intended place may have zeros.

        The bytes are from the same copy, or now and then from another copy on the same broker that may be damaged too.
        """
        copies = self._copies()
        if not copies:
            return False
        copy = rng.choice(copies)
        others = [each for each in copies if each.node is copy.node and each is not copy]
        source = rng.choice(others) if others and rng.chance(35) else copy
        where = misdirect(copy, source, rng)
        if not where:
            return False
        self._note(copy, where)
        if rng.chance(50):
            self._note(source, lose(source, rng))
        return True

    def may_lose_tail(self, nodes: Sequence[SimNode]) -> list[Copy]:
        """The copies on these brokers whose synced ends may be lost now."""
        return [copy for copy in self._copies() if copy.node in nodes]

    def lose_tail(self, copies: Sequence[Copy], rng: SeededRandom) -> bool:
        """While these copies' brokers do not run: one of the copies loses batches that it had synced."""
        for copy in sorted(copies, key=lambda _copy: rng.below(1_000)):
            if where := cut_synced_tail(copy, rng):
                self._note(copy, where)
                return True
        return False

    def _copies(self) -> list[Copy]:
        """The copies that may be damaged now."""
        return [
            copy
            for copies in self._cluster.history.copies.values()
            for copy in copies.values()
            if copy.node.is_powered and _went_on(copy.node) and self._losses.may_rot(copy) and batches_of(copy)
        ]

    def _note(self, copy: Copy, what: str) -> None:
        history = self._cluster.history
        history.rotten[copy.key] = copy.node.node_id
        history.may_be_damaged = True
        self._cluster.world.say(f"{what} on broker {copy.node.node_id}")

    def mark_damaged(self) -> None:
        """After the faults: mark brokers with flipped bits on their disks for a restart, like those with failed disks."""
        history = self._cluster.history
        for node in self._cluster.nodes if history.may_be_damaged else ():
            node.disk.cached_bytes = None
        for key, node_id in history.rotten.items():
            copy = history.copies.get(key, {}).get(node_id)
            if copy is not None and key not in history.forfeited and is_damaged(copy):
                self.failed[node_id] = None

    def may_repair(self, node: SimNode) -> bool:
        """Whether its damaged copies can be spared: an operator waits for a sound replica, but not for ever."""
        rotten = [key for key, node_id in self._cluster.history.rotten.items() if node_id == node.node_id]
        if all(map(self._losses.has_sound, rotten)):
            return True
        self._checks_left -= 1
        return self._checks_left < 0

    def repair(self, node: SimNode) -> None:
        """While the broker does not run: remove the folders with damaged batches."""
        history = self._cluster.history
        for key, node_id in list(history.rotten.items()):
            copy = history.copies.get(key, {}).get(node_id)
            if node_id != node.node_id or copy is None:
                continue
            del history.rotten[key]
            if is_damaged(copy):
                if self._losses.is_last(key, node):
                    # it led alone, and no follower copies damaged batches: an operator gives up the data
                    history.forfeit(key, "the last one in sync is damaged")
                node.disk.remove_tree(folder_of(copy))
                node.disk.sync_file_system("/")
                self._losses.took_away(key, node_id)
                self._cluster.world.say(f"{folder_of(copy)} of broker {node_id} is damaged, and taken away by hand")
                self._counts["damage repaired by hand"] += 1


def _went_on(node: SimNode) -> bool:
    """Whether the next start will know that the machine kept running; otherwise it may take damage for a partial write."""
    contents, mark = node.disk.contents(), f"{node.kernel_boot_id}\n".encode()
    paths = [f"{directory}/{BOOT_MARK}" for directory in node.directories]
    return all(path in contents and contents[path].data == mark for path in paths)
