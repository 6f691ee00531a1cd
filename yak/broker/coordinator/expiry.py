"""Expiry of committed offsets: of long-empty groups, and of deleted topics.

The rules are KIP-211's (ClassicGroup.offsetExpirationCondition). For an empty group, retention runs from when its last
member left. For a group that never had members, and for a topic that no member consumes, it runs from the commit.
Offsets of a deleted topic are removed at once, or in the next round. A topic that a restored image lacks may come back,
since its logs are kept: its offsets expire like any others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from yak.errors import ErrorCode
from yak.groups.group import Group
from yak.groups.offsets import Committed, offset_record

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.coordinator.coordinator import Coordinator, Led

_SLICE_GAP_MS: Final = 10
RECORDS_AT_ONCE: Final = 1_000
"""Tombstones per batch: with ordinary group ids far below `max.message.bytes`."""


class OffsetExpiry:
    """Expires offsets partition by partition, in rounds that are `offsets.retention.check.interval.ms` apart."""

    def __init__(self, broker: Broker, coordinator: Coordinator) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._interval_ms = broker.config.offsets_retention_check_interval_ms
        self._retention_ms = broker.config.offsets_retention_minutes * 60_000
        self._round: deque[int] = deque()
        self.due_ms = broker.now_ms + self._interval_ms

    def run(self) -> None:
        """Expire the offsets of the round's next partition."""
        if not self._round:
            self._round.extend(self._coordinator.led)
        held = self._coordinator.led.get(self._round.popleft()) if self._round else None
        if held is not None and held.loading is None:
            for group in list(held.shard.groups.values()):
                self._expire(held, group)
        self.due_ms = self._broker.now_ms + (_SLICE_GAP_MS if self._round else self._interval_ms)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Remove the offsets of deleted topics: they are meaningless for a new topic of the same name."""
        removed = frozenset(names)
        for held in self._coordinator.led.values():
            if held.loading is not None:
                continue
            for group in list(held.shard.groups.values()):
                topics = group.offsets.topics
                places = [(name, index) for name in topics if name in removed for index in topics[name]]
                if places:
                    self._remove(held, group, places)

    def _expire(self, held: Led, group: Group) -> None:
        expired = [
            (topic, index) for topic, index, committed in group.offsets if self._is_expired(group, topic, committed)
        ]
        is_over = not group.has_members and not group.members.pending
        if is_over and len(expired) == sum(1 for _ in group.offsets):
            self._remove_group(held, group)
        elif expired:
            self._remove(held, group, expired)

    def _is_expired(self, group: Group, topic: str, committed: Committed) -> bool:
        image = self._broker.image
        if topic not in image.topics and any(removed.name == topic for removed in image.removed_topics.values()):
            # the topic was deleted while tombstones could not be written, or while the group was being loaded
            return True
        return group.is_expired(topic, committed, self._broker.wall_ms, self._retention_ms)

    def _remove(self, held: Led, group: Group, places: list[tuple[str, int]]) -> None:
        for start in range(0, len(places), RECORDS_AT_ONCE):
            some = places[start : start + RECORDS_AT_ONCE]

            def replay(some: list[tuple[str, int]] = some) -> None:
                for topic, index in some:
                    group.offsets.put(topic, index, None)

            records = [offset_record(group.group_id, topic, index, None) for topic, index in some]
            self._coordinator.append(held, group, records, replay, _ignore)
        held.shard.drop_if_void(group)
        self._broker.notice("info", "offsets-expired", group=group.group_id, offsets=len(places))

    def _remove_group(self, held: Led, group: Group) -> None:
        records = group.forgetting()
        if not records:
            held.shard.drop_if_void(group)
            return
        for start in range(0, len(records), RECORDS_AT_ONCE):
            some = records[start : start + RECORDS_AT_ONCE]
            is_last = start + RECORDS_AT_ONCE >= len(records)

            def replay(is_last: bool = is_last) -> None:
                if is_last:
                    self._coordinator.deleted(held, group, ErrorCode.unknown_member_id)
                    self._broker.notice("info", "group-expired", group=group.group_id, records=len(records))

            self._coordinator.append(held, group, some, replay, _ignore)


def _ignore(_error_code: ErrorCode) -> None:
    """Ignore a failed write: the next round finds the same offsets."""
