"""Lag in records: of a group behind the high watermark, and of a replica behind its leader. Pure."""

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


def total_lag(lags: Iterable[int | None]) -> int | None:
    """The sum of the known lags; None if all are unknown."""
    known = [each for each in lags if each is not None]
    return sum(known) if known else None
