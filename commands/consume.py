"""`yak consume`: its options; `consuming.py` implements it."""

from typing import Annotated

from yak.commands.app import OUTPUT, START, STOP, WHAT, command
from yak.commands.completing import complete_group, complete_topic
from yak.commands.consuming import Request, run
from yak.commands.options import Globals
from yak.commands.parameters import argument, option
from yak.errors import UsageError

GROUP = "As a group"
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


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
        list[str] | None, argument("TOPIC", "Topics; yak when none is given.", autocompletion=complete_topic)
    ] = None,
    topic: Annotated[
        list[str] | None, option("--topic, -t", "Topic, as an option; repeatable.", WHAT, metavar="TOPIC")
    ] = None,
    regex: Annotated[bool, option("--regex, -r", "The topics are regular expressions.", WHAT)] = False,
    partitions: Annotated[str | None, option("--partitions", "Only these partitions.", WHAT, metavar="0,2")] = None,
    group: Annotated[
        str | None,
        option(
            "--group, -g",
            "Read as a member of this group, and commit what is printed.",
            GROUP,
            metavar="GROUP",
            autocompletion=complete_group,
        ),
    ] = None,
    commit_every: Annotated[
        str | None,
        option(
            "--commit-every",
            "After so many records, so long, or whichever comes first: 1000, 5s, 1000,5s; "
            "1s if not given. At the end too.",
            GROUP,
            metavar="N|DURATION",
        ),
    ] = None,
    no_commit: Annotated[bool, option("--no-commit", "Take part in the group, and commit nothing.", GROUP)] = False,
    filters: Annotated[
        list[str] | None,
        option("--filter", "Show only k:TEXT, v:~REGEX, h:NAME=TEXT or 'v:.a > 1'; repeatable.", WHAT, metavar="EXPR"),
    ] = None,
    isolation: Annotated[
        str | None,
        option(
            "--isolation",
            "read_committed leaves out records of open and aborted transactions; read_uncommitted if not given.",
            WHAT,
            metavar="LEVEL",
        ),
    ] = None,
    from_beginning: Annotated[bool, option("--from-beginning", "From the first record.", START)] = False,
    offset: Annotated[
        list[str] | None, option("--offset", "start end 42 +10 -10 10:20 :end @TIME @TIME:TIME.", START, metavar="SPEC")
    ] = None,
    from_: Annotated[
        str | None, option("--from", "From this time on: ISO-8601, epoch, -15m.", START, metavar="TIME")
    ] = None,
    tail: Annotated[int | None, option("--tail", "The last N records of each partition.", START, min=0)] = None,
    exit_: Annotated[bool, option("--exit, -e", "Stop at the current end.", STOP)] = False,
    to: Annotated[str | None, option("--to", "Stop at this time, or at end.", STOP, metavar="TIME")] = None,
    max_messages: Annotated[int | None, option("--max-messages, -n", "Stop after N records.", STOP, min=1)] = None,
    timeout_ms: Annotated[
        int | None, option("--timeout-ms", "Stop when nothing came for this long.", STOP, min=1)
    ] = None,
    print_: Annotated[
        str | None, option("--print", "Also: topic,partition,offset,timestamp,key,headers.", OUTPUT, metavar="FIELDS")
    ] = None,
    format_: Annotated[
        str | None, option("--format", "kcat's: %t %p %o %T %k %v %h %K %S, \\n.", OUTPUT, metavar="FORMAT")
    ] = None,
    json_value: Annotated[bool, option("--json-value", "Embed values that are JSON in -o json.", OUTPUT)] = False,
    decoder: Annotated[
        str | None, option("--decoder", "Pass each value through this program.", OUTPUT, metavar="COMMAND")
    ] = None,
    skip_message_on_error: Annotated[
        bool, option("--skip-message-on-error", "Continue when the decoder fails.", OUTPUT)
    ] = False,
    stats: Annotated[bool, option("--stats", "Count records on stderr every second.", OUTPUT)] = False,
    read_committed: Annotated[bool, option("--read-committed", "", WHAT, hidden=True)] = False,
    isolation_level: Annotated[str | None, option("--isolation-level", "", WHAT, hidden=True)] = None,
    properties: Annotated[list[str] | None, option("--property", "", WHAT, hidden=True)] = None,
    partition_alias: Annotated[str | None, option("--partition", "", WHAT, hidden=True)] = None,
    include: Annotated[str | None, option("--include", "", WHAT, hidden=True)] = None,
) -> int:
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
