"""One group as rows: its members, its partitions. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from yak.client.groups.lag import Marks, PartitionLag
from yak.client.groups.places import partitions_text
from yak.ids import TopicPartition
from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.rows.groups import eta_cell, lag_cell, state_cell, trend_cell
from yak.tui.state.groups import Group, Unread

MEMBER_COLUMNS: Final = (
    Column("CLIENT", 8, most=40),
    Column("HOST", 9, most=40),
    Column("PARTS", 5, is_right=True),
    Column("ASSIGNED", 12, most=200, flex=1),
    Column("INSTANCE", 8, rank=2),
    Column("MEMBER ID", 12, most=60, rank=3),
)
PARTITION_COLUMNS: Final = (
    Column("TOPIC", 8, most=60),
    Column("P", 2, is_right=True),
    Column("COMMITTED", 9, is_right=True, flash=True),
    Column("LOG END", 8, is_right=True, flash=True),
    Column("LAG", 5, is_right=True),
    Column("AGE", 6, is_right=True),
    Column("MEMBER", 8, most=200, flex=1),
    Column("START", 6, is_right=True, rank=3),
)
AGE: Final = 5
"""The index of the age column."""


def lag_of(said: Mapping[str, Any]) -> PartitionLag:
    """A partition of `/api/groups/NAME`."""
    known = said["log_start_offset"] is not None and said["high_watermark"] is not None
    marks = Marks(said["log_start_offset"], said["high_watermark"]) if known else None
    return PartitionLag(TopicPartition(said["topic"], said["partition"]), said["committed"], marks)


def member_rows(said: Mapping[str, Any], look: Look) -> list[Row]:
    """One row per member."""
    return [
        _member(each, look) for each in sorted(said["members"], key=lambda one: (one["client_id"], one["member_id"]))
    ]


def _member(said: Mapping[str, Any], look: Look) -> Row:
    assigned = _places(said["assignment"])
    target = _places(said["target"])
    if assigned is None:
        words = Cell("not told while the group rebalances", "dim")
    elif target is not None and set(target) != set(assigned):
        words = Cell(
            f"{partitions_text(assigned) or 'none'} {look.sign('arrow')} {partitions_text(target) or 'none'}", "warn"
        )
    else:
        words = Cell(partitions_text(assigned) or "nothing: more members than partitions", "" if assigned else "dim")
    return Row(
        said["member_id"],
        (
            Cell(said["client_id"], "strong"),
            Cell(said["host"].lstrip("/")),
            Cell(look.sign("none") if assigned is None else look.number(len(assigned)), "", len(assigned or ())),
            words,
            Cell(said["instance_id"] or look.sign("none"), "dim"),
            Cell(said["member_id"], "dim"),
        ),
    )


def _places(said: list[Mapping[str, Any]] | None) -> list[TopicPartition] | None:
    return None if said is None else [TopicPartition(each["topic"], each["partition"]) for each in said]


def partition_rows(
    said: Mapping[str, Any], unread: Mapping[TopicPartition, Unread], look: Look, now_ms: int
) -> list[Row]:
    """One row per partition that has a committed offset or a member."""
    clients = {each["member_id"]: each["client_id"] for each in said["members"]}
    return [_partition(each, clients, unread, look, now_ms) for each in said["partitions"]]


def _partition(
    said: Mapping[str, Any],
    clients: Mapping[str, str],
    unread: Mapping[TopicPartition, Unread],
    look: Look,
    now_ms: int,
) -> Row:
    known = lag_of(said)
    found = unread.get(known.partition)
    trouble = known.trouble
    if known.lag == 0:
        age = Cell("0 s", "good", 0)
    elif known.lag is None or found is None:
        age = Cell(look.sign("none"), "dim", -1)
    else:
        age_ms = found.age_ms(known.committed, now_ms)
        age = Cell(span(age_ms), "", age_ms)
    member = said["member_id"]
    who = Cell(clients.get(member, member) if member else f"{look.sign('none')} nobody", "" if member else "dim")
    if trouble is not None:
        who = Cell(f"{look.sign('warn')} {trouble}", "warn")
    topic, number = known.partition
    return Row(
        f"{topic}:{number}",
        (
            Cell(topic),
            Cell(str(number), "", number),
            Cell(look.number(known.committed), "" if known.committed is not None else "dim", known.committed),
            Cell(look.number(said["high_watermark"]), "", said["high_watermark"]),
            lag_cell(known.lag, look),
            age,
            who,
            Cell(look.number(said["log_start_offset"]), "dim", said["log_start_offset"]),
        ),
    )


def summary(group: Group, look: Look, now_ms: int) -> list[list[Cell]]:
    """Two lines: the group's state, and its lag."""
    said = group.said
    if said is None:
        return [[Cell(group.why or "asking its coordinator ...", "bad" if group.why else "dim")]]
    kind = ", ".join(part for part in (said["type"], said["protocol_type"]) if part)
    assignor = f"assignor {said['assignor']}" if said["assignor"] else "no assignor"
    epoch = "" if said["epoch"] is None else f", epoch {said['epoch']}"
    lag, dot = lag_cell(group.lag, look), look.sign("dot")
    words = "nothing committed" if group.lag is None else f"lag {lag.text}"
    return [
        [
            state_cell(group.state, look, is_short=False),
            Cell(f"{dot} {kind}, {assignor}{epoch} {dot} coordinator {group.coordinator}", "dim"),
        ],
        [
            Cell(words, lag.tone),
            trend_cell(group, look, now_ms, 20),
            Cell(f"in {len(said['partitions'])} partitions {dot} ETA", "dim"),
            eta_cell(group, look, now_ms),
        ],
    ]


def members_words(said: Mapping[str, Any]) -> str:
    """`worker-1 at 10.0.0.1, worker-2 at 10.0.0.2 and 3 more`."""
    members = said["members"]
    shown = ", ".join(f"{each['client_id']} at {each['host'].lstrip('/')}" for each in members[:3])
    return shown + (f" and {len(members) - 3} more" if len(members) > 3 else "")
