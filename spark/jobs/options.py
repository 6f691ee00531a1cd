"""The options of all jobs: where to read, where to write, when to stop. A job's own options extend these.

Options are frozen dataclasses whose fields define their command-line flags. Tests create them directly, and
`frame.command` builds a Typer command from them.
"""

import time
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Final

from yak.client.times import parse_duration_ms, parse_time_ms
from yak.errors import UsageError
from yak.spark.driver.settings import CONNECTORS, SessionSettings, one_of
from yak.view.flags import flag

EARLIEST: Final = ("earliest", "start", "beginning", "oldest")
LATEST: Final = ("latest", "end", "newest")
RECORD_MODES: Final = ("permissive", "dropmalformed", "failfast")


_PANEL: Final = "Spark"


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Options for Spark itself."""

    master: str | None = flag(
        "--master",
        "local[4], spark://HOST:7077, yarn, k8s://..., sc://HOST.  [local[*]]",
        _PANEL,
        metavar="URL",
        show_default=False,
    )
    conf: tuple[str, ...] = flag("--conf", "A setting of Spark; repeatable.", _PANEL, metavar="NAME=VALUE", default=())
    driver_memory: str | None = flag("--driver-memory", "Of the driver: 2g.", _PANEL, metavar="SIZE")
    jars: tuple[str, ...] = flag("--jars", "Java code to load; repeatable.", _PANEL, metavar="PATH", default=())
    packages: tuple[str, ...] = flag(
        "--packages", "The same from Maven.", _PANEL, metavar="GROUP:NAME:VERSION", default=()
    )
    ship: str = flag(
        "--ship", "Sent to remote executors: package, all, nothing.", _PANEL, metavar="WHAT", default="package"
    )

    def check(self) -> None:
        """Check the options before Spark starts. Raises UsageError."""
        key_values("--conf", self.conf)

    def settings(self, app_name: str, *, conf: Mapping[str, str], connector: str, ui: bool = False) -> SessionSettings:
        """The settings of a session; `conf` are Spark settings that these options override."""
        return SessionSettings(
            app_name=app_name,
            master=self.master,
            conf={**conf, **key_values("--conf", self.conf)},
            driver_memory=self.driver_memory,
            connector=connector,
            jars=self.jars,
            packages=self.packages,
            ship=self.ship,
            ui=ui,
        )


def bootstrap_flag() -> Any:
    """`--bootstrap`, a field of each class of options that reads or writes topics."""
    return flag(
        "--bootstrap, -b",
        "Ask these brokers first.",
        metavar="HOST:PORT,...",
        envvar="YAK_BOOTSTRAP_SERVERS",
        default="127.0.0.1:9092",
    )


def option_flag() -> Any:
    """`--option`, as `bootstrap_flag`."""
    return flag("--option", "Of the data source (kafka.… of the client).", metavar="KEY=VALUE", default=())


@dataclass(frozen=True, kw_only=True)
class ReadOptions(SparkOptions):
    """Options for reading topics."""

    topic: str = flag("--topic, -t", "Read this topic, or these.", metavar="NAME,...", default=MISSING)
    bootstrap: str = bootstrap_flag()
    from_: str = flag(
        "--from",
        'earliest, latest, a time (-15m, 2026-11-20T12:00Z), or offsets: {"topic":{"0":42}}.',
        metavar="WHERE",
        default="earliest",
    )
    to: str | None = flag("--to", "Read once, up to here, as a batch: latest, a time, or offsets.", metavar="WHERE")
    trigger: str = flag("--trigger", "Time between batches.", metavar="DURATION", default="1s")
    available_now: bool = flag("--available-now", "Stop when all that is there now is done.", default=False)
    max_offsets_per_trigger: int | None = flag("--max-offsets-per-trigger", "Records in a batch.", metavar="N", min=1)
    isolation: str = flag("--isolation", "Or read_committed.", metavar="LEVEL", default="read_uncommitted")
    connector: str = flag("--connector", "yak, or kafka: Spark's own jar.", _PANEL, metavar="NAME", default="yak")
    option: tuple[str, ...] = option_flag()

    @property
    def is_batch(self) -> bool:
        """Whether the job reads up to an end once, instead of following the topic."""
        return self.to is not None

    def check(self) -> None:
        super().check()
        duration_ms(self.trigger)
        key_values("--option", self.option)
        start_options(self.from_)
        if self.to is not None:
            end_of(self.to)
        one_of("--connector", self.connector, CONNECTORS)
        one_of("--isolation", self.isolation, ("read_uncommitted", "read_committed"))
        if self.is_batch and self.available_now:
            raise UsageError(
                "spark-options",
                "--to and --available-now exclude each other",
                why="--to reads once as a batch; --available-now is a stream that stops at the end of today's records",
                try_=("leave one of them out",),
            )


@dataclass(frozen=True, kw_only=True)
class JobOptions(ReadOptions):
    """Options for reading and writing; most jobs extend them."""

    sink: str = flag(
        "--sink", "console, topic:NAME, parquet:FOLDER or memory:NAME.", metavar="WHERE", default="console"
    )
    checkpoint_dir: str | None = flag(
        "--checkpoint-dir", "Where it resumes from.  [a temporary directory for console and memory]", metavar="DIR"
    )
    output_mode: str | None = flag(
        "--output-mode", "append, update or complete.  [what job and sink allow, update first]", metavar="MODE"
    )

    def check(self) -> None:
        super().check()
        kind, _ = sink_of(self.sink)
        if self.output_mode is not None:
            one_of("--output-mode", self.output_mode, ("append", "update", "complete"))
        if kind in {"topic", "parquet"} and self.checkpoint_dir is None and not self.is_batch:
            raise UsageError(
                "spark-no-checkpoint",
                f"--sink {self.sink} needs --checkpoint-dir",
                why="without it a job that is started again does not know what it has written",
                try_=("--checkpoint-dir ./checkpoints/NAME", "--to latest     to read once, as a batch"),
            )


def sink_of(text: str) -> tuple[str, str]:
    """(kind, name) of `topic:results`. Raises UsageError (`spark-sink`)."""
    kind, colon, name = text.partition(":")
    if kind == "console" and not colon:
        return kind, ""
    if kind in {"topic", "parquet", "memory"} and name:
        return kind, name
    raise UsageError(
        "spark-sink",
        f'"{text}" is not a sink',
        why="a sink is console, topic:NAME, parquet:FOLDER or memory:NAME",
        try_=("--sink topic:results", "--sink parquet:./results"),
    )


def key_values(flag: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The pairs of `KEY=VALUE` texts. Raises UsageError (`spark-options`)."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError("spark-options", f'{flag} "{text}" is not KEY=VALUE', try_=(f"{flag} name=value",))
        found[key.strip()] = value
    return found


def duration_ms(text: str) -> int:
    """Milliseconds of `10s`. Raises UsageError (`bad-duration`)."""
    return parse_duration_ms(text, bare_unit="s")


def interval(text: str) -> str:
    """A duration in Spark's syntax. Raises UsageError (`bad-duration`)."""
    return f"{duration_ms(text)} milliseconds"


