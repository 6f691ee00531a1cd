"""The response of ConsumerGroupDescribe for a group (ConsumerGroup.asDescribedGroup)."""

from __future__ import annotations

from typing import Any

from yak.groups.consumer.member import Member
from yak.groups.consumer.partitions import Partitions, by_topic
from yak.groups.consumer.state import GroupState
from yak.groups.consumer.topics import TopicsView

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def described(state: GroupState, topics: TopicsView, default_assignor: str) -> dict[str, Any]:
    """The fields of one DescribedGroup, without error and authorized operations. Deleted topics are left out."""
    return {
        "group_id": state.group_id,
        "group_state": state.state_name,
        "group_epoch": state.epoch,
        "assignment_epoch": state.target_epoch,
        "assignor_name": state.assignor_name(default_assignor),
        "members": [_member(state, state.members[member_id], topics) for member_id in sorted(state.members)],
    }


def _member(state: GroupState, member: Member, topics: TopicsView) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topic_names),
        "subscribed_topic_regex": member.topic_regex,
        "assignment": _assignment(member.held, topics),
        "target_assignment": _assignment(state.target_of(member.member_id), topics),
        "member_type": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    }


def _assignment(partitions: Partitions, topics: TopicsView) -> dict[str, Any]:
    named = ((topic_id, topics.name(topic_id), numbers) for topic_id, numbers in by_topic(partitions))
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": name, "partitions": numbers}
            for topic_id, name, numbers in named
            if name is not None
        ]
    }
