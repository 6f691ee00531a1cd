"""Merges the topics of several images: which topics remain, and the known states of each partition."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from yak.cluster.image import Image, PartitionInfo, PendingTopic, TopicInfo

Rank: TypeAlias = tuple[int, int, int]
"""(incarnation, leader epoch, partition epoch). A quarantined state ranks with the incarnation it is from."""


class State(NamedTuple):
    """A partition's state in one image."""

    rank: Rank
    info: PartitionInfo


@dataclass(slots=True)
class TopicView:
    """A topic in all images that have it; `name` comes from the first and `configs` from the newest of them."""

    name: str
    topic_id: uuid.UUID
    configs: Mapping[str, str]
    complete: int = 0
    """Its number of partitions when it was last complete, 0 for never."""
    total: int = 0
    """Its target number of partitions."""
    states: dict[int, list[State]] = field(default_factory=dict)
    """The states of each partition, oldest image first."""

    def add(self, image: Image, partitions: Mapping[int, PartitionInfo]) -> None:
        """Add the states of one more image."""
        for number, info in partitions.items():
            rank = (info.held or image.incarnation, info.leader_epoch, info.partition_epoch)
            self.states.setdefault(number, []).append(State(rank, info))

    def best(self, number: int) -> tuple[State, str]:
        """The newest state, and text for a conflict: another state with the same epochs."""
        states = self.states[number]
        best = max(reversed(states), key=lambda state: (state.rank, state.info.held))
        rivals = [state for state in states if state.rank == best.rank and not _agree(best.info, state.info)]
        if not rivals:
            return best, ""
        epochs = f"leader epoch {best.info.leader_epoch}, partition epoch {best.info.partition_epoch}"
        return best, f"brokers know different states of it in {epochs}"

    def built(self, made: Mapping[int, PartitionInfo]) -> tuple[TopicInfo | None, PendingTopic | None]:
        """The complete part of the topic, and its pending part."""
        whole = next(number for number in range(len(made) + 1) if number not in made)
        complete, pending = None, None
        if self.complete or whole >= self.total:
            ready = whole if whole >= self.total else min(self.complete, whole)
            partitions = tuple(made[number] for number in range(ready))
            complete = TopicInfo(self.name, self.topic_id, partitions, self.configs)
        if whole < self.total:
            pending = PendingTopic(self.name, self.topic_id, self.total, dict(made), self.configs)
        return complete, pending


def merge_topics(images: Sequence[Image]) -> tuple[list[TopicView], list[str]]:
    """The remaining topics by name, and text for each name that two topics share.

    `images` go from the oldest to the newest. A topic that an image saw deleted is gone, unless a newer image has it.
    """
    views: dict[uuid.UUID, TopicView] = {}
    seen_in: dict[uuid.UUID, int] = {}
    removed_in: dict[uuid.UUID, int] = {}
    for index, image in enumerate(images):
        for topic in image.topics.values():
            view = _view(views, topic)
            view.complete = max(view.complete, len(topic.partitions))
            view.total = max(view.total, len(topic.partitions))
            pending = image.pending.get(topic.topic_id)
            more = {} if pending is None else dict(pending.partitions)
            view.add(image, more | {info.partition: info for info in topic.partitions})
            seen_in[topic.topic_id] = index
        for growing in image.pending.values():
            view = _view(views, growing)
            view.total = max(view.total, growing.total)
            if growing.topic_id not in image.topic_names:
                view.add(image, growing.partitions)
            seen_in[growing.topic_id] = index
        removed_in |= dict.fromkeys(image.removed_topics, index)
    left = [view for topic_id, view in views.items() if removed_in.get(topic_id, -1) < seen_in[topic_id]]
    by_name: dict[str, TopicView] = {}
    clashes = []
    for view in sorted(left, key=lambda view: seen_in[view.topic_id]):
        other = by_name.get(view.name)
        if other is not None:
            clashes.append(
                f"two topics are called {view.name}: {other.topic_id} and, in a newer image, {view.topic_id}"
            )
        by_name[view.name] = view
    return [by_name[name] for name in sorted(by_name)], clashes


def _view(views: dict[uuid.UUID, TopicView], topic: TopicInfo | PendingTopic) -> TopicView:
    view = views.get(topic.topic_id)
    if view is None:
        view = views[topic.topic_id] = TopicView(topic.name, topic.topic_id, topic.configs)
    view.configs = topic.configs
    return view


def _agree(best: PartitionInfo, other: PartitionInfo) -> bool:
    """Whether two states with the same epochs agree.

    A quarantined state has newer broker epochs, lacks members that lost data, and lacks a leader that did not report to
    lead.
    """
    if not _same(best, other, "replicas", "adding_replicas", "removing_replicas"):
        return False
    if best.held:
        return set(best.isr) <= set(other.isr) and set(best.elr) <= set(other.elr)
    members = sorted(best.isr_members) == sorted(other.isr_members)
    return members and sorted(best.elr_members) == sorted(other.elr_members) and best.leader == other.leader


def _same(one: PartitionInfo, other: PartitionInfo, *names: str) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in names)
