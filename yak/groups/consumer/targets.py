"""The target assignment of a group's epoch."""

from __future__ import annotations

import uuid

from yak.groups.consumer.assignors import ASSIGNORS
from yak.groups.consumer.assignors.spec import AssignmentSpec, Subscriber, in_order
from yak.groups.consumer.records import Kind, TargetEpochValue, TargetValue
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.topics import TopicsView, ids_of


def update_targets(draft: Draft, topics: TopicsView, default_assignor: str) -> bool:
    """Compute the targets unless those of the group's epoch exist; only changed targets are recorded.

    Returns whether they were computed. Their epoch is normally older. It may be newer where a log's records contradict
    each other.
    """
    state = draft.state
    if state.epoch == state.target_epoch:
        return False
    name = state.assignor_name(default_assignor)
    # A member may request an assignor that its former broker had and this broker's settings lack.
    assign = ASSIGNORS.get(name, ASSIGNORS[default_assignor])
    for member_id, partitions in assign(specification(state, topics)).items():
        if draft.state.targets.get(member_id) != partitions:
            draft.put(Kind.TARGET, member_id, TargetValue(partitions))
    draft.put(Kind.TARGET_EPOCH, "", TargetEpochValue(draft.state.epoch))
    return True


def specification(state: GroupState, topics: TopicsView) -> AssignmentSpec:
    """The input of the assignor. Members with the same subscription share one set of topic ids, looked up once."""
    found: dict[tuple[frozenset[str], str], frozenset[uuid.UUID]] = {}
    subscribers = []
    for member in state.members.values():
        subscription = member.topic_names, member.topic_regex
        topic_ids = found.get(subscription)
        if topic_ids is None:
            topic_ids = found[subscription] = ids_of(state.topic_names_of(member), topics)
        target = state.target_of(member.member_id)
        subscribers.append(Subscriber(member.member_id, topic_ids, member.instance_id, target))
    every = sorted(set[uuid.UUID]().union(*found.values()))
    return AssignmentSpec(in_order(subscribers), {topic_id: topics.num_partitions(topic_id) for topic_id in every})
