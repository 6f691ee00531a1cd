"""Remove members for good: they left, their deadline passed, or an operator removed them."""

from __future__ import annotations

from collections.abc import Sequence

from yak.groups.consumer.heartbeat import remove_members
from yak.groups.consumer.records import GroupValue, Kind, TargetEpochValue
from yak.groups.consumer.state import Draft, GroupState
from yak.groups.consumer.subscriptions import drop_unused_regexes
from yak.groups.consumer.topics import TopicsView, metadata_hash
from yak.protocol.record_fields import INT32_MAX


def fence(draft: Draft, member_ids: Sequence[str], topics: TopicsView) -> None:
    """Remove these members and start the next epoch; the next heartbeat of any member computes its targets.

    A group without members has none to compute (GroupMetadataManager.consumerGroupFenceMembers, Kafka 4.4). A group at
    the last epoch is deleted: its members rejoin, and start a new group.
    """
    if draft.state.epoch == INT32_MAX:
        take_back_all(draft)
        return
    remove_members(draft, member_ids)
    state = draft.state
    drop_unused_regexes(draft)
    hashed = metadata_hash(state.topic_names(), topics)
    draft.put(Kind.GROUP, "", GroupValue(state.epoch + 1, hashed))
    if not state.members:
        draft.put(Kind.TARGET_EPOCH, "", TargetEpochValue(state.epoch))


def take_back_all(draft: Draft) -> None:
    """Write the tombstones of all the group's records, in the order in which Kafka must read them."""
    state: GroupState = draft.state
    members, targets, regexes = sorted(state.members), sorted(state.targets), sorted(state.regexes)
    had_partition_metadata = state.has_partition_metadata
    draft.take_back(Kind.CURRENT, members)
    draft.take_back(Kind.TARGET, targets)
    draft.put(Kind.TARGET_EPOCH, "", None)
    draft.take_back(Kind.MEMBER, members)
    draft.take_back(Kind.REGEX, regexes)
    if had_partition_metadata:
        draft.put(Kind.PARTITION_METADATA, "", None)
    draft.put(Kind.GROUP, "", None)
