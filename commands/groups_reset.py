"""`yak groups reset`."""

from typing import TYPE_CHECKING, Annotated

import typer

from yak.commands.app import WHAT, command
from yak.commands.completing import complete_group
from yak.commands.options import Globals
from yak.errors import UsageError, YakError

if TYPE_CHECKING:
    from yak.client.groups.asking import GroupBrokers
    from yak.client.groups.describing import Group
    from yak.client.groups.reset import Step, Target
    from yak.ids import Offset, TopicPartition

TO = "Where to (exactly one)"


@command(
    examples=(
        "yak groups reset audit --topic orders --to-earliest              # shows the plan only",
        "yak groups reset audit --topic orders:0,2 --shift-by -100 --execute",
        "yak groups reset audit --all-topics --to-timestamp -15m --execute",
    )
)
def reset(
    g: Globals,
    name: Annotated[str, typer.Argument(help="Group.", metavar="GROUP", autocompletion=complete_group)],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="A topic, or some of its partitions; repeatable.", metavar="TOPIC[:P,...]",
                     rich_help_panel=WHAT),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All that the group has committed.", rich_help_panel=WHAT)
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without, only the plan is shown.", rich_help_panel=WHAT)
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The first record there is.", rich_help_panel=TO)
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="The end: what is there counts as read.", rich_help_panel=TO)
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
        typer.Option("--shift-by", help="N records on, or back where N is negative.", metavar="N", rich_help_panel=TO),
    ] = None,
    to_current: Annotated[
        bool,
        typer.Option("--to-current", help="What is committed, brought into the log; the end where nothing is.",
                     rich_help_panel=TO),
    ] = False,
) -> int | None:  # fmt: skip
    """Move a group's committed offsets.

    A dry run unless --execute is given. The group must not have members then. Offsets outside the log become the nearest inside.
    """
    from yak.client.groups.describing import active_group
    from yak.client.groups.offsets import commit_offsets
    from yak.commands.group_arguments import connect

    target = _target(
        g, {"--to-earliest": to_earliest, "--to-latest": to_latest, "--to-current": to_current},
        to_offset, to_timestamp, shift_by,
    )  # fmt: skip
    if bool(topic) == all_topics:
        raise UsageError(
            "usage",
            "--topic and --all-topics exclude each other" if topic else "say which offsets to move",
            try_=(f"yak groups reset {name} --topic TOPIC", f"yak groups reset {name} --all-topics"),
        )
    if execute:
        g.must_not_be_readonly(f'moving the offsets of group "{name}"')
    with connect(g) as brokers:
        group, committed = _group(brokers, name)
        steps = _plan(brokers, target, name, topic, committed)
        refused = active_group(group, f'offsets of group "{name}" were not moved') if group and group.members else None
        if refused is not None and execute:
            raise refused
        changes = {each.partition: each.after for each in steps if each.is_change and each.after is not None}
        results = None
        if execute:
            results = commit_offsets(brokers, name, changes) if changes else {}
    return _show(g, name, steps, results, refused, is_new=group is None)


def _target(
    g: Globals, switches: dict[str, bool], to_offset: int | None, to_timestamp: str | None, shift_by: int | None
) -> "Target":
    from yak.client.groups.reset import Target
    from yak.commands.units import parse_time_ms

    given = [each for each, is_given in switches.items() if is_given]
    values = {"--to-offset": to_offset, "--to-timestamp": to_timestamp, "--shift-by": shift_by}
    given += [each for each, value in values.items() if value is not None]
    if len(given) != 1:
        raise UsageError(
            "usage",
            f"{' and '.join(given[:2])} exclude each other" if given else "say where to move the offsets",
            why="exactly one of --to-earliest, --to-latest, --to-offset, --to-timestamp, --shift-by, --to-current",
        )
    if to_offset is not None:
        return Target("offset", to_offset)
    if to_timestamp is not None:
        return Target("timestamp", parse_time_ms(to_timestamp, now_ms=g.now_ms(), zone=g.zone))
    if shift_by is not None:
        return Target("shift", shift_by)
    if given == ["--to-earliest"]:
        return Target("earliest")
    return Target("latest" if given == ["--to-latest"] else "current")


def _group(brokers: "GroupBrokers", name: str) -> "tuple[Group | None, dict[TopicPartition, Offset]]":
    """The group and what it committed; None for one that is not there: resetting makes it."""
    from yak.client.groups.describing import require_groups
    from yak.client.groups.offsets import committed_offsets

    found = require_groups(brokers, [name])[name]
    if isinstance(found, YakError):
        if found.code != "unknown-group":
            raise found
        return None, {}
    committed = committed_offsets(brokers, [name])[name]
    if isinstance(committed, YakError):
        raise committed
    return found, committed


def _plan(
    brokers: "GroupBrokers",
    target: "Target",
    name: str,
    topics: list[str] | None,
    committed: "dict[TopicPartition, Offset]",
) -> "list[Step]":
    from yak.client.groups.lag import read_marks
    from yak.client.groups.reset import plan_reset
    from yak.commands.group_arguments import parse_partitions

    partitions = parse_partitions(topics, brokers.admin.metadata()) if topics else list(committed)
    if not partitions:
        raise YakError(
            "nothing-committed",
            f'group "{name}" has committed nothing',
            why="--all-topics means those of which it committed something",
            try_=(f"yak groups reset {name} --topic TOPIC --to-earliest", "yak groups list"),
        )
    marks = read_marks(brokers.admin, partitions)
    by_time: dict[TopicPartition, Offset] = {}
    if target.kind == "timestamp":
        answers = brokers.admin.offsets({each: target.number for each in partitions if each in marks})
        by_time = {each: found.offset for each, found in answers.items()}
    return plan_reset(target, partitions, committed, marks, by_time)


def _show(
    g: Globals,
    name: str,
    steps: "list[Step]",
    results: "dict[TopicPartition, YakError | None] | None",
    refused: YakError | None,
    *,
    is_new: bool,
) -> int | None:
    from yak.commands.group_views import RESET_COLUMNS, reset_rows, with_notes
    from yak.commands.units import counted

    out = g.out
    columns = RESET_COLUMNS if out.format != "csv" else ("group", *RESET_COLUMNS)
    rows = reset_rows(name, steps, results)
    out.table(rows if out.format in ("json", "yaml") else with_notes(rows), columns)
    out.stdout.flush()
    if is_new:
        out.note(f'there is no group "{name}" yet{": it was made" if results else ", it will be made"}')
    if results is None:
        if refused is not None:
            out.warn(f"this cannot be done now: {refused.why}")
        out.note("dry run: nothing was changed; --execute does it")
        return None
    errors = [each for each in results.values() if each is not None]
    if errors:
        out.error(errors[0])
    done = counted(len(results) - len(errors), "partition")
    out.note(f'{done} of group "{name}" moved' if results else "nothing to move: the offsets are there already")
    return 1 if errors else None
