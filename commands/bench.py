"""`yak bench produce|consume|latency|e2e`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from yak.commands.app import OUTPUT, STOP, WHAT, CommandGroup
from yak.commands.options import Globals
from yak.commands.units import parse_duration_ms, parse_size_bytes

if TYPE_CHECKING:
    from yak.client.bench.load import Kind, Load

TOPIC = "yak-bench"
MESSAGES = 1_000_000
RATE = 1000.0
DURATION = "10s"
SIZE = "100"
CLIENT = "Client"

bench = CommandGroup(
    "bench",
    "Measure a cluster's throughput and latency.",
    examples=(
        "yak bench produce --msgs 5000000 --size 100",
        "yak bench latency --duration 30s --assert 'p99<20ms'",
        "yak bench produce -b kafka:9092 -o json > before.json",
    ),
)

Topic = Annotated[
    str, typer.Option("--topic", "-t", help="The topic to use; created if it is not there.", rich_help_panel=WHAT)
]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", min=1, help="Create the topic with so many.", rich_help_panel=WHAT),
]
Clients = Annotated[int, typer.Option("--clients", min=1, help="Client processes.", rich_help_panel=WHAT)]
Size = Annotated[
    str, typer.Option("--size", "--record-size", metavar="SIZE", help="Bytes of each value.", rich_help_panel=WHAT)
]
Throughput = Annotated[
    float | None,
    typer.Option(
        "--throughput", min=0.001, metavar="N", help="Records a second over all clients.", rich_help_panel=WHAT
    ),
]
Messages = Annotated[
    int | None,
    typer.Option("--msgs", "--num-records", min=1, help="Records over all clients.", rich_help_panel=STOP),
]
Duration = Annotated[
    str | None, typer.Option("--duration", metavar="DURATION", help="Stop after this time.", rich_help_panel=STOP)
]
WarmUp = Annotated[
    str,
    typer.Option("--warm-up", metavar="DURATION", help="Load before the measuring begins.", rich_help_panel=WHAT),
]
Acks = Annotated[
    Literal["0", "1", "all", "-1"], typer.Option("--acks", help="Acknowledgements to wait for.", rich_help_panel=CLIENT)
]
Linger = Annotated[
    str,
    typer.Option("--linger", metavar="DURATION", help="How long a batch waits for records.", rich_help_panel=CLIENT),
]
Compression = Annotated[
    Literal["none", "gzip", "snappy", "lz4", "zstd"],
    typer.Option("--compression", "-z", help="Codec of the batches.", rich_help_panel=CLIENT),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", "--client-property", metavar="NAME=VALUE", help="librdkafka property.", rich_help_panel=CLIENT),
]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write one line for each client and a total.", rich_help_panel=OUTPUT),
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No progress line.", rich_help_panel=OUTPUT)]
Asserts = Annotated[
    list[str] | None,
    typer.Option(
        "--assert",
        metavar="LIMIT",
        help="End with code 4 unless this holds: p99<20ms, rate>=500k, p50<=1.1x.",
        rich_help_panel=OUTPUT,
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Compare with the JSON of an earlier run.", rich_help_panel=OUTPUT),
]


@bench.command(
    "produce",
    examples=(
        "yak bench produce",
        "yak bench produce --clients 4 --partitions 8 --size 1KB --duration 20s",
        "yak bench produce --throughput 50000 --duration 1m --assert 'p99<20ms' --assert 'errors==0'",
    ),
)
def produce(
    g: Globals,
    topic: Topic = TOPIC,
    partitions: Partitions = None,
    clients: Clients = 1,
    size: Size = SIZE,
    throughput: Throughput = None,
    msgs: Messages = None,
    duration: Duration = None,
    warm_up: WarmUp = "1s",
    acks: Acks = "all",
    linger: Linger = "5ms",
    compression: Compression = "none",
    properties: Properties = None,
    csv: Csv = None,
    no_progress: NoProgress = False,
    asserts: Asserts = None,
    baseline: Baseline = None,
) -> None:
    """Produce as fast as it goes, or at a steady rate, and time the acknowledgements.

    Without a rate one acknowledgement in a hundred is timed; a timer for each would slow the client down.
    """
    from yak.commands.bench_run import Report, run

    load = make_load(
        g,
        "produce",
        topic,
        clients,
        size,
        rate=throughput,
        messages=msgs if msgs or duration else MESSAGES,
        duration=duration,
        warm_up=warm_up,
        properties=properties,
        acks=acks,
        linger=linger,
        compression=compression,
    )
    run(g, load, partitions, Report(csv, no_progress, asserts or [], baseline))


@bench.command(
    "consume",
    examples=("yak bench consume", "yak bench consume --topic orders --clients 4 -o json"),
)
def consume(
    g: Globals,
    topic: Topic = TOPIC,
    clients: Clients = 1,
    msgs: Messages = None,
    duration: Duration = None,
    warm_up: WarmUp = "1s",
    properties: Properties = None,
    csv: Csv = None,
    no_progress: NoProgress = False,
    asserts: Asserts = None,
    baseline: Baseline = None,
) -> None:
    """Read a topic from its start to its end, its records divided among the clients.

    Stops at the high watermark of the start, after --msgs or after --duration. Nothing is committed.
    """
    from yak.commands.bench_run import Report, run

    load = make_load(
        g,
        "consume",
        topic,
        clients,
        SIZE,
        rate=None,
        messages=msgs,
        duration=duration,
        warm_up=warm_up,
        properties=properties,
    )
    run(g, load, None, Report(csv, no_progress, asserts or [], baseline))


@bench.command(
    "latency",
    examples=("yak bench latency", "yak bench latency --throughput 200 --acks 1 --duration 1m --assert 'p99<20ms'"),
)
def latency(
    g: Globals,
    topic: Topic = TOPIC,
    partitions: Partitions = None,
    clients: Clients = 1,
    size: Size = SIZE,
    throughput: Throughput = RATE,
    msgs: Messages = None,
    duration: Duration = None,
    warm_up: WarmUp = "1s",
    acks: Acks = "all",
    linger: Linger = "0ms",
    compression: Compression = "none",
    properties: Properties = None,
    csv: Csv = None,
    no_progress: NoProgress = False,
    asserts: Asserts = None,
    baseline: Baseline = None,
) -> None:
    """Time each acknowledgement at a steady rate, one record a request.

    Stops after 10 s unless --msgs or --duration says otherwise.
    """
    from yak.commands.bench_run import Report, run

    load = make_load(
        g,
        "latency",
        topic,
        clients,
        size,
        rate=throughput,
        messages=msgs,
        duration=duration if msgs or duration else DURATION,
        warm_up=warm_up,
        properties=properties,
        acks=acks,
        linger=linger,
        compression=compression,
    )
    run(g, load, partitions, Report(csv, no_progress, asserts or [], baseline))


@bench.command(
    "e2e",
    examples=("yak bench e2e --assert 'p99<20ms'", "yak bench e2e --clients 8 --partitions 8 --throughput 4000"),
)
def e2e(
    g: Globals,
    topic: Topic = TOPIC,
    partitions: Partitions = None,
    clients: Clients = 1,
    size: Size = SIZE,
    throughput: Throughput = RATE,
    msgs: Messages = None,
    duration: Duration = None,
    warm_up: WarmUp = "1s",
    acks: Acks = "all",
    linger: Linger = "0ms",
    compression: Compression = "none",
    properties: Properties = None,
    csv: Csv = None,
    no_progress: NoProgress = False,
    asserts: Asserts = None,
    baseline: Baseline = None,
) -> None:
    """Time records from the producer's call to the consumer's hand, at a steady rate.

    Stops after 10 s unless --msgs or --duration says otherwise. A record that does not come back is an error.
    """
    from yak.commands.bench_run import Report, run

    load = make_load(
        g,
        "e2e",
        topic,
        clients,
        size,
        rate=throughput,
        messages=msgs,
        duration=duration if msgs or duration else DURATION,
        warm_up=warm_up,
        properties=properties,
        acks=acks,
        linger=linger,
        compression=compression,
    )
    run(g, load, partitions, Report(csv, no_progress, asserts or [], baseline))


def make_load(
    g: Globals,
    kind: "Kind",
    topic: str,
    clients: int,
    size: str,
    *,
    rate: float | None,
    messages: int | None,
    duration: str | None,
    warm_up: str,
    properties: list[str] | None,
    acks: str = "all",
    linger: str = "5ms",
    compression: str = "none",
) -> "Load":
    """The load that the flags say. Raises UsageError."""
    from yak.client.bench.load import Load
    from yak.commands.bench_run import parse_properties

    if kind != "consume":
        g.must_not_be_readonly("producing benchmark records")
    return Load(
        kind=kind,
        bootstrap_servers=g.bootstrap_servers,
        topic=topic,
        clients=clients,
        messages=messages,
        duration_s=None if duration is None else parse_duration_ms(duration) / 1000,
        size_bytes=parse_size_bytes(size),
        rate=rate,
        acks=acks,
        linger_ms=parse_duration_ms(linger, bare_unit="ms"),
        compression=compression,
        warm_up_s=parse_duration_ms(warm_up, bare_unit="s") / 1000,
        properties=parse_properties(properties or []),
    )
