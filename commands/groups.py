"""`yak groups list|describe|members|watch|reset|delete`."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from yak.client.groups.partition_syntax import partitions_text
from yak.commands.aliases import names_as_arguments
from yak.commands.app import OUTPUT, STOP, WHAT, Bundle, CommandGroup, command, flag
from yak.commands.live_table import refreshes, show_refresh
from yak.commands.options import Globals
from yak.commands.output import layout
from yak.commands.parameters import argument
from yak.commands.shell_completion import complete_group
from yak.commands.units import format_time, parse_duration_ms, parse_time_ms
from yak.errors import UsageError, YakError
from yak.ids import Offset, TopicPartition
from yak.view.formats import counted, format_duration, group_digits
from yak.view.groups import partitions_json

if TYPE_CHECKING:
    from yak.client.groups.group_brokers import GroupBrokers
    from yak.client.groups.reset import ResetPlan, Step, Target
    from yak.client.metadata import Broker
    from yak.view.groups import Group, Member, PartitionLag

VERBS = {
    "--list": "list",
    "--describe": "describe",
    "--members": "members",
    "--reset-offsets": "reset",
    "--delete-offsets": "delete",
    "--delete": "delete",
}


def rewrite(arguments: list[str]) -> list[str]:
    """Translate `--describe --group audit` of kafka-consumer-groups.sh to `describe audit`; keep other arguments."""
    if not arguments or not arguments[0].startswith("--"):
        return arguments
    verb = next((argument for argument in arguments if argument in VERBS), None)
    if verb is None:
        return arguments
    if verb == "--describe" and "--members" in arguments:
        arguments, verb = [argument for argument in arguments if argument != verb], "--members"
    groups, rest = names_as_arguments(arguments, verb, ("--group", "-g"), f"yak groups {VERBS[verb]} GROUP")
    return [VERBS[verb], *groups, *rest]


def connect(g: "Globals") -> "GroupBrokers":
    """A context manager with a connection to the cluster. Raises YakError when it cannot be reached."""
    from yak.client.groups.group_brokers import GroupBrokers

    return GroupBrokers(g.admin())


def silent_brokers(silent: "Mapping[Broker, str]", what: str) -> list[str]:
    """A warning for each broker that did not answer, so that `what` it has is missing."""
    return [
        f"broker {broker.node_id} at {broker.address} did not answer; {what} are missing: {reason}"
        for broker, reason in silent.items()
    ]


def chosen(texts: Sequence[str] | None, known: Sequence[str], what: str, whose: str = "groups") -> tuple[str, ...]:
    """Values in Kafka's spelling, from repeated or comma-separated ones in any case. Raises UsageError (`usage`)."""
    spelt = {each.lower(): each for each in known}
    states = [state.strip() for text in texts or () for state in text.split(",") if state.strip()]
    for state in states:
        if state.lower() not in spelt:
            raise UsageError("usage", f'"{state}" is not a {what} of {whose}', why=f"{what}s are {', '.join(known)}")
    return tuple(dict.fromkeys(spelt[state.lower()] for state in states))


LIST_COLUMNS = ("group", "type", "state", "members", "coordinator", "lag")
LIST_WIDE = ("protocol_type", "assignor", "partitions", "coordinator_address")
LAG_COLUMNS = ("topic", "partition", "committed", "log_end", "lag", "time_lag", "member", "client", "host")
LAG_FLAT = (
    "group",
    "topic",
    "partition",
    "committed_offset",
    "log_start_offset",
    "log_end_offset",
    "lag",
    "lag_ms",
    "oldest_unread",
    "member_id",
    "client_id",
    "host",
)
STATE_COLUMNS = ("group", "coordinator", "assignor", "state", "members")
STATE_WIDE = ("type", "protocol_type", "epoch")
STATE_FLAT = ("group", "coordinator", "coordinator_address", "assignor", "state", "members", *STATE_WIDE)
MEMBER_COLUMNS = ("member_id", "instance_id", "client_id", "host", "partitions", "assignment")
MEMBER_WIDE = ("subscription", "assignor", "member_epoch")
WATCH_COLUMNS = ("group", "type", "state", "members", "lag", "records_per_s")
WATCH_WIDE = ("coordinator", "assignor", "partitions")
RESET_COLUMNS = ("topic", "partition", "before", "after", "change", "result")


