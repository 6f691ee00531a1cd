"""The fields of the forms that select records to read. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo

from yak.client.filters import parse_filter
from yak.client.times import parse_time_ms
from yak.errors import UsageError
from yak.tui.look import Zone
from yak.tui.messages.subscription import Seek, Subscription, filter_parts, parse_seek, parse_topics

FROM_HINT = "start, end, last 100, 42, -15m, @2026-11-20T12:00"
TO_HINT = "go on; or end, an offset, a time"
GROUP_HINT = "none: nothing is committed"
FILTER_HINT = "k:u1 && v:.total > 10 && !h:test"


def time_parser(now_ms: int, zone: Zone) -> Callable[[str], int]:
    """A parser for times; local if times are shown so."""
    where: tzinfo = UTC
    if zone == "local":
        where = datetime.fromtimestamp(now_ms / 1000).astimezone().tzinfo or UTC

    def parse(text: str) -> int:
        return parse_time_ms(text, now_ms=now_ms, zone=where)

    return parse


def subscription_of(values: Mapping[str, str], parse_time: Callable[[str], int], *, is_readonly: bool) -> Subscription:
    """The subscription from the form. Raises UsageError."""
    group = values.get("group", "").strip()
    choices = parse_topics(values["topics"])
    if group:
        if is_readonly:
            raise UsageError(
                "readonly", f'group "{group}" cannot be joined here', why="yak ui was started with --readonly"
            )
        if any(choice.partitions for choice in choices):
            raise UsageError(
                "usage", "a group and partitions exclude each other", why="the group shares the partitions out"
            )
    for part in filter_parts(values.get("filter", "")):
        parse_filter(part)
    return Subscription(
        choices,
        parse_seek(values.get("from", ""), values.get("to", ""), parse_time),
        group,
        read_committed=values.get("committed") == "true",
    )


def fields_of(wanted: Subscription) -> dict[str, str]:
    """The fields for a subscription."""
    seek = wanted.seek
    return {
        "topics": wanted.title,
        "from": str(Seek(seek.start, None, seek.last)),
        "to": "" if seek.stop is None else str(Seek(seek.start, seek.stop)).partition(" to ")[2],
        "group": wanted.group,
        "committed": "true" if wanted.read_committed else "false",
    }
