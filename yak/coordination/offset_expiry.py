"""Expiry of committed offsets: of long-empty groups, and of deleted topics.

The rules are KIP-211's (ClassicGroup.offsetExpirationCondition). For an empty group, retention runs from when its last
member left. For a group that never had members, and for a topic that no member consumes, it runs from the commit.
Offsets of a deleted topic are removed at once, or in the next round. A topic that a restored image lacks may come back,
since its logs are set aside: its offsets expire like any others. No offset expires while a transaction has another
offset of the partition, and no group while it has one at all (OffsetMetadataManager.cleanupExpiredOffsets).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from yak.core.context import Context
from yak.errors import ErrorCode
from yak.groups.group import Group
from yak.groups.offsets import Committed, Offsets, offset_record
from yak.limits import SLICE_ELEMENTS

if TYPE_CHECKING:
    from yak.coordination.group_coordinator import GroupCoordinator, GroupsPartition

_SLICE_GAP_MS: Final = 10
_COST_OF_A_WRITE: Final = 8
"""Tombstones of a group cost as much as the examination of so many offsets."""


def _run_slice(costs: Iterator[int]) -> bool:
    """Take steps that yield their costs until these are those of a slice; returns whether steps may be left."""
    return any(total >= SLICE_ELEMENTS for total in accumulate(costs))


class OffsetExpiry:
    """Expires offsets, and removes those of deleted topics, some groups at a time.

    The former comes in rounds that are `offsets.retention.check.interval.ms` apart.
    """

    def __init__(self, context: Context, coordinator: GroupCoordinator) -> None:
        self._context = context
        self._coordinator = coordinator
        self._interval_ms = context.config.offsets_retention_check_interval_ms
        self._retention_ms = context.config.offsets_retention_minutes * 60_000
        self._round, self._removals = self._expire_next(), self._remove_next()
        self._context.after(self, self._interval_ms, self.run)

    def run(self) -> None:
        """Expire the offsets of the round's next groups."""
        if _run_slice(self._round):
            self._context.after(self, _SLICE_GAP_MS, self.run)
            return
        self._round = self._expire_next()
        self._context.after(self, self._interval_ms, self.run)

    def _expire_next(self) -> Iterator[int]:
        """One round: expires the offsets of one group a step, and yields what that cost."""
        for coordinated in self._coordinator.runtime.loaded_partitions():
            for group in self._groups_of(coordinated):
                cost = 1 + sum(map(len, group.offsets.topics.values()))
                yield cost + (_COST_OF_A_WRITE if self._expire(coordinated, group) else 0)

    def _groups_of(self, coordinated: GroupsPartition) -> Iterator[Group]:
        """The groups of a partition that are still there when their turn comes."""
        groups = coordinated.shard.groups
        for group in list(groups.values()):
            if not self._coordinator.runtime.is_coordinated(coordinated):
                return
            if groups.get(group.group_id) is group:
                yield group

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Remove the offsets of deleted topics: they are meaningless for a new topic of the same name."""
        removed = frozenset(names)
        if removed:
            for coordinated in self._coordinator.runtime.coordinated.values():
                coordinated.shard.deleted_topics |= removed
            self.remove_deleted()

    def remove_deleted(self) -> None:
        """Remove the offsets of deleted topics, also of those deleted while a partition was being loaded."""
        if _run_slice(self._removals):
            self._context.within((self, "deleted"), _SLICE_GAP_MS, self.remove_deleted)
        else:
            self._removals = self._remove_next()

    def _remove_next(self) -> Iterator[int]:
        """Removes the offsets of one group a step, and yields what that cost."""
        loaded = self._coordinator.runtime.loaded_partitions
        while (coordinated := next((each for each in loaded() if each.shard.deleted_topics), None)) is not None:
            removed, coordinated.shard.deleted_topics = coordinated.shard.deleted_topics, frozenset()
            for group in self._groups_of(coordinated):
                partitions = self._partitions_deleted(group.offsets, removed)
                if partitions:
                    self._remove(coordinated, group, partitions)
                yield 1 + (_COST_OF_A_WRITE if partitions else 0)

    def _partitions_deleted(self, offsets: Offsets, removed: frozenset[str]) -> list[tuple[str, int]]:
        """The partitions with offsets of these deleted topics. One may exist again: the offsets of the new one stay."""
        if not offsets.pending and removed.isdisjoint(offsets.topics):
            return []
        found, topics = [], self._context.image.topics
        for topic, index in offsets.partitions(removed):
            committed, known = offsets.get(topic, index), topics.get(topic)
            if known is None or (
                committed is not None and committed.topic_id != known.topic_id and not offsets.has_pending(topic, index)
            ):
                found.append((topic, index))
        return found

    def _expire(self, coordinated: GroupsPartition, group: Group) -> bool:
        """Expire the offsets of a group; returns whether there were some."""
        expired = [
            (topic, index)
            for topic, partitions in group.offsets.topics.items()
            for index in self._expired(group, topic, partitions)
            if not group.offsets.has_pending(topic, index)
        ]
        is_over = not (group.has_members or group.members.pending or group.offsets.pending)
        if is_over and len(expired) == sum(1 for _ in group.offsets):
            removed = partial(self._removed, "group-expired", group, len(expired))
            self._coordinator.delete(coordinated, group, group.forgetting(), removed, ErrorCode.unknown_member_id)
        elif expired:
            self._remove(coordinated, group, expired)
        else:
            return False
        return True

    def _expired(self, group: Group, topic: str, partitions: Mapping[int, Committed]) -> Iterable[int]:
        """The partitions of a topic whose offsets have expired."""
        image = self._context.image
        known = image.topics.get(topic)
        if known is None and any(removed.name == topic for removed in image.removed_topics.values()):
            # the topic was deleted while tombstones could not be written, or while the group was being loaded
            return partitions
        keeps, now_ms, retention_ms = group.keeps_offsets(topic), self._context.clock.wall_ms, self._retention_ms
        return (
            index
            for index, committed in partitions.items()
            if (known is not None and committed.is_of_another(known.topic_id))
            or (not keeps and group.is_expired(committed, now_ms, retention_ms))
        )

    def _remove(self, coordinated: GroupsPartition, group: Group, partitions: list[tuple[str, int]]) -> None:
        records = (offset_record(group.group_id, *partition, None) for partition in partitions)
        removed = partial(self._removed, "offsets-expired", group, len(partitions))
        self._coordinator.delete(coordinated, group, records, removed)
        coordinated.shard.drop_if_void(group)

    def _removed(self, event: str, group: Group, offsets: int, error_code: ErrorCode) -> None:
        """Log what was removed. After a failed write the next round finds the same offsets."""
        if error_code == ErrorCode.none:
            self._context.notice("info", event, group=group.group_id, offsets=offsets)
