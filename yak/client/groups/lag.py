"""The lag of a group, in records and in time.

In records it is the high watermark minus the committed offset, as Kafka counts it (gaps of compaction count too). In
time it is the age of the oldest record that the group has not read. That record is fetched, in one long poll of each
leader.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from yak.client.admin import Admin
from yak.client.consume import PartitionReader, Window
from yak.ids import Offset, TopicPartition
from yak.view.groups import Group, PartitionLag, partition_lags

PATIENCE_S: Final = 3.0
_FETCH: Final = {"fetch.message.max.bytes": 4096, "queued.min.messages": 1}
"""As little of each partition as a broker returns, which is one batch."""


def read_marks(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[Offset, Offset]]:
    """Log start and high watermark of each partition whose leader answers, in two requests per leader."""
    led = {partition for topic in admin.metadata().topics.values() for partition in topic.led}
    return admin.watermarks(sorted(led.intersection(partitions)), answered_only=True)


def read_lags(admin: Admin, group: Group, committed: Mapping[TopicPartition, Offset]) -> Group:
    """The group with its partitions and their lags in records."""
    return replace(group, partitions=partition_lags(group, committed, read_marks(admin, {*committed, *group.assigned})))


def oldest_unread(
    servers: str, lags: Iterable[PartitionLag], *, timeout_s: float, verbose: int = 0
) -> dict[TopicPartition, int]:
    """The timestamps (ms) of the first unread records that arrived in time and have one."""
    windows = {
        each.partition: Window(max(each.committed, each.log_start_offset or 0), each.high_watermark)
        for each in lags
        if each.lag and each.committed is not None and each.high_watermark is not None
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
