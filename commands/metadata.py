"""`yak metadata`: the records of the metadata log, and the state that they produce."""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from yak.commands.app import CONNECTION, START, STOP, CommandGroup
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.local.metadata_log import RecordSource

OFFSET_DIGITS_MAX = 9
"""Numbers with at most so many digits are offsets of the metadata log; longer ones are times."""

metadata = CommandGroup(
    "metadata",
    "Show the cluster's metadata records, and its state as of a time.",
    examples=("yak metadata log --follow", "yak metadata snapshot --at 2026-11-20T12:03:04Z"),
)

RedisUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--redis-url", help="Read from this metadata store.", metavar="URL", rich_help_panel=CONNECTION),
]
DataDir: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        help="Read the store of a yak up directory, or a broker's copy.",
        metavar="DIR",
        rich_help_panel=CONNECTION,
    ),
]


@metadata.command(
    "log",
    examples=("yak metadata log", "yak metadata log --follow -o json", "yak metadata log --data-dir ./yak-data"),
)
def log(
    g: Globals,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="From this record or time on.", metavar="OFFSET|TIME", rich_help_panel=START),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Up to this record or time, included.", metavar="OFFSET|TIME", rich_help_panel=STOP),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new records.", rich_help_panel=STOP)] = False,
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Print the records of the cluster's metadata log.

    Reads the metadata store of --redis-url, else that of the yak up cluster in --data-dir, else that of the settings.
    Each record is a sentence, cut to the terminal's width except with -o wide. -o json prints the records' fields.
    """
    from yak.commands.metadata_view import print_records
    from yak.errors import UsageError

    if follow and to:
        raise UsageError("usage", "--follow and --to exclude each other", why="both say when to stop")
    source = find_source(g, redis_url, data_dir)
    g.out.detail(f"reading {source.name}")
    print_records(g, source, _point(g, from_), _point(g, to), follow=follow)


@metadata.command(
    "snapshot",
    examples=(
        "yak metadata snapshot",
        "yak metadata snapshot --at 2026-11-20T12:03:04Z",
        "yak metadata snapshot --data-dir ./yak-data --at 42 -o json",
    ),
)
def snapshot(
    g: Globals,
    at: Annotated[
        str | None,
        typer.Option("--at", help="As of this record or time.  [now]", metavar="OFFSET|TIME", rich_help_panel=START),
    ] = None,
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Show the state of the cluster that its metadata records produce, now or as of a time.

    Reads the metadata store of --redis-url, else that of the yak up cluster in --data-dir, else that of the settings.
    """
    from yak.commands.metadata_view import print_state

    source = find_source(g, redis_url, data_dir)
    g.out.detail(f"reading {source.name}")
    print_state(g, source, _point(g, at))


def find_source(g: Globals, redis_url: str | None, data_dir: str | None) -> "RecordSource":
    """The source of metadata records. Raises UsageError when both flags are given."""
    import os

    from yak.errors import UsageError
    from yak.local.metadata_log import METADATA_FOLDER, CopySource, RedisSource, newest_copy

    if redis_url is not None and data_dir is not None:
        raise UsageError("usage", "--redis-url and --data-dir exclude each other", why="both say where to read")
    directory = g.settings.value("data_dir", flag=data_dir)
    url = g.settings.get("redis_url", flag=redis_url)
    g.out.warn_once(g.settings.warnings)
    g.out.warn_once(g.settings.warnings)
    timeout_s = min(3.0, g.timeout_ms / 1000)
    if data_dir is None and url.origin != "default":
        return RedisSource(url.value, timeout_s)
    from yak.local import state

    cluster = state.load(directory)
    if cluster is not None and (cluster.metadata == "raft" or cluster.moving_to is not None):
        return newest_copy([broker.data_dir for broker in cluster.brokers])
    if cluster is not None:
        return RedisSource(cluster.redis.url, timeout_s)
    if data_dir is not None or os.path.isdir(os.path.join(directory, METADATA_FOLDER)):
        return CopySource(directory)
    return RedisSource(url.value, timeout_s)


def _point(g: Globals, text: str | None) -> dict[str, Any]:
    """`offset` or `timestamp_ms` of a bound, as keyword arguments."""
    from yak.commands.units import parse_time_ms

    if text is None:
        return {}
    if text.isdigit() and len(text) <= OFFSET_DIGITS_MAX:
        return {"offset": int(text)}
    return {"timestamp_ms": parse_time_ms(text, now_ms=g.now_ms(), zone=g.zone)}