def list_row(group: "Group", *, with_lag: bool) -> dict[str, Any]:
    """One row of `yak groups list`."""
    committed = [each for each in group.partitions if each.committed is not None] if with_lag else None
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "members": None if group.members is None else len(group.members),
        "coordinator": group.coordinator,
        "lag": None if committed is None else group.lag,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor,
        "partitions": None if committed is None else len(committed),
        "coordinator_address": group.coordinator_address,
    }


def state_row(group: "Group") -> dict[str, Any]:
    """One row of `yak groups describe --state`, the columns of kafka-consumer-groups."""
    return {
        "group": group.group_id,
        "coordinator": group.coordinator,
        "coordinator_address": group.coordinator_address,
        "assignor": group.assignor,
        "state": group.state,
        "members": len(group.members or ()),
        "type": group.type,
        "protocol_type": group.protocol_type or None,
        "epoch": group.epoch,
    }


def group_document(group: "Group", *, now_ms: int, when: Callable[[int], str]) -> dict[str, Any]:
    """A whole group, as `yak groups describe -o json` prints it."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "coordinator": group.coordinator,
        "coordinator_address": group.coordinator_address,
        "members": len(group.members or ()),
        "lag": group.lag,
        "lag_ms": group.lag_ms(now_ms),
        "partitions": [_lag_row(each, now_ms=now_ms, when=when) for each in group.partitions],
    }


def _lag_row(each: "PartitionLag", *, now_ms: int, when: Callable[[int], str]) -> dict[str, Any]:
    member = each.member
    return {
        **each.partition._asdict(),
        "committed_offset": each.committed,
        "log_start_offset": each.log_start_offset,
        "log_end_offset": each.high_watermark,
        "lag": each.lag,
        "lag_ms": each.lag_ms(now_ms),
        "oldest_unread": None if each.oldest_unread_ms is None else when(each.oldest_unread_ms),
        "member_id": None if member is None else member.member_id,
        "client_id": None if member is None else member.client_id,
        "host": None if member is None else member.host,
        "trouble": each.trouble,
    }


def flat_rows(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per partition, with its group, for csv and raw."""
    return [{"group": each["group"], **row} for each in documents for row in each["partitions"]]


def description_lines(document: Mapping[str, Any], *, with_time: bool, headers: bool = True) -> list[str]:
    """A group for people: header, partitions, and totals."""
    kind = ", ".join(part for part in (document["type"], document["protocol_type"]) if part)
    assignor = f", assignor {document['assignor']}" if document["assignor"] else ""
    lines = [
        f"group        {document['group']}",
        f"state        {document['state']} ({kind}{assignor})",
        f"coordinator  {document['coordinator']} at {document['coordinator_address']}",
        f"members      {document['members']}",
        "",
    ]
    rows = [
        {
            "topic": row["topic"],
            "partition": row["partition"],
            "committed": row["committed_offset"],
            "log_end": row["log_end_offset"],
            "lag": row["lag"],
            "time_lag": None if row["lag_ms"] is None else format_duration(row["lag_ms"]) if row["lag"] else "0",
            "member": row["member_id"],
            "client": row["client_id"],
            "host": None if row["host"] is None else row["host"].lstrip("/"),
        }
        for row in document["partitions"]
    ]
    if not rows:
        return [*lines, "all read" if document["lag"] == 0 else "nothing is committed, and no member has a partition"]
    columns = [each for each in LAG_COLUMNS if with_time or each != "time_lag"]
    return [*lines, *layout(rows, columns, headers=headers), "", _totals(document)]


