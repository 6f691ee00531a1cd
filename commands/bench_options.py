"""The options that the benchmarks share."""

from pathlib import Path
from typing import Annotated, Literal

from yak.commands.app import OUTPUT, STOP, WHAT
from yak.commands.parameters import option

CLIENT = "Client"

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
