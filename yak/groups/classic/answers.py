"""What members of a classic group are answered: kio's fields of JoinGroup and SyncGroup, of any version."""

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
    """The answer to a member that is in this generation; the leader is told who the others are."""
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
    """The answer to a join that failed."""
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
    """The answer to a sync: what the member is to consume."""
    return {
        "error_code": ErrorCode.none,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }


def refused_sync(error_code: ErrorCode) -> dict[str, Any]:
    """The answer to a sync that failed."""
    return {"error_code": error_code, "protocol_type": None, "protocol_name": None, "assignment": b""}
