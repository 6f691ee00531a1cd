"""Events derived from the core's log events: groups, truncations, disks, the metadata store. Pure.

The core emits each log event as a `Notice`, with or without listeners, so observing it needs no change to the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from yak.core.events import Notice
from yak.view.formats import counted
from yak.views.broker_events import BrokerEvent

GROUP_MOVED: Final = "group-state-changed"
"""A consumer group's state may have changed; `of_notice` does not know to which."""
_SECRET: Final = ("directory", "from_directory", "to_directory", "failure")
"""Fields with paths stay in the log: not every reader of events may see them."""

_Fields = Mapping[str, Any]
_EVENTS: Final[Mapping[str, tuple[str, Callable[[_Fields], str]]]] = {
    "group-rebalancing": (
        "group-rebalancing",
        lambda f: f"group {f['group']} rebalances, after generation {f['generation']}: {f['reason']}",
    ),
    "group-stable": (
        "group-stable",
        lambda f: f"group {f['group']} is stable in generation {f['generation']} with {f['members']} members",
    ),
    "group-empty": ("group-empty", lambda f: f"group {f['group']} has no members"),
    "group-member-expired": (
        "group-member-expired",
        lambda f: f"the session of member {f['member']} of group {f['group']} expired",
    ),
    "group-members-expired": (
        "group-member-expired",
        lambda f: f"sessions of members of group {f['group']} expired",
    ),
    "group-member-left": ("group-member-left", lambda f: f"member {f['member']} left group {f['group']}"),
    "group-upgraded": ("group-changed", lambda f: f"group {f['group']} converted to the consumer protocol"),
    "group-downgraded": ("group-changed", lambda f: f"group {f['group']} converted back to the classic protocol"),
    "group-expired": ("group-deleted", lambda f: f"group {f['group']} is deleted: its offsets expired"),
    "groups-loaded": (
        "group-loaded",
        lambda f: f"this broker coordinates the groups of {f['partition']}: {f['groups']}",
    ),
    "log-truncated": (
        "log-truncated",
        lambda f: (
            f"the log of {f['partition']} is truncated from {f['from_offset']} to {f['to_offset']}, where its leader diverges"
        ),
    ),
    "open-transaction-copied-again": (
        "log-truncated",
        lambda f: (
            f"the log of {f['partition']} is truncated from {f['from_offset']} to {f['to_offset']}, where its oldest open"
            " transaction begins, and copied from there again"
        ),
    ),
    "truncated-below-high-watermark": (
        "log-truncated",
        lambda f: (
            f"the log of {f['partition']} is truncated to {f['to_offset']}, below its high watermark {f['high_watermark']}"
        ),
    ),
    "replica-fully-truncated": (
        "log-truncated",
        lambda f: f"the log of {f['partition']} is truncated fully and starts at {f['leaders_log_start_offset']}",
    ),
    "replica-move-started": (
        "replica-moved",
        lambda f: f"the replica of {f['partition']} moves to another log directory: {f['bytes']} bytes",
    ),
    "replica-moved": (
        "replica-moved",
        lambda f: f"the replica of {f['partition']} is in another log directory",
    ),
    "replica-move-cancelled": (
        "replica-moved",
        lambda f: f"the replica of {f['partition']} stays in its log directory: {f['reason']}",
    ),
    "replica-move-failed": (
        "replica-moved",
        lambda f: f"the replica of {f['partition']} could not be moved to another log directory",
    ),
    "log-directory-offline": ("disk-offline", lambda f: f"a log directory is offline: {f['error']}"),
    "metadata-store-lost": ("store-lost", lambda f: f"the metadata store does not answer: {f['reason']}"),
    "metadata-frozen": ("store-frozen", lambda f: f"the metadata store has another history: {f['reason']}"),
    "metadata-caught-up": ("store-back", lambda _f: "the metadata store answers and has this broker's history"),
    "quorum-leader-elected": (
        "quorum-leader-elected",
        lambda f: f"broker {f['leader']} leads the metadata quorum in epoch {f['epoch']}",
    ),
    "quorum-leader-lost": (
        "quorum-leader-lost",
        lambda f: f"broker {f['leader']}, the leader of the metadata quorum in epoch {f['epoch']}, does not answer",
    ),
    "quorum-voters-changed": (
        "quorum-voters-changed",
        lambda f: f"the voters of the metadata quorum are {f['voters']}",
    ),
    "metadata-store-restarted": ("store-restarted", lambda _f: "the metadata store restarted"),
    "broker-dead": (
        "broker-dead",
        lambda f: f"no process listens at broker {f['node_id']}, detected in {f['detected_ms']} ms",
    ),
    "leaders-elected": ("leader-elected", lambda f: f"{counted(f['count'], 'leader')} elected in {f['took_ms']} ms"),
    "leaders-moved": ("leader-elected", lambda f: f"{counted(f['count'], 'leader')} moved in {f['took_ms']} ms"),
    "preferred-leaders-elected": ("leader-elected", lambda f: f"{counted(f['count'], 'preferred leader')} elected"),
    "partitions-without-leader": (
        "leader-missing",
        lambda f: f"{counted(f['count'], 'partition')} without an eligible leader",
    ),
}
_RENAMED: Final = {"node_id": "broker", "partition": "log"}
"""In an event `node_id` is the reporting broker, and `partition` is a number."""


def of_notice(notice: Notice) -> BrokerEvent | None:
    """The event of a notice; None if the notice is only for the log."""
    known = _EVENTS.get(notice.event)
    if known is None:
        return None
    kind, describe = known
    fields: dict[str, Any] = {
        _RENAMED.get(name, name): _plain(value) for name, value in notice.fields.items() if name not in _SECRET
    }
    topic, _, number = str(notice.fields.get("partition", "")).rpartition("-")
    if not topic or not number.isdigit():
        return BrokerEvent(kind, describe(notice.fields), None, fields)
    del fields["log"]
    return BrokerEvent(kind, describe(notice.fields), topic, {**fields, "partition": int(number)})


def _plain(value: object) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def kinds() -> list[str]:
    """All kinds of events that `of_notice` gives."""
    return sorted({kind for kind, _ in _EVENTS.values()})
