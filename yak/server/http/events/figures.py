"""Offset progress and rates of the partitions that this broker leads, computed once in a tick for all listeners.

With many partitions each tick checks only some, in turns, which bounds its cost. A partition that moved several times
between two checks is reported once, with its current offsets. The rates include the use of memory, CPU and disks.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psutil
import trio

from yak.broker.broker import Broker
from yak.replication.partition import Partition
from yak.replication.traffic import Traffic

if TYPE_CHECKING:
    from yak.server.shell import Shell

DISKS_EVERY_SECONDS: Final = 5.0
LOOKED_AT_MAX: Final = 1000
"""Partitions checked in one tick: about a millisecond."""
MOVED_MAX: Final = 200
"""Partitions reported in one event."""
TOPICS_MAX: Final = 50
"""Topics listed by name in the rates; the others are summed up."""
_NUMBERS: Final = ("bytes_in", "messages_in", "bytes_out", "messages_out")
_Numbers = tuple[int, int, int, int]


class Progress:
    """Finds the partitions whose offsets moved since the last check."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[Partition, tuple[int, ...]] = {}
        self._round: list[Partition] = []

    def forget(self) -> None:
        """Discard all state when no listener wants progress; later changes are not reported to future ones."""
        self._seen.clear()
        self._round.clear()

    def look(self) -> list[dict[str, Any]]:
        """A row for each partition that moved; a partition checked for the first time has not."""
        if not self._round:
            led = [each for each in self._broker.partitions.values() if each.is_leader and each.log is not None]
            self._seen = {each: self._seen[each] for each in led if each in self._seen}
            led.reverse()
            self._round = led
        moved: list[dict[str, Any]] = []
        for _ in range(min(LOOKED_AT_MAX, len(self._round))):
            partition = self._round.pop()
            if not partition.is_leader:
                continue
            ends = partition.log_end_offsets()
            state = (partition.leader_epoch, partition.high_watermark, *ends.values())
            seen = self._seen.get(partition)
            if seen == state:
                continue
            self._seen[partition] = state
            if seen is not None:
                moved.append(_row(partition, ends))
                if len(moved) >= MOVED_MAX:
                    break
        return moved


def _row(partition: Partition, ends: Mapping[int, int]) -> dict[str, Any]:
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "log_end_offsets": {str(node): end for node, end in ends.items()},
    }


@dataclass(slots=True)
class _Sample:
    time_ms: int
    topics: dict[str, _Numbers]
    total: _Numbers


class Rates:
    """Bytes and records per second over one interval."""

    def __init__(self, broker: Broker, interval_ms: int, now_ms: int) -> None:
        self._broker = broker
        self.interval_ms = interval_ms
        self.due_ms = now_ms + interval_ms
        self._last = self._sample(now_ms)

    def look(self, now_ms: int) -> dict[str, Any]:
        """The rates since the last call, in total and for the topics with the most bytes."""
        last, self._last = self._last, self._sample(now_ms)
        self.due_ms = max(self.due_ms + self.interval_ms, now_ms + 1)
        elapsed_ms = max(1, now_ms - last.time_ms)
        by_topic = {
            name: _difference(numbers, last.topics.get(name, (0, 0, 0, 0)))
            for name, numbers in self._last.topics.items()
        }
        busy = [(name, numbers) for name, numbers in by_topic.items() if any(numbers)]
        busy.sort(key=lambda item: (-item[1][0] - item[1][2], item[0]))
        rest = [numbers for _name, numbers in busy[TOPICS_MAX:]]
        return {
            "elapsed_ms": elapsed_ms,
            **_a_second(_difference(self._last.total, last.total), elapsed_ms),
            "topics": [{"topic": name, **_a_second(numbers, elapsed_ms)} for name, numbers in busy[:TOPICS_MAX]],
            "other_topics": {"count": len(rest), **_a_second(_sum(rest), elapsed_ms)},
        }

    def _sample(self, now_ms: int) -> _Sample:
        counters = self._broker.counters
        topics = {name: _numbers(traffic) for name, traffic in counters.topics.items()}
        return _Sample(now_ms, topics, _sum([_numbers(counters.retired), *topics.values()]))


def _numbers(traffic: Traffic) -> _Numbers:
    return traffic.bytes_in, traffic.messages_in, traffic.bytes_out, traffic.messages_out


def _difference(now: _Numbers, before: _Numbers) -> _Numbers:
    # a re-created topic counts from 0 again
    return (
        max(0, now[0] - before[0]),
        max(0, now[1] - before[1]),
        max(0, now[2] - before[2]),
        max(0, now[3] - before[3]),
    )


def _sum(many: list[_Numbers]) -> _Numbers:
    columns = tuple(map(sum, zip(*many, strict=True))) if many else (0, 0, 0, 0)
    return columns[0], columns[1], columns[2], columns[3]


def _a_second(numbers: _Numbers, elapsed_ms: int) -> dict[str, float]:
    return {
        f"{name}_per_second": round(number * 1000 / elapsed_ms, 1)
        for name, number in zip(_NUMBERS, numbers, strict=True)
    }


class ProcessFigures:
    """Resource use of the broker's process. Disk figures are None until first read; a hanging disk keeps old ones."""

    def __init__(self, shell: "Shell", broker: Broker) -> None:
        self._shell = shell
        self._broker = broker
        self._process = psutil.Process()
        self._cpu_s, self._at = time.process_time(), time.monotonic()
        self._cpu_share = 0.0
        self._disks: tuple[int, int] | None = None
        self._disks_at = 0.0
        self._is_asking = False

    def look(self) -> dict[str, Any]:
        """Bytes, and CPU as a share of one core since an earlier call at least half a second ago."""
        now, cpu_s = time.monotonic(), time.process_time()
        if now - self._at >= 0.5:
            self._cpu_share = (cpu_s - self._cpu_s) / (now - self._at)
            self._cpu_s, self._at = cpu_s, now
        if now - self._disks_at >= DISKS_EVERY_SECONDS and not self._is_asking:
            self._is_asking = True
            self._shell.nursery.start_soon(self._ask_disks)
        free, size = self._disks or (None, None)
        return {
            "memory_bytes": self._process.memory_info().rss,
            "cpu_share": round(self._cpu_share, 3),
            "disk_free_bytes": free,
            "disk_size_bytes": size,
        }

    async def _ask_disks(self) -> None:
        paths = [each.path for each in self._broker.log_store.directories if each.failure is None]
        try:
            self._disks = await trio.to_thread.run_sync(_fullest, paths, abandon_on_cancel=True) or self._disks
        finally:
            self._is_asking = False
            self._disks_at = time.monotonic()


def _fullest(paths: list[str]) -> tuple[int, int] | None:
    """(free bytes, total bytes) of the file system with the least free space; None when none can be read."""
    found: list[tuple[int, int]] = []
    for path in paths:
        try:
            stat = os.statvfs(path)
        except OSError:
            continue
        found.append((stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
    return min(found, default=None)
