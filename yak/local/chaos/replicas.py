"""Final checks: a partition's replicas are identical byte for byte (I16), and no broker logged a bug."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from yak.ids import TopicPartition
from yak.local.chaos.cluster import ChaosCluster
from yak.local.chaos.settling import Violation

_PIECE_BYTES: Final = 1 << 20
_BUG: Final = re.compile(r"Traceback \(most recent call last\)| bug( |$)| truncated-below-high-watermark( |$)")

EVENTS: Final = {
    "leaders-elected": "elections",
    "log-truncated": "truncations",
    "isr-changed": "ISR changes",
    "broker-fenced": "fencings",
    "controller-elected": "controllers",
    "metadata-frozen": "freezes",
    "log-directory-offline": "disks offline",
}
"""Events in the brokers' logs that show a run's activity."""
_EVENT: Final = re.compile(rf"^\S+Z +[A-Z]+ +({'|'.join(EVENTS)})(?: |$)", re.MULTILINE)


def different_replicas(cluster: ChaosCluster, partitions: Sequence[TopicPartition]) -> tuple[list[Violation], int]:
    """Partitions whose replicas differ, and the number of compared bytes. The brokers must be stopped."""
    found: list[Violation] = []
    compared = 0
    for topic, number in partitions:
        sums: dict[str, list[str]] = {}
        for node in cluster.nodes.values():
            folder = node.disk.readable / f"{topic}-{number}"
            if folder.is_dir():
                digest, size = _digest(folder)
                compared += size
                sums.setdefault(f"{digest} ({size} bytes)", []).append(node.name)
        if len(sums) > 1:
            words = "; ".join(f"{', '.join(names)}: {digest[:12]}" for digest, names in sums.items())
            found.append(Violation("I16", f"the replicas of {topic}-{number} differ: {words}"))
    return found, compared


def _digest(folder: Path) -> tuple[str, int]:
    """The SHA-256 of all segments of a log in order, and their size in bytes."""
    digest, size = hashlib.sha256(), 0
    for segment in sorted(folder.glob("*.log")):
        with segment.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
    return digest.hexdigest(), size


def logged_bugs(cluster: ChaosCluster) -> list[Violation]:
    """The first forbidden line of each broker's log."""
    found = []
    for node in cluster.nodes.values():
        log = node.log()
        match = _BUG.search(log)
        if match is not None:
            line = log[log.rfind("\n", 0, match.start()) + 1 :].splitlines()[0]
            found.append(Violation("log", f"{node.name} logged: {line.strip()[:200]} (see {node.log_path})"))
    return found


def reached(cluster: ChaosCluster) -> dict[str, int]:
    """How often each event occurred, by the brokers' logs."""
    found = Counter(EVENTS[name] for node in cluster.nodes.values() for name in _EVENT.findall(node.log()))
    return {words: found[words] for words in EVENTS.values()}
