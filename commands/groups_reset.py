"""`yak groups reset`."""

from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import WHAT, command
from yak.commands.completing import complete_group
from yak.commands.options import Globals
from yak.errors import UsageError, YakError

if TYPE_CHECKING:
    from yak.client.groups.reset import Target
    from yak.client.groups.resetting import ResetPlan
    from yak.ids import TopicPartition

TO = "Where to (exactly one)"


@command(
    examples=(
        "yak groups reset audit --topic orders --to-earliest              # shows the plan only",
        "yak groups reset audit --topic orders:0,2 --shift-by -100 --execute",
        "yak groups reset audit --all-topics --to-timestamp -15m --execute",
        "yak groups describe audit -o csv > audit.csv && yak groups reset audit --from-file audit.csv --execute",
    )
)
def reset(
    g: Globals,
    name: Annotated[str, typer.Argument(help="Group.", metavar="GROUP", autocompletion=complete_group)],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="A topic or some partitions; repeatable.", metavar="TOPIC[:P,...]",
                     rich_help_panel=WHAT),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with committed offsets.", rich_help_panel=WHAT)
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Change the offsets; without it, only show the plan.", rich_help_panel=WHAT)
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The first record.", rich_help_panel=TO)
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="The end: skip all existing records.", rich_help_panel=TO)
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", help="This offset.", metavar="N", min=0, rich_help_panel=TO)
    ] = None,
    to_timestamp: Annotated[
        str | None,
        typer.Option("--to-timestamp", "--to-datetime", help="The first record at or after a time: ISO-8601, epoch, -15m.",
                     metavar="TIME", rich_help_panel=TO),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", help="N records forward, or back if N is negative.", metavar="N", rich_help_panel=TO),
    ] = None,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="What is committed, brought into the log; the end where nothing is.",
                     rich_help_panel=TO),
    ] = False,
    from_file: Annotated[
        str | None,
        typer.Option("--from-file", help="What a file says, in lines of TOPIC,PARTITION,OFFSET; or yak's own CSV.",
                     metavar="FILE", rich_help_panel=TO),
    ] = None,
) -> int | None:  # fmt: skip
    """Reset a group's committed offsets.

    A dry run without --execute. --execute needs a group without members. Offsets outside the log are clamped to it.
    """
    from yak.client.groups.resetting import look_at, move
    from yak.commands.group_arguments import connect

    target = _target(
        g, name, {"--to-earliest": to_earliest, "--to-latest": to_latest, "--to-current": to_current},
        to_offset, to_timestamp, shift_by, from_file,
    )  # fmt: skip
    if bool(topic) == all_topics and (topic or from_file is None):
        raise UsageError(
            "usage",
            "--topic and --all-topics exclude each other" if topic else "say which offsets to move",
            try_=(f"yak groups reset {name} --topic TOPIC", f"yak groups reset {name} --all-topics"),
        )
    if execute:
        g.must_not_be_readonly(f'moving the offsets of group "{name}"')
    with connect(g) as brokers:
        plan = look_at(brokers, name, target, topic, is_strict=execute)
        results = move(brokers, name, plan.changes) if execute else None
    return _show(g, name, plan, results)


def _target(
    g: Globals,
    name: str,
    switches: dict[str, bool],
    to_offset: int | None,
    to_timestamp: str | None,
    shift_by: int | None,
    from_file: str | None,
) -> "Target":
    from yak.client.groups.reset import Target
    from yak.client.times import parse_time_ms

    given = [each for each, is_given in switches.items() if is_given]
    values = {
        "--to-offset": to_offset,
        "--to-timestamp": to_timestamp,
        "--shift-by": shift_by,
        "--from-file": from_file,
    }
    given += [each for each, value in values.items() if value is not None]
    if len(given) != 1:
        raise UsageError(
            "usage",
            f"{' and '.join(given[:2])} exclude each other" if given else "say where to move the offsets",
            why="exactly one of --to-earliest, --to-latest, --to-offset, --to-timestamp, --shift-by, --to-current, --from-file",
        )
    if to_offset is not None:
        return Target("offset", to_offset)
    if to_timestamp is not None:
        return Target("timestamp", parse_time_ms(to_timestamp, now_ms=g.now_ms(), zone=g.zone))
    if shift_by is not None:
        return Target("shift", shift_by)
    if from_file is not None:
        return Target("file", offsets=_read_file(from_file, name))
    if given == ["--to-earliest"]:
        return Target("earliest")
    return Target("latest" if given == ["--to-latest"] else "current")


def _read_file(path: str, group: str) -> "dict[TopicPartition, int]":
    from yak.client.groups.offsets_file import parse_offsets, read_text

    return parse_offsets(read_text(path), group, path)


def _show(
    g: Globals, name: str, plan: "ResetPlan", results: "dict[TopicPartition, YakError | None] | None"
) -> int | None:
    from yak.commands.group_views import RESET_COLUMNS, reset_rows, with_notes
    from yak.view.formats import counted

    out = g.out
    columns = RESET_COLUMNS if out.format != "csv" else ("group", *RESET_COLUMNS)
    rows = reset_rows(name, plan.steps, results)
    out.table(rows if out.format in ("json", "yaml") else with_notes(rows), columns)
    out.stdout.flush()
    if plan.group is None:
        out.note(f'there is no group "{name}" yet{": it was made" if results else ", it will be made"}')
    if results is None:
        if plan.refused is not None:
            out.warn(f"this cannot be done now: {plan.refused.why}")
        out.note("dry run: nothing was changed; --execute does it")
        return None
    errors = [each for each in results.values() if each is not None]
    if errors:
        out.error(errors[0])
    done = counted(len(results) - len(errors), "partition")
    out.note(f'{done} of group "{name}" moved' if results else "nothing to move: the offsets are there already")
    return 1 if errors else None
