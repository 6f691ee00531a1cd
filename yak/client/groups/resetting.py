"""Plans a reset of a group's offsets with the cluster's answers, and carries it out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from yak.client.groups import describing, lag, offsets
from yak.client.groups.asking import GroupBrokers
from yak.client.groups.describing import Group
from yak.client.groups.places import parse_partitions
from yak.client.groups.reset import Step, Target, plan_reset
from yak.errors import YakError
from yak.ids import Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The plan of a reset. `group` None: the reset will create it. `refused`: why it is impossible now."""

    group: Group | None
    steps: list[Step]
    refused: YakError | None

    @property
    def changes(self) -> dict[TopicPartition, Offset]:
        """The offsets to commit."""
        return {each.partition: each.after for each in self.steps if each.is_change and each.after is not None}


def look_at(
    brokers: GroupBrokers, name: str, target: Target, topics: Sequence[str] | None, *, is_strict: bool = False
) -> ResetPlan:
    """The plan for these topics (`orders`, `orders:0,2`), or for all partitions with commits. Raises YakError.

    `is_strict`: a group with members is an error (`group-active`). Without it the error is in `refused`.
    """
    group, committed = _group(brokers, name)
    refused = None
    if group is not None and group.members:
        refused = describing.active_group(group, f'offsets of group "{name}" were not moved')
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
    found = describing.require_groups(brokers, [name])[name]
    if isinstance(found, YakError):
        if found.code != "unknown-group":
            raise found
        return None, {}
    committed = offsets.committed_offsets(brokers, [name])[name]
    if isinstance(committed, YakError):
        raise committed
    return found, committed


def _steps(
    brokers: GroupBrokers,
    target: Target,
    name: str,
    topics: Sequence[str] | None,
    committed: dict[TopicPartition, Offset],
) -> list[Step]:
    partitions = parse_partitions(topics, brokers.admin.metadata()) if topics else list(target.offsets or committed)
    if not partitions:
        raise YakError(
            "nothing-committed",
            f'group "{name}" has committed nothing',
            why="--all-topics means those of which it committed something",
            try_=(f"yak groups reset {name} --topic TOPIC --to-earliest", "yak groups list"),
        )
    marks = lag.read_marks(brokers.admin, partitions)
    by_time: dict[TopicPartition, Offset] = {}
    if target.kind == "timestamp":
        answers = brokers.admin.offsets({each: target.number for each in partitions if each in marks})
        by_time = {each: found.offset for each, found in answers.items()}
    return plan_reset(target, partitions, committed, marks, by_time)
