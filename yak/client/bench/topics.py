"""The topic under test: made when it is not there, its offsets, and its records divided among clients."""

import time
from collections.abc import Sequence

from yak.client.admin import Admin
from yak.client.bench.load import Slice
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition

PARTITIONS_DEFAULT = 1
NEW_TOPIC_SECONDS = 10.0
"""A new topic has leaders everywhere by then."""


def partitions_of(admin: Admin, topic: str) -> int:
    """The topic's number of partitions; 0 when there is no such topic. Raises YakError."""
    found = admin.metadata().topics.get(topic)
    return 0 if found is None else len(found.partitions)


def ensure_topic(admin: Admin, topic: str, partitions: int | None) -> int:
    """Make the topic unless it is there; returns its number of partitions.

    Raises UsageError (`bench-partitions`: it is there with another number), YakError.
    """
    found = partitions_of(admin, topic)
    if found and partitions is not None and partitions != found:
        raise UsageError(
            "bench-partitions",
            f"topic {topic} has {found} partitions, not {partitions}",
            why="a benchmark does not change a topic that is there",
            try_=(f"add --topic {topic}-{partitions}", f"yak topics delete {topic}"),
        )
    if found:
        return found
    wanted = partitions or PARTITIONS_DEFAULT
    admin.create_topic(topic, partitions=wanted)
    return wanted


def slices_of(admin: Admin, topic: str) -> tuple[Slice, ...]:
    """All partitions from their first offset to their high watermark.

    Raises UsageError (`bench-empty`: no such topic), YakError.
    """
    count = partitions_of(admin, topic)
    if not count:
        raise UsageError(
            "bench-empty",
            f"there is no topic {topic} to read",
            try_=(f"yak bench produce --topic {topic} --msgs 1000000",),
        )
    marks = admin.watermarks([TopicPartition(topic, partition) for partition in range(count)])
    return tuple(Slice(each.partition, low, high) for each, (low, high) in marks.items())


def new_slices(admin: Admin, topic: str) -> tuple[Slice, ...]:
    """As `slices_of`, of a topic that may be new: waits until all its partitions answer. Raises YakError."""
    deadline_s = time.monotonic() + NEW_TOPIC_SECONDS
    while True:
        try:
            return slices_of(admin, topic)
        except YakError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def offsets_grown(admin: Admin, topic: str, before: Sequence[Slice]) -> int:
    """By how many offsets all partitions together grew since `before`. Raises YakError."""
    return sum(each.end for each in slices_of(admin, topic)) - sum(each.end for each in before)


def divide(slices: Sequence[Slice], clients: int, records: int | None = None) -> list[tuple[Slice, ...]]:
    """Cut the slices, laid end to end, into one share for each client; sizes differ by at most one record.

    `records`: read only so many from the front.
    """
    total = sum(each.records for each in slices)
    total = total if records is None else min(records, total)
    shares: list[tuple[Slice, ...]] = []
    for client in range(clients):
        low, high = total * client // clients, total * (client + 1) // clients
        share, passed = [], 0
        for each in slices:
            begin, end = max(low - passed, 0), min(high - passed, each.records)
            if begin < end:
                share.append(Slice(each.partition, each.begin + begin, each.begin + end))
            passed += each.records
        shares.append(tuple(share))
    return shares
