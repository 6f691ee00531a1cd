"""`yak isr`: one row per replica, descriptions of unhealthy partitions, and changes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import CONNECTION, OUTPUT, STOP, WHAT, command, flag
from yak.commands.live_table import draw, painted, refreshes
from yak.commands.options import Globals
from yak.commands.output import layout, to_json
from yak.commands.parameters import PartitionFilter, argument
from yak.commands.shell_completion import complete_topic
from yak.commands.units import format_time, parse_duration_ms
from yak.errors import Unreachable, UsageError
from yak.ids import INTERNAL_TOPICS
from yak.view.broker_state import SeenState
from yak.view.formats import counted
from yak.view.partition_replicas import NO_ANSWER, NO_LEADER, PartitionReplicas
from yak.view.partition_state import out_of_sync

if TYPE_CHECKING:
    from yak.client.replica_offsets import ClusterReplicas

    Reader = Callable[[], ClusterReplicas]
    Choice = Callable[[ClusterReplicas], Sequence[PartitionReplicas]]

GOOD, WARN, BAD = "", "33", "1;31"
"""Colours of a row, as ANSI codes; the text beside them carries the same meaning."""
COLUMNS = ("partition", "leader", "epoch", "isr", "hw", "replica", "log_end", "lag", "state")
_STOPPING = SeenState.STOPPING.lower()
"""A broker in this state, which the metadata store names, still leads until others lead its partitions."""
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
        state = "leader"
        if node not in partition.isr:
            state, colour = "leader, OUT OF SYNC", BAD
    elif node in partition.isr:
        state = "in sync"
    else:
        state, colour = "OUT OF SYNC", BAD
    if max_lag is not None and lag is not None and lag > max_lag:
        state, colour = f"{state}, LAG", BAD
    if node in partition.away:
        state, colour = f"{state}, {partition.away[node]}", colour or WARN
    return ReplicaRow(node, lag, state, colour)


def problems(partition: PartitionReplicas, *, max_lag: int | None = None) -> list[str]:
    """The problems of a partition, one phrase each; empty when it is healthy.

    With `max_lag`, a replica with a larger lag is a problem too, and one whose lag is unknown.
    """
    found: list[str] = []
    out = out_of_sync(partition)
    replication = partition.replication
    if replication.is_offline:
        found.append("offline: no leader, neither writes nor reads")
    elif (state := partition.away.get(partition.leader, _STOPPING)) != _STOPPING:
        found.append(f"the leader, {partition.leader}, {'does not answer' if state == NO_ANSWER else f'is {state}'}")
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
            "partition_epoch": _or_dash(each.partition_epoch),
            "isr": _nodes(each.isr) or "none",
            "hw": _or_dash(each.high_watermark),
        }
        for row in replica_rows(each, max_lag=max_lag):
            end = _or_dash(each.log_end_offsets.get(row.node))
            lag = _or_dash(row.lag)
            rows.append({**head, "replica": str(row.node), "log_end": end, "lag": lag, "state": row.state})
            colours.append(row.colour)
            head = dict.fromkeys(head, "")
    lines = layout(_numbers_right(rows, columns), columns, headers=headers)
    return list(zip(lines, colours, strict=True))


_NUMBERS = ("leader", "epoch", "partition_epoch", "hw", "replica", "log_end", "lag")


def _numbers_right(rows: list[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with right-aligned numbers, although some cells are empty or text."""
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


def changes(before: PartitionReplicas | None, now: PartitionReplicas) -> list[str]:
    """The changes of a partition as text, without offsets. A new partition is described completely."""
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


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


