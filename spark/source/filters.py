"""Filters that narrow a read: topic, partition and offset exactly, timestamp by its lower bound only.

Spark applies a timestamp's upper bound: producers set times, so a later record can have an earlier time.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from yak.ids import TopicPartition
from yak.spark.source.values import Decoding

NEVER_NULL = ("topic", "partition", "offset")
_LAST = (1 << 63) - 1


@dataclass(frozen=True)
class Pruning:
    """What must be read; None means no restriction. Offsets are `[low, high)`; `from_ms` is the earliest time."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    partition_low: int = 0
    partition_high: int = _LAST
    low: int = 0
    high: int = _LAST
    from_ms: int | None = None

    def keeps(self, each: TopicPartition) -> bool:
        """Whether the filters allow any record of this partition."""
        return (
            (self.topics is None or each.topic in self.topics)
            and (self.partitions is None or each.partition in self.partitions)
            and self.partition_low <= each.partition < self.partition_high
        )

    def narrow(self, start: int, end: int) -> tuple[int, int]:
        """The part of `[start, end)` that the filters allow; it is empty if its start is not below its end."""
        return max(start, self.low), min(end, self.high)

    @classmethod
    def of(cls, filters: Iterable[Filter], columns: Mapping[str, str]) -> tuple["Pruning", list[Filter]]:
        """The pruning by all filters, and the filters that Spark must still apply.

        `columns` maps the query's column names to the source's; a JSON field named `offset` is not a source column.
        """
        found, left = cls(), []
        for each in filters:
            path: tuple[str, ...] = getattr(each, "attribute", ())
            column = columns.get(path[0]) if len(path) == 1 else None
            narrowed = found._with(each, column) if column else None
            found = narrowed or found
            if narrowed is None or column == "timestamp":
                left.append(each)
        return found, left

    def _with(self, each: Filter, column: str) -> "Pruning | None":
        if isinstance(each, IsNotNull):
            return self if column in NEVER_NULL else None
        if column in ("topic", "partition") and isinstance(each, In | EqualTo):
            values: frozenset[Any] = frozenset(each.value if isinstance(each, In) else (each.value,)) - {None}
            if column == "topic":
                return replace(self, topics=values if self.topics is None else self.topics & values)
            return replace(self, partitions=values if self.partitions is None else self.partitions & values)
        if column in ("partition", "offset"):
            return self._with_bound(each, column)
        return self._with_time(each) if column == "timestamp" else None

    def _with_bound(self, each: Filter, column: str) -> "Pruning | None":
        low, high = _bounds(each)
        if low is None and high is None:
            return None
        if column == "offset":
            return replace(self, low=max(self.low, low or 0), high=min(self.high, _LAST if high is None else high))
        return replace(
            self,
            partition_low=max(self.partition_low, low or 0),
            partition_high=min(self.partition_high, _LAST if high is None else high),
        )

    def _with_time(self, each: Filter) -> "Pruning | None":
        if not isinstance(each, GreaterThan | GreaterThanOrEqual | EqualTo) or not isinstance(each.value, datetime):
            return None
        when = each.value if each.value.tzinfo else each.value.astimezone(UTC)
        from_ms = math.floor(when.timestamp() * 1000)
        if from_ms < 0:  # no broker looks for such a time, and a record without a timestamp has -1
            return self
        return replace(self, from_ms=from_ms if self.from_ms is None else max(self.from_ms, from_ms))


def _bounds(each: Any) -> tuple[int | None, int | None]:
    """`[low, high)` of a comparison with an integer; (None, None) for other filters."""
    value = getattr(each, "value", None)
    if not isinstance(value, int):
        return None, None
    if isinstance(each, EqualTo):
        return value, value + 1
    if isinstance(each, GreaterThan):
        return value + 1, None
    if isinstance(each, GreaterThanOrEqual):
        return value, None
    if isinstance(each, LessThan):
        return None, value
    return (None, value + 1) if isinstance(each, LessThanOrEqual) else (None, None)


def columns_of(schema: StructType, decoding: Decoding) -> dict[str, str]:
    """The source's own columns, by their names in the query."""
    return {field.name: source for field in schema.fields if (source := decoding.source_column(field.name))}
