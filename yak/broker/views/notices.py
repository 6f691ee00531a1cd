"""Events told from the lines that the core writes to the log: groups, cut logs, disks, the metadata store. Pure.

The core hands out every such line as a `Notice`, whoever listens; so nothing has to be added to it to be observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from yak.broker.events import Notice
from yak.broker.views.happenings import Happening

GROUP_MOVED: Final = "group-moved"
"""A group of the consumer protocol may have another state: `of_notice` does not know which."""
_SECRET: Final = ("directory",)
"""Paths are for the log, not for everybody who may read events."""

_Fields = Mapping[str, object]
_WORDS: Final[Mapping[str, tuple[str, Callable[[_Fields], str]]]] = {
    "group-rebalancing": (
        "group-rebalancing",
        lambda f: f"group {f['group']} shares anew, after generation {f['generation']}: {f['reason']}",
    ),
    "group-stable": (
        "group-stable",
        lambda f: f"group {f['group']} is stable in generation {f['generation']} with {f['members']} members",
    ),
    "group-empty": ("group-empty", lambda f: f"group {f['group']} has no members any more"),
    "group-member-silent": (
        "group-member-silent",
        lambda f: f"member {f['member']} of group {f['group']} was not heard of",
    ),
    "group-members-silent": (
        "group-member-silent",
        lambda f: f"members of group {f['group']} were not heard of",
    ),
    "group-member-left": ("group-member-left", lambda f: f"member {f['member']} left group {f['group']}"),
    "group-upgraded": ("group-changed", lambda f: f"group {f['group']} speaks the consumer protocol now"),
    "group-downgraded": ("group-changed", lambda f: f"group {f['group']} speaks the classic protocol again"),
    "group-expired": ("group-deleted", lambda f: f"group {f['group']} is forgotten: its offsets expired"),
    "groups-loaded": (
        "group-loaded",
        lambda f: f"the groups of {f['partition']} are coordinated here now: {f['groups']}",
    ),
    "log-truncated": (
        "log-truncated",
        lambda f: (
            f"the log of {f['partition']} is cut from {f['from_offset']} to {f['to_offset']}, as its leader has it"
        ),
    ),
    "truncated-below-high-watermark": (
        "log-truncated",
        lambda f: (
            f"the log of {f['partition']} is cut to {f['to_offset']}, below its high watermark {f['high_watermark']}"
        ),
    ),
    "replica-starts-anew": (
        "log-truncated",
        lambda f: f"the replica of {f['partition']} begins anew at {f['leaders_log_start_offset']}",
    ),
    "log-directory-offline": ("disk-offline", lambda f: f"a data directory is offline: {f['error']}"),
    "metadata-store-lost": ("store-lost", lambda f: f"the metadata store does not answer: {f['reason']}"),
    "metadata-frozen": ("store-frozen", lambda f: f"the metadata store is not the one it was: {f['reason']}"),
    "metadata-in-order": ("store-back", lambda _f: "the metadata store answers, and holds our history"),
    "metadata-store-restarted": ("store-restarted", lambda _f: "the metadata store is another process than before"),
    "broker-dead": (
        "broker-dead",
        lambda f: f"nobody listens at broker {f['node_id']} any more, found in {f['detected_ms']} ms",
    ),
    "leaders-elected": ("leader-elected", lambda f: f"{f['count']} leaders elected in {f['took_ms']} ms"),
    "leaderships-moved": ("leader-elected", lambda f: f"{f['count']} leaderships moved in {f['took_ms']} ms"),
    "leaders-handed-back": ("leader-elected", lambda f: f"{f['count']} leaderships handed back"),
    "partitions-without-leader": ("leader-missing", lambda f: f"{f['count']} partitions have nobody who may lead them"),
}
_RENAMED: Final = {"node_id": "broker", "partition": "log"}
"""In an event `node_id` is who tells it, and `partition` is a number."""


def of_notice(notice: Notice) -> Happening | None:
    """What a line tells; None for those that are only for the log."""
    known = _WORDS.get(notice.event)
    if known is None:
        return None
    kind, words = known
    fields: dict[str, Any] = {
        _RENAMED.get(name, name): _plain(value) for name, value in notice.fields.items() if name not in _SECRET
    }
    topic, _, number = str(notice.fields.get("partition", "")).rpartition("-")
    if not topic or not number.isdigit():
        return Happening(kind, words(notice.fields), None, fields)
    del fields["log"]
    return Happening(kind, words(notice.fields), topic, {**fields, "partition": int(number)})


def _plain(value: object) -> Any:
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def kinds() -> list[str]:
    """All kinds that come from here."""
    return sorted({kind for kind, _words in _WORDS.values()})
