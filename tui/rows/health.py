"""The cluster's health in words. Pure."""

from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row
from yak.tui.state.picture import Picture

COLUMNS = (Column("", 12), Column("", 16, most=200, flex=1))


def health_rows(picture: Picture, look: Look, now_ms: int) -> list[Row]:
    """One row per aspect of health. The key says where enter leads: `screen:what`."""
    good, warn, bad = look.sign("good"), look.sign("warn"), look.sign("bad")
    up = sum(broker.is_up for broker in picture.brokers.values())
    count = len(picture.brokers)
    rows = [
        _row("dashboard:brokers", f"{good if up == count else bad} brokers", f"{up} of {count} up", up == count, "bad"),
    ]
    leaderless = [each.name for each in picture.partitions.values() if each.leader is None]
    if leaderless:
        rows.append(
            _row(
                f"topics:{leaderless[0]}", f"{bad} leaders", f"{len(leaderless)} missing: {leaderless[0]}", False, "bad"
            )
        )
    else:
        rows.append(_row("topics:", f"{good} leaders", f"{len(picture.partitions)} of {len(picture.partitions)}", True))
    behind = [each for each in picture.partitions.values() if each.is_under_replicated]
    if behind:
        worst = min(behind, key=lambda each: (len(each.isr), each.name))
        since = "" if worst.since_ms is None else f", {span(now_ms - worst.since_ms)}"
        words = f"{len(behind)} behind: {worst.name} has {','.join(map(str, worst.isr)) or 'none'}{since}"
        rows.append(_row(f"topics:{worst.name}", f"{warn} in sync", words, False, "warn"))
    else:
        rows.append(_row("topics:", f"{good} in sync", "all replicas", True))
    if picture.controller_id is None:
        rows.append(_row("metadata:", f"{warn} controller", "none just now", False, "warn"))
    else:
        words = f"broker {picture.controller_id}, epoch {picture.controller_epoch}"
        rows.append(_row("metadata:", f"{good} controller", words, True))
    rows.append(_redis(picture, look, now_ms))
    return rows


def _redis(picture: Picture, look: Look, now_ms: int) -> Row:
    if picture.redis_state == "connected":
        return _row("metadata:redis", f"{look.sign('good')} redis", "connected", True)
    since = "" if picture.redis_lost_since_ms is None else f" for {span(now_ms - picture.redis_lost_since_ms)}"
    return _row(
        "metadata:redis",
        f"{look.sign('warn')} redis",
        f"{picture.redis_state}{since}: data flows, changes wait",
        False,
        "warn",
    )


def _row(key: str, name: str, words: str, is_good: bool, tone: str = "good") -> Row:
    return Row(key, (Cell(name, "good" if is_good else tone), Cell(words, "dim" if is_good else "")))  # type: ignore[arg-type]


def rate_lines(picture: Picture, look: Look, width: int, now_ms: int) -> list[list[Cell]]:
    """Rates of the last minute, and the number of ISR changes, for a small panel."""
    room = max(4, width - 18)
    total = picture.rates()
    changes = sum(now_ms - each < 300_000 for each in picture.isr_changes_ms)
    return [
        [
            Cell(f"in    {look.rate(total.messages_in):>9}"),
            Cell(look.spark(list(picture.messages_in)[-60:], room), "accent"),
        ],
        [
            Cell(f"out   {look.rate(total.messages_out):>9}"),
            Cell(look.spark(list(picture.messages_out)[-60:], room), "accent"),
        ],
        [
            Cell(f"in  {look.size_rate(total.bytes_in):>11}"),
            Cell(look.spark(list(picture.bytes_in)[-60:], room), "dim"),
        ],
        [
            Cell(f"out {look.size_rate(total.bytes_out):>11}"),
            Cell(look.spark(list(picture.bytes_out)[-60:], room), "dim"),
        ],
        [Cell(f"ISR changes {changes} in 5 min", "warn" if changes else "dim")],
    ]
