"""`yak bench produce|consume|latency|e2e|workload|replication|failover`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from yak.commands.app import OUTPUT, STOP, WHAT, Bundle, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.commands.units import key_values, parse_duration_ms, parse_size_bytes

if TYPE_CHECKING:
    from yak.client.bench.load import Kind

CLIENT = "Client"
TOPIC = "yak-bench"
MESSAGES = 1_000_000
RATE = 1000.0
DURATION = "10s"
SIZE = "100"
FAILOVER_KILLS = 10
WORKLOAD_COLUMNS = ("name", "partitions", "size_bytes", "producers", "consumers", "rate")

Topic = Annotated[str, option("--topic, -t", "The topic to use; created if it does not exist.", WHAT)]
Partitions = Annotated[int | None, option("--partitions", "Create the topic with N partitions.", WHAT, min=1)]
Clients = Annotated[int, option("--clients", "Client processes.", WHAT, min=1)]
Size = Annotated[str, option("--size, --record-size", "Bytes of each value.", WHAT, metavar="SIZE")]
Throughput = Annotated[
    float | None, option("--throughput", "Records a second over all clients.", WHAT, min=0.001, metavar="N")
]
Messages = Annotated[int | None, option("--msgs, --num-records", "Records over all clients.", STOP, min=1)]
Duration = Annotated[str | None, option("--duration", "Stop after this time.", STOP, metavar="DURATION")]
WarmUp = Annotated[str, option("--warm-up", "Load before the measurement.", WHAT, metavar="DURATION")]
Acks = Annotated[Literal["0", "1", "all", "-1"], option("--acks", "Acknowledgements to wait for.", CLIENT)]
Linger = Annotated[str, option("--linger", "How long a batch waits for records.", CLIENT, metavar="DURATION")]
Compression = Annotated[
    Literal["none", "gzip", "snappy", "lz4", "zstd"], option("--compression, -z", "Codec of the batches.", CLIENT)
]
Properties = Annotated[
    list[str] | None, option("-X, --client-property", "librdkafka property.", CLIENT, metavar="NAME=VALUE")
]
Csv = Annotated[Path | None, option("--csv", "Write one line for each client and a total.", OUTPUT, metavar="FILE")]
NoProgress = Annotated[bool, option("--no-progress", "No progress line.", OUTPUT)]
ProgressJson = Annotated[bool, option("--progress-json", "Print progress on stderr as JSON lines.", OUTPUT)]
Asserts = Annotated[
    list[str] | None,
    option("--assert", "Exit with code 4 unless this holds: p99<20ms, rate>=500k, p50<=1.1x.", OUTPUT, metavar="LIMIT"),
]
Baseline = Annotated[
    Path | None, option("--baseline", "Compare with the JSON of an earlier run.", OUTPUT, metavar="FILE")
]


@dataclass
class LoadOptions(Bundle):
    """A load of records, by default at full speed."""

    topic: Topic = TOPIC
    partitions: Partitions = None
    clients: Clients = 1
    size: Size = SIZE
    throughput: Throughput = None
    msgs: Messages = None
    duration: Duration = None
    warm_up: WarmUp = "1s"
    acks: Acks = "all"
    linger: Linger = "5ms"
    compression: Compression = "none"
    properties: Properties = None


@dataclass
class ReadOptions(Bundle):
    """What is read, and when it ends."""

    topic: Topic = TOPIC
    clients: Clients = 1
    msgs: Messages = None
    duration: Duration = None
    warm_up: WarmUp = "1s"
    properties: Properties = None


@dataclass
class SteadyLoad(LoadOptions):
    """A load at a steady rate, one record a request."""

    throughput: Throughput = RATE
    linger: Linger = "0ms"


@dataclass
class Report(Bundle):
    """Output and checks for the result."""

    csv: Csv = None
    no_progress: NoProgress = False
    progress_json: ProgressJson = False
    asserts: Asserts = None
    baseline: Baseline = None


@dataclass
class WorkloadOptions(Bundle):
    """What of a named workload may differ."""

    topic: str | None = flag("--topic, -t", "The topic to use; default: yak-bench-NAME.")
    duration: Duration = "1m"
    warm_up: WarmUp = "5s"
    acks: Acks = "all"
    linger: Linger = "1ms"
    compression: Compression = "none"
    properties: Properties = None


def named_workload(args: list[str]) -> list[str]:
    """`--workload NAME` in place of a command as `workload NAME`."""
    return [part for arg in args for part in (arg[2:].split("=", 1) if arg.startswith("--workload") else (arg,))]


bench = CommandGroup(
    "bench",
    examples=(
        "yak bench produce --msgs 5000000 --size 100",
        "yak bench latency --duration 30s --assert 'p99<20ms'",
        "yak bench produce -b kafka:9092 -o json > before.json",
        "yak bench --workload 1-topic-16-partitions-1kb",
        "yak bench failover --kills 20 --assert 'p99<500ms'",
    ),
    rewrite=named_workload,
)


@bench.command(
    "produce",
    examples=(
        "yak bench produce",
        "yak bench produce --clients 4 --partitions 8 --size 1KB --duration 20s",
        "yak bench produce --throughput 50000 --duration 1m --assert 'p99<20ms' --assert 'errors==0'",
    ),
)
def produce(g: Globals, load: LoadOptions, report: Report) -> None:
    """Produce at full speed or a steady rate, and measure acknowledgement latency.

    With --throughput, a latency counts from when the record was due, so that a stall shows in all records behind it.
    Without, one acknowledgement in a hundred is timed, because more timers would slow the client down.
    """
    if not (load.msgs or load.duration):
        load.msgs = MESSAGES
    run_load(g, "produce", load, report)


@bench.command(
    "consume",
    examples=("yak bench consume", "yak bench consume --topic orders --clients 4 -o json"),
)
def consume(g: Globals, read: ReadOptions, report: Report) -> None:
    """Consume a topic from start to end, divided among the clients.

    Stops at the high watermark that it found at the start, after --msgs or after --duration. Commits no offsets.
    """
    run_load(g, "consume", LoadOptions(**asdict(read)), report)


@bench.command(
    "latency",
    examples=("yak bench latency", "yak bench latency --throughput 200 --acks 1 --duration 1m --assert 'p99<20ms'"),
)
def latency(g: Globals, load: SteadyLoad, report: Report) -> None:
    """Measure acknowledgement latency at a steady rate, one record a request, from when each record was due.

    Stops after 10 s unless --msgs or --duration says otherwise.
    """
    run_steady(g, "latency", load, report)


@bench.command(
    "e2e",
    examples=("yak bench e2e --assert 'p99<20ms'", "yak bench e2e --clients 8 --partitions 8 --throughput 4000"),
)
def e2e(g: Globals, load: SteadyLoad, report: Report) -> None:
    """Measure end-to-end latency from producer to consumer, at a steady rate, from when each record was due.

    Stops after 10 s unless --msgs or --duration says otherwise. A record that is not received is an error.
    """
    run_steady(g, "e2e", load, report)


@bench.command(
    "workload",
    examples=(
        "yak bench workload list",
        "yak bench workload 1-topic-1-partition-1kb --duration 5m",
        "yak bench --workload max-rate-1-topic-10-partitions-10p-10c-1kb -o json",
    ),
)
def run_workload(
    g: Globals,
    name: Annotated[str, argument("NAME", "The workload; list: print all.")],
    load: WorkloadOptions,
    report: Report,
) -> None:
    """Run a workload of the OpenMessaging Benchmark: producers and consumers at the same time.

    At a rate, latencies count from when a record was due. The original runs for 5 to 15 minutes (--duration 5m).
    """
    from yak.client.bench.workload import NAMES, workload

    if name == "list":
        g.out.table([asdict(workload(each)) for each in NAMES], WORKLOAD_COLUMNS)
        return
    found = workload(name)
    options = LoadOptions(
        **asdict(load) | {"topic": load.topic or f"{TOPIC}-{name}"},
        partitions=found.partitions,
        clients=found.producers + found.consumers,
        size=str(found.size_bytes),
        throughput=found.rate,
    )
    run_load(g, "workload", options, report, readers=found.consumers)


@bench.command(
    "replication",
    examples=(
        "yak bench replication",
        "yak bench replication --quick",
        "yak bench replication -b 127.0.0.1:9092 -o json",
    ),
)
def replication(
    g: Globals,
    quick: bool = flag("--quick", "A tenth of the load: half a minute.", WHAT, default=False),
    idle_partitions: int = flag(
        "--idle-partitions", "Partitions of the idle topic; 0: none.", WHAT, default=1000, min=0
    ),
    away: str = flag("--away", "Data that the stopped follower misses; 0: none.", WHAT, default="1GB", metavar="SIZE"),
    ack_time: str = flag(
        "--ack-time", "Duration of the acknowledgement measurement.", STOP, default=DURATION, metavar="DURATION"
    ),
    idle_time: str = flag(
        "--idle-time", "Duration of the idle CPU measurement.", STOP, default=DURATION, metavar="DURATION"
    ),
) -> None:
    """Measure the cost of three replicas: throughput, CPU, acknowledgements, idle partitions, catch-up of a follower.

    Starts three brokers in a temporary directory and deletes them afterwards. With -b it uses that cluster
    and stops no broker: there is no catch-up, and CPU is measured only for brokers on this machine.
    """
    from yak.commands.bench_replication import make_settings, run_on_own, run_on_running

    g.must_not_be_readonly("producing benchmark records")
    settings = make_settings(
        quick=quick,
        idle_partitions=idle_partitions,
        away_bytes=parse_size_bytes(away),
        ack_s=parse_duration_ms(ack_time, bare_unit="s") / 1000,
        idle_s=parse_duration_ms(idle_time, bare_unit="s") / 1000,
    )
    own = g.settings.get("bootstrap_servers").origin == "default"
    if own:
        run_on_own(g, settings)
    else:
        run_on_running(g, settings)


@bench.command(
    "failover",
    examples=(
        "yak bench failover",
        "yak bench failover --kills 50 --assert 'p50<250ms' --assert 'p99<500ms'",
        "yak bench failover --mode pause --kills 3 -o json",
    ),
)
def failover(
    g: Globals,
    mode: Literal["kill", "pause"] = flag("--mode", "SIGKILL, or SIGSTOP until another leads.", WHAT, default="kill"),
    rate: float = flag("--throughput", "Records a second.", WHAT, default=RATE, min=1.0, metavar="N"),
    size: Size = SIZE,
    kills: int = flag("--kills", "Stop after N kills.", STOP, default=FAILOVER_KILLS, min=1, metavar="N"),
    progress_json: ProgressJson = False,
    asserts: Asserts = None,
    baseline: Baseline = None,
) -> None:
    """Kill the leader that is also the controller under load, repeatedly, and check all records.

    Starts three brokers in a temporary directory. A pause is the time from the last acknowledgement (or record read)
    before a kill to the first after it; limits (p50, p99, max) are for writes. Code 4 if a record was lost, duplicated
    or reordered.
    """
    from yak.commands.bench_failover import refuse_others_cluster
    from yak.commands.bench_failover import run as run_failover
    from yak.local.bench.failover import FailoverSettings

    refuse_others_cluster(g)
    g.must_not_be_readonly("starting and killing brokers")
    settings = FailoverSettings(kills=kills, mode=mode, rate=rate, size_bytes=parse_size_bytes(size))
    run_failover(g, settings, asserts or [], baseline, progress_json=progress_json)


def run_steady(g: Globals, kind: "Kind", load: LoadOptions, report: Report) -> None:
    """Run a steady load, for `DURATION` unless the options end it."""
    if not (load.msgs or load.duration):
        load.duration = DURATION
    run_load(g, kind, load, report)


def run_load(g: Globals, kind: "Kind", load: LoadOptions, report: Report, readers: int = 0) -> None:
    """Run the load that the options define; the last `readers` clients read. Raises UsageError."""
    from yak.client.bench.load import Load
    from yak.commands.bench_run import run

    if kind != "consume":
        g.must_not_be_readonly("producing benchmark records")
    made = Load(
        kind=kind,
        bootstrap_servers=g.bootstrap_servers,
        topic=load.topic,
        clients=load.clients,
        readers=readers,
        messages=load.msgs,
        duration_s=None if load.duration is None else parse_duration_ms(load.duration) / 1000,
        size_bytes=parse_size_bytes(load.size),
        rate=load.throughput,
        acks=load.acks,
        linger_ms=parse_duration_ms(load.linger, bare_unit="ms"),
        compression=load.compression,
        warm_up_s=parse_duration_ms(load.warm_up, bare_unit="s") / 1000,
        properties=key_values(load.properties, "-X batch.num.messages=1", "-X check.crcs=true", code="bad-property"),
    )
    run(g, made, load.partitions, report)
