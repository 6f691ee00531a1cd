"""Every partition in one row, with a bar for each replica's log end against the high watermark. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from yak.tui.look import Look, short, span
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.rows.partitions import isr_cell
from yak.tui.rows.replicas import offset_bar, top_of, window_of
from yak.tui.rows.slices import SlicedRows
from yak.tui.rows.topics import is_internal
from yak.tui.state.picture import Partition, Picture

REPLICAS_MAX: Final = 5
"""Columns with bars; further replicas appear in the IN column only."""
SCAN_MAX: Final = 2_000
"""With more partitions than this, problems are looked up once a second instead of at each drawing."""
_BESIDE_BAR: Final = 7
"""Node, sign and lag of a replica's cell."""


def columns(replicas: int, bar_width: int) -> tuple[Column, ...]:
    """The columns for this number of replicas; the bars get the remaining width."""
    return (
        Column("STATE", 9, most=22, flash=True),
        Column("FOR", 6, rank=2),
        Column("PARTITION", 10, most=60, flex=1),
        Column("LEADER", 6, is_right=True, flash=True, rank=3),
        Column("EPOCH", 5, is_right=True, flash=True, rank=2),
        Column("ISR", 5, flash=True, rank=1),
        Column("HW", 9, is_right=True, rank=5),
        Column("IN", 6, is_right=True, rank=4),
        *(Column(_ordinal(number), bar_width + _BESIDE_BAR) for number in range(min(replicas, REPLICAS_MAX))),
    )


def _ordinal(number: int) -> str:
    return "LEADER LOG" if number == 0 else "FOLLOWER"


