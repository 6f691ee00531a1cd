"""Committed offsets of groups: read, written and deleted at the coordinator; and the deletion of groups.

A committed offset is the next one to read. Like Kafka's own tools, writes use an empty member id and generation -1,
which the coordinator accepts only while the group has no members.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from yak.client.groups.group_brokers import LOAD_IN_PROGRESS, UNKNOWN, GroupBrokers, failure, passes
from yak.client.raw_connection import Api, RawConnection, runs
from yak.errors import YakError
from yak.ids import Offset, TopicPartition, by_topic

_OFFSET_COMMIT: Final = 8, 8
_OFFSET_FETCH: Final = 9, 8
_DELETE_GROUPS: Final = 42, 2
_OFFSET_DELETE: Final = 47, 0
GROUP_ID_NOT_FOUND: Final = 69
COMMITTED_AT_ONCE: Final = 1_000
"""A coordinator writes the offsets of a request as one batch, of at most 1 MiB by default."""
_NO_MEMBER: Final = -1
_NO_EPOCH: Final = -1

Committed = dict[TopicPartition, Offset]


def committed_offsets(
    brokers: GroupBrokers, groups: Sequence[str], *, known: Mapping[str, str] | None = None
) -> dict[str, Committed | YakError]:
    """All committed offsets of these groups, in one request per coordinator (OffsetFetch, key 9); {} for an unknown
    group. `known` are addresses of coordinators."""

    def ask(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, Committed]]:
        fields = {"groups": [{"group_id": name, "topics": None} for name in names]}
        return {
            str(group.group_id): (
                int(group.error_code),
                {
                    TopicPartition(str(topic.name), int(each.partition_index)): int(each.committed_offset)
                    for topic in group.topics
                    for each in topic.partitions
                    if not int(each.error_code) and each.committed_offset >= 0
                },
            )
            for group in connection.call(_OFFSET_FETCH, fields).groups
        }

    return brokers.ask(groups, 'the offsets of group "{}" could not be read', ask, known=known)


def commit_offsets(
    brokers: GroupBrokers, group: str, offsets: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, YakError | None]:
    """Commit for a group without members (OffsetCommit, key 8); the error or None, by partition."""

    def item(partition: TopicPartition) -> dict[str, object]:
        return {
            "partition_index": partition.partition,
            "committed_offset": offsets[partition],
            "committed_leader_epoch": _NO_EPOCH,
            "committed_metadata": "",
        }

    more = {"generation_id_or_member_epoch": _NO_MEMBER, "member_id": "", "group_instance_id": None}
    what = 'the offsets of group "{}" were not changed'
    wanted = runs(list(offsets), COMMITTED_AT_ONCE)
    return _by_partition(brokers, group, _OFFSET_COMMIT, more, item, what, wanted)


def delete_offsets(
    brokers: GroupBrokers, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, YakError | None]:
    """Delete a group's committed offsets of these partitions (OffsetDelete, key 47, KIP-496); the error or None of
    each."""

    def item(partition: TopicPartition) -> dict[str, object]:
        return {"partition_index": partition.partition}

    what = 'the offsets of group "{}" were not deleted'
    return _by_partition(brokers, group, _OFFSET_DELETE, {}, item, what, runs(partitions))


def delete_groups(brokers: GroupBrokers, groups: Sequence[str]) -> dict[str, YakError | None]:
    """Delete groups without members, and their committed offsets (DeleteGroups, key 42); the error or None of each.

    A group that is missing on a retry, after a lost response, counts as deleted.
    """
    requested: set[str] = set()

    def ask(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, None]]:
        again = [name for name in names if name in requested]
        requested.update(names)
        answer = connection.call(_DELETE_GROUPS, {"groups_names": list(names)})
        # A coordinator that loads has deleted nothing. One that moves may have: its answer is not of the deletion.
        requested.difference_update(
            str(each.group_id) for each in answer.results if int(each.error_code) == LOAD_IN_PROGRESS
        )
        return {
            str(each.group_id): (
                0 if each.group_id in again and int(each.error_code) == GROUP_ID_NOT_FOUND else int(each.error_code),
                None,
            )
            for each in answer.results
        }

    return brokers.ask(groups, 'group "{}" was not deleted', ask)


def _by_partition(
    brokers: GroupBrokers,
    group: str,
    api: Api,
    more: Mapping[str, object],
    item: Callable[[TopicPartition], dict[str, object]],
    what: str,
    wanted: Sequence[Sequence[TopicPartition]],
) -> dict[TopicPartition, YakError | None]:
    """Send a request for each run of partitions to the group's coordinator; each partition's error.

    A retriable code retries the whole request. Behind a coordinator that does not answer no other one is sent.
    """
    results: dict[TopicPartition, YakError | None] = {}
    found: dict[TopicPartition, int] | YakError = {}
    for some in wanted:
        if not isinstance(found, YakError) or not passes(found):
            topics = [{"name": topic, "partitions": list(map(item, of))} for topic, of in by_topic(some).items()]
            found = _codes(brokers, group, api, {"group_id": group, "topics": topics, **more}, what)
        for each in some:
            answer = found if isinstance(found, YakError) else found.get(each, UNKNOWN)
            if isinstance(answer, int):
                results[each] = failure(answer, f"{what.format(group)} for {each}") if answer else None
            else:
                results[each] = answer
    return results


def _codes(
    brokers: GroupBrokers, group: str, api: Api, fields: Mapping[str, object], what: str
) -> dict[TopicPartition, int] | YakError:
    """Each partition's error code in the coordinator's answer, or the error of the group."""

    def ask(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, dict[TopicPartition, int]]]:
        answer = connection.call(api, fields)
        codes = {
            TopicPartition(str(topic.name), int(each.partition_index)): int(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        # OffsetCommit has no group error code: an error of the group appears on every partition.
        whole = int(getattr(answer, "error_code", 0)) or _common(codes.values())
        return dict.fromkeys(names, (whole, codes))

    return brokers.ask([group], what, ask)[group]


def _common(codes: Iterable[int]) -> int:
    different = set(codes)
    return different.pop() if len(different) == 1 else 0
