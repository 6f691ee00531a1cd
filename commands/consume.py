"""`yak consume`: its options; `consuming.py` implements it."""

from typing import Annotated

import typer

from yak.commands.app import OUTPUT, START, STOP, WHAT, command
from yak.commands.completing import complete_group, complete_topic
from yak.commands.consuming import Request, run
from yak.commands.options import Globals
from yak.errors import UsageError

GROUP = "As a group"
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


def _text(*names: str, help_: str, panel: str = WHAT, metavar: str = "TEXT", hidden: bool = False) -> object:
    return typer.Option(*names, help=help_, rich_help_panel=panel, metavar=metavar, hidden=hidden)


def _switch(*names: str, help_: str, panel: str = WHAT, hidden: bool = False) -> object:
    return typer.Option(*names, help=help_, rich_help_panel=panel, hidden=hidden)


def _is_read_committed(level: str) -> bool:
    if level not in ISOLATION_LEVELS:
        raise UsageError(
            "usage", f'"{level}" is not an isolation level', why=f"levels are {' and '.join(ISOLATION_LEVELS)}"
        )
    return level == "read_committed"


@command(
    examples=(
        "yak consume --from-beginning",
        "yak consume orders --from-beginning --exit -o json | jq .value",
        "yak consume orders payments --from -15m --filter k:u1 --filter 'v:.total > 10'",
        "yak consume orders --group audit --from-beginning --commit-every 1000,5s",
    )
)
def consume(
    g: Globals,
    topics: Annotated[
        list[str] | None,
        typer.Argument(help="Topics; yak when none is given.", autocompletion=complete_topic, metavar="TOPIC"),
    ] = None,
    topic: Annotated[
        list[str] | None, _text("--topic", "-t", help_="Topic, as an option; repeatable.", metavar="TOPIC")
    ] = None,
    regex: Annotated[bool, _switch("--regex", "-r", help_="The topics are regular expressions.")] = False,
    partitions: Annotated[str | None, _text("--partitions", help_="Only these partitions.", metavar="0,2")] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Read as a member of this group, and commit what is printed.",
                     rich_help_panel=GROUP, metavar="GROUP", autocompletion=complete_group),
    ] = None,
    commit_every: Annotated[
        str | None,
        _text("--commit-every", help_="After so many records, so long, or whichever comes first: 1000, 5s, 1000,5s; "
              "1s if not given. At the end too.", panel=GROUP, metavar="N|DURATION"),
    ] = None,
    no_commit: Annotated[
        bool, _switch("--no-commit", help_="Take part in the group, and commit nothing.", panel=GROUP)
    ] = False,
    filters: Annotated[
        list[str] | None,
        _text("--filter", help_="Show only k:TEXT, v:~REGEX, h:NAME=TEXT or 'v:.a > 1'; repeatable.", metavar="EXPR"),
    ] = None,
    isolation: Annotated[
        str | None,
        _text("--isolation", help_="read_committed leaves out records of open and aborted transactions; "
              "read_uncommitted if not given.", metavar="LEVEL"),
    ] = None,
    from_beginning: Annotated[bool, _switch("--from-beginning", help_="From the first record.", panel=START)] = False,
    offset: Annotated[
        list[str] | None,
        _text("--offset", help_="start end 42 +10 -10 10:20 :end @TIME @TIME:TIME.", panel=START, metavar="SPEC"),
    ] = None,
    from_: Annotated[
        str | None, _text("--from", help_="From this time on: ISO-8601, epoch, -15m.", panel=START, metavar="TIME")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", help="The last N records of each partition.", rich_help_panel=START, min=0)
    ] = None,
    exit_: Annotated[bool, _switch("--exit", "-e", help_="Stop at the current end.", panel=STOP)] = False,
    to: Annotated[str | None, _text("--to", help_="Stop at this time, or at end.", panel=STOP, metavar="TIME")] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", help="Stop after N records.", rich_help_panel=STOP, min=1)
    ] = None,
    timeout_ms: Annotated[
        int | None,
        typer.Option("--timeout-ms", help="Stop when nothing came for this long.", rich_help_panel=STOP, min=1),
    ] = None,
    print_: Annotated[
        str | None,
        _text("--print", help_="Also: topic,partition,offset,timestamp,key,headers.", panel=OUTPUT, metavar="FIELDS"),
    ] = None,
    format_: Annotated[
        str | None, _text("--format", help_="kcat's: %t %p %o %T %k %v %h %K %S, \\n.", panel=OUTPUT, metavar="FORMAT")
    ] = None,
    json_value: Annotated[
        bool, _switch("--json-value", help_="Embed values that are JSON in -o json.", panel=OUTPUT)
    ] = False,
    decoder: Annotated[
        str | None, _text("--decoder", help_="Pass each value through this program.", panel=OUTPUT, metavar="COMMAND")
    ] = None,
    skip_message_on_error: Annotated[
        bool, _switch("--skip-message-on-error", help_="Continue when the decoder fails.", panel=OUTPUT)
    ] = False,
    stats: Annotated[bool, _switch("--stats", help_="Count records on stderr every second.", panel=OUTPUT)] = False,
    read_committed: Annotated[bool, _switch("--read-committed", help_="", hidden=True)] = False,
    isolation_level: Annotated[str | None, _text("--isolation-level", help_="", hidden=True)] = None,
    properties: Annotated[list[str] | None, _text("--property", help_="", hidden=True)] = None,
    partition_alias: Annotated[str | None, _text("--partition", help_="", hidden=True)] = None,
    include: Annotated[str | None, _text("--include", help_="", hidden=True)] = None,
) -> int:  # fmt: skip
    """Read records from topics.

    Without --group, offsets are not committed. By default it starts at the end and runs until Ctrl+C.

    With --group, the members of the group share the partitions and start at the committed offsets. Start options
    apply only to partitions without a committed offset.
    """
    names = (*(topics or ()), *(topic or ()))
    request = Request(
        topics=names,
        patterns=(names if regex else ()) + ((f"^(?:{include})$",) if include else ()),
        partitions=partitions or partition_alias,
        filters=tuple(filters or ()),
        read_committed=read_committed or _is_read_committed(isolation or isolation_level or ISOLATION_LEVELS[0]),
        from_beginning=from_beginning,
        offsets=tuple(offset or ()),
        from_time=from_,
        to_time=to,
        tail=tail,
        exit_at_end=exit_,
        max_messages=max_messages,
        idle_ms=timeout_ms,
        fields=print_,
        format=format_,
        json_value=json_value,
        decoder=decoder,
        skip_errors=skip_message_on_error,
        stats=stats,
        group=group,
        commit_every=commit_every,
        no_commit=no_commit,
    )
    return run(g, request.with_properties(tuple(properties or ())))
