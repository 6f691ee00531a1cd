"""I13, at each offset commit: only a member of the current generation commits.

A member of the consumer protocol may name an older epoch, for a partition that it has held since then (KIP-1251). The check
notes by itself in which epoch a member got each partition.

The metadata of each simulated commit names the member that sent it, and the generation. So the check compares a commit
with the group's members in the step in which the coordinator appends it. A client would notice later, and only if the
commit replaced a newer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.sim.deliveries import Violation
from yak.sim.history import Watcher, coordinated_groups, key_of
from yak.sim.recorder import CommitMark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yak.coordination.group_coordinator import GroupsPartition
    from yak.groups.consumer.partitions import TopicIdPartition
    from yak.groups.group import Group
    from yak.groups.offsets import Committed
    from yak.sim.group_history import GroupHistory
    from yak.sim.node import SimNode


class _Known:
    """One coordinator's partition after its broker's last step: log end offset, and offsets and members of each group.

    `members` has (generation, member id) by group, `held_since` of members of the consumer protocol the epoch in which they
    got each partition that they hold, `offsets` the committed or pending offset by (group, topic, partition, number of the
    commit).
    """

    __slots__ = ("coordinated", "held_since", "log_end", "members", "offsets")

    def __init__(self, coordinated: GroupsPartition) -> None:
        self.coordinated = coordinated
        self.log_end = coordinated.partition.log_end_offset
        self.offsets: dict[tuple[str, str, int, int], Committed] = {}
        self.members: dict[str, frozenset[tuple[int, str]]] = {}
        self.held_since: dict[str, dict[tuple[str, TopicIdPartition], int]] = {}


class CommitsOfMembers(Watcher):
    """Reads every coordinator's groups after each step in which its log grew."""

    of_coordinators = True

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._known: dict[tuple[int, int], _Known] = {}

    def stepped(self, node: SimNode) -> None:
        """Coordinators of this broker may have appended commits."""
        for index, coordinated in coordinated_groups(node):
            if coordinated.is_loading:
                continue
            known = self._known.get((node.node_id, index))
            is_new = known is None or known.coordinated is not coordinated
            if known is None or is_new:
                known = self._known[node.node_id, index] = _Known(coordinated)
            if is_new or known.log_end != coordinated.partition.log_end_offset:
                self._compare(node, known, is_new=is_new)
                # of all groups: the history has a group only after its first members have joined
                known.held_since = {
                    name: _held_since(group, known.held_since.get(name, {}), is_new=is_new)
                    for name, group in coordinated.shard.groups.items()
                }
            known.members = {name: _members(coordinated.shard.groups.get(name)) for name in self._history.groups()}

    def _compare(self, node: SimNode, known: _Known, *, is_new: bool) -> None:
        """Find the offsets that this step appended, without those that a new coordinator has loaded."""
        partition = known.coordinated.partition
        key = key_of(partition)
        for name in self._history.groups():
            group = known.coordinated.shard.groups.get(name)
            for topic, number, committed in () if group is None else _offsets(group):
                mark = CommitMark.read(committed.metadata)
                if mark is None:
                    continue
                # a pending offset stays the same one when its transaction commits it
                place = (name, topic, number, mark.number)
                if known.offsets.get(place) is committed:
                    continue
                known.offsets[place] = committed
                if is_new:
                    continue
                self._history.appended(mark, key, known.log_end)
                # One step may append a commit and then complete the JoinGroup that begins the next generation.
                members = _members(group) | known.members.get(name, frozenset())
                if (mark.generation, mark.member_id) in members:
                    continue
                info = None if node.broker is None else node.broker.image.topics.get(topic)
                held = known.held_since.get(name, {})
                since = None if info is None else held.get((mark.member_id, (info.topic_id, number)))
                newest = max((epoch for epoch, member_id in members if member_id == mark.member_id), default=-1)
                if since is None or not since <= mark.generation < newest:
                    raise Violation(
                        f"I13: broker {node.node_id} appended the commit of {committed.offset} of {topic}-{number} by"
                        f" {mark.member_id!r} for generation {mark.generation} of {name}, which has no such member in its"
                        " current generation"
                    )
        known.log_end = partition.log_end_offset


def _offsets(group: Group) -> Iterator[tuple[str, int, Committed]]:
    """The offsets that are committed, and those that are pending in a transaction."""
    yield from group.offsets
    for pending in group.offsets.pending.values():
        for (topic, number), committed in pending.items():
            yield topic, number, committed


def _held_since(
    group: Group, before: dict[tuple[str, TopicIdPartition], int], *, is_new: bool
) -> dict[tuple[str, TopicIdPartition], int]:
    """The epoch in which each member got each partition; 0 where a new coordinator has loaded that."""
    if group.consumer is None:
        return {}
    return {
        (member_id, partition): before.get((member_id, partition), 0 if is_new else member.epoch)
        for member_id, member in group.consumer.state.members.items()
        for partition in member.held
    }


def _members(group: Group | None) -> frozenset[tuple[int, str]]:
    """(generation, member id) of each member; with KIP-848 the member epoch replaces the generation."""
    if group is None:
        return frozenset()
    if group.consumer is None:
        return frozenset((group.members.generation, member_id) for member_id in group.members.members)
    return frozenset((member.epoch, member_id) for member_id, member in group.consumer.state.members.items())