def _totals(document: Mapping[str, Any]) -> str:
    partitions = document["partitions"]
    count = counted(len(partitions), "partition")
    if document["lag"] is None:
        is_committed = any(each["committed_offset"] is not None for each in partitions)
        return f"{count}, " + ("the lag is not known" if is_committed else "nothing is committed")
    untold = sum(each["lag"] is None for each in partitions)
    if not document["lag"]:
        text = f"all read but {untold} of {count}" if untold else f"all read: {count}"
    else:
        age = f"; the oldest unread record is {format_duration(document['lag_ms'])} old" if document["lag_ms"] else ""
        text = f"lag {counted(document['lag'], 'record')} in {count}{age}"
    return text + (f"; {group_digits(untold)} without a committed offset that can be compared" if untold else "")


def troubles(document: Mapping[str, Any]) -> list[str]:
    """A sentence for each committed offset outside its partition's log."""
    return [
        f"{each['topic']}-{each['partition']}: {each['committed_offset']} is committed; {each['trouble']}"
        for each in document["partitions"]
        if each["trouble"]
    ]


def member_rows(group: "Group") -> list[dict[str, Any]]:
    """One row per member, for people and csv; unknown assignments are empty cells."""
    return [
        {
            "member_id": each.member_id,
            "instance_id": each.instance_id,
            "client_id": each.client_id,
            "host": each.host.lstrip("/"),
            "partitions": None if each.assigned is None else len(each.assigned),
            "assignment": (partitions_text(each.assigned) or None) if each.assigned is not None else None,
            "subscription": _subscription(each),
            "assignor": group.assignor,
            "member_epoch": each.epoch,
        }
        for each in group.members or ()
    ]


def _subscription(member: "Member") -> str | None:
    parts = [*(member.topics or ()), *([f"~{member.pattern}"] if member.pattern else [])]
    return ",".join(parts) or None


def member_documents(group: "Group") -> list[dict[str, Any]]:
    """The members, as `-o json` prints them."""
    return [
        {
            "group": group.group_id,
            "member_id": each.member_id,
            "instance_id": each.instance_id,
            "client_id": each.client_id,
            "host": each.host,
            "assignment": partitions_json(each.assigned),
            "target_assignment": partitions_json(each.target),
            "subscription": None if each.topics is None else list(each.topics),
            "subscription_regex": each.pattern,
            "assignor": group.assignor,
            "member_epoch": each.epoch,
        }
        for each in group.members or ()
    ]


def reset_rows(
    group: str, steps: "Iterable[Step]", results: Mapping[TopicPartition, YakError | None] | None
) -> list[dict[str, Any]]:
    """One row per partition of `yak groups reset`; `results` is None for a dry run."""
    return [
        {
            "group": group,
            **each.partition._asdict(),
            "before": each.before,
            "after": each.before if each.after is None else each.after,
            "change": None if each.before is None or each.after is None else each.after - each.before,
            "result": _reset_result(each, results),
            "note": each.note or None,
        }
        for each in steps
    ]


def _reset_result(step: "Step", results: Mapping[TopicPartition, YakError | None] | None) -> str:
    if step.after is None:
        result = "left alone"
    elif not step.is_change:
        result = "unchanged"
    elif results is None:
        result = "would be set"
    else:
        error = results.get(step.partition)
        result = "set" if error is None else f"failed: {error.code}"
    return result


SHOW = "Show only"


@command(examples=("yak groups list", "yak groups list --state empty,dead", "yak groups list --no-lag -o json"))
def list_(
    g: Globals,
    state: list[str] | None = flag("--state", "Groups in this state; repeatable.", SHOW, metavar="STATE"),
    type_: list[str] | None = flag("--type", "classic, consumer, share or streams.", SHOW, metavar="TYPE"),
    lag: bool = flag("--lag/--no-lag", "Read committed and log end offsets, for the lag.", OUTPUT, default=True),
) -> int | None:
    """List groups."""
    from yak.client.groups.descriptions import STATES, TYPES, list_groups

    states, types = chosen(state, STATES, "state"), chosen(type_, TYPES, "type")
    with connect(g) as brokers:
        known, silent = list_groups(brokers, states=states, types=types)
        found, failed = read_groups(g, brokers, known, with_lag=lag)
    rows = [list_row(group, with_lag=has_lag) for group, has_lag in found]
    nothing = (
        "No such groups." if states or types else "No groups. A group exists once a consumer has joined or committed."
    )
    columns = [each for each in LIST_COLUMNS if lag or each != "lag"]
    g.out.table(rows, columns, LIST_WIDE, empty="" if silent or failed else nothing)
    g.out.warn_once(silent_brokers(silent, "its groups"))
    return 1 if silent or failed else None


