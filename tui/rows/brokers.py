"""Brokers as rows. Pure."""

from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.picture import Broker, Picture

COLUMNS = (
    Column("ID", 2, is_right=True),
    Column("ROLE", 8),
    Column("STATE", 9, flash=True),
    Column("LEADS", 5, is_right=True),
    Column("REPLICAS", 8, is_right=True, rank=2),
    Column("BEHIND", 6, is_right=True, rank=1),
    Column("IN", 7, is_right=True),
    Column("LAST 60 s", 10, rank=1, flex=1),
    Column("OUT", 7, is_right=True),
    Column("BYTES IN", 9, is_right=True, rank=4),
    Column("MEMORY", 8, is_right=True, rank=2),
    Column("CPU", 5, is_right=True, rank=3),
    Column("DISK", 5, is_right=True, rank=2),
    Column("ADDRESS", 15, rank=5),
)
_STATES: dict[str, tuple[str, str, Tone]] = {
    "ACTIVE": ("up", "up", "good"),
    "FENCED": ("bad", "FENCED", "bad"),
    "STOPPING": ("warn", "STOPPING", "warn"),
    "CLOSED": ("down", "stopped", "dim"),
}


def state_cell(broker: Broker, look: Look, behind: int = 0) -> Cell:
    """The broker's state as a sign and a word."""
    sign, word, tone = _STATES.get(broker.state, ("unknown", broker.state, "warn"))
    if broker.state == "ACTIVE" and broker.link == "down":
        sign, word, tone = "unknown", "SILENT", "warn"
    elif broker.state == "ACTIVE" and behind:
        sign, word, tone = "warn", "LAGGING", "warn"
    return Cell(f"{look.sign(sign)} {word}", tone)


def broker_rows(picture: Picture, look: Look) -> list[Row]:
    """One for each broker, by id."""
    counts = {node: [0, 0, 0] for node in picture.brokers}
    for partition in picture.partitions.values():
        if partition.leader in counts:
            counts[partition.leader][0] += 1
        for node in partition.replicas:
            if node in counts:
                counts[node][1] += 1
                counts[node][2] += node not in partition.isr
    return [_row(broker, counts[node], picture, look) for node, broker in sorted(picture.brokers.items())]


def _row(broker: Broker, counts: list[int], picture: Picture, look: Look) -> Row:
    leads, replicas, behind = counts
    rates, serves = broker.rates, broker.is_up and broker.link != "down"
    none: Tone = "dim"
    controller = " *" if look.is_ascii else " ◆"
    is_controller = broker.node_id == picture.controller_id
    disk = None
    if broker.disk_size_bytes and broker.disk_free_bytes is not None:
        disk = 100 * (1 - broker.disk_free_bytes / broker.disk_size_bytes)
    return Row(
        str(broker.node_id),
        (
            Cell(str(broker.node_id), "strong", broker.node_id),
            Cell(broker.role + (controller if is_controller else ""), "accent" if is_controller else ""),
            state_cell(broker, look, behind),
            Cell(str(leads), "" if leads else none, leads),
            Cell(str(replicas), "" if replicas else none, replicas),
            Cell(str(behind), "warn" if behind else none, behind),
            Cell(
                look.rate(rates.messages_in) if serves else look.sign("none"),
                "" if rates.messages_in else none,
                rates.messages_in,
            ),
            Cell(look.spark(list(broker.in_history)[-60:], 10) if serves else "", "accent"),
            Cell(
                look.rate(rates.messages_out) if serves else look.sign("none"),
                "" if rates.messages_out else none,
                rates.messages_out,
            ),
            Cell(look.size_rate(rates.bytes_in) if serves else look.sign("none"), order=rates.bytes_in),
            Cell(look.size(broker.memory_bytes) if serves else look.sign("none"), order=broker.memory_bytes or 0),
            Cell(
                look.sign("none") if broker.cpu_share is None or not serves else f"{broker.cpu_share * 100:.0f} %",
                order=broker.cpu_share or 0,
            ),
            Cell(
                look.sign("none") if disk is None else f"{disk:.0f} %",
                "warn" if (disk or 0) > 85 else "",
                order=disk or 0,
            ),
            Cell(f"{broker.host}:{broker.port}"),
        ),
    )


def broker_words(broker: Broker, picture: Picture, look: Look, now_ms: int) -> list[str]:
    """All details of a broker, one per line."""
    led = sum(each.leader == broker.node_id for each in picture.partitions.values())
    held = [each for each in picture.partitions.values() if broker.node_id in each.replicas]
    behind = [each.name for each in held if broker.node_id not in each.isr]
    heard = "never" if broker.heard_ms is None else f"{span(now_ms - broker.heard_ms)} ago"
    return [
        f"role {broker.role}, state {broker.state}, broker epoch {broker.broker_epoch}"
        + (", controller" if picture.controller_id == broker.node_id else ""),
        f"Kafka {broker.host}:{broker.port}   HTTP {broker.http_address or 'none'}   rack {broker.rack or 'none'}",
        f"leads {led}, holds {len(held)} replicas, {len(behind)} out of sync"
        + (": " + ", ".join(behind[:8]) if behind else ""),
        f"in {look.rate(broker.rates.messages_in)} {look.size_rate(broker.rates.bytes_in)}",
        f"out {look.rate(broker.rates.messages_out)} {look.size_rate(broker.rates.bytes_out)}",
        f"memory {look.size(broker.memory_bytes)}   disk free {look.size(broker.disk_free_bytes)} of {look.size(broker.disk_size_bytes)}",
        f"heard {heard}" + (f"; {broker.link_why}" if broker.link == "down" else ""),
    ]
