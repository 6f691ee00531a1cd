"""Partitions and their replicas as rows: of one topic, of one partition, of all topics. Pure.

Log ends and high watermark come from the picture; the leader's own data (last fetches, epochs) from `/api/partitions`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.protocol.topic_names import is_internal
from yak.tui.formatter import Formatter, round_up
from yak.tui.rows.cells import Cell, Column, Row, SlicedRows, Tone, figure
from yak.tui.rows.topics import TONES, TopicFacts
from yak.tui.state.picture import Broker, Partition, Picture
from yak.view.broker_state import SeenState
from yak.view.formats import format_count, format_duration
from yak.view.lag import lag_records
from yak.view.partition_state import PartitionState

NARROW: Final = 96


def partition_columns(width: int) -> tuple[Column, ...]:
    """The columns; a narrow window uses the short name of the high watermark."""
    return (
        Column("P", 2, is_right=True),
        Column("LEADER", 6, is_right=True, flash=True),
        Column("EPOCH", 5, is_right=True, flash=True),
        Column("ISR", 5, flash=True),
        Column("HW" if width < NARROW else "HIGH WATERMARK", 9, is_right=True),
        Column("LOG START", 9, is_right=True, rank=3),
        Column("SIZE", 8, is_right=True, rank=1),
        Column("IN", 7, is_right=True),
        Column("STATE", 18, most=60, flash=True),
        Column("FOR", 6, flex=1, rank=2),
    )


def isr_cell(partition: Partition, fmt: Formatter) -> Cell:
    """`1 2 ·`: replicas by node, with a dot for each one out of sync."""
    text = " ".join(str(node) if node in partition.isr else fmt.sign("dot") for node in sorted(partition.replicas))
    return Cell(text, "warn" if partition.replication.is_under_replicated else "", len(partition.isr))


def _leader_cell(partition: Partition, fmt: Formatter) -> Cell:
    leader = partition.leader
    return Cell(fmt.sign("none"), "bad", -1) if leader is None else Cell(str(leader), "", leader)


def _offset_cell(offset: int | None, fmt: Formatter, tone: Tone = "") -> Cell:
    return Cell(fmt.number(offset), tone, -1 if offset is None else offset)


def partition_rows(partitions: Sequence[Partition], facts: TopicFacts | None, fmt: Formatter, now_ms: int) -> list[Row]:
    """Rows ordered by partition number, which is the key."""
    return [_partition_row(each, facts, fmt, now_ms) for each in partitions]


def _partition_row(partition: Partition, facts: TopicFacts | None, fmt: Formatter, now_ms: int) -> Row:
    start = None if facts is None else facts.log_starts.get(partition.partition)
    size = None if facts is None else facts.sizes.get(partition.partition)
    return Row(
        str(partition.partition),
        Cell(str(partition.partition), "strong", partition.partition),
        _leader_cell(partition, fmt),
        Cell(str(partition.leader_epoch), "", partition.leader_epoch),
        isr_cell(partition, fmt),
        _offset_cell(partition.high_watermark, fmt),
        _offset_cell(start, fmt, "dim"),
        Cell(fmt.size(size), "", -1 if size is None else size),
        figure(fmt.rate(partition.rate_in), partition.rate_in),
        state_cell(partition, fmt),
        since_cell(partition, now_ms),
    )


def partitions_title(topic: str, partitions: Sequence[Partition], facts: TopicFacts | None, fmt: Formatter) -> str:
    """`Partitions of orders: 3 x RF 3, min ISR 2, 1 843 records, 412 KiB`."""
    factor = max((len(each.replicas) for each in partitions), default=0)
    parts = [f"{fmt.number(len(partitions))} {'x' if fmt.is_ascii else '×'} RF {factor}"]
    if partitions:
        parts.append(f"min ISR {partitions[0].min_isr}")
    if facts is not None:
        messages = facts.messages(partitions)
        parts += [fmt.counted(messages, "record")] if messages is not None else []
        parts += [fmt.size(facts.size_bytes)] if facts.size_bytes is not None else []
    return f"Partitions of {topic}: {', '.join(parts)}"


REPLICA_COLUMNS: Final = (
    Column("NODE", 4, is_right=True),
    Column("REPLICA", 8, rank=2),
    Column("LOG END", 7, is_right=True),
    Column("LAG", 6, is_right=True),
    Column("LEO, HW", 14, most=24, rank=1),
    Column("FETCHED", 7, is_right=True, rank=4),
    Column("CAUGHT UP", 9, is_right=True, rank=3),
    Column("EPOCH", 5, is_right=True, rank=5),
    Column("WHY", 23, most=60, flex=1, flash=True),
)
TOPIC_REPLICA_COLUMNS: Final = (Column("P", 2, is_right=True), *REPLICA_COLUMNS)
BAR_WIDTH: Final = 14
SILENT_MS: Final = 1_000
"""A replica out of sync without a fetch for this long is silent; with one, it is catching up."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A follower as the leader reports it. Times are ages at the time of the report."""

    broker_epoch: int | None
    fetched_ms: int | None
    caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class PartitionDetail:
    """The answer of `/api/partitions/TOPIC/N` at `received_ms`."""

    received_ms: int
    leader_epoch: int
    eligible_leaders: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    epochs: Mapping[int, int] = field(default_factory=dict)
    followers: Mapping[int, Follower] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Mapping[str, Any], received_ms: int) -> "PartitionDetail":
        """Parse the answer."""
        return cls(
            received_ms,
            answer["leader_epoch"],
            tuple(answer["eligible_leaders"]),
            tuple(answer["adding_replicas"]),
            {each["node_id"]: each["broker_epoch"] for each in answer["isr_members"]},
            {
                each["node_id"]: Follower(
                    each["broker_epoch"], each["last_fetched_ms_ago"], each["last_caught_up_ms_ago"]
                )
                for each in answer["followers"]
            },
        )


