"""Groups and members from the answers of a coordinator, alike for clients and for the HTTP service."""

from __future__ import annotations

from typing import Any, Final

from yak.groups.classic.members import assigned_partitions, subscribed_topics
from yak.ids import NodeId, TopicPartition
from yak.view.groups import Group, Member

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_CONSUMERS: Final = ("consumer", "")
"""Protocol types whose members are consumers; it is empty for a group that never had members."""
_STABLE: Final = "Stable"
UNKNOWN: Final = -1
"""The coordinator, which its answer does not name."""


def classic_group(answer: Any, coordinator: NodeId = UNKNOWN) -> Group:
    """A group of a DescribeGroups response (key 15). Its assignments are known while it is Stable."""
    is_stable = answer.protocol_type in _CONSUMERS and answer.group_state == _STABLE
    return Group(
        str(answer.group_id),
        CLASSIC,
        answer.group_state,
        answer.protocol_type,
        coordinator,
        tuple(_classic_member(each, is_stable=is_stable) for each in answer.members),
        answer.protocol_data or None,
    )


def _classic_member(member: Any, *, is_stable: bool) -> Member:
    topics = subscribed_topics([member.member_metadata]) if is_stable else None
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        assigned_partitions(member.member_assignment) if is_stable else None,
        None if topics is None else tuple(sorted(topics)),
    )


def consumer_group(answer: Any, coordinator: NodeId = UNKNOWN) -> Group:
    """A group of a ConsumerGroupDescribe response (key 69, KIP-848)."""
    return Group(
        str(answer.group_id),
        CONSUMER,
        answer.group_state,
        CONSUMER,
        coordinator,
        tuple(_consumer_member(each) for each in answer.members),
        answer.assignor_name or None,
        int(answer.group_epoch),
    )


def _consumer_member(member: Any) -> Member:
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        _partitions(member.assignment),
        tuple(sorted(map(str, member.subscribed_topic_names))),
        member.subscribed_topic_regex or None,
        int(member.member_epoch),
        _partitions(member.target_assignment),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(str(each.topic_name), int(number))
            for each in assignment.topic_partitions
            for number in each.partitions
        )
    )
