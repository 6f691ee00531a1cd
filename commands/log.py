"""`yak log`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import CONNECTION, START, STOP, command
from yak.commands.options import Globals

if TYPE_CHECKING:
    from yak.local.metadata_log import RecordSource

OFFSET_DIGITS_MAX = 9
"""Numbers with at most so many digits are offsets of the metadata log; longer ones are times."""


@command(
    examples=(
        "yak log",
        "yak log --follow -o json",
        "yak log --at 2026-11-20T12:03:04Z",
        "yak log --data-dir ./yak-data --at 42",
    )
)
def log(
    g: Globals,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="Show the state as of this record or time instead.", metavar="OFFSET|TIME", rich_help_panel=START
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="From this record or time on.", metavar="OFFSET|TIME", rich_help_panel=START),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Up to this record or time, included.", metavar="OFFSET|TIME", rich_help_panel=STOP),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records.", rich_help_panel=STOP)
    ] = False,
    redis_url: Annotated[
        str | None,
        typer.Option("--redis-url", help="Read from this metadata store.", metavar="URL", rich_help_panel=CONNECTION),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir", help="Read the store of a yak up directory, or a broker's copy.", metavar="DIR",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Show the cluster's metadata records, now or as of a time.

    Reads the metadata store of --redis-url, else that of the yak up cluster in --data-dir, else that of the settings.
    -o json prints one record per line.
    """
    from yak.commands.log_view import print_records, print_state
    from yak.errors import UsageError

    source = find_source(g, redis_url, data_dir)
    g.out.detail(f"reading {source.name}")
    if at is not None:
        if from_ or to or follow:
            raise UsageError("usage", "--at excludes --from, --to and --follow", why="it shows one state, not records")
        print_state(g, source, _point(g, at))
        return
    if follow and to:
        raise UsageError("usage", "--follow and --to exclude each other", why="both say when to stop")
    print_records(g, source, _point(g, from_), _point(g, to), follow=follow)


def find_source(g: Globals, redis_url: str | None, data_dir: str | None) -> "RecordSource":
    """The source of metadata records. Raises UsageError when both flags are given."""
    import os

    from yak.errors import UsageError
    from yak.local.metadata_log import METADATA_FOLDER, CopySource, RedisSource

    if redis_url is not None and data_dir is not None:
        raise UsageError("usage", "--redis-url and --data-dir exclude each other", why="both say where to read")
    directory = g.settings.value("data_dir", flag=data_dir)
    url = g.settings.get("redis_url", flag=redis_url)
    g.out.warn_once(g.settings.warnings)
    timeout_s = min(3.0, g.timeout_ms / 1000)
    if data_dir is None and url.origin != "default":
        return RedisSource(url.value, timeout_s)
    from yak.local import state

    cluster = state.load(directory)
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
