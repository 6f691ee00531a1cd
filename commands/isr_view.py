"""Prints `yak isr`: one row per replica, descriptions of unhealthy partitions, and changes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.commands.output import layout
from yak.view.formats import counted
from yak.view.partition_replicas import NO_LEADER, PartitionReplicas

if TYPE_CHECKING:
    from yak.commands.options import Globals

GOOD, WARN, BAD = "", "33", "1;31"
"""Colours of a row, as ANSI codes; the words beside them carry the same meaning."""
COLUMNS = ("partition", "leader", "epoch", "isr", "hw", "replica", "log_end", "lag", "state")
FLAT_COLUMNS = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "isr",
    "high_watermark",
    "replica",
    "log_end_offset",
    "lag",
    "state",
)


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """The text of one replica; `colour` is one of GOOD, WARN and BAD."""

    node: int
    lag: int | None
    state: str
    colour: str


def replica_rows(partition: PartitionReplicas, *, max_lag: int | None = None) -> list[ReplicaRow]:
    """The rows of a partition's replicas, in replica order: the preferred leader is first."""
    return [_replica_row(partition, node, max_lag) for node in partition.replicas]


def _replica_row(partition: PartitionReplicas, node: int, max_lag: int | None) -> ReplicaRow:
    lag, colour = partition.lag(node), GOOD
    if node == partition.leader:
        words = "leader"
        if node not in partition.isr:
            words, colour = "leader, OUT OF SYNC", BAD
    elif node in partition.isr:
        words = "in sync"
    else:
        words, colour = "OUT OF SYNC", BAD
    if max_lag is not None and lag is not None and lag > max_lag:
        words, colour = f"{words}, LAG", BAD
    if node in partition.away:
        words, colour = f"{words}, {partition.away[node]}", colour or WARN
    return ReplicaRow(node, lag, words, colour)


def problems(partition: PartitionReplicas, *, max_lag: int | None = None) -> list[str]:
    """The problems of a partition, one phrase each; empty when it is healthy.

    With `max_lag`, a replica with a larger lag is a problem too, and one whose lag is unknown.
    """
    found: list[str] = []
    out = [node for node in partition.replicas if node not in partition.isr]
    replication = partition.replication
    if replication.is_offline:
        found.append("offline: no leader, neither writes nor reads")
    if replication.is_under_min_isr:
        found.append(f"under min ISR ({replication.isr} of {replication.needed}): acks=all is refused")
    if out:
        found.append(f"out of sync: {_nodes(out)}")
    if max_lag is not None:
        lags = {node: partition.lag(node) for node in partition.replicas}
        found += [f"{node} has a lag of {lag}" for node, lag in lags.items() if lag is not None and lag > max_lag]
        found += [f"the lag of {node} is unknown" for node, lag in lags.items() if lag is None]
    return found


def summary(partitions: Sequence[PartitionReplicas], *, max_lag: int | None = None) -> tuple[list[str], str]:
    """A line per unhealthy partition, then a total; and the colour of all lines."""
    lines, worst = [], GOOD
    for each in partitions:
        found = problems(each, max_lag=max_lag)
        if found:
            lines.append(f"{each.name}: {'; '.join(found)}")
            worst = BAD
    well = len(partitions) - len(lines)
    lines.append(f"{well} of {counted(len(partitions), 'partition')} in sync")
    return lines, worst


