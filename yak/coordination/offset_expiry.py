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
from typing import TYPE_CHECKING, Final

from yak.core.context import Context
from yak.errors import ErrorCode
from yak.groups.group import Group
from yak.groups.offsets import Committed, offset_record
from yak.limits import SLICE_ELEMENTS

if TYPE_CHECKING:
    from yak.coordination.group_coordinator import GroupCoordinator, GroupsPartition

_SLICE_GAP_MS: Final = 10


class OffsetExpiry:
    """Expires offsets some groups at a time, in rounds that are `offsets.retention.check.interval.ms` apart."""

    def __init__(self, context: Context, coordinator: GroupCoordinator) -> None:
        self._context = context
        self._coordinator = coordinator
        self._interval_ms = context.config.offsets_retention_check_interval_ms
        self._retention_ms = context.config.offsets_retention_minutes * 60_000
        self._round = self._expire_next()
        self._context.after(self, self._interval_ms, self.run)

    def run(self) -> None:
        """Expire the offsets of the round's next groups."""
        seen = 0
        for offsets in self._round:
            seen += 1 + offsets
            if seen >= SLICE_ELEMENTS:
                self._context.after(self, _SLICE_GAP_MS, self.run)
                return
        self._round = self._expire_next()
        self._context.after(self, self._interval_ms, self.run)

    def _expire_next(self) -> Iterator[int]:
        """One round: expires the offsets of one group a step, and yields how many the group has."""
        runtime = self._coordinator.runtime
        for index, coordinated in list(runtime.coordinated.items()):
            groups = {} if coordinated.is_loading else coordinated.shard.groups
            for group in list(groups.values()):
                if runtime.coordinated.get(index) is coordinated and groups.get(group.group_id) is group:
                    offsets = sum(map(len, group.offsets.topics.values()))
                    self._expire(coordinated, group)
                    yield offsets

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Remove the offsets of deleted topics: they are meaningless for a new topic of the same name."""
        removed = frozenset(names)
        for coordinated in list(self._coordinator.runtime.coordinated.values()):
            coordinated.shard.deleted_topics |= removed
            if not coordinated.is_loading:
                self.remove_deleted(coordinated)

    def remove_deleted(self, coordinated: GroupsPartition) -> None:
        """Remove the offsets of the deleted topics of a partition, also those deleted while it was being loaded."""
        removed, coordinated.shard.deleted_topics = coordinated.shard.deleted_topics, frozenset()
        for group in list(coordinated.shard.groups.values()) if removed else ():
            offsets = group.offsets
            # one step checks 100,000 groups: most of them have no offset of the topics
            if offsets.pending or not removed.isdisjoint(offsets.topics):
                partitions = list(offsets.partitions(removed))
                if partitions:
                    self._remove(coordinated, group, partitions)

    def _expire(self, coordinated: GroupsPartition, group: Group) -> None:
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