def offset_bar(log_end: int, high_watermark: int, top: int, window: int, width: int, fmt: Formatter) -> str:
    """The last `window` offsets before `top`: a line up to the log end, with a mark at the high watermark."""
    full, missing, mark = ("=", ".", "|") if fmt.is_ascii else ("━", "┄", "┃")
    window = min(window, top)
    if window <= 0:
        return missing * width
    bottom = top - window

    def place(offset: int) -> int:
        filled = round(min(max((offset - bottom) / window, 0.0), 1.0) * width)
        return min(filled, width - 1) if offset < top else filled  # a bar with lag is never drawn full

    filled = place(log_end)
    cells = [full if at < filled else missing for at in range(width)]
    cells[min(max(place(high_watermark) - 1, 0), width - 1)] = mark
    return "".join(cells)


def window_of(partition: Partition) -> int:
    """The number of offsets in a bar: a round number of at least 100, above the largest lag and 2 s of writes."""
    top = top_of(partition)
    ends = [end for end in partition.log_end_offsets.values() if end is not None]
    behind = max((lag_records(end, top) for end in ends), default=0)
    return round_up(max(100, behind * 1.25, partition.rate_in * 2))


def top_of(partition: Partition) -> int:
    """The leader's log end, or without it the largest known one."""
    ends = [end for node, end in partition.log_end_offsets.items() if end is not None and node in partition.replicas]
    leader = partition.log_end_offset
    return leader if leader is not None else max([*ends, partition.high_watermark or 0])


def replica_rows(
    partition: Partition, detail: PartitionDetail | None, brokers: Mapping[int, Broker], fmt: Formatter, now_ms: int
) -> list[Row]:
    """Rows for `REPLICA_COLUMNS`, the leader first, then by node, which is the key."""
    window, top = window_of(partition), top_of(partition)
    order = sorted(partition.replicas, key=lambda node: (node != partition.leader, node))
    return [_replica_row(node, partition, detail, brokers.get(node), fmt, now_ms, (top, window)) for node in order]


def topic_replica_rows(
    partitions: Sequence[Partition],
    details: Mapping[int, PartitionDetail],
    brokers: Mapping[int, Broker],
    fmt: Formatter,
    now_ms: int,
) -> list[Row]:
    """All replicas of all partitions, for `TOPIC_REPLICA_COLUMNS`; the key is `partition/node`."""
    rows: list[Row] = []
    for each in partitions:
        for number, row in enumerate(replica_rows(each, details.get(each.partition), brokers, fmt, now_ms)):
            text = str(each.partition) if not number else ""
            rows.append(Row(f"{each.partition}/{row.key}", Cell(text, "strong", each.partition), *row.cells))
    return rows


