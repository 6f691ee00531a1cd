"""Reads partitions by assignment, without a group: it commits nothing and disturbs no other consumer.

The end is the high watermark (with read_committed: the last stable offset) at the start. It is reached when the fetch
position is there, not when a record with that offset was seen: compaction and transaction markers leave gaps.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yak.client.admin import Admin
from yak.client.connection import base_config
from yak.client.consumer import OUT_OF_RANGE, ConsumerHandle, ConsumerRecord, consumer_config, is_transient, source_of
from yak.client.errors import from_kafka, kafka_exceptions, name_of
from yak.client.offset_spec import Position, Range
from yak.ids import Offset, TopicPartition
from yak.view.lag import lag_records

POLL_S = 0.1
BATCH = 500


@dataclass(slots=True)
class Window:
    """The offsets to read of one partition: [start, stop), without an end when `stop` is None."""

    start: Offset
    stop: Offset | None

    @property
    def is_empty(self) -> bool:
        """Whether the window has no offsets."""
        return self.stop is not None and self.start >= self.stop


def resolve_windows(
    admin: Admin,
    partitions: Sequence[TopicPartition],
    wanted: Range,
    *,
    exit_at_end: bool = False,
    read_committed: bool = False,
    now_ms: int,
) -> dict[TopicPartition, Window]:
    """The window of a range in each partition, in at most four requests. Raises YakError."""
    marks = admin.watermarks(partitions, read_committed=read_committed)
    starts = _edges(admin, partitions, wanted.start, marks)
    windows: dict[TopicPartition, Window] = {}
    if wanted.stop is not None:
        # No record at or after that time yet: read to the end if the time is past, else open-ended (`until_ms` stops
        # it).
        stops = _edges(admin, partitions, wanted.stop, marks)
        is_future = wanted.stop.kind == "time" and wanted.stop.number > now_ms
        for each in partitions:
            open_ended = is_future and stops[each] >= marks[each][1] and not exit_at_end
            windows[each] = Window(starts[each], None if open_ended else stops[each])
            if exit_at_end and windows[each].stop is not None:
                windows[each].stop = min(stops[each], marks[each][1])
        return windows
    for each in partitions:
        windows[each] = Window(starts[each], marks[each][1] if exit_at_end else None)
    return windows


def _edges(
    admin: Admin,
    partitions: Sequence[TopicPartition],
    edge: Position,
    marks: Mapping[TopicPartition, tuple[Offset, Offset]],
) -> dict[TopicPartition, Offset]:
    if edge.kind != "time":
        return {each: edge.resolve(*marks[each]) for each in partitions}
    found = admin.offsets(dict.fromkeys(partitions, edge.number))
    # -1: no record at or after that time, so use the end.
    return {each: found[each].offset if found[each].offset >= 0 else marks[each][1] for each in partitions}


def stops_at(
    admin: Admin, partitions: Sequence[TopicPartition], time_ms: int, *, read_committed: bool = False
) -> dict[TopicPartition, Offset]:
    """The first offset at or after a time that has passed, in each partition; its end where all records are older."""
    marks = admin.watermarks(partitions, read_committed=read_committed)
    return _edges(admin, partitions, Position("time", time_ms), marks)


class PartitionReader:
    """One librdkafka consumer over given partitions. `records` yields the records of the windows, and None when idle.

    A partition that reached its stop is removed from the assignment; the iterator ends when all have.
    """

    def __init__(
        self,
        servers: str,
        windows: Mapping[TopicPartition, Window],
        *,
        read_committed: bool = False,
        verbose: int = 0,
        extra: dict[str, Any] | None = None,
    ) -> None:
        config = base_config(servers, verbose=verbose) | consumer_config(
            None, reset="error", read_committed=read_committed
        )
        self._handle = ConsumerHandle[Any](config | {"enable.partition.eof": True} | (extra or {}))
        self._windows = dict(windows)
        self._open = {each for each, window in windows.items() if not window.is_empty}
        self.positions: dict[TopicPartition, Offset] = {each: window.start for each, window in windows.items()}
        if self._open:
            self._handle.assign({each: windows[each].start for each in windows if each in self._open})

    def records(self, *, more: Callable[[], bool] = lambda: True) -> Iterator[ConsumerRecord | None]:
        """Records in the order of arrival; None about ten times a second while there are none.

        Stops as soon as `more` is False. Raises YakError on a permanent error.
        """
        while self._open and more():
            messages = list(self._handle.poll(POLL_S, BATCH))
            if not messages:
                yield None
            for message in messages:
                if not self._take(message):
                    continue
                yield ConsumerRecord.of(message)
                if not more():
                    return

    def fetch(self, limit: int, wait_s: float) -> list[Any]:
        """librdkafka's messages, undecoded: those that arrive within `wait_s`, `limit` at most. Raises the errors of
        `records`.

        For callers that use few of many messages: an undecoded message costs almost nothing.
        """
        return [message for message in self._handle.consumer.consume(limit, wait_s) if self._take(message)]

    def _take(self, message: Any) -> bool:
        """Whether the message is a record of a window; advances the positions."""
        error = message.error()
        if error is not None:
            self.take_error(error, message)
            return False
        partition = source_of(message)
        if partition not in self._open:
            return False
        offset, stop = message.offset(), self._windows[partition].stop
        if stop is not None and offset >= stop:
            self.finish(partition)
            return False
        self.positions[partition] = offset + 1
        if stop is not None and offset + 1 >= stop:
            self.finish(partition)
        return True

    @property
    def followed(self) -> list[TopicPartition]:
        """The partitions that are not read to their stop."""
        return list(self._open)

    def stop_at(self, stops: Mapping[TopicPartition, Offset]) -> None:
        """End at these offsets."""
        for partition, offset in stops.items():
            window = self._windows[partition]
            window.stop = offset if window.stop is None else min(offset, window.stop)
            if self.positions[partition] >= window.stop:
                self.finish(partition)

    @property
    def is_done(self) -> bool:
        """Whether every window is read."""
        return not self._open

    def pause(self) -> None:
        """Stop fetching until `resume`; prefetched records are dropped, and fetched again."""
        self._handle.pause(self._open)

    def resume(self) -> None:
        """Resume fetching after `pause`."""
        self._handle.resume(self._open)

    def behind(self) -> int | None:
        """Unread offsets of the open windows, by the high watermarks of the last fetches; None when unknown."""
        stops = {each: self._windows[each].stop for each in self._open}
        return offsets_behind(self._handle, {each: self.positions[each] for each in self._open}, stops)

    def partitions_of(self, topic: str, timeout_s: float) -> list[int]:
        """The partition numbers of a topic now; empty when no broker answers, or the topic is deleted."""
        try:
            found = self._handle.consumer.list_topics(topic, timeout=timeout_s).topics.get(topic)
        except kafka_exceptions():
            return []
        return [] if found is None or found.error is not None else sorted(found.partitions)

    def add(self, partition: TopicPartition, window: Window) -> None:
        """Also read this partition."""
        self._windows[partition] = window
        self.positions[partition] = window.start
        if not window.is_empty:
            self._open.add(partition)
            self._handle.consumer.incremental_assign(self._handle.wires_at({partition: window.start}))

    def take_error(self, error: Any, message: Any) -> None:
        """Note the end of a partition, ignore a transient error. Raises YakError for another one."""
        name = name_of(error)
        if name == "_PARTITION_EOF":
            partition = source_of(message)
            self.positions[partition] = max(self.positions.get(partition, 0), message.offset())
            stop = self._windows[partition].stop
            if partition in self._open and stop is not None and message.offset() >= stop:
                self.finish(partition)
            return
        if is_transient(error, {"GROUP_AUTHORIZATION_FAILED"}):  # librdkafka requires it, though no group is used
            return
        where = f"{message.topic()}-{message.partition()}" if message.topic() else "the assigned partitions"
        if name in OUT_OF_RANGE:
            raise _out_of_range(where, error)
        raise from_kafka(error, f"{where} could not be read")

    def finish(self, partition: TopicPartition) -> None:
        """Stop reading this partition."""
        if partition not in self._open:
            return
        self._open.discard(partition)
        self._handle.consumer.incremental_unassign(self._handle.wires([partition]))

    def close(self) -> None:
        """Close the consumer; nothing is committed."""
        self._handle.close()


def offsets_behind(
    handle: ConsumerHandle[Any],
    positions: Mapping[TopicPartition, Offset],
    stops: Mapping[TopicPartition, Offset | None],
) -> int | None:
    """Offsets from positions to the stops, or to the high watermarks of the last fetches; None when one is unknown."""
    total = 0
    for each, position in positions.items():
        try:
            high = handle.watermarks(each, None)[1]
        except kafka_exceptions():
            high = -1
        known = [] if high < 0 else [high]
        stop = stops.get(each)
        if stop is not None:
            known.append(stop)
        if not known:
            return None
        total += lag_records(position, min(known))
    return total


def _out_of_range(where: str, error: Any) -> Exception:
    failure = from_kafka(error, f"the requested offset is not in {where}")
    failure.code = "offset-out-of-range"
    failure.why = "the log starts later, or ends earlier; records may have been deleted meanwhile"
    failure.try_ = ("--offset start", f"yak topics describe {where.rpartition('-')[0]}")
    return failure


def check_ranges(
    windows: Mapping[TopicPartition, Window], marks: Mapping[TopicPartition, tuple[Offset, Offset]]
) -> list[str]:
    """Correct windows that start outside the log; return a sentence about each."""
    notes = []
    for partition, window in windows.items():
        low, high = marks[partition]
        if window.start < low:
            notes.append(f"{partition} starts at offset {low}; {window.start} was requested")
            window.start = low
        elif window.start > high:
            notes.append(f"{partition} ends at offset {high}; {window.start} was requested")
            window.start = high
    return notes


def tail_starts(
    servers: str,
    marks: Mapping[TopicPartition, tuple[Offset, Offset]],
    count: int,
    *,
    read_committed: bool = False,
    timeout_s: float = 10.0,
) -> dict[TopicPartition, Offset]:
    """The offset in each partition from which `count` records follow up to its end; `marks` are the log's start and
    end.

    End minus count is right only without gaps, so the range is read, counted, and doubled until it has enough records.
    """
    starts = {each: high for each, (low, high) in marks.items() if high <= low or count <= 0}
    waiting = [each for each in marks if each not in starts]
    span = count
    deadline = time.monotonic() + timeout_s
    while waiting:
        windows = {each: Window(max(marks[each][0], marks[each][1] - span), marks[each][1]) for each in waiting}
        offsets = _offsets_in(servers, windows, deadline, read_committed=read_committed)
        is_late = time.monotonic() >= deadline
        for each in waiting:
            if len(offsets[each]) >= count:
                starts[each] = offsets[each][-count]
            elif windows[each].start == marks[each][0] or is_late:
                starts[each] = windows[each].start
        waiting = [each for each in waiting if each not in starts]
        span *= 2
    return starts


def _offsets_in(
    servers: str,
    windows: Mapping[TopicPartition, Window],
    deadline: float,
    *,
    read_committed: bool,
) -> dict[TopicPartition, list[Offset]]:
    found: dict[TopicPartition, list[Offset]] = {each: [] for each in windows}
    reader = PartitionReader(servers, windows, read_committed=read_committed)
    try:
        while not reader.is_done and time.monotonic() < deadline:
            for message in reader.fetch(BATCH, POLL_S):
                found[source_of(message)].append(message.offset())
    finally:
        reader.close()
    return found
