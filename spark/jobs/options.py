"""The options of all jobs: where to read, where to write, when to stop. A job's own options extend these.

Options are frozen dataclasses whose fields define their command-line flags. Tests create them directly, and
`frame.command` builds a Typer command from them.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from yak.client.times import parse_duration_ms, parse_time_ms
from yak.errors import UsageError
from yak.spark.driver.settings import SessionSettings

EARLIEST: Final = ("earliest", "start", "beginning", "oldest")
LATEST: Final = ("latest", "end", "newest")
RECORD_MODES: Final = ("permissive", "dropmalformed", "failfast")


_PANEL: Final = "Spark"
MASTER: Final = typer.Option(
    "--master",
    metavar="URL",
    help="local[4], spark://HOST:7077, yarn, k8s://..., sc://HOST.  [local[*]]",
    rich_help_panel=_PANEL,
    show_default=False,
)
CONF: Final = typer.Option(
    "--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable.", rich_help_panel=_PANEL
)
DRIVER_MEMORY: Final = typer.Option(
    "--driver-memory", metavar="SIZE", help="Of the driver: 2g.", rich_help_panel=_PANEL
)
JARS: Final = typer.Option("--jars", metavar="PATH", help="Java code to load; repeatable.", rich_help_panel=_PANEL)
PACKAGES: Final = typer.Option(
    "--packages", metavar="GROUP:NAME:VERSION", help="The same from Maven.", rich_help_panel=_PANEL
)
SHIP: Final = typer.Option(
    "--ship", metavar="WHAT", help="Sent to remote executors: package, all, nothing.", rich_help_panel=_PANEL
)
CONNECTOR: Final = typer.Option(
    "--connector", metavar="NAME", help="yak, or kafka: Spark's own jar.", rich_help_panel=_PANEL
)
BOOTSTRAP: Final = typer.Option(
    "--bootstrap", "-b", metavar="HOST:PORT,...", envvar="YAK_BOOTSTRAP_SERVERS", help="Ask these brokers first."
)
OPTION: Final = typer.Option("--option", metavar="KEY=VALUE", help="Of the data source (kafka.… of the client).")


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Options for Spark itself."""

    master: Annotated[str | None, MASTER] = None
    conf: Annotated[tuple[str, ...], CONF] = ()
    driver_memory: Annotated[str | None, DRIVER_MEMORY] = None
    jars: Annotated[tuple[str, ...], JARS] = ()
    packages: Annotated[tuple[str, ...], PACKAGES] = ()
    ship: Annotated[str, SHIP] = "package"

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


@dataclass(frozen=True, kw_only=True)
class ReadOptions(SparkOptions):
    """Options for reading topics."""

    topic: Annotated[str, typer.Option("--topic", "-t", metavar="NAME,...", help="Read this topic, or these.")]
    bootstrap: Annotated[str, BOOTSTRAP] = "127.0.0.1:9092"
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help='earliest, latest, a time (-15m, 2026-11-20T12:00Z), or offsets: {"topic":{"0":42}}.',
        ),
    ] = "earliest"
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="WHERE", help="Read once, up to here, as a batch: latest, a time, or offsets."),
    ] = None
    trigger: Annotated[str, typer.Option("--trigger", metavar="DURATION", help="Time between batches.")] = "1s"
    available_now: Annotated[bool, typer.Option("--available-now", help="Stop when all that is there now is done.")] = (
        False
    )
    max_offsets_per_trigger: Annotated[
        int | None, typer.Option("--max-offsets-per-trigger", metavar="N", min=1, help="Records in a batch.")
    ] = None
    isolation: Annotated[str, typer.Option("--isolation", metavar="LEVEL", help="Or read_committed.")] = (
        "read_uncommitted"
    )
    connector: Annotated[str, CONNECTOR] = "yak"
    option: Annotated[tuple[str, ...], OPTION] = ()

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
        one_of("--connector", self.connector, ("yak", "kafka"))
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

    sink: Annotated[
        str, typer.Option("--sink", metavar="WHERE", help="console, topic:NAME, parquet:FOLDER or memory:NAME.")
    ] = "console"
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-dir",
            metavar="DIR",
            help="Where it resumes from.  [a temporary directory for console and memory]",
        ),
    ] = None
    output_mode: Annotated[
        str | None,
        typer.Option(
            "--output-mode", metavar="MODE", help="append, update or complete.  [what job and sink allow, update first]"
        ),
    ] = None

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


def one_of(flag: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise UsageError (`spark-options`) when a value is not allowed."""
    if value not in allowed:
        raise UsageError(
            "spark-options", f"{flag} {value} is not known", why=f"it is one of {', '.join(allowed)}", try_=()
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