def table_lines(
    partitions: Iterable[PartitionReplicas], *, max_lag: int | None = None, headers: bool = True, wide: bool = False
) -> list[tuple[str, str]]:
    """Lines with their colours: one per replica; only the first one of a partition has the partition's values."""
    rows: list[dict[str, Any]] = []
    colours: list[str] = [GOOD] if headers else []
    columns = [*COLUMNS[:3], "partition_epoch", *COLUMNS[3:]] if wide else list(COLUMNS)
    for each in partitions:
        head: dict[str, Any] = {
            "partition": each.name,
            "leader": "none" if each.leader == NO_LEADER else str(each.leader),
            "epoch": str(each.leader_epoch),
            "partition_epoch": _shown(each.partition_epoch),
            "isr": _nodes(each.isr) or "none",
            "hw": _shown(each.high_watermark),
        }
        for row in replica_rows(each, max_lag=max_lag):
            end = _shown(each.log_end_offsets.get(row.node))
            lag = _shown(row.lag)
            rows.append({**head, "replica": str(row.node), "log_end": end, "lag": lag, "state": row.state})
            colours.append(row.colour)
            head = dict.fromkeys(head, "")
    lines = layout(_numbers_right(rows, columns), columns, headers=headers)
    return list(zip(lines, colours, strict=True))


_NUMBERS = ("leader", "epoch", "partition_epoch", "hw", "replica", "log_end", "lag")


def _numbers_right(rows: list[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with right-aligned numbers, although some cells are empty or words."""
    for name in columns:
        if name in _NUMBERS:
            width = max([len(name), *(len(row[name]) for row in rows)])
            for row in rows:
                row[name] = row[name].rjust(width)
    return rows


def flat_rows(partitions: Iterable[PartitionReplicas], *, max_lag: int | None = None) -> list[dict[str, Any]]:
    """One row per replica with all values, for csv and raw."""
    return [
        {
            **{key: value for key, value in each.as_json().items() if key not in ("replicas", "log_end_offsets")},
            "replica": row.node,
            "log_end_offset": each.log_end_offsets.get(row.node),
            "lag": row.lag,
            "state": row.state,
        }
        for each in partitions
        for row in replica_rows(each, max_lag=max_lag)
    ]


def show(g: "Globals", partitions: Sequence[PartitionReplicas], *, max_lag: int | None = None) -> None:
    """Print partitions in the chosen format."""
    out = g.out
    if out.format in ("json", "yaml"):
        out.object([each.as_json() for each in partitions])
    elif not out.for_people:
        out.table(flat_rows(partitions, max_lag=max_lag), FLAT_COLUMNS)
    else:
        wide = out.format == "wide"
        for line, colour in table_lines(partitions, max_lag=max_lag, headers=out.headers, wide=wide):
            out.line(painted(g, line, colour))


def painted(g: "Globals", line: str, colour: str) -> str:
    """A line of stdout in a colour, if stdout supports colours: a pipe does not, unless FORCE_COLOR is set."""
    wants = g.out.stdout.isatty() or bool(g.settings.environment.get("FORCE_COLOR"))
    return g.out.paint(line, colour) if colour and wants else line


def changes(before: PartitionReplicas | None, now: PartitionReplicas) -> list[str]:
    """The changes of a partition in words, without offsets. A new partition is described completely."""
    if before is None:
        leader = "none" if now.leader == NO_LEADER else now.leader
        return [f"leader {leader}, epoch {now.leader_epoch}, ISR {_nodes(now.isr) or 'none'} of {_nodes(now.replicas)}"]
    found: list[str] = []
    if before.leader != now.leader or before.leader_epoch != now.leader_epoch:
        old, new = ("none" if each.leader == NO_LEADER else str(each.leader) for each in (before, now))
        found.append(f"leader {old} -> {new}, epoch {before.leader_epoch} -> {now.leader_epoch}")
    if set(before.isr) != set(now.isr):
        found.append(f"ISR {_nodes(sorted(before.isr)) or 'none'} -> {_nodes(sorted(now.isr)) or 'none'}")
    if before.replicas != now.replicas:
        found.append(f"replicas {_nodes(before.replicas)} -> {_nodes(now.replicas)}")
    for node in now.replicas:
        old_word, new_word = before.away.get(node), now.away.get(node)
        if old_word != new_word:
            found.append(f"{node}: {new_word or 'answers again'}")
    return found


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)