def start_options(text: str) -> dict[str, str]:
    """The data source options for `--from`. Raises UsageError (`bad-time`, `spark-options`)."""
    lowered = text.strip().lower()
    if lowered in EARLIEST:
        return {"startingOffsets": "earliest"}
    if lowered in LATEST:
        return {"startingOffsets": "latest"}
    if lowered.startswith("{"):
        return {"startingOffsets": _offsets("--from", text)}
    # A partition without a record since then has nothing to read yet.
    return {
        "startingTimestamp": str(parse_time_ms(text, now_ms=_now_ms())),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def end_of(text: str) -> tuple[dict[str, str], int | None]:
    """The data source options for `--to`, and, if `--to` is a time, that time in ms, which excludes later records."""
    lowered = text.strip().lower()
    if lowered in LATEST:
        return {"endingOffsets": "latest"}, None
    if lowered.startswith("{"):
        return {"endingOffsets": _offsets("--to", text)}, None
    return {"endingOffsets": "latest"}, parse_time_ms(text, now_ms=_now_ms())


def _offsets(flag: str, text: str) -> str:
    import json

    try:
        found = json.loads(text)
        valid = all(
            isinstance(partitions, dict) and all(p.isdigit() and type(o) is int for p, o in partitions.items())
            for partitions in found.values()
        )
    except (ValueError, AttributeError):
        valid = False
    if not valid:
        raise UsageError(
            "spark-options",
            f"{flag} {text} does not parse",
            why='offsets are JSON of topic, partition and offset: {"orders":{"0":42,"1":-2}}; -2 is earliest, -1 latest',
            try_=(f"{flag} '" + '{"orders":{"0":42}}' + "'",),
        )
    return text


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