class Watch:
    """Reads until Ctrl+C, or `count` times. After the first read succeeded, it continues while no broker answers."""

    def __init__(self, g: "Globals", read: "Reader", chosen: "Choice", max_lag: int | None) -> None:
        self._g = g
        self._read = read
        self._chosen = chosen
        self._max_lag = max_lag
        self._before: dict[tuple[str, int], PartitionReplicas] = {}

    def run(self, interval_ms: int, count: int | None) -> None:
        """Read every `interval_ms`. Raises YakError when the first read fails."""
        in_place = self._g.out.for_people and self._g.out.draws_in_place
        for refresh in refreshes(self._g, interval_ms, count):
            with refresh:
                found = self._read()
                if in_place:
                    self._draw(found)
                else:
                    self._print_changes(found)
            self._g.out.stdout.flush()

    def _now(self) -> str:
        return format_time(self._g.now_ms(), self._g.zone)

    def _draw(self, found: "ClusterReplicas") -> None:
        out = self._g.out
        wide = out.format == "wide"
        table = table_lines(self._chosen(found), max_lag=self._max_lag, headers=out.headers, wide=wide)
        lines, colour = summary(found.partitions, max_lag=self._max_lag)
        below = [("", GOOD), *((line, colour) for line in lines)]
        below += [(f"broker {node} did not answer: {reason}", WARN) for node, reason in found.silent.items()]
        head, more = self._now() + "   Ctrl+C ends", ": name a topic, or --under-replicated"
        draw(self._g, [(head, GOOD)], table, below, more=(more, WARN))

    def _print_changes(self, found: "ClusterReplicas") -> None:
        out, now = self._g.out, self._now()
        partitions = {(each.topic, each.partition): each for each in self._chosen(found)}
        for key, each in partitions.items():
            different = changes(self._before.get(key), each)
            if not different:
                continue
            if out.format == "json":
                out.line(to_json({"time": now, **each.as_json()}))
            elif out.for_people:
                bad = BAD if problems(each, max_lag=self._max_lag) else ""
                out.line(painted(self._g, f"{now}  {each.name}  {'; '.join(different)}", bad))
            else:
                show(self._g, [each], max_lag=self._max_lag)
                out.headers = False
        if out.for_people:
            for key, each in self._before.items():
                if key not in partitions:
                    out.line(f"{now}  {each.name}  no longer listed")
        self._before = partitions


_FROM_REDIS = "yak isr --from-redis" + " " * 11 + "read the metadata store instead"


@command(
    examples=(
        "yak isr",
        "yak isr orders --watch",
        "yak isr --check --max-lag 1000",
        "yak isr --under-replicated -o json",
        "yak isr --from-redis",
    )
)
def isr(
    g: Globals,
    topic: Annotated[
        str | None, argument("TOPIC", "Only this topic.", autocompletion=complete_topic, show_default=False)
    ] = None,
    *,
    only: PartitionFilter,
    internal: bool = flag("--internal", "Also healthy partitions of internal topics.", WHAT, default=False),
    check: bool = flag(
        "--check",
        "Return 4 if a replica is out of sync or a leader does not respond; with -q print only those.",
        WHAT,
        default=False,
    ),
    max_lag: int | None = flag(
        "--max-lag", "A larger lag in records counts as out of sync too.", WHAT, metavar="N", min=0
    ),
    watch: bool = flag("--watch, -w", "Update continuously; without a terminal print changes.", OUTPUT, default=False),
    interval: str = flag("--interval", "Time between updates.", OUTPUT, default="1s", metavar="DURATION"),
    count: int | None = flag("--count", "Stop after N updates.", STOP, metavar="N", min=1),
    from_redis: bool = flag(
        "--from-redis", "Read from the metadata store, not the brokers.", CONNECTION, default=False
    ),
    redis_url: str | None = flag("--redis-url", "The metadata store for --from-redis.", CONNECTION, metavar="URL"),
    data_dir: str | None = flag("--data-dir", "Use the cluster of this yak up directory.", CONNECTION, metavar="DIR"),
) -> int | None:
    """Show leader, in-sync replicas and lag of each partition.

    Read from the brokers, or from the metadata store with --from-redis. Healthy partitions of internal topics are
    counted but not shown, except with --internal or by name.
    """
    if watch and check:
        raise UsageError("usage", "--watch and --check exclude each other", why="a watch has no result")
    if redis_url is not None and not from_redis:
        raise UsageError("usage", "--redis-url needs --from-redis", why="otherwise the brokers are read")
    conditions = only.conditions
    is_complete = internal or topic is not None or any(conditions)
    reader = _reader(g, topic, from_redis=from_redis, redis_url=redis_url, data_dir=data_dir)

    def chosen(found: "ClusterReplicas") -> "tuple[PartitionReplicas, ...]":
        return tuple(
            each
            for each in found.partitions
            if (is_complete or each.topic not in INTERNAL_TOPICS or problems(each, max_lag=max_lag))
            and (conditions.match(each.replication) or (only.under_replicated and problems(each, max_lag=max_lag)))
        )

    if watch:
        Watch(g, reader, chosen, max_lag).run(parse_duration_ms(interval, bare_unit="s"), count)
        return None
    found = reader()
    partitions = chosen(found)
    lines, colour = summary(found.partitions, max_lag=max_lag)
    if check and g.out.quiet:
        for line in lines[:-1]:
            g.out.warn(line)
        return 4 if len(lines) > 1 else None
    show(g, partitions, max_lag=max_lag)
    hidden = 0 if is_complete else _internal(found.partitions) - _internal(partitions)
    _say(g, found, partitions, lines, colour, from_redis=from_redis, hidden=hidden)
    return 4 if check and len(lines) > 1 else None


