"""How far the groups that this broker coordinates are behind, as far as its own replicas can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yak.groups.group import Group
from yak.groups.offsets import Committed
from yak.ids import NodeId, Offset, TopicPartition

if TYPE_CHECKING:
    from yak.broker.broker import Broker


@dataclass(slots=True)
class TopicLag:
    """One group in one topic."""

    group_id: str
    topic: str
    messages: int = 0
    """Records below the high watermark that the group has not committed, over the partitions that are known."""
    elsewhere: list[tuple[int, Offset]] = field(default_factory=list)
    """(partition, committed offset) of those whose high watermark this broker does not hold."""

    def add(self, high_watermark: Offset, committed: Offset) -> None:
        """One more partition; a commit past the end counts as none behind."""
        self.messages += max(0, high_watermark - committed)


def coordinated_groups(broker: Broker) -> Iterator[Group]:
    """The groups of this broker; those that it still reads are left out."""
    for held in list(broker.coordinator.led.values()):
        if held.loading is None:
            yield from list(held.shard.groups.values())


def members_count(group: Group) -> int:
    """How many are in it."""
    return len(group.members.members) if group.consumer is None else len(group.consumer.state.members)


def topic_lag(broker: Broker, group_id: str, topic: str, committed: Mapping[int, Committed]) -> TopicLag:
    """One group in one topic; partitions that are gone count for nothing.

    A follower's high watermark counts too: it is behind the leader's by a few milliseconds.
    """
    lag = TopicLag(group_id, topic)
    info = broker.image.topics.get(topic)
    if info is None:
        return lag
    for index, offset in committed.items():
        if index >= len(info.partitions):
            continue
        partition = broker.partitions.get(TopicPartition(topic, index))
        if partition is not None and partition.log is not None and (partition.is_leader or partition.is_follower):
            lag.add(partition.high_watermark, offset.offset)
        else:
            lag.elsewhere.append((index, offset.offset))
    return lag


def leaders_to_ask(broker: Broker, lags: list[TopicLag]) -> dict[NodeId, dict[str, set[int]]]:
    """Who knows the high watermarks that are missing here; partitions without a leader are in nobody's."""
    wanted: dict[NodeId, dict[str, set[int]]] = {}
    for lag in lags:
        info = broker.image.topics.get(lag.topic)
        if info is None:
            continue
        for index, _committed in lag.elsewhere:
            leader = info.partitions[index].leader if index < len(info.partitions) else -1
            if leader >= 0 and leader != broker.node_id:
                wanted.setdefault(leader, {}).setdefault(lag.topic, set()).add(index)
    return wanted
