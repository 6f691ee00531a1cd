"""The cluster as cells: the header, its health and rates, its brokers. Pure."""

from collections.abc import Mapping

from yak.tui.formatter import Formatter
from yak.tui.rows.cells import Cell, Column, Row, Tone, figure
from yak.tui.rows.topics import TONES, state_of
from yak.tui.state.picture import UNKNOWN_STORE, Broker, Picture
from yak.view.broker_state import SeenState
from yak.view.formats import format_age, format_duration
from yak.view.partition_state import BrokerCounts, count_by_broker, out_of_sync


def header(
    title: str,
    picture: Picture,
    fmt: Formatter,
    now_ms: int,
    *,
    is_readonly: bool,
    is_production: bool,
    is_frozen: bool,
) -> tuple[list[Cell], list[Cell]]:
    """The cells at the left and at the right."""
    left = [Cell("yak ", "accent"), Cell(title, "strong")]
    if is_production:
        left.append(Cell("PROD", "bad"))
    brokers = picture.brokers.values()
    up = sum(broker.is_up for broker in brokers)
    if not picture.is_loaded:
        left.append(Cell(f"{fmt.sign('unknown')} connecting", "dim"))
    elif picture.lost_since_ms is not None:
        left.append(Cell(f"{fmt.sign('down')} lost", "bad"))
    else:
        whole = up == len(picture.brokers)
        left.append(
            Cell(f"{fmt.sign('up' if whole else 'warn')} {up}/{len(picture.brokers)} up", "good" if whole else "warn")
        )
        left.append(_controller(picture))
        text, tone, severity = state_of(picture.degraded)
        if severity:
            left.append(Cell(f"{fmt.sign(tone)} {text}", tone))
    right = []
    if is_frozen:
        right.append(Cell(f"{fmt.sign('paused')} paused", "warn"))
    if is_readonly:
        right.append(Cell("READ-ONLY", "warn"))
    if picture.lost_since_ms is not None and picture.last_event_ms is not None:
        right.append(Cell(f"as of {format_age(now_ms - picture.last_event_ms)}", "dim"))
    zoned = Formatter("utc" if fmt.zone == "relative" else fmt.zone, fmt.is_ascii)
    right.append(Cell(zoned.time(now_ms, now_ms), "dim"))
    return left, right


def _controller(picture: Picture) -> Cell:
    if picture.controller_id is None:
        return Cell("no controller", "warn")
    return Cell(f"controller {picture.controller_id} (epoch {picture.controller_epoch})", "dim")


HEALTH_COLUMNS = (Column("", 12), Column("", 16, most=200, flex=1))


def health_rows(picture: Picture, fmt: Formatter, now_ms: int) -> list[Row]:
    """One row per aspect of health. The key says where enter leads: `screen:what`."""
    count, degraded = len(picture.brokers), picture.degraded
    up = sum(broker.is_up for broker in picture.brokers.values())
    rows = [_health_row("dashboard:brokers", "brokers", f"{up} of {count} up", "good" if up == count else "bad", fmt)]
    offline = [each.name for each in degraded if each.replication.is_offline]
    if offline:
        text = f"{len(offline)} offline: {offline[0]}"
        rows.append(_health_row(f"topics:{offline[0]}", "leaders", text, "bad", fmt))
    else:
        text = f"{len(picture.partitions)} of {len(picture.partitions)}"
        rows.append(_health_row("topics:", "leaders", text, "good", fmt))
    under_replicated = [each for each in degraded if each.replication.is_under_replicated]
    if under_replicated:
        worst = min(under_replicated, key=lambda each: (-each.state.severity, len(each.isr), each.name))
        since = "" if worst.since_ms is None else f", {format_duration(now_ms - worst.since_ms)}"
        isr = ",".join(map(str, worst.isr)) or "none"
        text = f"{len(under_replicated)} under-replicated: {worst.name} has {isr}{since}"
        rows.append(_health_row(f"topics:{worst.name}", "in sync", text, TONES[worst.state], fmt))
    else:
        rows.append(_health_row("topics:", "in sync", "all replicas", "good", fmt))
    if picture.controller_id is None:
        rows.append(_health_row("metadata:", "controller", "none just now", "warn", fmt))
    else:
        text = f"broker {picture.controller_id}, epoch {picture.controller_epoch}"
        rows.append(_health_row("metadata:", "controller", text, "good", fmt))
    rows.append(_metadata_store(picture, fmt, now_ms))
    return rows


