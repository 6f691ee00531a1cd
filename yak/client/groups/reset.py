"""Plans a reset of a group's offsets. Pure: the brokers' answers are arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from yak.client.groups.lag import Marks
from yak.ids import Offset, TopicPartition

Kind = Literal["earliest", "latest", "offset", "timestamp", "shift", "current", "file"]
NOTHING_COMMITTED: Final = "nothing is committed"
NO_LEADER: Final = "the partition has no leader"
NOT_IN_FILE: Final = "the file does not name it"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a reset. `number` is the offset, the time in ms, or the distance; other kinds ignore it.

    `offsets` are those of a file, by partition.
    """

    kind: Kind
    number: int = 0
    offsets: Mapping[TopicPartition, Offset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One partition's committed offset, before and after. `after` None: it stays, for the reason in `note`."""

    partition: TopicPartition
    before: Offset | None
    after: Offset | None
    note: str = ""

    @property
    def is_change(self) -> bool:
        """Whether the step commits an offset."""
        return self.after is not None and self.after != self.before


def plan_reset(
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Offset],
    marks: Mapping[TopicPartition, Marks],
    by_time: Mapping[TopicPartition, Offset],
) -> list[Step]:
    """A step for each partition. An offset outside the log is moved to the nearest one inside.

    For a target time, `by_time` has the first offset at or after it, -1 when there is no such record.
    """
    return [
        _step(target, each, committed.get(each), marks.get(each), by_time.get(each, -1)) for each in sorted(partitions)
    ]


def _step(
    target: Target, partition: TopicPartition, before: Offset | None, marks: Marks | None, at_time: Offset
) -> Step:
    if marks is None:
        return Step(partition, before, None, NO_LEADER)
    note = ""
    if target.kind == "earliest":
        wanted = marks.start
    elif target.kind == "latest":
        wanted = marks.end
    elif target.kind == "offset":
        wanted = target.number
    elif target.kind == "file":
        if partition not in target.offsets:
            return Step(partition, before, None, NOT_IN_FILE)
        wanted = target.offsets[partition]
    elif target.kind == "timestamp":
        wanted = at_time if at_time >= 0 else marks.end
        note = "" if at_time >= 0 else "no record is that young: the end"
    elif before is not None:
        wanted = before + (target.number if target.kind == "shift" else 0)
    elif target.kind == "shift":
        return Step(partition, None, None, NOTHING_COMMITTED)
    else:
        wanted = marks.end
        note = f"{NOTHING_COMMITTED}: the end"
    if wanted < marks.start:
        return Step(partition, before, marks.start, f"{wanted} is before the log, which starts at {marks.start}")
    if wanted > marks.end:
        return Step(partition, before, marks.end, f"{wanted} is after the log, which ends at {marks.end}")
    return Step(partition, before, wanted, note)