def _replica_row(
    node: int,
    partition: Partition,
    detail: PartitionDetail | None,
    broker: Broker | None,
    fmt: Formatter,
    now_ms: int,
    scale: tuple[int, int],
) -> Row:
    top, window = scale
    end, is_leader = partition.log_end_offsets.get(node), node == partition.leader
    lag = partition.lag(node)
    why, tone = replica_reason(node, partition, detail, broker, now_ms)
    follower = (
        detail.followers.get(node) if detail is not None and detail.leader_epoch == partition.leader_epoch else None
    )
    epoch = detail.epochs.get(node) if detail is not None else None
    if epoch is None and follower is not None:
        epoch = follower.broker_epoch
    fetched, caught_up = _times(follower, detail, lag, now_ms, fmt, is_leader=is_leader)
    bar = ""
    if end is not None:
        bar = offset_bar(end, partition.high_watermark or 0, top, window, BAR_WIDTH, fmt)
    return Row(
        str(node),
        Cell(str(node), "strong", node),
        Cell("leader" if is_leader else "follower", "accent" if is_leader else ""),
        _offset_cell(end, fmt),
        _offset_cell(lag, fmt, "warn" if lag and node not in partition.isr else ""),
        Cell(bar, tone if tone != "good" else "accent"),
        fetched,
        caught_up,
        Cell(fmt.number(epoch), "dim", epoch),
        Cell(f"{fmt.sign(tone)} {why}", tone),
    )


def _times(
    follower: Follower | None,
    detail: PartitionDetail | None,
    lag: int | None,
    now_ms: int,
    fmt: Formatter,
    *,
    is_leader: bool,
) -> tuple[Cell, Cell]:
    none = Cell(fmt.sign("none"), "dim")
    if is_leader:
        return none, Cell("now", "dim", 0)
    if follower is None or detail is None:
        return none, none
    since = max(0, now_ms - detail.received_ms)
    fetched = none
    if follower.fetched_ms is not None:
        fetched = Cell(
            "idle" if lag == 0 else format_duration(follower.fetched_ms + since),
            "dim" if lag == 0 else "",
            follower.fetched_ms,
        )
    if lag == 0:
        return fetched, Cell("now", "dim", 0)
    if follower.caught_up_ms is None:
        return fetched, none
    return fetched, Cell(format_duration(follower.caught_up_ms + since), "", follower.caught_up_ms)


def replica_reason(
    node: int, partition: Partition, detail: PartitionDetail | None, broker: Broker | None, now_ms: int
) -> tuple[str, Tone]:
    """Why the replica is in the ISR or not."""
    down = "broker is gone" if broker is None else "" if broker.is_up else f"broker is {broker.state.lower()}"
    if broker is not None and broker.state is SeenState.CLOSED:
        down = "broker has stopped"
    if node == partition.leader:
        if partition.is_dead(node):
            return f"leads, {down}", "bad"
        return ("leads", "good") if node in partition.isr else ("leads, OUT of sync", "bad")
    if node in partition.isr:
        if partition.leader is None:
            return f"in sync, {down}" if down else "in sync, no leader", "bad"
        return (f"in sync, {down}", "warn") if down else ("in sync", "good")
    if down:
        may_lead = detail is not None and node in detail.eligible_leaders
        return f"OUT: {down}" + (", may lead again" if may_lead else ""), "bad"
    end, top = partition.log_end_offsets.get(node), top_of(partition)
    if detail is not None and node in detail.adding_replicas:
        return f"new: copying, {format_count(lag_records(end or 0, top))} to go", "warn"
    if partition.leader is None:
        return "OUT: there is no leader to copy from", "bad"
    if end is None:
        return f"OUT: never fetched from leader {partition.leader}", "bad"
    silent_ms = _silent_ms(node, partition, detail, now_ms)
    if silent_ms is not None and silent_ms >= SILENT_MS and end < top:
        return f"OUT: no fetch for {format_duration(silent_ms)}", "bad"
    if end < top:
        return f"OUT: catching up, lag {format_count(top - end)}", "warn"
    return "OUT: caught up, joins at once", "warn"


def _silent_ms(node: int, partition: Partition, detail: PartitionDetail | None, now_ms: int) -> int | None:
    if detail is None or detail.leader_epoch != partition.leader_epoch or node not in detail.followers:
        return None
    fetched_ms = detail.followers[node].fetched_ms
    return None if fetched_ms is None else fetched_ms + max(0, now_ms - detail.received_ms)


def meaning(partition: Partition, fmt: Formatter) -> list[Cell]:
    """The sentences under the table: the high watermark, and acks=all now and after one more failure."""
    return [_watermark(partition, fmt), *_acks(partition, fmt)]


def _set(nodes: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, sorted(nodes))) + "}"


