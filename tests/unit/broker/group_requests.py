"""Requests of group members, put as each version has them."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.rig import Pending, Rig

FIND, JOIN, SYNC, HEARTBEAT, LEAVE = 10, 11, 14, 12, 13
COMMIT, FETCH, DELETE_OFFSETS, DESCRIBE, LIST, DELETE = 8, 9, 47, 15, 16, 42


def ms(value: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=value)


def find(rig: Rig, *groups: str, version: int = 4, key_type: int = 0) -> Any:
    if version >= 4:
        return rig.ask(FIND, version, key_type=key_type, coordinator_keys=list(groups)).coordinators[0]
    named = {"key_type": key_type} if version else {}
    return rig.ask(FIND, version, key=groups[0], **named)


def join_fields(
    version: int,
    group: str = "g",
    member_id: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 10_000,
    metadata: bytes = b"m",
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout": ms(session_ms),
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    if version >= 1:
        fields["rebalance_timeout"] = ms(20_000)
    if version >= 5:
        fields["group_instance_id"] = instance
    if version >= 8:
        fields["reason"] = None
    return fields


def begin_join(rig: Rig, version: int = 9, *words: str, **named: Any) -> Pending:
    client = named.pop("client", None)
    return rig.begin(JOIN, version, client=client, **join_fields(version, *words, **named))


def join(rig: Rig, version: int = 9, group: str = "g", member_id: str = "", **named: Any) -> Any:
    """Join, twice where the version asks for it."""
    answer = rig.ask(JOIN, version, **join_fields(version, group, member_id, **named))
    if answer.error_code == ErrorCode.member_id_required:
        answer = rig.ask(JOIN, version, **join_fields(version, group, answer.member_id, **named))
    return answer


def sync(rig: Rig, joined: Any, assignment: bytes = b"a", *, version: int = 5, group: str = "g") -> Any:
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [{"member_id": each.member_id, "assignment": assignment} for each in joined.members],
    }
    if version >= 3:
        fields["group_instance_id"] = None
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return rig.ask(SYNC, version, **fields)


def heartbeat(rig: Rig, joined: Any, *, version: int = 4, group: str = "g") -> Any:
    fields: dict[str, Any] = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    if version >= 3:
        fields["group_instance_id"] = None
    return rig.ask(HEARTBEAT, version, **fields).error_code


def leave(rig: Rig, member_id: str, *, version: int = 5, group: str = "g") -> Any:
    if version < 3:
        return rig.ask(LEAVE, version, group_id=group, member_id=member_id)
    member: dict[str, Any] = {"member_id": member_id}
    if version >= 5:
        member["reason"] = "done"
    return rig.ask(LEAVE, version, group_id=group, members=[member])


def stable(rig: Rig, group: str = "g", **named: Any) -> Any:
    """A group of one, with its assignment; gives the answer to its join."""
    joined = join(rig, group=group, **named)
    assert joined.error_code == 0, joined
    assert sync(rig, joined, group=group).error_code == 0
    return joined


def commit_fields(
    version: int,
    offsets: dict[int, int],
    *,
    group: str = "g",
    topic: str = "orders",
    topic_id: uuid.UUID | None = None,
    member_id: str = "",
    generation: int = -1,
    metadata: str | None = "",
    retention_ms: int = -1,
) -> dict[str, Any]:
    partitions = []
    for index, offset in offsets.items():
        partition: dict[str, Any] = {
            "partition_index": index,
            "committed_offset": offset,
            "committed_metadata": metadata,
        }
        if version >= 6:
            partition["committed_leader_epoch"] = 3
        partitions.append(partition)
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "topics": [{"topic_id": topic_id, "partitions": partitions}]
        if version >= 10
        else [{"name": topic, "partitions": partitions}],
    }
    if version <= 4:
        fields["retention_time"] = ms(retention_ms)
    if version >= 7:
        fields["group_instance_id"] = None
    return fields


def begin_commit(rig: Rig, offsets: dict[int, int], *, version: int = 9, **named: Any) -> Pending:
    client = named.pop("client", None)
    return rig.begin(COMMIT, version, client=client, **commit_fields(version, offsets, **named))


def commit(rig: Rig, offsets: dict[int, int], *, version: int = 9, **named: Any) -> list[int]:
    """The error codes of the partitions."""
    answer = rig.ask(COMMIT, version, **commit_fields(version, offsets, **named))
    return [partition.error_code for partition in answer.topics[0].partitions]


def fetch_fields(
    version: int,
    partitions: list[int] | None,
    *,
    group: str = "g",
    topic: str = "orders",
    topic_id: uuid.UUID | None = None,
) -> dict[str, Any]:
    topics: list[dict[str, Any]] | None = None
    if partitions is not None:
        named = {"topic_id": topic_id} if version >= 10 else {"name": topic}
        topics = [{**named, "partition_indexes": partitions}]
    if version < 8:
        fields: dict[str, Any] = {"group_id": group, "topics": topics}
    else:
        asked: dict[str, Any] = {"group_id": group, "topics": topics}
        if version >= 9:
            asked |= {"member_id": None, "member_epoch": -1}
        fields = {"groups": [asked]}
    if version >= 7:
        fields["require_stable"] = True
    return fields


def fetch(rig: Rig, partitions: list[int] | None, *, version: int = 9, **named: Any) -> Any:
    """The group's part of the answer."""
    answer = rig.ask(FETCH, version, **fetch_fields(version, partitions, **named))
    return answer if version < 8 else answer.groups[0]


def committed(rig: Rig, partitions: list[int], **named: Any) -> list[int]:
    """The committed offsets."""
    answer = fetch(rig, partitions, **named)
    assert not answer.error_code, answer
    return [partition.committed_offset for partition in answer.topics[0].partitions]


def describe(rig: Rig, group: str = "g", *, version: int = 6) -> Any:
    named = {"include_authorized_operations": True} if version >= 3 else {}
    return rig.ask(DESCRIBE, version, groups=[group], **named).groups[0]


def list_groups(rig: Rig, *, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    named: dict[str, Any] = {}
    if version >= 4:
        named["states_filter"] = list(states)
    if version >= 5:
        named["types_filter"] = list(types)
    return rig.ask(LIST, version, **named)
