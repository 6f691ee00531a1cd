"""The rows that `yak groups watch` prints."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yak.commands import groups
from yak.commands.live_table import refreshes, show_refresh

if TYPE_CHECKING:
    from yak.commands.options import Globals
    from yak.ids import Offset, TopicPartition
    from yak.view.groups import Group

COLUMNS = ("group", "type", "state", "members", "lag", "records_per_s")
WIDE = ("coordinator", "assignor", "partitions")


def watch_groups(g: "Globals", names: Sequence[str], interval_ms: int, count: int | None) -> None:
    """Print the table every interval. Raises YakError, such as `unknown-group` for a name that the first read does not find."""
    before: dict[str, dict[TopicPartition, Offset]] | None = None
    before_at = 0.0
    for _ in refreshes(interval_ms, count):
        found = _groups(g, names, must_be_there=before is None)
        committed = {
            group.group_id: {each.partition: each.committed for each in group.partitions if each.committed is not None}
            for group, _ in found
        }
        now = time.monotonic()
        rows = []
        for group, has_lag in found:
            grown = None if before is None else growth(before.get(group.group_id, {}), committed[group.group_id])
            rate = None if grown is None else round(grown / (now - before_at))
            rows.append({**groups.list_row(group, with_lag=has_lag), "records_per_s": rate})
        show_refresh(g, rows, COLUMNS, WIDE, (*COLUMNS, *WIDE))
        before, before_at = committed, now


def growth(before: "Mapping[TopicPartition, Offset]", now: "Mapping[TopicPartition, Offset]") -> int | None:
    """By how much the committed offsets grew, of partitions with both; None without any."""
    both = before.keys() & now.keys()
    return sum(now[each] - before[each] for each in both) if both else None


def _groups(g: "Globals", names: Sequence[str], *, must_be_there: bool) -> "list[tuple[Group, bool]]":
    """The groups, each with whether its offsets are known. The connection is new each time: coordinators move."""
    from yak.client.groups.descriptions import list_groups, unknown_group

    with groups.connect(g) as brokers:
        known, silent = list_groups(brokers)
        if must_be_there and (missing := [name for name in names if name not in known]):
            raise unknown_group(missing[0], known, silent)
        for broker, reason in silent.items():
            g.out.warn_once(
                [f"broker {broker.node_id} at {broker.address} did not answer; its groups are missing: {reason}"]
            )
        wanted: dict[str, Any] = {name: known[name] for name in names if name in known} if names else known
        found, _failed = groups.read_groups(g, brokers, wanted, with_lag=True)
    return found