def read_groups(
    g: Globals, brokers: "GroupBrokers", known: "dict[str, Group]", *, with_lag: bool
) -> "tuple[list[tuple[Group, bool]], int]":
    """The groups, each with whether its lag is known, and the number of groups with missing data."""
    from dataclasses import replace

    from yak.client.groups.descriptions import coordinators, describe_groups
    from yak.client.groups.lag import read_marks
    from yak.client.groups.offsets import committed_offsets
    from yak.view.groups import partition_lags

    described = describe_groups(brokers, known.values())
    committed = committed_offsets(brokers, list(known), known=coordinators(known.values())) if with_lag else {}
    failed = 0
    for error in [*described.values(), *committed.values()]:
        # A group that was deleted after it was listed is not a failure, but has no data.
        if isinstance(error, YakError) and error.code != "unknown-group":
            g.out.error(error)
            failed += 1
    marks = read_marks(
        brokers.admin, {each for found in committed.values() if isinstance(found, dict) for each in found}
    )
    read = []
    for name, listed in known.items():
        found, offsets = described[name], committed.get(name)
        if isinstance(found, YakError) and found.code == "unknown-group":
            continue
        group = listed if isinstance(found, YakError) else found
        if isinstance(offsets, dict):
            group = replace(group, partitions=partition_lags(group, offsets, marks))
        read.append((group, isinstance(offsets, dict)))
    return read, failed


@command(
    examples=(
        "yak groups describe audit",
        "yak groups describe audit billing -o json",
        "yak groups describe audit --state",
        "yak groups describe audit --lag-only",
        "yak groups describe audit --no-time      # without reading any record",
    )
)
def describe(
    g: Globals,
    names: Annotated[list[str], argument("GROUP", "Groups.", autocompletion=complete_group)],
    time: bool = flag(
        "--time/--no-time", "Read the first unread record of each partition, for its age.", OUTPUT, default=True
    ),
    state: bool = flag("--state", "Their states, without offsets: a line for each group.", OUTPUT, default=False),
    lag_only: bool = flag("--lag-only", "Without the partitions that are read to their end.", OUTPUT, default=False),
) -> int | None:
    """Show the lag of groups in records and in time, and their assignments."""
    from yak.client.groups.descriptions import coordinators, require_groups
    from yak.client.groups.offsets import committed_offsets

    if state and lag_only:
        raise UsageError("usage", "--state and --lag-only exclude each other", why="states have no partitions")
    with connect(g) as brokers:
        found = require_groups(brokers, names)
        there = [each for each in found.values() if not isinstance(each, YakError)]
        errors = [each for each in found.values() if isinstance(each, YakError)]
        documents = []
        known = coordinators(there)
        committed = {} if state else committed_offsets(brokers, list(known), known=known)
        for group in there:
            offsets = committed.get(group.group_id, {})
            if isinstance(offsets, YakError):
                errors.append(offsets)
            elif state:
                documents.append(state_row(group))
            else:
                documents.append(_document(g, brokers, group, offsets, with_time=time))
                if lag_only:
                    documents[-1]["partitions"] = [each for each in documents[-1]["partitions"] if each["lag"] != 0]
    if not documents and len(errors) == 1:
        raise errors[0]
    if state:
        _show_states(g, documents)
    else:
        _show(g, documents, with_time=time)
    g.out.stdout.flush()
    for failed in errors:
        g.out.error(failed)
    return 1 if errors else None


