"""Consumer groups as rows. Pure."""

from typing import Final

from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.groups import Group, Groups

COLUMNS: Final = (
    Column("GROUP", 10, most=60, flex=1),
    Column("STATE", 9, most=22),
    Column("TYPE", 8, rank=2),
    Column("MEMBERS", 7, is_right=True),
    Column("COORD", 5, is_right=True, rank=1),
    Column("LAG", 7, is_right=True),
    Column("TREND 60 s", 10, most=20),
    Column("ETA", 9, is_right=True),
)
TREND_WIDTH: Final = 10
_STATES: Final[dict[str, tuple[str, Tone]]] = {
    "Stable": ("up", "good"),
    "Empty": ("down", "dim"),
    "Dead": ("bad", "bad"),
    "PreparingRebalance": ("warn", "warn"),
    "CompletingRebalance": ("warn", "warn"),
    "Assigning": ("warn", "warn"),
    "Reconciling": ("warn", "warn"),
    "NotReady": ("warn", "warn"),
}
_SHORT: Final = {"PreparingRebalance": "joining", "CompletingRebalance": "syncing"}
"""Kafka's names of these two are too wide for a column; the group's screen shows them in full."""


def state_cell(state: str, look: Look, *, is_short: bool = True) -> Cell:
    """The state as a sign and a word."""
    sign, tone = _STATES.get(state, ("unknown", ""))
    words = _SHORT.get(state, state) if is_short else state
    return Cell(f"{look.sign(sign)} {words or 'unknown'}", tone, words)


def lag_cell(lag: int | None, look: Look) -> Cell:
    """The lag in records: a dash if nothing is committed, 0 if everything is read."""
    if lag is None:
        return Cell(look.sign("none"), "dim", -1)
    return Cell(look.number(lag), "good" if lag == 0 else "", lag)


def group_rows(groups: Groups, look: Look, now_ms: int) -> list[Row]:
    """Rows ordered by name."""
    return [_row(groups.by_name[name], look, now_ms) for name in sorted(groups.by_name)]


def _row(group: Group, look: Look, now_ms: int) -> Row:
    if group.said is None:
        rest = (_unknown(group, look), Cell(""), Cell(""))
        members = Cell(look.sign("unknown") if group.why else "", "dim", -1)
    else:
        rest = (lag_cell(group.lag, look), trend_cell(group, look, now_ms), eta_cell(group, look, now_ms))
        members = Cell(look.number(group.members), "dim" if not group.members else "", group.members)
    return Row(
        group.name,
        (
            Cell(group.name, "strong"),
            state_cell(group.state, look),
            Cell(group.type, "dim"),
            members,
            Cell(look.sign("none") if group.coordinator is None else str(group.coordinator), "dim", group.coordinator),
            *rest,
        ),
    )


def _unknown(group: Group, look: Look) -> Cell:
    return Cell(look.sign("unknown") if group.why else "", "dim", -2)


def trend_cell(group: Group, look: Look, now_ms: int, width: int = TREND_WIDTH) -> Cell:
    """The lag of the last minute."""
    if group.lag is None:
        return Cell("")
    return Cell(look.spark(group.trend.values(now_ms, width), width), "dim" if not group.lag else "accent")


def eta_cell(group: Group, look: Look, now_ms: int) -> Cell:
    """The time until the lag is 0, in short words."""
    eta_ms = group.eta_ms(now_ms)
    if group.lag == 0:
        return Cell("caught up", "good", 0)
    if eta_ms is not None:
        return Cell(span(max(1_000, eta_ms)), "", eta_ms)
    if group.is_growing(now_ms):
        return Cell("growing", "warn", float("inf"))
    return Cell(look.sign("none"), "dim", -1)


def list_title(groups: Groups, look: Look) -> str:
    """The number of groups, and their total lag."""
    if not groups.is_listed:
        return "Groups"
    known = [group.lag for group in groups.by_name.values() if group.lag is not None]
    lag = f", lag {look.number(sum(known))}" if known else ""
    return f"Groups: {look.number(len(groups.by_name))}{lag}"


def silent_words(groups: Groups) -> str:
    """The brokers that did not answer; empty if all did."""
    if not groups.silent:
        return ""
    who = ", ".join(str(each["node_id"]) for each in groups.silent)
    return f"broker {who} did not answer: its groups are missing"
