"""Disks of a cluster that fail, rot and lie: calls that raise, bits that flip in what was stored, reads that give wrong bytes once.

A bit flips in one replica of a partition at a time, and only while another that may be elected is sound: then nothing that was
acknowledged may be lost, no consumer may take what was changed for good, no follower may copy it, and no coordinator may believe
it. Bits flip where a checksum covers them: in a batch's records and most of its header. Whoever does not notice by himself is
mended by hand when the faults are over, as docs/operations.md says: the folder is moved away, and the partition copied anew.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from yak.protocol.record_batch import compute_crc, iterate_headers
from yak.sim.cluster import Cluster
from yak.sim.cluster_losses import Losses
from yak.sim.dice import SeededDice
from yak.sim.history import Copy
from yak.sim.node import SimNode

_COVERED_FROM = 21
_LAST_OFFSET_DELTA = range(23, 27)
"""Left alone: the checks of the simulator know batches by where they end."""
_OPERATIONS = ("append", "append", "sync", "open", "read", "truncate", "rename", "write_file")
_NUMBERS = (errno.ENOSPC, errno.EIO)
_LOOKS_MAX = 120
"""Ten a second: longer than any broker stays away."""
_PLACES = ("/data/t-", "/data/t-", "/data/__consumer_offsets", "/data/recovery-point", "/data/replication-offset")
"""Not the copy of the metadata: without it a broker goes on with what it knows, and one whose copy is gone was wiped."""


class Disks:
    """What was done to them. `count` notes what struck, and what was noticed."""

    def __init__(self, cluster: Cluster, losses: Losses, count: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._losses = losses
        self._count = count
        self.failed: dict[int, None] = {}
        """Brokers with a directory that may have failed: only a start mends it."""
        self._looks_left = _LOOKS_MAX
        for node in cluster.nodes:
            node.disk.observe_failure = lambda operation, _path: count(f"disk failures: {operation}")

    def fail(self, node: SimNode, dice: SeededDice) -> bool:
        """One call of some kind raises."""
        operation, place = dice.choice(_OPERATIONS), dice.choice(_PLACES)
        if "offset" in place.rpartition("/")[2] or "recovery" in place:
            operation = "append" if place.endswith("__consumer_offsets") else "write_file"
        node.disk.fail_next(operation, dice.choice(_NUMBERS), path_contains=place)
        self.failed[node.node_id] = None
        return True

    def misread(self, node: SimNode, dice: SeededDice) -> bool:
        """The next read of records gives a wrong bit, once."""
        node.disk.garble_next(dice.fork("which bit"), path_contains="/data/")
        self._cluster.history.may_be_damaged = True
        return True

    def rot(self, dice: SeededDice) -> bool:
        """A bit of a stored batch flips, in the newest batches as often as elsewhere."""
        history = self._cluster.history
        copies = [
            copy
            for copies in history.copies.values()
            for copy in copies.values()
            if copy.node.is_powered and self._losses.may_rot(copy) and _batches(copy)
        ]
        if not copies:
            return False
        copy = dice.choice(copies)
        batches = _batches(copy)
        path, place, size = batches[-1] if dice.chance(50) else dice.choice(batches)
        covered = [at for at in range(_COVERED_FROM, size) if at not in _LAST_OFFSET_DELTA]
        position = place + dice.choice(covered)
        value = copy.node.disk.peek(path, position)[0] ^ (1 << dice.below(8))
        copy.node.disk.corrupt(path, position, value)
        history.rotten[copy.key] = copy.node.node_id
        history.may_be_damaged = True
        self._cluster.world.say(f"a bit flips in {path} at byte {position} on broker {copy.node.node_id}")
        return True

    def to_mend(self) -> None:
        """The faults are over: brokers whose disks still hold flipped bits are to be started anew, as those that failed."""
        history = self._cluster.history
        for key, node_id in history.rotten.items():
            copy = history.copies.get(key, {}).get(node_id)
            if copy is not None and key not in history.forfeited and _is_damaged(copy):
                self.failed[node_id] = None

    def may_mend(self, node: SimNode) -> bool:
        """Whether what is damaged on it can be spared: who mends by hand waits for another replica, but not for ever."""
        rotten = [key for key, node_id in self._cluster.history.rotten.items() if node_id == node.node_id]
        if all(map(self._losses.has_sound, rotten)):
            return True
        self._looks_left -= 1
        return self._looks_left < 0

    def mend(self, node: SimNode) -> None:
        """While it does not run: take the folders away whose batches are damaged."""
        history = self._cluster.history
        for key, node_id in list(history.rotten.items()):
            copy = history.copies.get(key, {}).get(node_id)
            if node_id != node.node_id or copy is None:
                continue
            del history.rotten[key]
            if _is_damaged(copy):
                node.disk.remove_tree(_folder(copy))
                node.disk.sync_file_system("/")
                self._cluster.world.say(f"{_folder(copy)} of broker {node_id} is damaged, and taken away by hand")
                self._count("damage mended by hand")


def _folder(copy: Copy) -> str:
    return f"{copy.node.directories[0]}/{copy.topic_partition}"


def _batches(copy: Copy) -> list[tuple[str, int, int]]:
    """(file, position, size) of each batch that is on the copy's disk."""
    disk, folder = copy.node.disk, _folder(copy)
    found: list[tuple[str, int, int]] = []
    for name in disk.names(folder) if disk.is_directory(folder) else ():
        if name.endswith(".log"):
            path = f"{folder}/{name}"
            found += [(path, place, header.size_bytes) for place, header in iterate_headers(disk.peek(path, 0))]
    return found


def _is_damaged(copy: Copy) -> bool:
    for path, place, size in _batches(copy):
        data = copy.node.disk.peek(path, place)[:size]
        if compute_crc(data, 0, size) != int.from_bytes(data[17:21], "big"):
            return True
    return False