def _document(
    g: Globals, brokers: "GroupBrokers", group: "Group", committed: "dict[TopicPartition, Offset]", *, with_time: bool
) -> dict[str, Any]:
    from dataclasses import replace

    from yak.client.groups.lag import oldest_unread, read_lags

    admin = brokers.admin
    group = read_lags(admin, group, committed)
    if with_time:
        ages = oldest_unread(admin.servers, group.partitions, timeout_s=admin.timeout_s, verbose=g.out.verbose)
        aged = tuple(replace(each, oldest_unread_ms=ages.get(each.partition)) for each in group.partitions)
        group = replace(group, partitions=aged)
    return group_document(group, now_ms=g.now_ms(), when=lambda time_ms: format_time(time_ms, g.zone))


def _show_states(g: Globals, rows: list[dict[str, Any]]) -> None:
    if not g.out.for_people:
        g.out.table(rows, STATE_FLAT)
        return
    with_coordinators = [{**row, "coordinator": f"{row['coordinator_address']} ({row['coordinator']})"} for row in rows]
    g.out.table(with_coordinators, STATE_COLUMNS, STATE_WIDE)


def _show(g: Globals, documents: list[dict[str, Any]], *, with_time: bool) -> None:
    out = g.out
    if out.for_programs(documents, flat_rows(documents), LAG_FLAT):
        return
    for index, each in enumerate(documents):
        if index:
            out.line()
        for line in description_lines(each, with_time=with_time, headers=out.headers):
            out.line(line)
    out.stdout.flush()
    for each in documents:
        for sentence in troubles(each):
            out.warn(sentence)


@command(examples=("yak groups members audit", "yak groups members audit -o wide", "yak groups members audit -o json"))
def members(
    g: Globals,
    name: Annotated[str, argument("GROUP", "Group.", autocompletion=complete_group)],
) -> None:
    """Show the members of a group and their assignments.

    -v or -o wide: also their subscriptions and the assignor.
    """
    from yak.client.groups.descriptions import require_groups
    from yak.client.groups.group_brokers import answered

    with connect(g) as brokers:
        found = answered(require_groups(brokers, [name])[name])
    if g.out.document(member_documents(found)):
        return
    columns = [each for each in MEMBER_COLUMNS if g.out.for_people or each != "partitions"]
    if g.out.verbose and g.out.format == "table":
        columns += MEMBER_WIDE
    g.out.table(member_rows(found), columns, MEMBER_WIDE, empty=f'group "{name}" is {found.state}: it has no members')
    if g.out.for_people and found.members and any(each.assigned is None for each in found.members):
        g.out.note(f'group "{name}" is {found.state}: its assignments are known when it is Stable')


@command(examples=("yak groups watch", "yak groups watch audit --interval 5s", "yak groups watch audit -o json"))
def watch(
    g: Globals,
    names: Annotated[
        list[str] | None, argument("GROUP", "Groups; all when none is given.", autocompletion=complete_group)
    ] = None,
    interval: str = flag("--interval", "Time between updates.", OUTPUT, default="1s", metavar="DURATION"),
    count: int | None = flag("--count, -n", "Stop after N updates.", STOP, min=1),
) -> None:
    """Show groups continuously: state, members, lag, and committed records a second."""
    interval_ms = parse_duration_ms(interval, bare_unit="s")
    before: dict[str, dict[TopicPartition, Offset]] | None = None
    before_at = 0.0
    for refresh in refreshes(g, interval_ms, count):
        with refresh:
            found = _watched(g, names or (), must_be_there=before is None)
            committed = {
                group.group_id: {
                    each.partition: each.committed for each in group.partitions if each.committed is not None
                }
                for group, _ in found
            }
            now = time.monotonic()
            rows = []
            for group, has_lag in found:
                grown = None if before is None else _growth(before.get(group.group_id, {}), committed[group.group_id])
                rate = None if grown is None else round(grown / (now - before_at))
                rows.append({**list_row(group, with_lag=has_lag), "records_per_s": rate})
            show_refresh(g, rows, WATCH_COLUMNS, WATCH_WIDE, (*WATCH_COLUMNS, *WATCH_WIDE))
            before, before_at = committed, now


