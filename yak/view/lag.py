"""Lag in records and in time: of a group behind the log's end, and of a replica behind its leader. Pure."""

from collections.abc import Iterable
from typing import overload

from yak.ids import Offset


@overload
def lag_records(position: Offset, end: Offset) -> int: ...
@overload
def lag_records(position: Offset | None, end: Offset | None) -> int | None: ...
def lag_records(position: Offset | None, end: Offset | None) -> int | None:
    """Records from `position` to `end`, as Kafka counts them: gaps of compaction too. None if one of both is unknown.

    The two are not read at the same moment, and a log can be truncated: a position past the end counts as 0.
    """
    return None if position is None or end is None else max(0, end - position)


def lag_time_ms(lag: int | None, oldest_ms: int | None, now_ms: int) -> int | None:
    """The age of the oldest unread record in milliseconds: 0 without lag, None if its timestamp is unknown."""
    if lag == 0:
        return 0
    return None if oldest_ms is None else max(0, now_ms - oldest_ms)


def total_lag(lags: Iterable[int | None]) -> int | None:
    """The sum of the known lags; None if all are unknown."""
    known = [each for each in lags if each is not None]
    return sum(known) if known else None