def _metadata_store(picture: Picture, fmt: Formatter, now_ms: int) -> Row:
    quorum = picture.quorum
    name, text, is_good = "redis" if quorum is None else "quorum", "connected", picture.store_state == "connected"
    if picture.store_state == UNKNOWN_STORE:
        text = "not visible without YAK's HTTP"
        return Row("metadata:redis", Cell(f"{fmt.sign('none')} metadata", "good"), Cell(text, "dim"))
    if quorum is not None:
        voters = f"{quorum.voters} voters"
        if quorum.caught_up is not None:
            voters = f"voters {quorum.caught_up}/{quorum.voters}"
            is_good = is_good and quorum.caught_up == quorum.voters
        text = f"leader {quorum.leader_id}, {voters}, epoch {quorum.epoch}"
    if (quorum is None and not is_good) or (quorum is not None and quorum.leader_id is None):
        lost_ms = picture.store_lost_since_ms
        since = "" if lost_ms is None else f" for {format_duration(now_ms - lost_ms)}"
        state = picture.store_state if quorum is None else "no leader"
        text, is_good = f"{state}{since}: data flows, changes wait", False
    return _health_row(f"metadata:{name}", name, text, "good" if is_good else "warn", fmt)


def _health_row(key: str, name: str, text: str, tone: Tone, fmt: Formatter) -> Row:
    """`tone` is the name of the sign too."""
    return Row(key, Cell(f"{fmt.sign(tone)} {name}", tone), Cell(text, "dim" if tone == "good" else ""))


def rate_lines(picture: Picture, fmt: Formatter, width: int, now_ms: int) -> list[list[Cell]]:
    """Rates of the last minute, and the number of ISR changes, for a small panel."""
    room = max(4, width - 18)
    total, minute = picture.rates(), list(picture.rate_history)[-60:]
    changes = sum(now_ms - each < 300_000 for each in picture.isr_changes_ms)
    lines = [
        (f"in    {fmt.rate(total.messages_in):>9}", [each.messages_in for each in minute], "accent"),
        (f"out   {fmt.rate(total.messages_out):>9}", [each.messages_out for each in minute], "accent"),
        (f"in  {fmt.size_rate(total.bytes_in):>11}", [each.bytes_in for each in minute], "dim"),
        (f"out {fmt.size_rate(total.bytes_out):>11}", [each.bytes_out for each in minute], "dim"),
    ]
    return [
        *(
            [Cell(text), Cell(fmt.spark([each for each in values if each is not None], room), tone)]  # type: ignore[arg-type]
            for text, values, tone in lines
        ),
        [Cell(f"ISR changes {changes} in 5 min", "warn" if changes else "dim")],
    ]


SPARK = 10
BROKER_COLUMNS = (
    Column("ID", 2, is_right=True),
    Column("ROLE", 8),
    Column("STATE", 9, flash=True),
    Column("LEADS", 5, is_right=True),
    Column("REPLICAS", 8, is_right=True, rank=2),
    Column("OUT OF SYNC", 11, is_right=True, rank=1),
    Column("IN", 7, is_right=True),
    Column("LAST 60 s", 10, rank=1, flex=1),
    Column("OUT", 7, is_right=True),
    Column("BYTES IN", 9, is_right=True, rank=4),
    Column("MEMORY", 8, is_right=True, rank=2),
    Column("CPU", 5, is_right=True, rank=3),
    Column("DISK", 5, is_right=True, rank=2),
    Column("ADDRESS", 15, rank=5),
)
_BROKER_STATES: Mapping[SeenState, tuple[str, Tone]] = {
    SeenState.ACTIVE: ("up", "good"),
    SeenState.STOPPING: ("warn", "warn"),
    SeenState.FENCED: ("bad", "bad"),
    SeenState.CLOSED: ("down", "dim"),
    SeenState.SILENT: ("unknown", "warn"),
    SeenState.DOWN: ("bad", "bad"),
}