def _growth(before: Mapping[TopicPartition, Offset], now: Mapping[TopicPartition, Offset]) -> int | None:
    """By how much the committed offsets grew, of partitions with both; None without any."""
    both = before.keys() & now.keys()
    return sum(now[each] - before[each] for each in both) if both else None


def _watched(g: Globals, names: Sequence[str], *, must_be_there: bool) -> "list[tuple[Group, bool]]":
    """The groups, each with whether its offsets are known. The connection is new each time: coordinators move."""
    from yak.client.groups.descriptions import list_groups, unknown_group

    with connect(g) as brokers:
        known, silent = list_groups(brokers)
        if must_be_there and (missing := [name for name in names if name not in known]):
            raise unknown_group(missing[0], known, silent)
        g.out.warn_once(silent_brokers(silent, "its groups"))
        wanted = {name: known[name] for name in names if name in known} if names else known
        return read_groups(g, brokers, wanted, with_lag=True)[0]


TO = "Where to (exactly one)"


@dataclass(frozen=True, slots=True)
class ResetTarget(Bundle):
    """Where `reset` moves the offsets."""

    to_earliest: bool = flag("--to-earliest", "The first record.", TO, default=False)
    to_latest: bool = flag("--to-latest", "The end: skip all existing records.", TO, default=False)
    to_offset: int | None = flag("--to-offset", "This offset.", TO, metavar="N", min=0)
    to_timestamp: str | None = flag(
        "--to-timestamp, --to-datetime",
        "The first record at or after a time: ISO-8601, epoch, -15m.",
        TO,
        metavar="TIME",
    )
    by_duration: str | None = flag(
        "--by-duration", "The first record of this last time: 1h, PT1H.", TO, metavar="DURATION"
    )
    shift_by: int | None = flag("--shift-by", "N records forward, or back if N is negative.", TO, metavar="N")
    to_current: bool = flag(
        "--to-current", "The committed offset, clamped to the log; the end without one.", TO, default=False
    )
    from_file: str | None = flag(
        "--from-file", "The offsets of a file: lines TOPIC,PARTITION,OFFSET, or yak's CSV.", TO, metavar="FILE"
    )


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
    name: Annotated[str, argument("GROUP", "Group.", autocompletion=complete_group)],
    topic: list[str] | None = flag(
        "--topic, -t", "A topic or some partitions; repeatable.", WHAT, metavar="TOPIC[:P,...]"
    ),
    all_topics: bool = flag("--all-topics", "All topics with committed offsets.", WHAT, default=False),
    execute: bool = flag("--execute", "Change the offsets; without it, only show the plan.", WHAT, default=False),
    *,
    to: ResetTarget,
    dry_run: bool = flag("--dry-run", "", WHAT, default=False, hidden=True),
) -> int | None:
    """Reset a group's committed offsets.

    A dry run without --execute. --execute needs a group without members. Offsets outside the log are clamped to it.
    """
    from yak.client.groups.reset import move, read_reset_plan

    target = _target(g, name, to)
    if dry_run and execute:
        raise UsageError("usage", "--dry-run and --execute exclude each other", why="--dry-run changes nothing")
    if bool(topic) == all_topics and (topic or to.from_file is None):
        raise UsageError(
            "usage",
            "--topic and --all-topics exclude each other" if topic else "say which offsets to move",
            try_=(f"yak groups reset {quote(name)} --topic TOPIC", f"yak groups reset {quote(name)} --all-topics"),
        )
    if execute:
        g.must_not_be_readonly(f'moving the offsets of group "{name}"')
    with connect(g) as brokers:
        plan = read_reset_plan(brokers, name, target, topic, is_strict=execute)
        results = move(brokers, name, plan.changes) if execute else None
    return _show_plan(g, name, plan, results)


