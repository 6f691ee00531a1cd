"""Lists and describes groups: state, coordinator, members and assignments."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from yak.client.admin import Admin
from yak.client.groups.asking import GroupBrokers
from yak.client.metadata import Broker
from yak.client.raw_connection import RawConnection
from yak.errors import YakError
from yak.groups.classic.assignment import assigned_partitions
from yak.groups.classic.subscription import subscribed_topics
from yak.ids import TopicPartition

STATES: Final = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""The states of groups of all types (Kafka's GroupState)."""
TYPES: Final = ("classic", "consumer", "share", "streams")
CLASSIC, CONSUMER = "classic", "consumer"
_CONSUMERS: Final = ("consumer", "")
"""Protocol types whose members are consumers; it is empty for a group that never had members."""
_NOT_FOUND: Final = 69
_DEAD: Final = "Dead"


@dataclass(frozen=True, slots=True)
class Member:
    """One member. None is unknown: for a rebalancing classic group, and for members that are not consumers.

    `epoch` is the member epoch of the new protocol (KIP-848), `target` the member's target assignment.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One group. `members` is None when not requested; `assignor` and `epoch` are None where the group has none."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator: Broker
    members: tuple[Member, ...] | None = None
    assignor: str | None = None
    epoch: int | None = None


def list_groups(
    brokers: GroupBrokers, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> tuple[dict[str, Group], dict[Broker, str]]:
    """All groups by name, without members; and the brokers that did not answer, with the reason (ListGroups, key
    16)."""
    from kio.schema.list_groups.v5.request import ListGroupsRequest

    request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))

    def ask(connection: RawConnection) -> tuple[int, Any]:
        answer = connection.call(request)
        return int(answer.error_code), answer

    answers, silent = brokers.every(ask)
    found = [
        Group(str(each.group_id), each.group_type.lower(), each.group_state, each.protocol_type, broker)
        for broker, answer in answers.items()
        for each in answer.groups
    ]
    return {each.group_id: each for each in sorted(found, key=lambda each: each.group_id)}, silent


def group_names(servers: str, *, timeout_s: float) -> list[str]:
    """Names of all groups. Raises YakError."""
    with GroupBrokers(Admin(servers, timeout_ms=round(timeout_s * 1000))) as brokers:
        return list(list_groups(brokers)[0])


def require_groups(brokers: GroupBrokers, names: Sequence[str]) -> dict[str, Group | YakError]:
    """These groups with their members, in this order; an error (`unknown-group` and others) for a failed one."""
    known, silent = list_groups(brokers)
    wanted = [known[name] for name in dict.fromkeys(names) if name in known]
    described = describe_groups(brokers, wanted)
    return {
        name: described[name] if name in described else unknown_group(name, known, silent)
        for name in dict.fromkeys(names)
    }


def describe_groups(brokers: GroupBrokers, groups: Iterable[Group]) -> dict[str, Group | YakError]:
    """These groups, with members added where the group type has a describe request."""
    found: dict[str, Group | YakError] = {each.group_id: each for each in groups}
    for type_, describe in ((CONSUMER, _describe_consumer), (CLASSIC, _describe_classic)):
        # A group may have changed its type since it was listed (KIP-848's upgrade and downgrade): describe classic ones
        # last.
        names = [name for name, each in found.items() if isinstance(each, Group) and each.type == type_]
        if not names:
            continue
        for name, answer in brokers.ask(names, 'group "{}" could not be described', describe).items():
            known = found[name]
            assert isinstance(known, Group)
            if isinstance(answer, YakError):
                found[name] = answer
            elif answer is None:
                found[name] = replace(known, type=CLASSIC) if type_ == CONSUMER else unknown_group(name, found)
            else:
                found[name] = replace(known, **answer)
    return found


def _describe_classic(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, dict[str, Any] | None]]:
    """DescribeGroups (key 15). A missing group is "Dead" in this version."""
    from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
    from kio.schema.types import GroupId

    answer = connection.call(
        DescribeGroupsRequest(groups=tuple(map(GroupId, names)), include_authorized_operations=False)
    )
    return {
        str(each.group_id): (
            int(each.error_code),
            None
            if each.group_state == _DEAD and not each.members
            else {
                "type": CLASSIC,
                "state": each.group_state,
                "protocol_type": each.protocol_type,
                "assignor": each.protocol_data or None,
                "members": tuple(_classic_member(member, each) for member in each.members),
            },
        )
        for each in answer.groups
    }


def _classic_member(member: Any, group: Any) -> Member:
    is_told = group.protocol_type in _CONSUMERS and group.group_state == "Stable"
    topics = subscribed_topics([member.member_metadata]) if is_told else None
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.group_instance_id,
        assigned_partitions(member.member_assignment) if is_told else None,
        None if topics is None else tuple(sorted(topics)),
    )


def _describe_consumer(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, dict[str, Any] | None]]:
    """ConsumerGroupDescribe (key 69, KIP-848). GROUP_ID_NOT_FOUND may also mean that the group is a classic one now."""
    from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
    from kio.schema.types import GroupId

    answer = connection.call(
        ConsumerGroupDescribeRequest(group_ids=tuple(map(GroupId, names)), include_authorized_operations=False)
    )
    return {
        str(each.group_id): (0, None)
        if int(each.error_code) == _NOT_FOUND
        else (
            int(each.error_code),
            {
                "state": each.group_state,
                "assignor": each.assignor_name or None,
                "epoch": int(each.group_epoch),
                "members": tuple(_consumer_member(member) for member in each.members),
            },
        )
        for each in answer.groups
    }


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


def unknown_group(name: str, known: Iterable[str], silent: dict[Broker, str] | None = None) -> YakError:
    """The error for a missing group."""
    guesses = difflib.get_close_matches(name, [each for each in known if each != name], n=1, cutoff=0.5)
    why = f'closest: "{guesses[0]}"' if guesses else "no group has a name like it"
    if silent:
        why = f"it may belong to broker {', '.join(str(each.node_id) for each in silent)}, which did not answer"
    return YakError("unknown-group", f'group "{name}" does not exist', why=why, try_=("yak groups list",))


def active_group(group: Group, what: str) -> YakError:
    """The error for a change that a group with members refuses; `what` names the change."""
    members = group.members or ()
    shown = ", ".join(f"{each.client_id} at {each.host.lstrip('/')}" for each in members[:3])
    more = f" and {len(members) - 3} more" if len(members) > 3 else ""
    verb = "member is" if len(members) == 1 else "members are"
    return YakError(
        "group-active",
        what,
        why=f"{len(members)} {verb} connected: {shown}{more}",
        try_=("stop them, and try again", f"yak groups members {group.group_id}"),
    )
