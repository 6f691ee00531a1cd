"""The record of a classic group: its generation, its members and their assignments.

Key version 2; value version 3 (Kafka's GroupMetadataKey.json and GroupMetadataValue.json). It is written at the end of
every rebalance. A new coordinator loads it, so the members need not rejoin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yak.groups.classic.members import Member
from yak.groups.record import Record
from yak.protocol.record_fields import FieldReader, FieldWriter, UnreadableRecord

if TYPE_CHECKING:
    from yak.groups.classic.group import ClassicGroup

KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3
_STATE_TIME_VERSION: Final = 2
_REBALANCE_TIMEOUT_VERSION: Final = 1


@dataclass(slots=True, frozen=True)
class StoredGroup:
    """A decoded group record. `state_ms` is when the group entered its state; -1 when the version has no such field."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    members: tuple[Member, ...]


def group_key(group_id: str) -> bytes:
    """The key of a classic group's record."""
    return FieldWriter().int16(KEY_VERSION).text(group_id).done()


def read_group_key(key: bytes) -> str:
    """The group id in a key. Raises UnreadableRecord."""
    reader = FieldReader(key)
    reader.int16()
    return reader.text()


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None, now_ms: int) -> Record:
    """The record of the group, with the given assignments by member id in place of the present ones."""
    value = FieldWriter().int16(_VALUE_VERSION).text(group.protocol_type or "").int32(group.generation)
    value.text(group.protocol).text(group.leader_id).int64(now_ms).int32(len(group.members))
    for member in group.members.values():
        value.text(member.member_id).text(member.instance_id)
        value.text(member.client_id).text(member.client_host)
        value.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        value.blob(member.metadata_of(group.protocol))
        value.blob(member.assignment if assignments is None else assignments.get(member.member_id, b""))
    return Record(group_key(group.group_id), value.done())


def read_group_value(value: bytes) -> StoredGroup:
    """Decode the value of a group record. Raises UnreadableRecord, also for an unknown version or impossible values."""
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION:
        raise UnreadableRecord(f"version {version} of a group")
    protocol_type, generation = reader.text(), reader.int32(least=0)
    protocol, leader = reader.nullable_text(), reader.nullable_text()
    state_ms = reader.int64() if version >= _STATE_TIME_VERSION else -1
    members = tuple(reader.array(lambda: _read_member(reader, version, protocol)))
    _check_members(protocol_type, protocol, members)
    return StoredGroup(protocol_type, generation, protocol, leader, state_ms, members)


def _check_members(protocol_type: str, protocol: str | None, members: tuple[Member, ...]) -> None:
    """Raise UnreadableRecord for members without a protocol, and for duplicate member ids or instance ids."""
    if members and not (protocol_type and protocol):
        raise UnreadableRecord("a group with members and without a protocol")
    if len({member.member_id for member in members}) < len(members):
        raise UnreadableRecord("a duplicate member id in one group")
    instance_ids = [member.instance_id for member in members if member.instance_id is not None]
    if len(set(instance_ids)) < len(instance_ids):
        raise UnreadableRecord("a duplicate instance id in one group")


def _read_member(reader: FieldReader, version: int, protocol: str | None) -> Member:
    member_id = reader.text()
    instance_id = reader.nullable_text() if version >= _VALUE_VERSION else None
    client_id, client_host = reader.text(), reader.text()
    rebalance_timeout_ms = reader.int32() if version >= _REBALANCE_TIMEOUT_VERSION else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.blob(), reader.blob()
    return Member(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        session_timeout_ms,
        ((protocol, subscription),) if protocol is not None else (),
        assignment,
    )
