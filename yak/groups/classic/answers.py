"""Responses to members of a classic group: kio's fields of JoinGroup and SyncGroup, of any version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.errors import ErrorCode
from yak.groups.classic.member import Member

if TYPE_CHECKING:
    from yak.groups.classic.group import ClassicGroup

NO_GENERATION = -1


def joined(
    group: ClassicGroup, member: Member, *, skip_assignment: bool = False, leader_id: str | None = None
) -> dict[str, Any]:
    """The JoinGroup response to a member of this generation; the leader's response lists all members."""
    leader = group.leader_id if leader_id is None else leader_id
    everybody = group.members.values() if leader == member.member_id else ()
    return {
        "error_code": ErrorCode.none,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "leader": leader or "",
        "skip_assignment": skip_assignment,
        "member_id": member.member_id,
        "members": [
            {
                "member_id": each.member_id,
                "group_instance_id": each.instance_id,
                "metadata": each.metadata_of(group.protocol),
            }
            for each in everybody
        ],
    }


def refused_join(member_id: str, error_code: ErrorCode) -> dict[str, Any]:
    """The response to a failed JoinGroup."""
    return {
        "error_code": error_code,
        "generation_id": NO_GENERATION,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def synced(group: ClassicGroup, member: Member) -> dict[str, Any]:
    """The SyncGroup response: the member's assignment."""
    return {
        "error_code": ErrorCode.none,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def refused_sync(error_code: ErrorCode) -> dict[str, Any]:
    """The response to a failed SyncGroup."""
    return {"error_code": error_code, "protocol_type": None, "protocol_name": None, "assignment": b""}
