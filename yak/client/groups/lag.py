"""The lag of a group, in records and in time.

In records it is the high watermark minus the committed offset, as Kafka counts it (gaps of compaction count too). In
time it is the age of the oldest record that the group has not read. That record is fetched, in one long poll of each
leader.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from yak.client.admin import EARLIEST, LATEST, Admin
from yak.client.consume import PartitionReader, Window
from yak.client.groups.describing import Member
from yak.ids import Offset, TopicPartition

PATIENCE_S: Final = 3.0
_FETCH: Final = {"fetch.message.max.bytes": 4096, "queued.min.messages": 1}
"""As little of each partition as a broker returns, which is one batch."""


@dataclass(frozen=True, slots=True)
class Marks:
    """A partition's log start offset and high watermark."""

    start: Offset
    end: Offset


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group. None is unknown: there is no commit, or the partition is deleted or has no leader.

    `oldest_unread_ms` is the timestamp of the first unread record.
    """

    partition: TopicPartition
    committed: Offset | None
    marks: Marks | None
    member: Member | None = None
    oldest_unread_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Unread records; 0 also when the committed offset is past the end."""
        if self.committed is None or self.marks is None:
            return None
        return max(0, self.marks.end - self.committed)

    @property
    def trouble(self) -> str | None:
        """A description of a conflict between the committed offset and the log; None without one."""
        if self.committed is None:
            return None
        if self.marks is None:
            return "the topic is gone, or the partition has no leader"
        if self.committed < self.marks.start:
            return f"{self.marks.start - self.committed} of them are deleted: the log starts at {self.marks.start}"
        if self.committed > self.marks.end:
            return f"the log ends at {self.marks.end}: it was truncated, or the topic was recreated"
        return None

    def age_ms(self, now_ms: int) -> int | None:
        """The age of the first unread record; 0 when all is read."""
        if self.lag == 0:
            return 0
        return None if self.oldest_unread_ms is None else max(0, now_ms - self.oldest_unread_ms)


def read_marks(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Marks]:
    """Log start and high watermark of each partition that exists and has a leader, in two requests per leader."""
    topics = admin.metadata().topics
    led = {
        TopicPartition(topic.name, each.number)
        for topic in topics.values()
        for each in topic.partitions
        if each.leader >= 0
    }
    there = sorted({each for each in partitions if each in led})
    low = admin.offsets(dict.fromkeys(there, EARLIEST))
    high = admin.offsets(dict.fromkeys(there, LATEST))
    return {each: Marks(low[each].offset, high[each].offset) for each in there}


def lags_of(
    committed: Mapping[TopicPartition, Offset],
    members: Iterable[Member],
    marks: Mapping[TopicPartition, Marks],
) -> list[PartitionLag]:
    """A group's partitions in order: those with commits, and those assigned to members."""
    owners = {partition: member for member in members for partition in member.assigned or ()}
    return [
        PartitionLag(each, committed.get(each), marks.get(each), owners.get(each))
        for each in sorted({*committed, *owners})
    ]


def oldest_unread(
    servers: str, lags: Iterable[PartitionLag], *, timeout_s: float, verbose: int = 0
) -> dict[TopicPartition, int]:
    """The timestamps (ms) of the first unread records that arrived in time and have one."""
    windows = {
        each.partition: Window(max(each.committed, each.marks.start), each.marks.end)
        for each in lags
        if each.lag and each.committed is not None and each.marks is not None
    }
    if not windows:
        return {}
    found: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + min(PATIENCE_S, timeout_s)
    reader = PartitionReader(servers, windows, verbose=verbose, extra=dict(_FETCH))
    try:
        for record in reader.records(more=lambda: time.monotonic() < deadline):
            if record is None:
                continue
            partition = TopicPartition(record.topic, record.partition)
            if record.timestamp_ms >= 0:
                found[partition] = record.timestamp_ms
            reader.finish(partition)
    finally:
        reader.close()
    return found
