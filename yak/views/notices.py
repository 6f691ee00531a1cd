"""Events derived from the core's log events: groups, truncations, disks, the metadata store. Pure.

The core emits each log event as a `Notice`, with or without listeners, so observing it needs no change to the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from yak.core.events import Notice
from yak.view.formats import counted
from yak.views.broker_events import BrokerEvent

GROUP_MOVED: Final = "group-state-changed"
"""A consumer group's state may have changed; `of_notice` does not know to which."""
_SECRET: Final = ("directory", "from_directory", "to_directory", "failure")
"""Fields with paths stay in the log: not every reader of events may see them."""


class _Event(NamedTuple):
    kind: str
    sentence: str
    """With the fields of the log event, and `counted` for its `count`."""
    noun: str = ""
    """What `count` counts."""


_EVENTS: Final[Mapping[str, _Event]] = {
    "group-rebalancing": _Event(
        "group-rebalancing", "group {group} rebalances, after generation {generation}: {reason}"
    ),
    "group-stable": _Event("group-stable", "group {group} is stable in generation {generation} with {members} members"),
    "group-empty": _Event("group-empty", "group {group} has no members"),
    "group-member-expired": _Event("group-member-expired", "the session of member {member} of group {group} expired"),
    "group-members-expired": _Event("group-member-expired", "sessions of members of group {group} expired"),
    "group-member-left": _Event("group-member-left", "member {member} left group {group}"),
    "group-upgraded": _Event("group-changed", "group {group} converted to the consumer protocol"),
    "group-downgraded": _Event("group-changed", "group {group} converted back to the classic protocol"),
    "group-expired": _Event("group-deleted", "group {group} is deleted: its offsets expired"),
    "groups-loaded": _Event("group-loaded", "this broker coordinates the groups of {partition}: {groups}"),
    "log-truncated": _Event(
        "log-truncated",
        "the log of {partition} is truncated from {from_offset} to {to_offset}, where its leader diverges",
    ),
    "open-transaction-copied-again": _Event(
        "log-truncated",
        "the log of {partition} is truncated from {from_offset} to {to_offset}, where its oldest open"
        " transaction begins, and copied from there again",
    ),
    "truncated-below-high-watermark": _Event(
        "log-truncated", "the log of {partition} is truncated to {to_offset}, below its high watermark {high_watermark}"
    ),
    "replica-fully-truncated": _Event(
        "log-truncated", "the log of {partition} is truncated fully and starts at {leaders_log_start_offset}"
    ),
    "replica-move-started": _Event(
        "replica-moved", "the replica of {partition} moves to another log directory: {bytes} bytes"
    ),
    "replica-moved": _Event("replica-moved", "the replica of {partition} is in another log directory"),
    "replica-move-cancelled": _Event(
        "replica-moved", "the replica of {partition} stays in its log directory: {reason}"
    ),
    "replica-move-failed": _Event(
        "replica-moved", "the replica of {partition} could not be moved to another log directory"
    ),
    "log-directory-offline": _Event("disk-offline", "a log directory is offline: {error}"),
    "metadata-store-lost": _Event("store-lost", "the metadata store does not answer: {reason}"),
    "metadata-frozen": _Event("store-frozen", "the metadata store has another history: {reason}"),
    "metadata-caught-up": _Event("store-back", "the metadata store answers and has this broker's history"),
    "quorum-leader-elected": _Event(
        "quorum-leader-elected", "broker {leader} leads the metadata quorum in epoch {epoch}"
    ),
    "quorum-leader-lost": _Event(
        "quorum-leader-lost", "broker {leader}, the leader of the metadata quorum in epoch {epoch}, does not answer"
    ),
    "quorum-voters-changed": _Event("quorum-voters-changed", "the voters of the metadata quorum are {voters}"),
    "metadata-store-restarted": _Event("store-restarted", "the metadata store restarted"),
    "broker-dead": _Event("broker-dead", "no process listens at broker {node_id}, detected in {detected_ms} ms"),
    "leaders-elected": _Event("leader-elected", "{counted} elected in {took_ms} ms", "leader"),
    "leaders-moved": _Event("leader-elected", "{counted} moved in {took_ms} ms", "leader"),
    "preferred-leaders-elected": _Event("leader-elected", "{counted} elected", "preferred leader"),
    "partitions-without-leader": _Event("leader-missing", "{counted} without an eligible leader", "partition"),
}
_RENAMED: Final = {"node_id": "broker", "partition": "log"}
"""In an event `node_id` is the reporting broker, and `partition` is a number."""


def of_notice(notice: Notice) -> BrokerEvent | None:
    """The event of a notice; None if the notice is only for the log."""
    known = _EVENTS.get(notice.event)
    if known is None:
        return None
    given: Mapping[str, Any] = notice.fields
    sentence = known.sentence.format(**given, counted=counted(given["count"], known.noun) if known.noun else "")
    fields: dict[str, Any] = {
        _RENAMED.get(name, name): _plain(value) for name, value in given.items() if name not in _SECRET
    }
    topic, _, number = str(given.get("partition", "")).rpartition("-")
    if not topic or not number.isdigit():
        return BrokerEvent(known.kind, sentence, None, fields)
    del fields["log"]
    return BrokerEvent(known.kind, sentence, topic, {**fields, "partition": int(number)})


def _plain(value: object) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def kinds() -> list[str]:
    """All kinds of events that `of_notice` gives."""
    return sorted({each.kind for each in _EVENTS.values()})