def _watermark(partition: Partition, fmt: Formatter) -> Cell:
    high = fmt.number(partition.high_watermark)
    ends = [partition.log_end_offsets.get(node) for node in partition.isr]
    known = [end for end in ends if end is not None]
    isr = _set(partition.isr)
    if partition.leader is None or partition.high_watermark is None or not known or len(known) < len(ends):
        return Cell(f"HW = {high}.")
    least = min(known)
    if least > partition.high_watermark:
        return Cell(f"HW = {high}, on its way to min(LEO of ISR {isr}) = {fmt.number(least)}.")
    return Cell(f"HW = min(LEO of ISR {isr}) = {high}.")


def _acks(partition: Partition, fmt: Formatter) -> list[Cell]:
    if partition.leader is None:
        back = f" until {_set(partition.isr)} is back" if partition.isr else ""
        return [Cell(f"No leader: neither writes nor reads{back}.", "bad")]
    if partition.is_dead(partition.leader):
        return [Cell(f"The leader, node {partition.leader}, is dead: neither writes nor reads.", "bad")]
    dead = next(filter(partition.is_dead, partition.isr), None)
    if dead is not None:
        return [Cell(f"acks=all: waits for node {dead}, which is dead.", "bad")]
    count, needed = len(partition.isr), partition.replication.needed
    least, less = (">=", "<") if fmt.is_ascii else ("≥", "<")
    if count < needed:
        return [Cell(f"acks=all: rejected (ISR {count} {less} min {needed}).", "bad")]
    found = [Cell(f"acks=all: accepted (ISR {count} {least} min {needed}).", "good")]
    others = [node for node in partition.isr if node != partition.leader]
    if not others:
        return [*found, Cell(f"If node {partition.leader} fails: offline.", "bad")]
    who = f"node {others[0]} also fails" if count < len(partition.replicas) else "one node fails"
    if count - 1 < needed:
        return [*found, Cell(f"If {who}: rejected.", "warn")]
    spare = count - needed
    more = "still accepted" if spare == 1 else f"still accepted, up to {spare} of them"
    return [*found, Cell(f"If {who}: {more}.", "good")]


REPLICAS_MAX: Final = 5
"""Columns with bars; further replicas appear in the IN column only."""
SCAN_MAX: Final = 2_000
"""With more partitions than this, problems are looked up once a second instead of at each drawing."""
_BESIDE_BAR: Final = 7
"""Node, sign and lag of a replica's cell."""


def replication_columns(replicas: int, bar_width: int) -> tuple[Column, ...]:
    """The columns for this number of replicas; the bars get the remaining width."""
    return (
        Column("STATE", 12, most=22, flash=True),
        Column("FOR", 6, rank=2),
        Column("PARTITION", 10, most=60, flex=1, preferred=20),
        Column("LEADER", 6, is_right=True, flash=True, rank=3),
        Column("EPOCH", 5, is_right=True, flash=True, rank=2),
        Column("ISR", 5, flash=True, rank=1),
        Column("HW", 9, is_right=True, rank=5),
        Column("IN", 6, is_right=True, rank=4),
        *(
            Column("FOLLOWER" if number else "LEADER LOG", bar_width + _BESIDE_BAR)
            for number in range(min(replicas, REPLICAS_MAX))
        ),
    )


