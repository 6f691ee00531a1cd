"""Where a member of a group starts in a partition that it is assigned. Pure."""

from dataclasses import dataclass

from yak.client.consume import Window
from yak.ids import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class Started:
    """One partition of an assignment, the offset to begin at, and what the group had committed of it (None: nothing).

    `trouble` says what is wrong with that, in words.
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
    """The committed offset; where there is none, the window's start. `own` is how far a member that commits nothing has come.

    What was committed below the log's start is gone: the start is next. What was committed above its end says nothing of the records
    that are there, so it counts as not committed (as Kafka's auto.offset.reset has it).
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