def _target(g: Globals, name: str, to: ResetTarget) -> "Target":
    """The one target that is given. Raises UsageError (`usage`, `bad-time`, `bad-duration`, `offsets-file`)."""
    from yak.client.groups.reset import Target

    values = {each.name: getattr(to, each.name) for each in fields(to)}
    given = [each for each, value in values.items() if value is not None and value is not False]
    flags = {each: f"--{each.replace('_', '-')}" for each in values}
    if len(given) != 1:
        two = " and ".join(flags[each] for each in given[:2])
        what = f"{two} exclude each other" if given else "say where to move the offsets"
        raise UsageError("usage", what, why=f"exactly one of {', '.join(flags.values())}")
    kind, value = given[0], values[given[0]]
    if kind == "to_timestamp":
        return Target("timestamp", parse_time_ms(value, now_ms=g.now_ms(), zone=g.zone))
    if kind == "by_duration":  # Kafka's tool takes ISO-8601 durations only
        return Target("timestamp", g.now_ms() - parse_duration_ms(value, may_be_iso=True))
    if kind == "from_file":
        return Target("file", offsets=_read_file(value, name))
    if kind in ("to_offset", "shift_by"):
        return Target("offset" if kind == "to_offset" else "shift", value)
    return Target("earliest" if to.to_earliest else "latest" if to.to_latest else "current")


def _read_file(path: str, group: str) -> "dict[TopicPartition, int]":
    from yak.client.groups.offsets_file import parse_offsets, read_text

    return parse_offsets(read_text(path), group, path)


def _show_plan(
    g: Globals, name: str, plan: "ResetPlan", results: "dict[TopicPartition, YakError | None] | None"
) -> int | None:
    out = g.out
    columns = RESET_COLUMNS if out.format != "csv" else ("group", *RESET_COLUMNS)
    rows = reset_rows(name, plan.steps, results)
    if out.format not in ("json", "yaml"):
        rows = [{**row, "result": f"{row['result']} ({row['note']})" if row["note"] else row["result"]} for row in rows]
    out.table(rows, columns)
    out.stdout.flush()
    if plan.group is None:
        made = ": it was created" if results else ", it will be created" if plan.changes else ""
        out.note(f'there is no group "{name}" yet{made}')
    if results is None:
        if plan.refused is not None:
            out.warn(f"this cannot be done now: {plan.refused.why}")
        out.note("dry run: nothing was changed; --execute does it")
        return None
    errors = [each for each in results.values() if each is not None]
    if errors:
        out.error(errors[0])
    done = counted(len(results) - len(errors), "partition")
    if results:
        out.note(f'{done} of group "{name}" moved')
    elif plan.left_alone:
        out.note(f"nothing was moved: {counted(plan.left_alone, 'partition')} left alone")
    else:
        out.note("nothing to move: the offsets are already committed")
    if plan.unanswered:
        out.warn(f"{counted(plan.unanswered, 'partition')} not moved: no leader answers; yak isr --offline")
    return 1 if errors or plan.unanswered else None


@command(
    examples=(
        "yak groups delete audit",
        "yak groups delete audit billing --if-exists --yes",
        "yak groups delete audit --topic orders --topic payments:0,2",
    )
)
def delete(
    g: Globals,
    names: Annotated[list[str], argument("GROUP", "Groups.", autocompletion=complete_group)],
    topic: list[str] | None = flag(
        "--topic, -t", "Only the offsets of this topic or these partitions; repeatable.", WHAT, metavar="TOPIC[:P,...]"
    ),
    if_exists: bool = flag("--if-exists", "Do nothing if it does not exist.", WHAT, default=False),
) -> int:
    """Delete groups and their committed offsets, or only the offsets of some topics.

    A group with members is not deleted. Offsets of a topic are not deleted while a member is subscribed to it.
    """

    g.must_not_be_readonly(f"deleting {', '.join(names)}")
    with connect(g) as brokers:
        there, rows, errors = _deletable_groups(brokers, names, with_members=topic is not None, if_exists=if_exists)
        if errors and len(rows) == len(errors) == 1 and not there:
            raise errors[0]
        for error in errors:
            g.out.error(error)
        if topic is None:
            if there:
                g.confirm(f"Delete {_named(there)} and all committed offsets?")
            done, failed = _delete_groups(brokers, there)
        else:
            partitions = _committed_partitions(brokers, there, topic)
            if any(partitions.values()):
                g.confirm(f"Delete committed offsets of {_named(there)} for {', '.join(topic)}?")
            done, failed = _delete_offsets(brokers, partitions)
    _report(g, [*rows, *done], failed)
    return 1 if errors or failed else 0


