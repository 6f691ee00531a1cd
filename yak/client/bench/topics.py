"""The topic under test: its creation, its offsets, and its records divided among clients."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.bench.load import Slice
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition
from yak.view.partition_state import is_whole

PARTITIONS_DEFAULT = 1
NEW_TOPIC_SECONDS = 10.0
"""A new topic must have leaders for all partitions within this time."""
SOON_DELETED: Mapping[str, str] = {"file.delete.delay.ms": "1000"}
"""A deleted topic's files are deleted after a second instead of a minute."""


def partitions_of(admin: Admin, topic: str) -> int:
    """The topic's number of partitions; 0 when there is no such topic. Raises YakError."""
    found = admin.metadata().topics.get(topic)
    return 0 if found is None else len(found.partitions)


def ensure_topic(admin: Admin, topic: str, partitions: int | None) -> None:
    """Create the topic unless it exists. Raises UsageError (`bench-partitions`: with another number), YakError."""
    found = partitions_of(admin, topic)
    if found and partitions is not None and partitions != found:
        raise UsageError(
            "bench-partitions",
            f"topic {topic} has {found} partitions, not {partitions}",
            why="a benchmark does not change an existing topic",
            try_=(f"add --topic {topic}-{partitions}", f"yak topics delete {topic}"),
        )
    if not found:
        try:
            admin.create_topic(topic, partitions=partitions or PARTITIONS_DEFAULT)
        except YakError as error:
            if error.code != "topic-exists":  # it was just created, and the broker's metadata was stale
                raise


def slices_of(admin: Admin, topic: str) -> tuple[Slice, ...]:
    """All partitions from their log start offset to their high watermark.

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
    """As `slices_of`, for a topic that may be new: waits until all its partitions answer. Raises YakError."""
    deadline_s = time.monotonic() + NEW_TOPIC_SECONDS
    while True:
        try:
            return slices_of(admin, topic)
        except YakError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def offsets_grown(admin: Admin, topic: str, before: Sequence[Slice]) -> int:
    """The growth of all partitions together since `before`, in offsets. Raises YakError."""
    return sum(each.end for each in slices_of(admin, topic)) - sum(each.end for each in before)


def divide(slices: Sequence[Slice], clients: int, records: int | None = None) -> list[tuple[Slice, ...]]:
    """Divide the slices, laid end to end, into one share for each client; sizes differ by at most one record.

    `records`: use only so many from the front.
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


@contextlib.contextmanager
def fresh_topic(
    admin: Admin,
    topic: str,
    partitions: int,
    *,
    replication_factor: int = 1,
    configs: Mapping[str, str] | None = None,
    assignment: Sequence[Sequence[int]] | None = None,
) -> Iterator[str]:
    """A new topic whose replicas are all in sync, deleted afterwards.

    Raises YakError, also (`bench-topic`) when its replicas are not in sync in time.
    """
    more = {**SOON_DELETED, **(configs or {})}
    if assignment is not None:
        admin.create_topic(topic, assignment=assignment, configs=more)
    else:
        admin.create_topic(topic, partitions=partitions, replication_factor=replication_factor, configs=more)
    try:
        wait_whole(admin, topic, partitions, seconds=NEW_TOPIC_SECONDS + partitions / 50)
        yield topic
    finally:
        admin.delete_topic(topic)


def is_topic_whole(admin: Admin, topic: str, partitions: int) -> bool:
    """Whether all partitions exist, have leaders, and have all replicas in sync."""
    found = admin.metadata().topics.get(topic)
    return found is not None and len(found.partitions) == partitions and all(map(is_whole, found.partitions))


def wait_whole(admin: Admin, topic: str, partitions: int, *, seconds: float, poll_s: float = 0.02) -> None:
    """Wait until `is_topic_whole`. Raises YakError (`bench-topic`) after `seconds`."""
    for _ in attempts(seconds, poll_s):
        if is_topic_whole(admin, topic, partitions):
            return
    raise YakError("bench-topic", f"the replicas of {topic} are not in sync after {seconds:.0f} s")
