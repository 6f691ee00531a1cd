"""Runs the replication benchmark for the command line: prints each figure, then a table or JSON."""

from yak.client.bench.result import machine, machine_line
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.local.bench.fleet import Fleet, own_fleet
from yak.local.bench.replication import (
    MIN_ISR,
    REPLICAS,
    Figure,
    Measurable,
    ReplicationBench,
    ReplicationSettings,
    RunningCluster,
    document,
    shapes,
)
from yak.view.formats import group_digits

BROKERS = 3
QUICK = 0.1
COLUMNS = ("what", "value", "unit", "limit")


def make_settings(
    *, quick: bool, idle_partitions: int, away_bytes: int, ack_s: float, idle_s: float
) -> ReplicationSettings:
    """Settings of a full run, or of a tenth of it."""
    scale = QUICK if quick else 1.0
    return ReplicationSettings(
        shapes(scale),
        ack_s=max(1.0, ack_s * scale),
        idle_partitions=idle_partitions,
        idle_s=max(1.0, idle_s * scale) if idle_s else 0.0,
        away_bytes=int(away_bytes * scale),
    )


def run_on_own(g: Globals, settings: ReplicationSettings) -> None:
    """Measure three brokers in a temporary directory, which is always deleted. Raises YakError."""
    with own_fleet(BROKERS) as fleet:
        g.out.note(f"{BROKERS} brokers at {fleet.bootstrap}")
        run(g, fleet, fleet, settings)


def run_on_running(g: Globals, settings: ReplicationSettings) -> None:
    """Measure the named cluster without stopping a broker. Raises YakError."""
    cluster = RunningCluster(g.bootstrap_servers)
    if not cluster.cpu_seconds():
        g.out.note("no broker of this cluster runs on this machine: CPU is not measured")
    g.out.note("a follower's return is not measured: this benchmark does not stop a cluster's brokers")
    run(g, cluster, None, settings)


def run(g: Globals, cluster: Measurable, fleet: Fleet | None, settings: ReplicationSettings) -> None:
    """Measure and print the figures."""
    bench = ReplicationBench(
        cluster, settings, lambda each: g.out.note(f"{each.name}: {format_value(each.value)} {each.unit}")
    )
    figures = bench.run(fleet)
    facts = machine()
    rows = [figure.as_json() for figure in figures]
    if g.out.for_programs(document(figures, facts), rows, tuple(rows[0])):
        return
    for text in layout([row(figure) for figure in figures], COLUMNS):
        g.out.line(text)
    g.out.line(
        f"  replication factor {REPLICAS}, min.insync.replicas {MIN_ISR}, "
        "acks=all, linger.ms 5 (acks: 0), no compression, one client"
    )
    g.out.line("  " + machine_line(facts))


def row(figure: Figure) -> dict[str, object]:
    """A figure as a table row."""
    return {
        "what": figure.name,
        "value": format_value(figure.value),
        "unit": figure.unit,
        "limit": "client" if figure.limited else "",
    }


def format_value(value: float) -> str:
    """A number with three digits, or an integer with grouped digits."""
    return group_digits(round(value)) if abs(value) >= 1000 else f"{value:.3g}"
