"""Reads topics as a member of a group, and commits only records that were processed and flushed.

A record counts as processed when the iterating caller requests the next one. `flush` is called before each commit, so
committed records have left this process: a record may come twice, but none is skipped. The assignors are librdkafka's
default ones (range, roundrobin), so that members of any client can share the group.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from yak.attempts import attempts
from yak.client.connection import base_config
from yak.client.consume import BATCH, POLL_S, Window, offsets_behind
from yak.client.consumer import (
    REBALANCED,
    Callbacks,
    ConsumerHandle,
    ConsumerRecord,
    consumer_config,
    is_transient,
    refusal_in,
    source_of,
)
from yak.client.errors import from_exception, from_kafka, kafka_exceptions, name_of
from yak.errors import YakError
from yak.ids import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class Started:
    """One assigned partition, its start offset, and the group's committed offset (None: nothing).

    `trouble` describes a conflict with the log.
    """

    partition: TopicPartition
    offset: Offset
    committed: Offset | None
    trouble: str = ""


def start_of(
    partition: TopicPartition,
    committed: Offset | None,
    own: Offset | None,
    window: Window,
    marks: tuple[Offset, Offset] | None,
) -> Started:
    """The committed offset; without one, the window's start. `own` is the position of a member that commits nothing.

    A committed offset below the log start is deleted: reading starts at the log start. One above the log end says
    nothing about the present records, so it counts as not committed (as with Kafka's auto.offset.reset).
    """
    low, high = marks or (0, max(committed or 0, window.start))
    first = min(max(window.start, low), max(high, low))
    if committed is None:
        return Started(partition, max(first, own or 0), None)
    if committed < low:
        return Started(partition, low, committed, f"{low - committed} records were deleted before the group read them")
    if committed > high:
        return Started(
            partition, first, committed, f"{committed} was committed, the log ends at {high}: reading from {first}"
        )
    return Started(partition, max(committed, own or 0), committed)


SESSION_MS: Final = 10_000
"""How long a killed member keeps its partitions; librdkafka's default of 45 s is long for a command."""
_NO_OFFSET: Final = "_NO_OFFSET"


@dataclass(frozen=True, slots=True)
class CommitEvery:
    """When to commit while reading: after so many records, or so long after the last commit, whichever comes first."""

    records: int | None = None
    interval_ms: int | None = None


class GroupReader:
    """One member. `records` yields its records, and None when idle; `finish` commits the rest; `close` leaves the
    group.

    `windows` give the start without a committed offset, and the stop; `every` None commits nothing. `on_start` gets the
    start of each assignment. `marks` returns the start and end of partitions' logs. The first record of `until_ms` or
    later stops its partition, and is not read.
    """

    def __init__(
        self,
        servers: str,
        group: str,
        topics: Sequence[str],
        windows: Mapping[TopicPartition, Window],
        *,
        marks: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, tuple[Offset, Offset]]],
        flush: Callable[[], None],
        every: CommitEvery | None,
        on_start: Callable[[list[Started]], None],
        warn: Callable[[str], None],
        timeout_s: float,
        until_ms: int | None = None,
        read_committed: bool = False,
        verbose: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        # When retention overtakes a slow reader, read the rest of the log from its start.
        config = base_config(servers, verbose=verbose) | consumer_config(
            group, reset="earliest", read_committed=read_committed
        )
        own = {"session.timeout.ms": SESSION_MS, "enable.partition.eof": True}
        self._handle = ConsumerHandle[Any](config | own | dict(extra or {}))
        self.group = group
        self._windows = dict(windows)
        self._all_stop = all(window.stop is not None for window in self._windows.values())
        self._marks, self._flush, self._every = marks, flush, every
        self._on_start, self._warn, self._timeout_s, self._until_ms = on_start, warn, timeout_s, until_ms
        self._assigned: set[TopicPartition] | None = None
        self._next: dict[TopicPartition, Offset] = {}
        self._committed: dict[TopicPartition, Offset] = {}
        self._since = 0
        self._commit_at = time.monotonic()
        self._may_commit = every is not None
        self._is_paused = False
        self._handle.subscribe(topics, Callbacks(self._on_assigned, self._on_revoked, self._on_lost))

    @property
    def is_joining(self) -> bool:
        """Whether the member has no assignment yet, or again none during a rebalance."""
        return self._assigned is None

    def records(self, *, more: Callable[[], bool] = lambda: True) -> Iterator[ConsumerRecord | None]:
        """Records in the order of arrival; None about ten times a second while there are none.

        Ends when `more` is False, or when every assigned partition is read up to its stop. Raises YakError on a
        permanent error.
        """
        while more() and not self._is_at_end():
            batch = list(self._handle.poll(POLL_S, BATCH))
            self._handle.rebalancing.raise_pending()
            if not batch:
                self._commit_if_due()
                yield None
            for message in batch:
                if not self._is_record(message):
                    continue
                record = ConsumerRecord.of(message)
                if self._is_too_late(message, record.timestamp_ms):
                    continue
                yield record
                self._took(message)
                if not more():
                    return
                self._commit_if_due()

    def fetch(self, limit: int, wait_s: float) -> list[Any]:
        """librdkafka's messages, undecoded: those that arrive within `wait_s`, `limit` at most. They count as
        processed.

        For callers that use few of many messages, and commit by `commit_now`. Raises the errors of `records`.
        """
        found = self._handle.consumer.consume(limit, wait_s)
        self._handle.rebalancing.raise_pending()
        taken = []
        for message in found:
            if self._is_record(message) and not self._is_too_late(message, message.timestamp()[1]):
                self._took(message)
                taken.append(message)
        self._commit_if_due()
        return taken

    def _is_record(self, message: Any) -> bool:
        if message.error() is not None:
            self._take_error(message.error(), message)
            return False
        return self._is_wanted(source_of(message), message.offset())

    def _is_too_late(self, message: Any, timestamp_ms: int) -> bool:
        """Whether the record is from `until_ms` or later, which ends its partition."""
        if self._until_ms is None or timestamp_ms < self._until_ms:
            return False
        partition = source_of(message)
        self._windows[partition].stop = message.offset()
        self._rest_if_done(partition)
        return True

    def _took(self, message: Any) -> None:
        partition = source_of(message)
        self._next[partition] = message.offset() + 1
        self._since += 1
        self._rest_if_done(partition)

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The member's assigned partitions in order; empty while it joins."""
        return tuple(sorted(self._assigned or ()))

    def pause(self) -> None:
        """Return no records until `resume`, and stay in the group: `fetch` must still be called."""
        self._is_paused = True
        self._handle.pause(self.assigned)

    def resume(self) -> None:
        """Resume after `pause`."""
        self._is_paused = False
        self._handle.inbox.resume(self._handle.inbox.paused)
        self._handle.resume([each for each in self.assigned if not self._has_come_to_stop(each)])

    @property
    def followed(self) -> list[TopicPartition]:
        """The partitions of the topics, whichever member has them."""
        return list(self._windows)

    def stop_at(self, stops: Mapping[TopicPartition, Offset]) -> None:
        """End at these offsets; a partition that is assigned later too."""
        for partition, offset in stops.items():
            window = self._windows[partition]
            window.stop = offset if window.stop is None else min(offset, window.stop)
        self._all_stop = True
        for partition in self.assigned:
            self._rest_if_done(partition)

    def behind(self) -> int | None:
        """Unread offsets of the assigned partitions, by the high watermarks of the last fetches; None when unknown."""
        if self._assigned is None:
            return None
        stops = {each: self._windows[each].stop for each in self.assigned}
        return offsets_behind(self._handle, {each: self._next[each] for each in self.assigned}, stops)

    def commit_now(self) -> str:
        """Commit all processed records, whatever `every` says; return the reason of a transient failure. Raises
        YakError."""
        return self._commit()

    def _is_wanted(self, partition: TopicPartition, offset: Offset) -> bool:
        """Whether the offset is assigned, unread, and before the stop; revoked partitions belong to another member."""
        if self._assigned is None or partition not in self._assigned:
            return False
        if offset < self._next[partition]:
            high = self._handle.watermarks(partition, None)[1]
            if not 0 <= high < self._next[partition]:
                return False  # librdkafka fetched it again
            ends = f"{partition} ends at offset {high} now"
            self._warn(f"{ends}, before the next record of the group: reading from {offset}")
            self._next[partition] = offset
        stop = self._windows[partition].stop
        return stop is None or offset < stop

    def _is_at_end(self) -> bool:
        if not self._assigned:
            # A member without partitions is done if all partitions have a stop; else it may get some later.
            return self._assigned is not None and self._all_stop
        return all(self._has_come_to_stop(each) for each in self._assigned)

    def _has_come_to_stop(self, partition: TopicPartition) -> bool:
        stop = self._windows[partition].stop
        return stop is not None and self._next[partition] >= stop

    def _rest_if_done(self, partition: TopicPartition) -> None:
        if self._has_come_to_stop(partition):
            self._handle.pause([partition])

    def _take_error(self, error: Any, message: Any) -> None:
        name = name_of(error)
        if name == "_PARTITION_EOF":
            # The end comes after transaction markers and compacted records: no record was skipped before the stop. It is
            # before the next record where the topic was created again.
            partition = source_of(message)
            if self._assigned is not None and partition in self._assigned:
                stop = self._windows[partition].stop
                self._next[partition] = message.offset() if stop is None else min(message.offset(), stop)
                self._rest_if_done(partition)
            return
        if is_transient(error, REBALANCED):
            return
        raise from_kafka(error, f'group "{self.group}" cannot be read with')

    # assignments

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        arriving = self._handle.rebalancing.arriving
        arriving.clear()
        started = self._started(partitions)
        for each in started:
            self._next[each.partition] = each.offset
            # Without a committed offset, the first commit stores the start offset: the group remembers where it began.
            self._committed[each.partition] = each.committed if each.committed is not None else -1
        self._assigned = {each.partition for each in started}
        arriving |= {each.partition: each.offset for each in started if not self._has_come_to_stop(each.partition)}
        if self._is_paused:
            self._handle.inbox.pause(arriving)
        self._commit_at = time.monotonic()
        self._on_start(started)

    def _started(self, partitions: list[TopicPartition]) -> list[Started]:
        if not partitions:
            return []
        committed = self._ask_committed(partitions)
        marks = self._marks(partitions)
        for each in partitions:
            # A partition added to the topic meanwhile is read from its first record.
            low, high = marks.get(each, (0, 0))
            self._windows.setdefault(each, Window(low, high if self._all_stop else None))
        own = {} if self._may_commit else self._next
        return [
            start_of(each, committed.get(each), own.get(each), self._windows[each], marks.get(each))
            for each in partitions
        ]

    def _ask_committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Offset]:
        what = f'the offsets of group "{self.group}" could not be read'
        deadline = time.monotonic() + self._timeout_s
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                answers = self._handle.committed(partitions, left_s)
                refused = refusal_in(answers)
                if refused is None:
                    return {each: answer.offset for each, answer in answers.items() if answer.offset >= 0}
                failure = from_kafka(refused[1], what)
                may_retry = is_transient(refused[1])
            except kafka_exceptions() as error:
                failure = from_exception(error, what)
                may_retry = _is_transient(error)
            if not may_retry or time.monotonic() >= deadline:
                raise failure
            time.sleep(POLL_S)

    def _on_revoked(self, _partitions: list[TopicPartition]) -> None:
        try:
            why = self._commit() if self._may_commit else ""
            if why:
                self._warn(f'the last records of group "{self.group}" were not committed and will be read again: {why}')
        finally:
            self._assigned = None

    def _on_lost(self, _partitions: list[TopicPartition]) -> None:
        if self._may_commit and self._since:
            self._warn(f'group "{self.group}" has removed this member; uncommitted records will be read again')
        self._assigned = None

    # commits

    def _uncommitted(self) -> dict[TopicPartition, Offset]:
        return {each: self._next[each] for each in self._assigned or () if self._next[each] != self._committed[each]}

    def _commit_if_due(self) -> None:
        every = self._every
        if every is None:
            return
        waited_ms = (time.monotonic() - self._commit_at) * 1000
        if (every.records is not None and self._since >= every.records) or (
            every.interval_ms is not None and waited_ms >= every.interval_ms
        ):
            self._commit()

    def _commit(self) -> str:
        """Flush, then commit; return the reason of a transient failure. Raises YakError for a permanent one."""
        self._flush()
        offsets = self._uncommitted()
        self._since, self._commit_at = 0, time.monotonic()
        if not offsets:
            return ""
        what = f'offsets of group "{self.group}" were not committed'
        try:
            answers = self._handle.commit(offsets)
        except kafka_exceptions() as error:
            if _name(error) == _NO_OFFSET:
                return ""
            failure = from_exception(error, what)
            if not _is_transient(error) and _name(error) not in REBALANCED:
                raise failure from None
            return failure.why
        for each, answer in answers.items():
            if answer.error is None:
                self._committed[each] = answer.offset
            elif not is_transient(answer.error, REBALANCED):
                raise from_kafka(answer.error, what)
        refused = refusal_in(answers)
        return "" if refused is None else from_kafka(refused[1], what).why

    def finish(self) -> None:
        """Commit the uncommitted rest, with retries until the timeout. Raises YakError (`not-committed`)."""
        if not self._may_commit:
            return
        for _ in attempts(self._timeout_s, POLL_S):
            why = self._commit()
            left = self._uncommitted()
            if not left:
                self._may_commit = False
                return
        raise YakError(
            "not-committed",
            f'the last records were not committed for group "{self.group}"',
            why=f"{why}; {', '.join(map(str, sorted(left)[:3]))} will give some records again",
            try_=(f"yak groups describe {quote(self.group)}",),
        )

    def close(self) -> None:
        self._may_commit = False
        self._handle.close()


def _name(error: BaseException) -> str:
    return name_of(error.args[0]) if error.args and hasattr(error.args[0], "name") else ""


def _is_transient(error: Exception) -> bool:
    return bool(_name(error)) and is_transient(error.args[0])