def broker_state_cell(broker: Broker, fmt: Formatter, out_of_sync: int = 0) -> Cell:
    """The broker's state with a sign, which warns if `out_of_sync` of its replicas are in no ISR."""
    sign, tone = _BROKER_STATES[broker.state]
    if broker.is_up and out_of_sync:
        sign, tone = "warn", "warn"
    return Cell(f"{fmt.sign(sign)} {broker.state}", tone)


def broker_rows(picture: Picture, fmt: Formatter, spark: int = SPARK) -> list[Row]:
    """One for each broker, by id."""
    counts = count_by_broker(picture.partitions.values())
    return [
        _broker_row(broker, counts.get(node, BrokerCounts()), picture, fmt, spark)
        for node, broker in sorted(picture.brokers.items())
    ]


def _broker_row(broker: Broker, counts: BrokerCounts, picture: Picture, fmt: Formatter, spark: int) -> Row:
    leads, replicas, out_of_sync = counts
    rates, serves = broker.rates, broker.is_up
    is_controller = broker.node_id == picture.controller_id
    disk = None
    if broker.disk_size_bytes and broker.disk_free_bytes is not None:
        disk = 100 * (1 - broker.disk_free_bytes / broker.disk_size_bytes)
    return Row(
        str(broker.node_id),
        Cell(str(broker.node_id), "strong", broker.node_id),
        Cell(broker.role + (f" {fmt.sign('mark')}" if is_controller else ""), "accent" if is_controller else ""),
        broker_state_cell(broker, fmt, out_of_sync),
        figure(str(leads), leads),
        figure(str(replicas), replicas),
        figure(str(out_of_sync), out_of_sync, "warn"),
        figure(fmt.rate(rates.messages_in) if serves else fmt.sign("none"), rates.messages_in),
        Cell(fmt.spark(list(broker.in_history)[-60:], spark) if serves else "", "accent"),
        figure(fmt.rate(rates.messages_out) if serves else fmt.sign("none"), rates.messages_out),
        Cell(fmt.size_rate(rates.bytes_in) if serves else fmt.sign("none"), order=rates.bytes_in),
        Cell(fmt.size(broker.memory_bytes) if serves else fmt.sign("none"), order=broker.memory_bytes or 0),
        Cell(
            fmt.sign("none") if broker.cpu_share is None or not serves else f"{broker.cpu_share * 100:.0f} %",
            order=broker.cpu_share or 0,
        ),
        Cell(
            fmt.sign("none") if disk is None else f"{disk:.0f} %", "warn" if (disk or 0) > 85 else "", order=disk or 0
        ),
        Cell(f"{broker.host}:{broker.port}"),
    )


def broker_lines(broker: Broker, picture: Picture, fmt: Formatter, now_ms: int) -> list[str]:
    """All details of a broker, one per line."""
    led = sum(each.leader == broker.node_id for each in picture.partitions.values())
    held = [each for each in picture.partitions.values() if broker.node_id in each.replicas]
    out = [each.name for each in held if broker.node_id in out_of_sync(each)]
    last_event = "never" if broker.last_event_ms is None else f"{format_duration(now_ms - broker.last_event_ms)} ago"
    return [
        f"broker role {broker.role}, state {broker.state}"
        + (f", broker epoch {broker.broker_epoch}" if broker.broker_epoch >= 0 else "")
        + (", controller" if picture.controller_id == broker.node_id else ""),
        f"Kafka {broker.host}:{broker.port}   HTTP {broker.http_address or 'none'}   rack {broker.rack or 'none'}",
        f"leads {led}, holds {len(held)} replicas, {len(out)} out of sync" + (": " + ", ".join(out[:8]) if out else ""),
        f"in {fmt.rate(broker.rates.messages_in)} {fmt.size_rate(broker.rates.bytes_in)}",
        f"out {fmt.rate(broker.rates.messages_out)} {fmt.size_rate(broker.rates.bytes_out)}",
        f"memory {fmt.size(broker.memory_bytes)}   disk free {fmt.size(broker.disk_free_bytes)} of {fmt.size(broker.disk_size_bytes)}",
        f"last event {last_event}" + (f"; {broker.link_why}" if broker.link == "down" else ""),
    ]
