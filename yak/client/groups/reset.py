"""Plans a reset of a group's offsets, from the answers of the cluster, and carries it out."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Final, Literal

from yak.client.groups import descriptions, lag, offsets
from yak.client.groups.group_brokers import GroupBrokers, answered
from yak.client.groups.partition_syntax import parse_partitions, require_partitions
from yak.errors import YakError
from yak.ids import Offset, TopicPartition
from yak.view.groups import Group

Kind = Literal["earliest", "latest", "offset", "timestamp", "shift", "current", "file"]
NOTHING_COMMITTED: Final = "nothing is committed"
NO_LEADER: Final = "the topic is gone, or the partition has no leader"
NO_ANSWER: Final = "the partition has no leader that answers"
"""Of a partition that exists: its offset should have moved."""
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
        return self.after is not None and self.after != self.before


def plan_reset(
    target: Target,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Offset],
    marks: Mapping[TopicPartition, tuple[Offset, Offset]],
    by_time: Mapping[TopicPartition, Offset],
    existing: Container[TopicPartition] = (),
) -> list[Step]:
    """A step for each partition. An offset outside the log is moved to the nearest one inside.

    For a target time, `by_time` has the first offset at or after it, -1 when there is no such record. `existing` has the
    partitions that exist.
    """
    return [
        _step(target, each, committed.get(each), marks.get(each), by_time.get(each, -1), is_there=each in existing)
        for each in sorted(partitions)
    ]


def _step(
    target: Target,
    partition: TopicPartition,
    before: Offset | None,
    marks: tuple[Offset, Offset] | None,
    at_time: Offset,
    *,
    is_there: bool,
) -> Step:
    if target.kind == "file" and partition not in target.offsets:
        return Step(partition, before, None, NOT_IN_FILE)
    if target.kind == "shift" and before is None:
        return Step(partition, None, None, NOTHING_COMMITTED)
    if marks is None:
        return Step(partition, before, None, NO_ANSWER if is_there else NO_LEADER)
    (start, end), note = marks, ""
    if target.kind == "earliest":
        wanted = start
    elif target.kind == "latest":
        wanted = end
    elif target.kind == "offset":
        wanted = target.number
    elif target.kind == "file":
        wanted = target.offsets[partition]
    elif target.kind == "timestamp":
        wanted = at_time if at_time >= 0 else end
        note = "" if at_time >= 0 else "no record is that young: the end"
    elif before is not None:
        wanted = before + (target.number if target.kind == "shift" else 0)
    else:
        wanted = end
        note = f"{NOTHING_COMMITTED}: the end"
    if wanted < start:
        return Step(partition, before, start, f"{wanted} is before the log, which starts at {start}")
    if wanted > end:
        return Step(partition, before, end, f"{wanted} is after the log, which ends at {end}")
    return Step(partition, before, wanted, note)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The plan of a reset. `group` None: the reset will create it. `refused`: why it is impossible now."""

    group: Group | None
    steps: list[Step]
    refused: YakError | None

    @property
    def left_alone(self) -> int:
        """How many offsets stay for another reason than that they are there already."""
        return sum(each.after is None for each in self.steps)

    @property
    def unanswered(self) -> int:
        """How many offsets stay because no leader of the partition answers."""
        return sum(each.note == NO_ANSWER for each in self.steps)

    @property
    def changes(self) -> dict[TopicPartition, Offset]:
        return {each.partition: each.after for each in self.steps if each.is_change and each.after is not None}


def read_reset_plan(
    brokers: GroupBrokers, name: str, target: Target, topics: Sequence[str] | None, *, is_strict: bool = False
) -> ResetPlan:
    """The plan for these topics (`orders`, `orders:0,2`), or for all partitions with commits. Raises YakError.

    `is_strict`: a group with members is an error (`group-active`). Without it the error is in `refused`.
    """
    group, committed = _group(brokers, name)
    refused = None
    if group is not None and group.members:
        refused = descriptions.active_group(name, group.members, f'offsets of group "{name}" were not moved')
    steps = _steps(brokers, target, name, topics, committed)
    if refused is not None and is_strict:
        raise refused
    return ResetPlan(group, steps, refused)


def move(
    brokers: GroupBrokers, name: str, changes: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, YakError | None]:
    """Commit the changes of a plan; the error or None, by partition."""
    return offsets.commit_offsets(brokers, name, changes) if changes else {}


def _group(brokers: GroupBrokers, name: str) -> tuple[Group | None, dict[TopicPartition, Offset]]:
    found = descriptions.require_groups(brokers, [name])[name]
    if isinstance(found, YakError):
        if found.code != "unknown-group":
            raise found
        return None, {}
    return found, answered(offsets.committed_offsets(brokers, [name])[name])


def _steps(
    brokers: GroupBrokers,
    target: Target,
    name: str,
    topics: Sequence[str] | None,
    committed: dict[TopicPartition, Offset],
) -> list[Step]:
    metadata = brokers.admin.metadata()
    if topics:
        partitions = parse_partitions(topics, metadata)
    else:
        require_partitions(target.offsets, metadata)
        partitions = list(target.offsets or committed)
    if not partitions:
        raise YakError(
            "nothing-committed",
            f'group "{name}" has committed nothing',
            why="--all-topics means those of which it committed something",
            try_=(f"yak groups reset {quote(name)} --topic TOPIC --to-earliest", "yak groups list"),
        )
    marks = lag.read_marks(brokers.admin, partitions)
    by_time: dict[TopicPartition, Offset] = {}
    if target.kind == "timestamp":
        answers = brokers.admin.offsets({each: target.number for each in partitions if each in marks})
        by_time = {each: found.offset for each, found in answers.items()}
    numbers = {name: {each.number for each in found.partitions} for name, found in metadata.topics.items()}
    existing = [each for each in partitions if each.partition in numbers.get(each.topic, ())]
    return plan_reset(target, partitions, committed, marks, by_time, frozenset(existing))
