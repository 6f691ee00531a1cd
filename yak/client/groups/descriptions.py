"""Lists and describes groups: state, coordinator, members and assignments."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from shlex import quote
from typing import Final

from yak.client.admin import Admin
from yak.client.groups.group_brokers import GroupBrokers
from yak.client.metadata import Broker
from yak.client.raw_connection import RawConnection
from yak.errors import Unreachable, YakError, closest
from yak.view.groups import Group, Member, members_text
from yak.views.described_groups import CLASSIC, CONSUMER, classic_group, consumer_group

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
_DESCRIBE_GROUPS: Final = 15, 5
_LIST_GROUPS: Final = 16, 5
_CONSUMER_GROUP_DESCRIBE: Final = 69, 0
_NOT_FOUND: Final = 69
_DEAD: Final = "Dead"


def list_groups(
    brokers: GroupBrokers, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> tuple[dict[str, Group], dict[Broker, str]]:
    """All groups by name, without members; and the brokers that did not answer, with the reason (ListGroups, key
    16)."""
    fields = {"states_filter": list(states), "types_filter": list(types)}
    answers, silent = brokers.every(_LIST_GROUPS, fields)
    found = [
        Group(
            str(each.group_id),
            each.group_type.lower(),
            each.group_state,
            each.protocol_type,
            broker.node_id,
            coordinator_address=broker.address,
        )
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
        listed = [each for each in found.values() if isinstance(each, Group) and each.type == type_]
        if not listed:
            continue
        known_at, what = coordinators(listed), 'group "{}" could not be described'
        for name, answer in brokers.ask(list(known_at), what, describe, known=known_at).items():
            known = found[name]
            assert isinstance(known, Group)
            if isinstance(answer, YakError):
                found[name] = answer
            elif answer is None:
                found[name] = replace(known, type=CLASSIC) if type_ == CONSUMER else unknown_group(name, found)
            else:
                address = known.coordinator_address
                found[name] = replace(answer, coordinator=known.coordinator, coordinator_address=address)
    return found


def coordinators(groups: Iterable[Group]) -> dict[str, str]:
    """The address of the broker that listed each group. It answers even while the cluster elects no leaders."""
    return {each.group_id: each.coordinator_address for each in groups}


def _describe_classic(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, Group | None]]:
    """DescribeGroups (key 15). A missing group is "Dead" in this version."""
    fields = {"groups": list(names), "include_authorized_operations": False}
    answer = connection.call(_DESCRIBE_GROUPS, fields)
    return {
        str(each.group_id): (
            int(each.error_code),
            None if each.group_state == _DEAD and not each.members else classic_group(each),
        )
        for each in answer.groups
    }


def _describe_consumer(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, Group | None]]:
    """ConsumerGroupDescribe (key 69, KIP-848). GROUP_ID_NOT_FOUND may also mean that the group is a classic one now."""
    fields = {"group_ids": list(names), "include_authorized_operations": False}
    answer = connection.call(_CONSUMER_GROUP_DESCRIBE, fields)
    return {
        str(each.group_id): (0, None)
        if int(each.error_code) == _NOT_FOUND
        else (int(each.error_code), consumer_group(each))
        for each in answer.groups
    }


def unknown_group(name: str, known: Iterable[str], silent: dict[Broker, str] | None = None) -> YakError:
    """The error for a missing group: `unreachable` when a silent broker may have it, else `unknown-group`."""
    if silent:
        why = f"it may belong to broker {', '.join(str(each.node_id) for each in silent)}, which did not answer"
        return Unreachable("unreachable", f'group "{name}" was not found', why=why, try_=("yak brokers list",))
    guess = closest(name, (each for each in known if each != name), 0.5)
    why = f'closest: "{guess}"' if guess else "no group has a name like it"
    return YakError("unknown-group", f'group "{name}" does not exist', why=why, try_=("yak groups list",))


def active_group(name: str, members: Sequence[Member], what: str) -> YakError:
    """The error for a change that a group with members refuses; `what` names the change."""
    verb = "member is" if len(members) == 1 else "members are"
    return YakError(
        "group-active",
        what,
        why=f"{len(members)} {verb} connected: {members_text(members)}",
        try_=("stop them, and try again", f"yak groups members {quote(name)}"),
    )
