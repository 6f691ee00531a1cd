"""The response of ConsumerGroupDescribe for a group (ConsumerGroup.asDescribedGroup)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yak.groups.consumer.member import Member
from yak.groups.consumer.partitions import NO_PARTITIONS, Partitions, by_topic
from yak.groups.consumer.state import GroupState
from yak.groups.consumer.topics import TopicsView

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def described(state: GroupState, topics: TopicsView, default_assignor: str) -> dict[str, Any]:
    """The fields of one DescribedGroup, without error and authorized operations. Deleted topics are left out.

    "members" is an iterator, since a group may have thousands: it describes those that there are now, as they are now.
    """
    return {
        "group_id": state.group_id,
        "group_state": state.state_name,
        "group_epoch": state.epoch,
        "assignment_epoch": state.target_epoch,
        "assignor_name": state.assignor_name(default_assignor),
        "members": _members(state.members.copy(), state.targets.copy(), topics),
    }


def _members(
    members: dict[str, Member], targets: dict[str, Partitions], topics: TopicsView
) -> Iterator[dict[str, Any]]:
    for member_id in sorted(members):
        yield _member(members[member_id], targets.get(member_id, NO_PARTITIONS), topics)


def _member(member: Member, target: Partitions, topics: TopicsView) -> dict[str, Any]:
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
        "target_assignment": _assignment(target, topics),
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
