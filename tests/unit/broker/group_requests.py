"""Requests of group members, put as each version has them."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from tests.rig import Client, Pending, Rig
from tests.unit.broker.requests import fitted

FIND, JOIN, SYNC, HEARTBEAT, LEAVE = 10, 11, 14, 12, 13
COMMIT, FETCH, DELETE_OFFSETS, DESCRIBE, LIST, DELETE = 8, 9, 47, 15, 16, 42


def ms(value: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=value)


def find(rig: Rig, group: str, version: int = 4) -> Any:
    answer = rig.ask(FIND, version, **fitted(FIND, version, key=group, coordinator_keys=[group]))
    return answer.coordinators[0] if version >= 4 else answer


def join_fields(
    version: int,
    group: str = "g",
    member_id: str = "",
    *,
    instance: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 20_000,
    kind: str = "consumer",
    metadata: bytes = b"m",
    protocols: dict[str, bytes] | None = None,
) -> dict[str, Any]:
    named = {"range": metadata} if protocols is None else protocols
    return fitted(
        JOIN,
        version,
        group_id=group,
        session_timeout=ms(session_ms),
        rebalance_timeout=ms(rebalance_ms),
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[{"name": name, "metadata": data} for name, data in named.items()],
    )


def begin_join(rig: Rig, version: int = 9, *words: str, client: Client | None = None, **named: Any) -> Pending:
    return rig.begin(JOIN, version, client=client, **join_fields(version, *words, **named))


def join(rig: Rig, version: int = 9, group: str = "g", member_id: str = "", **named: Any) -> Any:
    """Join, twice where the version asks for it."""
    answer = rig.ask(JOIN, version, **join_fields(version, group, member_id, **named))
    if answer.error_code == ErrorCode.member_id_required:
        answer = rig.ask(JOIN, version, **join_fields(version, group, answer.member_id, **named))
    return answer


def sync(rig: Rig, joined: Any, assignment: bytes = b"a", *, version: int = 5, group: str = "g") -> Any:
    fields = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [{"member_id": each.member_id, "assignment": assignment} for each in joined.members],
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return rig.ask(SYNC, version, **fitted(SYNC, version, **fields))


def heartbeat(rig: Rig, joined: Any, *, version: int = 4, group: str = "g") -> Any:
    fields = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    return rig.ask(HEARTBEAT, version, **fields).error_code


def leave(rig: Rig, member_id: str, *, version: int = 5, group: str = "g") -> Any:
    members = [{"member_id": member_id, "reason": "done"}]
    return rig.ask(LEAVE, version, **fitted(LEAVE, version, group_id=group, member_id=member_id, members=members))


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
) -> dict[str, Any]:
    rows = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_metadata": metadata,
            "committed_leader_epoch": 3,
        }
        for index, offset in offsets.items()
    ]
    topics = [{"name": topic, "topic_id": topic_id, "partitions": rows}]
    who = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member_id}
    return fitted(COMMIT, version, **who, retention_time=ms(-1), topics=topics)


def begin_commit(
    rig: Rig, offsets: dict[int, int], *, version: int = 9, client: Client | None = None, **named: Any
) -> Pending:
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
    named = {"name": topic, "topic_id": topic_id, "partition_indexes": partitions}
    asked = {"group_id": group, "topics": None if partitions is None else [named]}
    return fitted(FETCH, version, **asked, groups=[asked], require_stable=True)


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
    fields = fitted(DESCRIBE, version, groups=[group], include_authorized_operations=True)
    return rig.ask(DESCRIBE, version, **fields).groups[0]


def list_groups(rig: Rig, *, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    return rig.ask(LIST, version, **fitted(LIST, version, states_filter=states, types_filter=types))
