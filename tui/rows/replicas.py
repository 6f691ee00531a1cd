"""Replicas of one partition as rows: their log ends, and why they are in the ISR or not. Pure.

Log ends and high watermark come from the picture; the leader's own data (last fetches, epochs) from `/api/partitions`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.tui.look import Look, short, span
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.picture import Broker, Partition

COLUMNS: Final = (
    Column("NODE", 4, is_right=True),
    Column("ROLE", 8, rank=2),
    Column("LOG END", 7, is_right=True),
    Column("BEHIND", 6, is_right=True),
    Column("LEO, HW", 14, most=24, rank=1),
    Column("FETCHED", 7, is_right=True, rank=4),
    Column("CAUGHT UP", 9, is_right=True, rank=3),
    Column("EPOCH", 5, is_right=True, rank=5),
    Column("WHY", 23, most=60, flex=1, flash=True),
)
TOPIC_COLUMNS: Final = (Column("P", 2, is_right=True), *COLUMNS)
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
    """The answer of `/api/partitions/TOPIC/N` at `told_ms`."""

    told_ms: int
    told_by: int
    leader_epoch: int
    min_isr: int
    eligible_leaders: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    epochs: Mapping[int, int] = field(default_factory=dict)
    followers: Mapping[int, Follower] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Mapping[str, Any], told_ms: int) -> "PartitionDetail":
        """Parse the answer. Brokers of an older version omit the time of the last fetch."""
        return cls(
            told_ms,
            answer["told_by"],
            answer["leader_epoch"],
            answer["min_isr"],
            tuple(answer["eligible_leaders"]),
            tuple(answer["adding_replicas"]),
            {each["node_id"]: each["broker_epoch"] for each in answer["isr_members"]},
            {
                each["node_id"]: Follower(
                    each["broker_epoch"], each.get("last_fetched_ms_ago"), each["last_caught_up_ms_ago"]
                )
                for each in answer["followers"]
            },
        )


def offset_bar(log_end: int, high_watermark: int, top: int, window: int, width: int, look: Look) -> str:
    """The last `window` offsets before `top`: a line up to the log end, with a mark at the high watermark."""
    full, missing, mark = ("=", ".", "|") if look.is_ascii else ("━", "┄", "┃")
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
    behind = max((top - end for end in ends), default=0)
    wanted = max(100, behind * 1.25, partition.rate_in * 2)
    window = 100
    while window < wanted:
        for factor in (1, 2, 5):
            if window * factor >= wanted:
                return window * factor
        window *= 10
    return window


def top_of(partition: Partition) -> int:
    """The leader's log end, or without it the largest known one."""
    ends = [end for node, end in partition.log_end_offsets.items() if end is not None and node in partition.replicas]
    leader = partition.log_end_offset
    return leader if leader is not None else max([*ends, partition.high_watermark or 0])


def replica_rows(
    partition: Partition,
    detail: PartitionDetail | None,
    brokers: Mapping[int, Broker],
    look: Look,
    now_ms: int,
) -> list[Row]:
    """Rows for `COLUMNS`, the leader first, then by node, which is the key."""
    window, top = window_of(partition), top_of(partition)
    order = sorted(partition.replicas, key=lambda node: (node != partition.leader, node))
    return [_row(node, partition, detail, brokers.get(node), look, now_ms, (top, window)) for node in order]


def topic_replica_rows(
    partitions: Sequence[Partition],
    details: Mapping[int, PartitionDetail],
    brokers: Mapping[int, Broker],
    look: Look,
    now_ms: int,
) -> list[Row]:
    """All replicas of all partitions, for `TOPIC_COLUMNS`; the key is `partition/node`."""
    rows: list[Row] = []
    for each in partitions:
        for number, row in enumerate(replica_rows(each, details.get(each.partition), brokers, look, now_ms)):
            words = str(each.partition) if not number else ""
            rows.append(Row(f"{each.partition}/{row.key}", (Cell(words, "strong", each.partition), *row.cells)))
    return rows