def _named(names: list[str]) -> str:
    return f"group{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _row(name: str, result: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more, "result": result}


def _deletable_groups(
    brokers: "GroupBrokers", names: list[str], *, with_members: bool, if_exists: bool
) -> tuple[list[str], list[dict[str, Any]], list[YakError]]:
    """The groups that can be deleted; rows and errors of the others."""
    from yak.client.groups.descriptions import active_group, require_groups

    there: list[str] = []
    rows: list[dict[str, Any]] = []
    errors: list[YakError] = []
    for name, found in require_groups(brokers, names).items():
        if isinstance(found, YakError):
            if if_exists and found.code == "unknown-group":
                rows.append(_row(name, "not there"))
                continue
            error: YakError = found
        elif found.members and not with_members:
            error = active_group(name, found.members, f'group "{name}" was not deleted')
        else:
            there.append(name)
            continue
        errors.append(error)
        rows.append(_row(name, f"failed: {error.code}"))
    return there, rows, errors


def _delete_groups(brokers: "GroupBrokers", names: list[str]) -> tuple[list[dict[str, Any]], list[YakError]]:
    from yak.client.groups.offsets import delete_groups

    results = delete_groups(brokers, names)
    rows = [
        _row(name, f"failed: {error.code}" if isinstance(error, YakError) else "deleted")
        for name, error in results.items()
    ]
    return rows, [error for error in results.values() if error is not None]


def _committed_partitions(brokers: "GroupBrokers", names: list[str], topics: list[str]) -> dict[str, list[Any]]:
    """The offsets that each group committed for these topics. Raises YakError."""
    from yak.client.groups.group_brokers import answered
    from yak.client.groups.offsets import committed_offsets
    from yak.client.groups.partition_syntax import select_partitions

    committed = committed_offsets(brokers, names)
    return {name: select_partitions(topics, answered(found)) for name, found in committed.items()}


def _delete_offsets(
    brokers: "GroupBrokers", partitions_of: dict[str, list[Any]]
) -> tuple[list[dict[str, Any]], list[YakError]]:
    from yak.client.groups.offsets import delete_offsets

    rows: list[dict[str, Any]] = []
    errors: dict[str, YakError] = {}
    for name, partitions in partitions_of.items():
        if not partitions:
            rows.append(_row(name, "nothing was committed of it"))
            continue
        for each, error in delete_offsets(brokers, name, partitions).items():
            result = "offset deleted" if error is None else f"failed: {error.code}"
            rows.append(_row(name, result, topic=each.topic, partition=each.partition))
            if error is not None:
                errors.setdefault(error.message, error)
    return rows, list(errors.values())


def _report(g: Globals, rows: list[dict[str, Any]], errors: list[YakError]) -> None:
    for error in errors:
        g.out.error(error)
    g.out.results(rows)


groups = CommandGroup(
    "groups",
    examples=(
        "yak groups list",
        "yak groups describe audit",
        "yak groups reset audit --topic orders --to-earliest            # shows the plan only",
        "yak groups reset audit --topic orders --to-earliest --execute",
    ),
    rewrite=rewrite,
    aliases={"ls": "list", "rm": "delete", "desc": "describe", "show": "describe", "seek": "reset"},
    leaves={"list": list_, "describe": describe, "members": members, "watch": watch, "reset": reset, "delete": delete},
)
