"""Liveness checks (L1 to L3): conditions that must hold within a bounded time after all faults are repaired."""

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from yak.client.connection import base_config
from yak.client.consumer import ConsumerHandle, consumer_config
from yak.client.errors import kafka_exceptions
from yak.client.metadata import read_metadata
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.local.chaos.cluster import ChaosCluster
from yak.local.chaos.nemesis import Nemesis
from yak.local.chaos.recorder import Recorder
from yak.view.partition_state import is_whole

READY_SECONDS: Final = 90.0
WRITES_SECONDS: Final = 15.0
IN_SYNC_SECONDS: Final = 60.0
CAUGHT_UP_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that did not hold."""

    invariant: str
    text: str

    def as_json(self) -> dict[str, str]:
        return {"invariant": self.invariant, "words": self.text}


@dataclass(slots=True)
class LivenessReport:
    """How long each step took, in seconds, and the violations. `meanwhile` is called again and again during each."""

    meanwhile: Callable[[], None]
    took_s: dict[str, float] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    def wait(self, name: str, invariant: str, seconds: float, left: Callable[[], Sequence[str]]) -> bool:
        """Wait until nothing is `left`; a timeout is a violation that lists the rest."""
        began = time.monotonic()
        while True:
            self.meanwhile()
            missing = left()
            if not missing or time.monotonic() - began > seconds:
                break
            time.sleep(_POLL_SECONDS)
        self.took_s[name] = round(time.monotonic() - began, 2)
        if missing:
            self.violations.append(Violation(invariant, f"{name}: after {seconds:.0f} s still {', '.join(missing)}"))
        return not missing


def all_serve(settled: LivenessReport, cluster: ChaosCluster, nemesis: Nemesis) -> bool:
    """Every broker runs and the metadata store has its history."""

    def left() -> list[str]:
        missing = [f"{node.name} does not serve" for node in cluster.nodes.values() if not node.is_ready]
        waits = nemesis.operator is not None and nemesis.operator.is_waiting
        return missing + (["the store has no history"] if waits else [])

    return settled.wait("all serve", "L1", READY_SECONDS, left)


def all_take_writes(settled: LivenessReport, partitions: Sequence[TopicPartition], recorder: Recorder) -> bool:
    """Every partition acknowledges records sent from now on."""
    began = recorder.now()

    def left() -> list[str]:
        written = {send.partition for send in recorder.acknowledged_since(began)}
        names = [f"{each.topic}-{each.partition}" for each in partitions]
        return [f"no write to {name}" for name in names if name not in written]

    return settled.wait("writes", "L1", WRITES_SECONDS, left)


def all_in_sync(settled: LivenessReport, bootstrap: str, topics: Sequence[str]) -> bool:
    """Every replica is in the ISR."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient(base_config(bootstrap))

    def left() -> list[str]:
        try:
            found = read_metadata(client, timeout_s=3.0).topics
        except YakError as error:
            return [str(error)]
        return [f"no broker knows {topic}" for topic in topics if topic not in found] + [
            f"{topic}-{each.number} has {len(each.isr)} of {len(each.replicas)} in sync"
            for topic in topics
            if topic in found
            for each in found[topic].partitions
            if not is_whole(each)
        ]

    return settled.wait("in sync", "L2", IN_SYNC_SECONDS, left)


def group_caught_up(
    settled: LivenessReport, name: str, bootstrap: str, group: str, partitions: Sequence[TopicPartition]
) -> bool:
    """The group has committed the end of every partition; there are no more writes.

    The end is the high watermark, so an open transaction that keeps read_committed members in front of it is noticed.
    """
    config = consumer_config(group, reset="error", read_committed=False)
    handle = ConsumerHandle[Any](base_config(bootstrap) | config)

    def left() -> list[str]:
        try:
            committed = handle.committed(partitions, 5.0)
            ends = {each: handle.watermarks(each, 5.0)[1] for each in partitions}
        except kafka_exceptions() as error:
            return [str(error)]
        return [
            f"{each} at {committed[each].offset} of {end}"
            for each, end in ends.items()
            if end > 0 and committed[each].offset < end
        ]

    try:
        return settled.wait(name, "L3", CAUGHT_UP_SECONDS, left)
    finally:
        handle.close()


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
    """Partitions whose replicas differ or are gone, and the number of compared bytes. The brokers must be stopped."""
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
        there = [name for names in sums.values() for name in names]
        if len(there) < cluster.replicas:
            replicas = f"{topic}-{number} has {len(there)} of {cluster.replicas} replicas: {', '.join(there) or 'none'}"
            found.append(Violation("I16", replicas))
        if len(sums) > 1:
            checksums = "; ".join(f"{', '.join(names)}: {digest[:12]}" for digest, names in sums.items())
            found.append(Violation("I16", f"the replicas of {topic}-{number} differ: {checksums}"))
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
    return {event: found[event] for event in EVENTS.values()}
