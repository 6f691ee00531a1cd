"""Splits offset ranges into tasks, and distributes a trigger's limit over partitions. Pure.

The rules are Spark's: `KafkaOffsetRangeCalculator.scala` (minPartitions, maxRecordsPerPartition) and `rateLimit` of
`KafkaMicroBatchStream.scala` (maxOffsetsPerTrigger).
"""

from collections.abc import Mapping, Sequence

from yak.ids import TopicPartition
from yak.spark.columnar.schema import OffsetRange


def split(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """One task per range that is not empty, or about `min_partitions` tasks; no task exceeds the maximum of records."""
    there = [each for each in ranges if each.end > each.start]
    if max_records_per_partition is not None:
        most = max_records_per_partition
        there = [part for each in there for part in _cut(each, -(-(each.end - each.start) // most))]
    if min_partitions is None or len(there) >= min_partitions:
        return there
    total = sum(each.end - each.start for each in there)
    whole = [each for each in there if _count(each, total, min_partitions) == 1]
    rest_total = total - sum(each.end - each.start for each in whole)
    rest_partitions = max(min_partitions - len(whole), 1)
    return [
        part
        for each in there
        for part in ([each] if each in whole else _cut(each, _count(each, rest_total, rest_partitions)))
    ]


def _count(each: OffsetRange, total: int, partitions: int) -> int:
    # Integer arithmetic: a float cannot represent all offsets exactly.
    return max((2 * (each.end - each.start) * partitions + total) // (2 * total), 1)


def _cut(each: OffsetRange, parts: int) -> list[OffsetRange]:
    start, found = each.start, []
    for left in range(parts, 0, -1):
        end = start + (each.end - start) // left
        if end > start:
            found.append(OffsetRange(each.topic, each.partition, start, end))
        start = end
    return found


def share_limit(
    most: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """End offsets that are about `most` offsets after the starts in total, in proportion to each partition's lag.

    A partition with unread records gets at least one, so that none starves. The sum can therefore exceed `most` by the
    number of partitions. `start` has every partition of `end`.
    """
    waiting = {each: max(end[each] - start[each], 0) for each in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    return {
        each: min(end[each], start[each] + (max(most * count // total, 1))) if (count := waiting[each]) else end[each]
        for each in end
    }


def waiting_records(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """Total number of offsets between start and end."""
    return sum(max(end[each] - start.get(each, 0), 0) for each in end)