def _internal(partitions: "tuple[PartitionReplicas, ...]") -> int:
    return sum(each.topic in INTERNAL_TOPICS for each in partitions)


def _say(
    g: Globals,
    found: "ClusterReplicas",
    partitions: "tuple[PartitionReplicas, ...]",
    lines: list[str],
    colour: str,
    *,
    from_redis: bool,
    hidden: int,
) -> None:
    """Print on stderr which partitions are out of sync, which brokers did not answer, and the source of the offsets."""
    if not found.partitions:
        g.out.note("No topics. yak topics create NAME creates one.")
        return
    if not partitions:
        g.out.note("No topics but internal ones." if hidden == len(found.partitions) else "No such partitions.")
    g.out.stdout.flush()
    for line in lines:
        g.out.note(g.out.paint(line, colour) if colour else line)
    if hidden:
        g.out.note(f"{counted(hidden, 'partition')} of internal topics not shown; --internal shows them")
    if from_redis:
        g.out.note("offsets as the leaders last reported them to the metadata store")
        return
    for node, reason in found.silent.items():
        g.out.note(f"broker {node} at {found.brokers[node].address} did not answer: {reason}")


def _reader(
    g: Globals, topic: str | None, *, from_redis: bool, redis_url: str | None, data_dir: str | None
) -> "Callable[[], ClusterReplicas]":
    """A function that reads the cluster once; it raises YakError."""
    from yak.commands.local_cluster import find_local, known_redis

    local = find_local(g, data_dir)
    if from_redis:
        url = known_redis(g, redis_url, local) or str(g.settings.value("redis_url"))
        return lambda: _known_topic(_from_redis(g, url, topic), topic)
    if data_dir is not None and local is None:
        raise UsageError("no-cluster", f"no cluster was started in {data_dir}", try_=(f"yak up --data-dir {data_dir}",))
    servers = g.servers_of_local(local) if local is not None and local.bootstrap else g.bootstrap_servers
    hint = () if local is not None and local.metadata == "raft" else (_FROM_REDIS,)
    latest = [servers]

    def read() -> "ClusterReplicas":
        from yak.client.replica_offsets import read_cluster

        try:
            found = read_cluster(latest[0], timeout_s=g.timeout_s, topic=topic)
        except Unreachable as error:
            raise Unreachable(error.code, error.message, why=error.why, try_=(*hint, *error.try_)) from None
        latest[0] = _all_addresses(latest[0], found.bootstrap)
        return _known_topic(found, topic)

    return read


def _all_addresses(requested: str, found: str) -> str:
    """The given bootstrap servers and those of the answer: a later read needs any one of them."""
    return ",".join(dict.fromkeys([*requested.split(","), *found.split(",")]).keys()).strip(",")


def _from_redis(g: Globals, url: str, topic: str | None) -> "ClusterReplicas":
    from yak.local.replicas_in_redis import read_cluster

    return read_cluster(url, timeout_s=min(3.0, g.timeout_s), topic=topic)


def _known_topic(found: "ClusterReplicas", topic: str | None) -> "ClusterReplicas":
    """Return `found`. Raises YakError (`unknown-topic`) when the requested topic does not exist."""
    from yak.client.metadata import unknown_topic

    if topic is not None and not found.partitions:
        raise unknown_topic(topic, found.topics)
    return found
