"""The start offset of a group member in an assigned partition. Pure."""

from dataclasses import dataclass

from yak.client.consume import Window
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
