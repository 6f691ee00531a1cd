"""The options that the benchmarks share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from yak.commands.app import OUTPUT, STOP, WHAT

CLIENT = "Client"

Topic = Annotated[
    str, typer.Option("--topic", "-t", help="The topic to use; created if it does not exist.", rich_help_panel=WHAT)
]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", min=1, help="Create the topic with N partitions.", rich_help_panel=WHAT),
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
    typer.Option("--warm-up", metavar="DURATION", help="Load before the measurement.", rich_help_panel=WHAT),
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
ProgressJson = Annotated[
    bool,
    typer.Option("--progress-json", help="Print progress on stderr as JSON lines.", rich_help_panel=OUTPUT),
]
Asserts = Annotated[
    list[str] | None,
    typer.Option(
        "--assert",
        metavar="LIMIT",
        help="Exit with code 4 unless this holds: p99<20ms, rate>=500k, p50<=1.1x.",
        rich_help_panel=OUTPUT,
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Compare with the JSON of an earlier run.", rich_help_panel=OUTPUT),
]
