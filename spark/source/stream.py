"""The streaming reader. Only Spark's checkpoint stores the query's progress; `commit` does nothing."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from yak.ids import TopicPartition
from yak.spark.columnar.schema import OffsetRange
from yak.spark.source import stream_offsets
from yak.spark.source.errors import CHECKPOINT, SourceError, data_loss
from yak.spark.source.options import LATEST, ReadOptions
from yak.spark.source.range_partition import RangePartition
from yak.spark.source.ranges import share_limit, split, waiting_records
from yak.spark.source.stream_offsets import Offsets
from yak.spark.source.topics import Topics, names_of
from yak.spark.source.values import Decoding, decoded

log = logging.getLogger("yak.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark calls it for each batch on the driver; `read` runs on executors and uses nothing but the options.

    Offsets have the form of `stream_offsets`. `latestOffset` fixes a batch's range, so a batch that runs again reads
    the same records.
    """

    def __init__(self, options: ReadOptions, decoding: Decoding) -> None:
        self.options = options
        self.decoding = decoding
        self._topics: Topics | None = None
        self._target: Offsets | None = None
        self._available_now = False
        self._latest: Offsets = {}
        self._last_trigger = float("-inf")

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the connection."""
        return self.__dict__ | {"_topics": None}

    # ------------------------------------------------------------------------------------------------- on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start offsets of a query without a checkpoint. Raises SourceError."""
        topics = self._cluster()
        there = topics.assigned()
        ids = topics.ids({each.topic for each in there})  # before the offsets: of a new topic they are others
        return stream_offsets.initial(topics.resolve(self.options.starting or LATEST, there, side="starting"), ids)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The trigger's limit. Spark accepts one, so `_waits` applies `minOffsetsPerTrigger` beside a maximum."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets: later records are not read."""
        topics = self._cluster()
        self._available_now = True
        self._target = topics.settled_ends({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end offsets of the next batch. Raises SourceError."""
        begun, known = stream_offsets.from_json(start), stream_offsets.ids_in(start)
        topics = self._cluster()
        ids = topics.ids({each.topic for each in begun})
        begun = self._without_recreated(begun, known, ids)
        self._latest = self._ends(topics, begun)
        ids |= topics.ids({each.topic for each in self._latest} - {each.topic for each in begun})
        ends = self._with_lost(begun, self._latest)
        starts = self._starts(topics, begun, ends)
        if isinstance(limit, ReadAllAvailable):
            return stream_offsets.end_after(start, ends, ids)
        if self._waits(starts, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = share_limit(limit.max_rows, starts, ends)
        return stream_offsets.end_after(start, ends, ids)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The last known end offsets of the partitions, for Spark's progress report."""
        return stream_offsets.to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch. Raises SourceError."""
        (starts, known), ends = stream_offsets.start_of(start, end), stream_offsets.from_json(end)
        ids = stream_offsets.ids_in(end)
        if starts == ends and not stream_offsets.recreated(known, ids):
            return []
        topics = self._cluster()
        for name in stream_offsets.recreated(ids, topics.ids(ids)):
            self._lost(f"topic {name} was deleted and created again since the batch was planned")
        again = stream_offsets.recreated(known, ids)
        starts = {each: offset for each, offset in starts.items() if each.topic not in again}
        new = [each for each in ends if each not in starts]
        if new:
            there = set(topics.there())
            starts |= self._new_starts(topics, [each for each in new if each in there])
        ranges = []
        for each, stop in ends.items():
            first = starts.get(each)
            if first is None:
                self._lost(f"partition {each} is gone before anything of it was read")
            elif first > stop:
                self._lost(
                    f"the end of {each} went back from offset {first} to {stop}: its topic was recreated or truncated"
                )
            elif first < stop:
                ranges.append(OffsetRange(each.topic, each.partition, first, stop))
        parts = split(ranges, self.options.min_partitions, self.options.max_records_per_partition)
        return [RangePartition(each, topics.servers) for each in parts]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: offsets are in Spark's checkpoint, and Spark calls this only when it plans the next batch."""

    def stop(self) -> None:
        """Drop the connection."""
        self._topics = None

    # ----------------------------------------------------------------------------------------------- on the executors

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The batches of one task."""
        assert isinstance(partition, RangePartition)
        return decoded(partition, self.options, self.decoding)

    # -------------------------------------------------------------------------------------------------------- internals

    def _cluster(self) -> Topics:
        if self._topics is None:
            self._topics = Topics(self.options)
        return self._topics

    def _ends(self, topics: Topics, begun: Mapping[TopicPartition, int]) -> Offsets:
        if self._target is None:
            return topics.settled_ends(begun)
        if any(self._target.get(each, -1) < offset for each, offset in begun.items()):
            # a new leader had not learnt the high watermark when the target was fixed, or a broker not the partition
            self._target = topics.settled_ends(begun)
        return dict(self._target)

    def _without_recreated(self, begun: Offsets, known: Mapping[str, str], ids: Mapping[str, str]) -> Offsets:
        """The offsets of topics that are those of the checkpoint; the others are read from their start. Raises SourceError."""
        again = stream_offsets.recreated(known, ids)
        for name in again:
            self._lost(f"topic {name} was deleted and created again: the query's offsets are of the earlier topic")
        return {each: offset for each, offset in begun.items() if each.topic not in again}

    def _with_lost(self, begun: Offsets, ends: Offsets) -> Offsets:
        """Return `ends`; report partitions that are gone, or whose end offset decreased. Raises SourceError."""
        gone = [each for each in begun if each not in ends]
        if gone:
            foreign = sorted({each.topic for each in gone if not self.options.subscription.covers(each.topic)})
            if foreign:
                raise SourceError(
                    CHECKPOINT,
                    "the checkpoint is another query's",
                    why=f"it is of a query over {', '.join(foreign)}; this one reads {self.options.subscription}",
                    try_=("give this query a checkpoint directory of its own",),
                )
            self._lost(f"partitions that the query was reading are gone: {names_of(gone)}")
        shorter = [each for each, offset in ends.items() if offset < begun.get(each, 0)]
        for each in shorter:
            self._lost(
                f"the end of {each} went back from offset {begun[each]} to {ends[each]}: its topic was recreated or truncated"
            )
        return ends

    def _starts(self, topics: Topics, begun: Offsets, ends: Offsets) -> Offsets:
        new = [each for each in ends if each not in begun]
        return {each: begun[each] for each in ends if each in begun} | (topics.earliest(new) if new else {})

    def _new_starts(self, topics: Topics, new: list[TopicPartition]) -> Offsets:
        """The start offsets of new partitions: their log start, which must be offset 0 as in Kafka."""
        found = topics.earliest(new)
        for each, offset in found.items():
            if offset > 0:
                self._lost(f"partition {each} is new to the query and begins at offset {offset} instead of 0")
        return found

    def _waits(self, starts: Offsets, ends: Offsets) -> bool:
        """Whether to delay the batch: too few records are there, and the maximum trigger delay has not passed."""
        least = self.options.min_offsets_per_trigger
        if least is None or self._available_now:
            return False
        now = time.monotonic()
        is_late = now - self._last_trigger >= self.options.max_trigger_delay_ms / 1000
        if waiting_records(starts, ends) < least and not is_late:
            return True
        self._last_trigger = now
        return False

    def _lost(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise data_loss(what)
        log.warning("%s; failOnDataLoss is false: the query goes on", what)
