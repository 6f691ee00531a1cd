"""Downgrade a consumer group to a classic one when its last consumer protocol member leaves and others stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from yak.groups.classic.group import CONSUMER_PROTOCOL
from yak.groups.classic.members import Member as ClassicMember
from yak.groups.consumer.consumer_protocol import assignment_bytes, subscription_version
from yak.groups.consumer.member import Member
from yak.groups.consumer.settings import ConsumerGroupSettings
from yak.groups.consumer.state import GroupState
from yak.groups.consumer.topics import TopicsView
from yak.groups.consumer.upgrade import ClassicGroup


def must_downgrade(state: GroupState, leaving: Collection[str], settings: ConsumerGroupSettings) -> bool:
    """Whether only classic members stay, and they may form a classic group.

    GroupMetadataManager.validateOnlineDowngradeWithFencedMembers.
    """
    staying = [member for member in state.members.values() if member.member_id not in leaving]
    return (
        settings.migration_policy.allows_downgrade
        and 0 < len(staying) <= settings.classic_max_size
        and all(member.classic is not None for member in staying)
        and common_protocol(staying) is not None
    )


def downgraded(
    state: GroupState, leaving: Collection[str], topics: TopicsView, *, is_rebalancing: bool
) -> ClassicGroup:
    """The classic group of the remaining members, with the group epoch as generation and what each of them holds.

    Kafka's members have their targets (ClassicGroup.fromConsumerGroup). If the group is upgraded again before they rejoin,
    their other partitions would be free.
    """
    staying = [state.members[member_id] for member_id in sorted(state.members) if member_id not in leaving]
    name = common_protocol(staying)
    assert name is not None, "must_downgrade has checked it"
    members = tuple(_classic(member, name, topics) for member in staying)
    return ClassicGroup(state.group_id, state.epoch, CONSUMER_PROTOCOL, name, members, is_rebalancing)


def common_protocol(members: Sequence[Member]) -> str | None:
    """The common protocol with the most votes; each member votes for the first one it lists.

    None only for records in a log that differ: a join checks that there is one.
    """
    offered = [[name for name, _ in member.classic.protocols] for member in members if member.classic is not None]
    shared = set(offered[0]).intersection(*offered[1:])
    votes = Counter(next(name for name in names if name in shared) for names in offered if shared)
    return min(votes, key=lambda name: (-votes[name], name), default=None)


def _classic(member: Member, protocol_name: str, topics: TopicsView) -> ClassicMember:
    assert member.classic is not None
    version = subscription_version(dict(member.classic.protocols)[protocol_name])
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
        assignment=assignment_bytes(member.held, version, topics),
    )