def bar_width(width: int, replicas: int) -> int:
    """The width of a bar in a window."""
    fixed = 11 + 16 + 8 + (27 if width >= 96 else 0) + (8 if width >= 110 else 0) + (22 if width >= 130 else 0)
    shown = max(1, min(replicas, REPLICAS_MAX))
    return min(20, max(3, (width - fixed) // shown - _BESIDE_BAR - 2))


def key_of(partition: Partition) -> str:
    """`orders-0`, the key of its row."""
    return partition.name


def badness(partition: Partition) -> int:
    """0 is healthy; a higher number is worse."""
    if partition.leader is None:
        return 3
    if len(partition.isr) <= 1 < len(partition.replicas):
        return 2
    return int(partition.is_under_replicated)


def state_cell(partition: Partition, look: Look) -> Cell:
    """The partition's state as a sign and words."""
    bad = badness(partition)
    if not bad:
        return Cell(f"{look.sign('good')} in sync", "good", 0)
    tone: Tone = "warn" if bad == 1 else "bad"
    if partition.leader is None:
        words = "no leader"
    elif bad > 1:
        words = f"{len(partition.isr)} left"
    else:
        words = f"{len(partition.replicas) - len(partition.isr)} out"
    return Cell(f"{look.sign('warn' if bad == 1 else 'bad')} {words}", tone, bad)


def since_cell(partition: Partition, now_ms: int) -> Cell:
    """How long a replica has been out of sync."""
    if partition.since_ms is None:
        return Cell("", "", 0)
    since_ms = max(0, now_ms - partition.since_ms)
    return Cell(span(since_ms), "warn", since_ms)


def partition_row(partition: Partition, picture: Picture, look: Look, now_ms: int, replicas: int, width: int) -> Row:
    """One partition."""
    leader = partition.leader
    order = [node for node in (leader,) if node in partition.replicas]
    order += [node for node in partition.replicas if node != leader]
    window, top = window_of(partition), top_of(partition)
    bars = [_bar(node, partition, picture, look, (top, window, width)) for node in order[:REPLICAS_MAX]]
    bars += [Cell("")] * (min(replicas, REPLICAS_MAX) - len(bars))
    high = partition.high_watermark
    return Row(
        key_of(partition),
        (
            state_cell(partition, look),
            since_cell(partition, now_ms),
            Cell(partition.name, "strong"),
            Cell(
                look.sign("none") if leader is None else str(leader),
                "bad" if leader is None else "",
                -1 if leader is None else leader,
            ),
            Cell(str(partition.leader_epoch), "", partition.leader_epoch),
            isr_cell(partition, look),
            Cell(look.number(high), "", -1 if high is None else high),
            Cell(look.rate(partition.rate_in), "" if partition.rate_in else "dim", partition.rate_in),
            *bars,
        ),
    )


def _bar(node: int, partition: Partition, picture: Picture, look: Look, scale: tuple[int, int, int]) -> Cell:
    """`3 ████▓░░ 1.4k`: node, log, lag; a cross if it is out of sync."""
    top, window, width = scale
    end, broker = partition.log_end_offsets.get(node), picture.brokers.get(node)
    is_out = node not in partition.isr
    is_gone = broker is None or not broker.is_up
    sign = ("x" if look.is_ascii else "✗") if is_out else " "
    tone: Tone = "bad" if is_out else "warn" if is_gone else "accent"
    if end is None:
        return Cell(f"{node}{sign}{'not known':<{width}.{width}}", "bad" if is_out else "dim")
    lag = max(0, top - end)
    bar = offset_bar(end, partition.high_watermark or 0, top, window, width, look)
    behind = f" {short(lag)}" if lag else ""
    return Cell(f"{node}{sign}{bar}{behind}", tone, lag)


class ReplicationTable:
    """The rows of all partitions, those with problems first."""

    def __init__(self) -> None:
        self._picture = Picture()
        self._shape: tuple[object, ...] = ()
        self._look, self._now_ms, self._replicas, self._width = Look(), 0, 3, 8
        self._by_name: dict[str, Partition] = {}
        self._names: list[str] = []
        self._bad: list[str] = []
        self._known: tuple[object, ...] = ()
        self._scanned_ms = 0
        self._rows = SlicedRows(self._make, self._bare)

    @property
    def count(self) -> int:
        """The number of partitions shown."""
        return len(self._names)

    @property
    def count_well(self) -> int:
        """The number of partitions with a leader and all replicas in sync."""
        return len(self._names) - len(self._bad)

    def rows(
        self, picture: Picture, look: Look, now_ms: int, in_sight: Iterable[str], width: int, *, with_internal: bool
    ) -> list[Row]:
        """All rows, for a table of this `width`."""
        known = (id(picture), picture.topics_version, with_internal)
        is_new = known != self._known
        if is_new:
            self._learn(picture, with_internal=with_internal)
            self._known = known
        shape = (id(picture), look, self._replicas, bar_width(width, self._replicas))
        if shape != self._shape:
            self._shape, self._look, self._width = shape, look, bar_width(width, self._replicas)
            self._rows.forget()
        self._now_ms = now_ms
        if is_new or len(self._by_name) <= SCAN_MAX or now_ms - self._scanned_ms >= 1_000:
            self._scanned_ms = now_ms
            bad = [(-badness(each), name) for name, each in self._by_name.items() if badness(each)]
            self._bad = [name for _, name in sorted(bad, key=lambda each: each[0])]
        if not self._bad:
            return self._rows.update(self._names, in_sight)
        first = set(self._bad)
        ordered = self._bad + [name for name in self._names if name not in first]
        return self._rows.update(ordered, in_sight)

    def _learn(self, picture: Picture, *, with_internal: bool) -> None:
        self._picture = picture
        found: list[Partition] = []
        for topic in sorted(picture.topics):
            if with_internal or not is_internal(topic):
                found += picture.topics[topic]
        self._by_name = {key_of(each): each for each in found}
        self._names = list(self._by_name)
        self._replicas = max((len(each.replicas) for each in found), default=1)

    def partition(self, key: str | None) -> Partition | None:
        """The partition of a row."""
        return None if key is None else self._by_name.get(key)

    def columns(self) -> Sequence[Column]:
        """The present columns."""
        return columns(self._replicas, self._width)

    def _make(self, name: str) -> Row:
        return partition_row(self._by_name[name], self._picture, self._look, self._now_ms, self._replicas, self._width)

    def _bare(self, name: str) -> Row:
        return Row(
            name, (Cell(""), Cell(""), Cell(name, "strong"), *[Cell("")] * (4 + min(self._replicas, REPLICAS_MAX)))
        )