def _row(
    node: int,
    partition: Partition,
    detail: PartitionDetail | None,
    broker: Broker | None,
    look: Look,
    now_ms: int,
    scale: tuple[int, int],
) -> Row:
    top, window = scale
    end, is_leader = partition.log_end_offsets.get(node), node == partition.leader
    lag = None if end is None else max(0, top - end)
    why, tone = why_words(node, partition, detail, broker, now_ms)
    follower = (
        detail.followers.get(node) if detail is not None and detail.leader_epoch == partition.leader_epoch else None
    )
    epoch = detail.epochs.get(node) if detail is not None else None
    if epoch is None and follower is not None:
        epoch = follower.broker_epoch
    fetched, caught_up = _times(follower, detail, lag, now_ms, look, is_leader=is_leader)
    bar = ""
    if end is not None:
        bar = offset_bar(end, partition.high_watermark or 0, top, window, BAR_WIDTH, look)
    return Row(
        str(node),
        (
            Cell(str(node), "strong", node),
            Cell("leader" if is_leader else "follower", "accent" if is_leader else ""),
            Cell(look.number(end), "", -1 if end is None else end),
            Cell(look.number(lag), "warn" if lag and node not in partition.isr else "", -1 if lag is None else lag),
            Cell(bar, tone if tone != "good" else "accent"),
            fetched,
            caught_up,
            Cell(look.number(epoch), "dim", epoch),
            Cell(f"{look.sign(_SIGNS[tone])} {why}", tone),
        ),
    )


_SIGNS: Final[dict[Tone, str]] = {"good": "good", "warn": "warn", "bad": "bad"}


def _times(
    follower: Follower | None,
    detail: PartitionDetail | None,
    lag: int | None,
    now_ms: int,
    look: Look,
    *,
    is_leader: bool,
) -> tuple[Cell, Cell]:
    none = Cell(look.sign("none"), "dim")
    if is_leader:
        return none, Cell("now", "dim", 0)
    if follower is None or detail is None:
        return none, none
    since = max(0, now_ms - detail.told_ms)
    fetched = none
    if follower.fetched_ms is not None:
        fetched = Cell(
            "idle" if lag == 0 else span(follower.fetched_ms + since), "dim" if lag == 0 else "", follower.fetched_ms
        )
    if lag == 0:
        return fetched, Cell("now", "dim", 0)
    if follower.caught_up_ms is None:
        return fetched, none
    return fetched, Cell(span(follower.caught_up_ms + since), "", follower.caught_up_ms)


def why_words(
    node: int, partition: Partition, detail: PartitionDetail | None, broker: Broker | None, now_ms: int
) -> tuple[str, Tone]:
    """Why the replica is in the ISR or not."""
    down = "" if broker is not None and broker.is_up else "broker is gone"
    if broker is not None and not broker.is_up:
        down = {"STOPPING": "broker is stopping", "CLOSED": "broker has stopped"}.get(broker.state, "broker is fenced")
    if node == partition.leader:
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
        return f"new: copying, {short(max(0, top - (end or 0)))} to go", "warn"
    if partition.leader is None:
        return "OUT: there is no leader to copy from", "bad"
    if end is None:
        return f"OUT: never fetched from leader {partition.leader}", "bad"
    silent_ms = _silent_ms(node, partition, detail, now_ms)
    if silent_ms is not None and silent_ms >= SILENT_MS and end < top:
        return f"OUT: no fetch for {span(silent_ms)}", "bad"
    if end < top:
        return f"OUT: catching up, {short(top - end)} behind", "warn"
    return "OUT: caught up, joins at once", "warn"


def _silent_ms(node: int, partition: Partition, detail: PartitionDetail | None, now_ms: int) -> int | None:
    if detail is None or detail.leader_epoch != partition.leader_epoch or node not in detail.followers:
        return None
    fetched_ms = detail.followers[node].fetched_ms
    return None if fetched_ms is None else fetched_ms + max(0, now_ms - detail.told_ms)


def meaning(partition: Partition, detail: PartitionDetail | None, look: Look) -> list[Cell]:
    """The sentences under the table: the high watermark, and acks=all now and after one more failure."""
    min_isr = detail.min_isr if detail is not None else None
    return [_watermark(partition, look), *_acks(partition, min_isr, look)]


def _set(nodes: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, sorted(nodes))) + "}"


def _watermark(partition: Partition, look: Look) -> Cell:
    high = look.number(partition.high_watermark)
    ends = [partition.log_end_offsets.get(node) for node in partition.isr]
    known = [end for end in ends if end is not None]
    isr = _set(partition.isr)
    if partition.leader is None or partition.high_watermark is None or not known or len(known) < len(ends):
        return Cell(f"HW = {high}.")
    least = min(known)
    if least > partition.high_watermark:
        return Cell(f"HW = {high}, on its way to min(LEO of ISR {isr}) = {look.number(least)}.")
    return Cell(f"HW = min(LEO of ISR {isr}) = {high}.")


def _acks(partition: Partition, min_isr: int | None, look: Look) -> list[Cell]:
    if partition.leader is None:
        back = f" until {_set(partition.isr)} is back" if partition.isr else ""
        return [Cell(f"No leader: neither writes nor reads{back}.", "bad")]
    if min_isr is None:
        return []
    count = len(partition.isr)
    needed = min(min_isr, len(partition.replicas))
    least, less = (">=", "<") if look.is_ascii else ("≥", "<")
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
