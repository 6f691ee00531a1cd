"""The replayed state of a group, and drafts that show the effect of records that are not written yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from yak.groups.consumer.member import Member
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition
from yak.groups.consumer.records import (
    Change,
    CurrentValue,
    GroupValue,
    Kind,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    Value,
)

NO_TOPICS: frozenset[str] = frozenset()
FIRST_EPOCH = 1
"""The epoch of a group without records (ModernGroup.java, Kafka 4.2). The first subscription raises it to 2."""


@dataclass(slots=True)
class GroupState:
    """The state of one group. Only `replay` changes it.

    `epoch` grows with every change of members, subscriptions or topics; `targets` were computed for `target_epoch`.
    `owners` has the one member that holds each partition, in use or not revoked yet. While a compacted log is loaded,
    members may overlap: the later record counts. `topic_members` counts the members that subscribe to each topic by name,
    and `regex_members` those of each expression.
    """

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    target_epoch: int = 0
    is_deleted: bool = False
    has_partition_metadata: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, RegexValue] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    topic_members: Counter[str] = field(default_factory=Counter)
    regex_members: Counter[str] = field(default_factory=Counter)

    def copy(self) -> GroupState:
        """An independent copy; the immutable members and values are shared."""
        other = GroupState(self.group_id)
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            setattr(other, name, value.copy() if isinstance(value, dict) else value)
        return other

    @property
    def state_name(self) -> str:
        """Empty, Assigning, Reconciling, Stable or Dead, as in KIP-848."""
        if self.is_deleted:
            return "Dead"
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member with this group.instance.id."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Partitions:
        """The target assignment of a member."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def topic_names_of(self, member: Member) -> frozenset[str]:
        """The topics that a member subscribes to, by name and by regular expression (none while it is unresolved)."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names.union(resolved.topics)

    def topic_names(self) -> set[str]:
        """The topics that any member subscribes to."""
        names = set(self.topic_members)
        for expression in self.regex_members:
            resolved = self.regexes.get(expression)
            names.update(resolved.topics if resolved is not None else ())
        return names

    def is_subscribed_to(self, topic_name: str) -> bool:
        """Whether `topic_names` has this topic, without making the set."""
        return topic_name in self.topic_members or any(
            topic_name in self.regexes[expression].topics
            for expression in self.regex_members
            if expression in self.regexes
        )

    def assignor_name(self, default: str) -> str:
        """The assignor that most members request; in a tie, the first by name."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return min(votes, key=lambda name: (-votes[name], name)) if votes else default

    def replay(self, change: Change) -> None:
        """Apply one record of this group."""
        name, value = change.name, change.value
        match change.kind:
            case Kind.GROUP:
                self._replay_group(value)
            case Kind.PARTITION_METADATA:
                self.has_partition_metadata = value is not None
            case Kind.MEMBER:
                self._replay_member(name, value)
            case Kind.TARGET_EPOCH:
                self.target_epoch = value.epoch if isinstance(value, TargetEpochValue) else -1
            case Kind.TARGET:
                if isinstance(value, TargetValue):
                    self.targets[name] = value.partitions
                else:
                    self.targets.pop(name, None)
            case Kind.CURRENT:
                self._replay_current(name, value)
            case Kind.REGEX:
                if isinstance(value, RegexValue):
                    self.regexes[name] = value
                else:
                    self.regexes.pop(name, None)

    def _replay_group(self, value: Value | None) -> None:
        self.is_deleted = value is None
        if isinstance(value, GroupValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_member(self, member_id: str, value: Value | None) -> None:
        old = self.members.get(member_id)
        if isinstance(value, MemberValue):
            self._put(old, (old or Member(member_id)).with_metadata(value))
        elif old is not None:
            self._put(old, None)
            self.targets.pop(member_id, None)

    def _replay_current(self, member_id: str, value: Value | None) -> None:
        old = self.members.get(member_id)
        if isinstance(value, CurrentValue):
            self._put(old, (old or Member(member_id)).with_current(value))
        elif old is not None:
            self._put(old, old.with_current(None))

    def _put(self, old: Member | None, new: Member | None) -> None:
        """Replace `old` by `new`, and update all derived fields."""
        before = NO_TOPICS if old is None else old.topic_names
        after = NO_TOPICS if new is None else new.topic_names
        if before is not after:
            _count(self.topic_members, before - after, -1)
            _count(self.topic_members, after - before, 1)
        if old is not None and old.topic_regex:
            _count(self.regex_members, (old.topic_regex,), -1)
        if new is not None and new.topic_regex:
            _count(self.regex_members, (new.topic_regex,), 1)
        if new is not None:
            self.members[new.member_id] = new
        elif old is not None:
            del self.members[old.member_id]
        self._move_instance_id(old, new)
        self._move_owned(old, new)

    def _move_instance_id(self, old: Member | None, new: Member | None) -> None:
        """Give the member's instance id to the last member that joined with it.

        A log may keep an earlier member with that instance id: the tombstone was compacted away before this replica
        copied it. Records of that member, or its end, change nothing for the later member.
        """
        before = None if old is None else old.instance_id
        after = None if new is None else new.instance_id
        if before == after:
            return
        if old is not None and before is not None and self.static_ids.get(before) == old.member_id:
            del self.static_ids[before]
        if new is not None and after is not None:
            self.static_ids[after] = new.member_id

    def _move_owned(self, old: Member | None, new: Member | None) -> None:
        before = NO_PARTITIONS if old is None else old.held
        after = NO_PARTITIONS if new is None else new.held
        if before is after:
            return
        for partition in before - after:
            if old is not None and self.owners.get(partition) == old.member_id:
                del self.owners[partition]
        for partition in after - before:
            assert new is not None
            self.owners[partition] = new.member_id


def _count(counter: Counter[str], keys: Iterable[str], by: int) -> None:
    for key in keys:
        counter[key] += by
        if not counter[key]:
            del counter[key]


class Draft:
    """A state with the changes of a decision. The base state stays unchanged."""

    __slots__ = ("_base", "changes", "state")

    def __init__(self, base: GroupState) -> None:
        self._base = base
        self.state = base
        self.changes: list[Change] = []

    def put(self, kind: Kind, name: str, value: Value | None) -> None:
        """Add a change and apply it to `state`."""
        if self.state is self._base:
            self.state = self._base.copy()
        change = Change(kind, self.state.group_id, name, value)
        self.changes.append(change)
        self.state.replay(change)

    def take_back(self, kind: Kind, names: Iterable[str]) -> None:
        """Add tombstones for these names."""
        for name in names:
            self.put(kind, name, None)

    def has_changed(self, kind: Kind, name: str) -> bool:
        """Whether there is a change of this kind and name."""
        return any(change.kind is kind and change.name == name for change in self.changes)
