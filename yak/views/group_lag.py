"""Lag of the groups that this broker coordinates, computed from its own replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yak.groups.group import Group
from yak.groups.offsets import Committed
from yak.ids import Offset, TopicPartition
from yak.view.lag import lag_records

if TYPE_CHECKING:
    from yak.broker.broker import Broker


@dataclass(slots=True)
class TopicLag:
    """One group in one topic."""

    group_id: str
    topic: str
    messages: int = 0
    """Lag in records: from the committed offset to the high watermark, summed over partitions with a replica here."""
    elsewhere: list[tuple[int, Offset]] = field(default_factory=list)
    """(partition, committed offset) of the partitions without a replica in sync here."""


def coordinated_groups(broker: Broker) -> Iterator[Group]:
    """The groups that this broker coordinates, without those that are still loading."""
    for coordinated in broker.group_coordinator.runtime.loaded_partitions():
        yield from list(coordinated.shard.groups.values())


def members_count(group: Group) -> int:
    """The group's member count."""
    return len(group.members.members) if group.consumer is None else len(group.consumer.state.members)


def add_lags(broker: Broker, lag: TopicLag, committed: Iterable[tuple[int, Committed]]) -> None:
    """Add partitions of the topic, with their offsets, to a lag; those that no longer exist are skipped.

    The high watermark of a follower in sync is used too: it is a few milliseconds behind the leader's.
    """
    topic = lag.topic
    info = broker.image.topics.get(topic)
    if info is None:
        return
    for index, offset in committed:
        if index >= len(info.partitions) or offset.is_of_another(info.topic_id):
            continue
        is_in_sync = broker.node_id in info.partitions[index].isr  # else it may copy no more, as on a full disk
        partition = broker.partitions.get(TopicPartition(topic, index)) if is_in_sync else None
        if partition is not None and partition.log is not None and (partition.is_leader or partition.is_follower):
            lag.messages += lag_records(offset.offset, partition.high_watermark)
        else:
            lag.elsewhere.append((index, offset.offset))
