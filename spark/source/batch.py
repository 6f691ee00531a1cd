"""The batch reader: both bounds are fixed when the query is planned."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from yak.ids import TopicPartition
from yak.spark.columnar.schema import OffsetRange
from yak.spark.source.errors import SourceError
from yak.spark.source.filters import Pruning, columns_of
from yak.spark.source.options import EARLIEST, LATEST, ReadOptions
from yak.spark.source.range_partition import RangePartition
from yak.spark.source.ranges import split
from yak.spark.source.topics import Topics
from yak.spark.source.values import Decoding, decoded


class BatchReader(DataSourceReader):
    """The reader that Spark plans and runs for `spark.read.format("yak")`."""

    def __init__(self, options: ReadOptions, schema: StructType, decoding: Decoding) -> None:
        self.options = options
        self.decoding = decoding
        self.pruning = Pruning()
        self.columns = columns_of(schema, decoding)

    @property
    def pushFilters(self) -> "_Push":  # noqa: N802
        """Prune the read by filters; see `_Push` for why this is no plain method."""
        return _Push(self)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks of the read. Raises SourceError."""
        topics = Topics(self.options)
        there = topics.assigned()
        wanted = [each for each in there if self.pruning.keeps(each)]
        start = topics.resolve(self.options.starting or EARLIEST, there, side="starting")
        end = topics.resolve(self.options.ending or LATEST, there, side="ending")
        ranges = []
        for each in wanted:
            if start[each] > end[each]:
                raise SourceError(
                    "spark-offset-range",
                    f"{each} would be read from offset {start[each]} to {end[each]}",
                    why="the start is after the end",
                    try_=("an earlier start or a later end",),
                )
            low, high = self.pruning.narrow(start[each], end[each])
            if low < high:
                ranges.append(OffsetRange(each.topic, each.partition, low, high))
        ranges = self._from_time(topics, ranges)
        parts = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        # Spark interprets an empty list as one partition without a value.
        return [RangePartition(each, topics.servers) for each in parts or [OffsetRange("", 0, 0, 0)]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Run one task, on an executor."""
        assert isinstance(partition, RangePartition)
        if partition.wanted.end <= partition.wanted.start:
            return iter(())
        return decoded(partition, self.options, self.decoding)

    def _from_time(self, topics: Topics, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """Start at the first record at or after `from_ms`: all earlier ones are older, later ones may be mixed."""
        if self.pruning.from_ms is None or not ranges:
            return ranges
        found = topics.at_times({TopicPartition(each.topic, each.partition): self.pruning.from_ms for each in ranges})
        later = []
        for each in ranges:
            first = found[TopicPartition(each.topic, each.partition)]
            start = each.end if first < 0 else max(each.start, first)
            if start < each.end:
                later.append(OffsetRange(each.topic, each.partition, start, each.end))
        return later


class _Push:
    """`reader.pushFilters`, for sessions with and without `spark.sql.python.filterPushdown.enabled`.

    With that conf off, which is the default, Spark refuses a reader whose `pushFilters.__func__` is not the base
    class's (DATA_SOURCE_PUSHDOWN_DISABLED), although it never calls it. The source must work in any session, so
    `__func__` is the base class's; with the conf on, Spark calls the instance.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: BatchReader) -> None:
        self.reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Return the filters that Spark must apply. Spark calls it several times per plan; calls are independent."""
        self.reader.pruning, left = Pruning.of(filters, self.reader.columns)
        return left