def bar_width(width: int, replicas: int) -> int:
    """The width of a bar in a window."""
    fixed = 11 + 16 + 8 + (27 if width >= 96 else 0) + (8 if width >= 110 else 0) + (22 if width >= 130 else 0)
    count = max(1, min(replicas, REPLICAS_MAX))
    return min(20, max(3, (width - fixed) // count - _BESIDE_BAR - 2))


def state_cell(partition: Partition, fmt: Formatter) -> Cell:
    """The partition's state as a sign and its label."""
    state = partition.state
    return Cell(f"{fmt.sign(TONES[state])} {state.label}", TONES[state], state.severity)


def since_cell(partition: Partition, now_ms: int) -> Cell:
    """How long a replica has been out of sync."""
    if partition.since_ms is None:
        return Cell("", "", 0)
    since_ms = max(0, now_ms - partition.since_ms)
    return Cell(format_duration(since_ms), TONES[partition.state], since_ms)


def replication_row(
    partition: Partition, picture: Picture, fmt: Formatter, now_ms: int, replicas: int, width: int
) -> Row:
    """One partition."""
    leader = partition.leader
    order = [node for node in (leader,) if node in partition.replicas]
    order += [node for node in partition.replicas if node != leader]
    window, top = window_of(partition), top_of(partition)
    bars = [_bar(node, partition, picture, fmt, (top, window, width)) for node in order[:REPLICAS_MAX]]
    bars += [Cell("")] * (min(replicas, REPLICAS_MAX) - len(bars))
    return Row(
        partition.name,
        state_cell(partition, fmt),
        since_cell(partition, now_ms),
        Cell(partition.name, "strong"),
        _leader_cell(partition, fmt),
        Cell(str(partition.leader_epoch), "", partition.leader_epoch),
        isr_cell(partition, fmt),
        _offset_cell(partition.high_watermark, fmt),
        figure(fmt.rate(partition.rate_in), partition.rate_in),
        *bars,
    )


def _bar(node: int, partition: Partition, picture: Picture, fmt: Formatter, scale: tuple[int, int, int]) -> Cell:
    """`3 ████▓░░ 1.4k`: node, log, lag; a cross if it is out of sync."""
    top, window, width = scale
    end, broker = partition.log_end_offsets.get(node), picture.brokers.get(node)
    is_out = node not in partition.isr
    is_gone = broker is None or not broker.is_up
    sign = ("x" if fmt.is_ascii else "✗") if is_out else " "
    tone: Tone = "bad" if is_out else "warn" if is_gone else "accent"
    if end is None:
        return Cell(f"{node}{sign}{'not known':<{width}.{width}}", "bad" if is_out else "dim")
    lag = partition.lag(node)
    bar = offset_bar(end, partition.high_watermark or 0, top, window, width, fmt)
    behind = f" {format_count(lag)}" if lag else ""
    return Cell(f"{node}{sign}{bar}{behind}", tone, -1 if lag is None else lag)


class ReplicationTable:
    """The rows of all partitions, those with problems first."""

    def __init__(self) -> None:
        self._replicas, self._width = 3, 8
        self._by_name: dict[str, Partition] = {}
        self._names: list[str] = []
        self._bad: list[str] = []
        self._known: tuple[object, ...] = ()
        self._scanned_ms = 0
        self._rows = SlicedRows()

    @property
    def count(self) -> int:
        return len(self._names)

    @property
    def count_ok(self) -> int:
        """The number of partitions with a leader and all replicas in sync."""
        return len(self._names) - len(self._bad)

    def rows(
        self, picture: Picture, fmt: Formatter, now_ms: int, in_sight: Iterable[str], width: int, *, with_internal: bool
    ) -> list[Row]:
        known = (picture.topics_version, with_internal)
        is_new = known != self._known
        if is_new:
            self._learn(picture, with_internal=with_internal)
            self._known = known
        replicas, bar = self._replicas, bar_width(width, self._replicas)
        self._width = bar
        if is_new or len(self._by_name) <= SCAN_MAX or now_ms - self._scanned_ms >= 1_000:
            self._scanned_ms = now_ms
            states = [(each.state, name) for name, each in self._by_name.items()]
            bad = [(-state.severity, name) for state, name in states if state is not PartitionState.OK]
            self._bad = [name for _, name in sorted(bad, key=lambda each: each[0])]
        ordered = self._names
        if self._bad:
            first = set(self._bad)
            ordered = self._bad + [name for name in self._names if name not in first]

        def make(name: str) -> Row:
            return replication_row(self._by_name[name], picture, fmt, now_ms, replicas, bar)

        def bare(name: str) -> Row:
            labels = (column.label for column in self.columns())
            return Row(name, *(Cell(name, "strong") if label == "PARTITION" else Cell("") for label in labels))

        in_sight = [name for name in in_sight if name in self._by_name]  # the screen still shows deleted ones
        return self._rows.update(ordered, in_sight, make, bare, (picture, fmt, replicas, bar))

    def _learn(self, picture: Picture, *, with_internal: bool) -> None:
        found: list[Partition] = []
        for topic in sorted(picture.topics):
            if with_internal or not is_internal(topic):
                found += picture.topics[topic]
        self._by_name = {each.name: each for each in found}
        self._names = list(self._by_name)
        self._replicas = max((len(each.replicas) for each in found), default=1)

    def partition(self, key: str | None) -> Partition | None:
        return None if key is None else self._by_name.get(key)

    def is_problem(self, key: str) -> bool:
        return self._by_name[key].state is not PartitionState.OK

    def columns(self) -> Sequence[Column]:
        return replication_columns(self._replicas, self._width)
