"""`yak topics`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from yak.client.numbers import parse_long
from yak.commands.aliases import names_as_arguments
from yak.commands.app import OUTPUT, WHAT, CommandGroup, flag
from yak.commands.options import Globals
from yak.commands.output import cell, layout
from yak.commands.parameters import DryRun, PartitionFilter, argument, option
from yak.commands.shell_completion import complete_topic
from yak.commands.units import key_values, parse_time_ms
from yak.config.definitions import INT_MAX
from yak.errors import UsageError, YakError, closest
from yak.ids import NodeId, Offset, TopicPartition
from yak.view.formats import group_digits
from yak.view.partition_state import Conditions, PartitionState, Replication, worst

if TYPE_CHECKING:
    from yak.client.admin import Admin, ConfigValue
    from yak.client.metadata import Topic

VERBS = ("list", "describe", "create", "alter", "delete")


def rewrite(arguments: list[str]) -> list[str]:
    """Translate `--create --topic x --partitions 3` of kafka-topics.sh to `create x --partitions 3`.

    With `--list`, `--describe` and so on anywhere, `--topic NAME` becomes the argument. Other arguments stay unchanged.
    """
    verb = next((argument[2:] for argument in arguments if argument.startswith("--") and argument[2:] in VERBS), None)
    if verb is None or (arguments and arguments[0] in VERBS):
        return arguments
    names, rest = names_as_arguments(arguments, f"--{verb}", ("--topic", "-t"), f"yak topics {verb} NAME")
    return [verb, *(part for name in names for part in name.split(",")), *rest]


def require_configs(admin: "Admin", kind: str, name: str, wanted: Sequence[str]) -> None:
    """Raise YakError (`bad-config`) for a config that does not exist: a broker lets it be reset, as Kafka's does."""
    known = [each.name for each in admin.configs(kind, name)] if wanted else []
    for each in wanted:
        if each not in known:
            guess = closest(each, known)
            what, hint = f'configs of {kind} "{name}" were not changed', f"; closest: {guess}" if guess else ""
            raise YakError("bad-config", what, why=f"unknown config name: {each}{hint}")


Sort: TypeAlias = Literal["name", "partitions", "records", "size"]


def replications(topic: "Topic", min_isr: int, silent: Collection[NodeId]) -> list[Replication]:
    """What decides the states of a topic's partitions; one whose leader is `silent` is offline.

    Metadata name a dead leader until the metadata store answers again: before, no other leader is elected.
    """
    found = ((each, Replication.of(each, min_isr)) for each in topic.partitions)
    return [known._replace(is_offline=known.is_offline or each.leader in silent) for each, known in found]


def list_rows(
    g: "Globals",
    admin: "Admin",
    *,
    internal: bool,
    conditions: Conditions,
    sort: Sort,
) -> list[dict[str, Any]]:
    """One row per topic. Offsets and sizes are requested only if they are printed or sorted by."""
    from yak.client.reach import silent_brokers

    metadata = admin.metadata()
    found = [topic for topic in metadata.topics.values() if internal or not topic.is_internal]
    min_isrs = admin.min_isrs(topic.name for topic in found)
    silent = silent_brokers(metadata.leaders_of(found))
    known = {topic.name: replications(topic, min_isrs[topic.name], silent) for topic in found}
    found = [topic for topic in found if any(map(conditions.match, known[topic.name]))]
    wants_more = g.out.format not in ("table", "raw") or sort in ("records", "size")
    records = _record_counts(admin, found) if wants_more else {}
    sizes = _sizes(admin, found) if wants_more else {}
    rows: list[dict[str, Any]] = [
        {
            "name": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "state": worst(each.state for each in known[topic.name]).value,
            "internal": topic.is_internal,
            **({"records": records.get(topic.name), "size_bytes": sizes.get(topic.name)} if wants_more else {}),
        }
        for topic in found
    ]
    column = {"size": "size_bytes"}.get(sort, sort)
    if column != "name":
        rows.sort(key=lambda row: int(row[column] or 0), reverse=True)
    for node, reason in silent.items():
        g.out.note(f"broker {node} at {metadata.brokers[node].address} did not answer: {reason}")
    return rows


def _record_counts(admin: "Admin", topics: "list[Topic]") -> dict[str, int | None]:
    """Records of each topic's partitions with a leader; None if one of the leaders does not answer."""
    marks = admin.watermarks([each for topic in topics for each in topic.led], answered_only=True)
    return {topic.name: _records(topic, marks) for topic in topics}


def _records(topic: "Topic", marks: Mapping[TopicPartition, tuple[Offset, Offset]]) -> int | None:
    """High watermark minus log start, summed over partitions with a leader; None if one of these is unknown."""
    known = [marks[each] for each in topic.led if each in marks]
    return sum(high - low for low, high in known) if len(known) == len(list(topic.led)) else None


def _sizes(admin: "Admin", topics: "list[Topic]") -> dict[str, int | None]:
    from yak.client.log_dirs import replica_sizes

    by_broker = replica_sizes(admin.metadata(), timeout_s=admin.timeout_s)
    sizes: dict[str, int | None] = {}
    for topic in topics:
        known = [by_broker.get(each.leader, {}).get((topic.name, each.number)) for each in topic.partitions]
        answered = [size for size in known if size is not None]
        sizes[topic.name] = sum(answered) if answered else None
    return sizes


def describe_topic(admin: "Admin", name: str) -> dict[str, Any]:
    """All details of one topic; `configs` is None where this user may not see them. Raises YakError (`unknown-topic`)."""
    metadata = admin.metadata()
    topic = metadata.require_topic(name)
    marks = admin.watermarks(list(topic.led), answered_only=True)
    latest = admin.offsets(dict.fromkeys(marks, "latest"), answered_only=True)
    configs = _visible_configs(admin, name)
    damaged = {} if configs is None else admin.damaged_offsets(name)
    min_isr = next((int(each.value or 1) for each in configs or () if each.name == "min.insync.replicas"), 1)
    known = replications(topic, min_isr, {leader for each, leader in topic.led.items() if each not in marks})
    rows = []
    for each, replication in zip(topic.partitions, known, strict=True):
        key = TopicPartition(name, each.number)
        low, high = marks.get(key, (None, None))
        rows.append(
            {
                "partition": each.number,
                "leader": each.leader if each.leader >= 0 else None,
                "leader_epoch": latest[key].leader_epoch if key in latest else None,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "offline_replicas": [node for node in each.replicas if node not in metadata.brokers],
                "log_start_offset": low,
                "high_watermark": high,
                "damaged_replicas": dict(sorted(damaged.get(each.number, {}).items())),
                "state": replication.state.value,
            }
        )
    return {
        "name": name,
        "topic_id": admin.topic_id(name),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "records": _records(topic, marks),
        "state": worst(each.state for each in known).value,
        "partitions": rows,
        "configs": None
        if configs is None
        else [{"name": each.name, "value": each.value, "source": each.source} for each in configs],
    }


def _visible_configs(admin: "Admin", name: str) -> "list[ConfigValue] | None":
    """The topic's configs; None without the right to describe them, which is another one than that to see the topic."""
    try:
        return admin.configs("topic", name)
    except YakError as error:
        if error.code != "not-authorized":
            raise
        return None


def _condition(row: dict[str, Any]) -> str:
    """A partition's state for people, and its damaged replicas with the offset of the damaged batch."""
    damaged = [f"damaged on broker {node} at offset {offset}" for node, offset in row["damaged_replicas"].items()]
    state = PartitionState(row["state"])
    return ", ".join([*damaged, *([state.label] if state is not PartitionState.OK or not damaged else [])])


def print_description(g: "Globals", described: dict[str, Any], *, all_configs: bool) -> None:
    """Print for people: a header, the configs that were set, the partitions, and their states."""
    out = g.out
    partitions = [{**each, "state": _condition(each)} for each in described["partitions"]]
    out.line(f"topic        {described['name']}  ({described['topic_id']})")
    out.line(f"partitions   {len(partitions)}, replication factor {described['replication_factor']}")
    records = described["records"]
    out.line(f"records      {cell(records) if records is None else group_digits(records)}")
    configs = [each for each in described["configs"] or () if all_configs or each["source"] == "topic"]
    for index, each in enumerate(configs):
        source = f"  ({each['source']})" if all_configs else ""
        out.line(f"{'configs' if index == 0 else '':<12} {each['name']}={each['value']}{source}")
    out.line()
    columns = ["partition", "leader", "leader_epoch", "isr", "replicas"]
    columns += ["offline_replicas"] if any(each["offline_replicas"] for each in partitions) else []
    columns += ["log_start_offset", "high_watermark", "state"]
    for line in layout(partitions, columns, headers=out.headers):
        out.line(line)
    out.line()
    bad = [each for each in partitions if each["state"] != PartitionState.OK.label]
    if not bad:
        out.line(f"{len(partitions)} of {len(partitions)} partitions ok")
    else:
        out.line("; ".join(f"{described['name']}-{each['partition']} {each['state']}" for each in bad))


@dataclass(frozen=True, slots=True)
class TrimStep:
    """A partition's log start before and after the trim."""

    partition: TopicPartition
    old: Offset
    new: Offset


def plan_trim(
    g: "Globals", admin: "Admin", name: str, before: str, partitions: str | None
) -> tuple[list[TrimStep], list[int]]:
    """The plan of `trim`, and the partitions without a leader, which cannot be trimmed.

    An integer below 100 thousand million is an offset, anything else a time.
    """
    from yak.client.metadata import unknown_partition

    topic = admin.metadata().require_topic(name)
    wanted = list(topic.led)
    offline = [each.number for each in topic.partitions if TopicPartition(name, each.number) not in topic.led]
    if partitions is not None:
        numbers = {part.strip() for part in partitions.split(",")}
        missing = sorted(numbers - {str(each.number) for each in topic.partitions})
        if missing:
            raise unknown_partition(name, f'"{missing[0]}"', len(topic.partitions))
        wanted = [each for each in wanted if str(each.partition) in numbers]
        offline = [number for number in offline if str(number) in numbers]
    marks = admin.watermarks(wanted)
    offset = parse_long(before) if len(before) < 12 else None
    if offset is not None:
        targets = dict.fromkeys(wanted, offset)
    else:
        moment = parse_time_ms(before, now_ms=g.now_ms(), zone=g.zone)
        found = admin.offsets(dict.fromkeys(wanted, moment))
        # No record is that new: all records are older.
        targets = {each: found[each].offset if found[each].offset >= 0 else marks[each][1] for each in wanted}
    steps = [TrimStep(each, marks[each][0], min(max(targets[each], marks[each][0]), marks[each][1])) for each in wanted]
    return steps, offline


def trim_rows(
    admin: "Admin", plan: list[TrimStep], offline: Sequence[int], *, dry_run: bool
) -> tuple[list[dict[str, Any]], int]:
    """Carry out a plan; return a row per partition, and the number of failures, with those that are `offline`."""
    moves = {step.partition: step.new for step in plan if step.new > step.old}
    results = {} if dry_run or not moves else admin.delete_records(moves)
    rows: list[dict[str, Any]] = []
    failed = 0
    for step in plan:
        result = results.get(step.partition)
        if isinstance(result, YakError):
            failed += 1
            text = f"failed: {result.why}"
        elif step.partition not in moves:
            text = "nothing to delete"
        else:
            text = "would be deleted" if dry_run else "deleted"
        new = result if isinstance(result, int) else step.new
        rows.append(
            {
                "partition": step.partition.partition,
                "old_start": step.old,
                "new_start": new,
                "records": new - step.old,
                "result": text,
            }
        )
    unknown = dict.fromkeys(("old_start", "new_start", "records"))
    why = "would fail: it has no leader" if dry_run else "failed: it has no leader"
    rows += [{"partition": number, **unknown, "result": why} for number in offline]
    return sorted(rows, key=lambda row: int(row["partition"])), failed + len(offline)


_CONFIG_EXAMPLE = "-c retention.ms=60000"
_OF_BROKER = -1
"""The broker's default number of partitions or replicas (KIP-464)."""

topics = CommandGroup(
    "topics",
    examples=(
        "yak topics list",
        "yak topics create orders -p 3 -c retention.ms=3600000",
        "yak topics describe orders",
    ),
    rewrite=rewrite,
    aliases={"ls": "list", "rm": "delete", "desc": "describe", "show": "describe"},
)


Names = Annotated[list[str], argument("TOPIC", "Topics.", autocompletion=complete_topic)]
Name = Annotated[str, argument("TOPIC", "Topic.", autocompletion=complete_topic)]
Configs = Annotated[list[str] | None, option("--config, -c", "A topic config; repeatable.", WHAT, metavar="NAME=VALUE")]


@topics.command("list", examples=("yak topics list", "yak topics list --sort records -o wide"))
def list_topics(
    g: Globals,
    only: PartitionFilter,
    internal: bool = flag("--internal", "Include internal topics.", WHAT, default=False),
    sort: Sort = flag("--sort", "name, partitions, records or size.", OUTPUT, default="name", metavar="COLUMN"),
) -> None:
    """List topics, or those with partitions in some state."""
    rows = list_rows(g, g.admin(), internal=internal, conditions=only.conditions, sort=sort)
    nothing = "No topics. Topics hold records. yak topics create NAME creates one."
    g.out.table(
        [{**row, "state": PartitionState(row["state"]).label} for row in rows] if g.out.for_people else rows,
        ("name", "partitions", "replication_factor", "state"),
        ("records", "size_bytes"),
        empty="No such topics." if any(only.conditions) else nothing,
    )


@topics.command("describe", examples=("yak topics describe orders", "yak topics describe orders -o json"))
def describe(
    g: Globals,
    names: Names,
    all_configs: bool = flag("--all-configs", "Also configs at their default.", OUTPUT, default=False),
) -> None:
    """Show partitions, replicas and configs of topics."""

    admin = g.admin()
    described = [describe_topic(admin, name) for name in names]
    for each in described:
        if each["configs"] is None:
            g.out.note(f"{each['name']}: the configs are not shown, which needs describe-configs of the topic")
    rows = [{"name": each["name"], **row} for each in described for row in each["partitions"]]
    if g.out.for_programs(described, rows, tuple(rows[0]) if rows else ()):
        return
    for index, each in enumerate(described):
        if index:
            g.out.line()
        print_description(g, each, all_configs=all_configs)


@topics.command(
    "create",
    examples=("yak topics create orders -p 3", "yak topics create orders -c retention.ms=3600000 --if-not-exists"),
)
def create(
    g: Globals,
    names: Names,
    partitions: int | None = flag(
        "--partitions, -p", "Number of partitions; the broker's default if not given.", WHAT, min=1, max=INT_MAX
    ),
    replication_factor: int | None = flag(
        "--replication-factor, -r", "Replicas; the broker's default if not given.", WHAT, min=1, max=INT_MAX
    ),
    config: Configs = None,
    if_not_exists: bool = flag("--if-not-exists", "Do nothing if it exists.", WHAT, default=False),
    dry_run: DryRun = False,
) -> int:
    """Create topics."""
    if not dry_run:
        g.must_not_be_readonly(f"creating {', '.join(names)}")
    configs, admin = key_values(config, _CONFIG_EXAMPLE), g.admin()

    def create_one(name: str) -> str:
        try:
            admin.create_topic(
                name,
                partitions=partitions or _OF_BROKER,
                replication_factor=replication_factor or _OF_BROKER,
                configs=configs,
                validate_only=dry_run,
            )
        except YakError as error:
            # the creation comes first: a broker whose metadata lag still lists a topic that was deleted
            if if_not_exists and (error.code == "topic-exists" or name in admin.metadata().topics):
                return "exists"
            raise
        return "could be created" if dry_run else "created"

    return _each(g, names, create_one)


@topics.command("alter", examples=("yak topics alter orders -p 6", "yak topics alter orders -c retention.ms=60000"))
def alter(
    g: Globals,
    name: Name,
    partitions: int | None = flag("--partitions, -p", "Grow to this many.", WHAT, min=1, max=INT_MAX),
    config: Configs = None,
    delete_config: list[str] | None = flag(
        "--delete-config", "Reset to the default; repeatable.", WHAT, metavar="NAME"
    ),
    dry_run: DryRun = False,
) -> None:
    """Add partitions, or change configs."""
    if not dry_run:
        g.must_not_be_readonly(f"changing {name}")
    changes = key_values(config, _CONFIG_EXAMPLE)
    if partitions is None and not changes and not delete_config:
        raise UsageError("usage", f"nothing to change in {name}", try_=(f"yak topics alter {name} {_CONFIG_EXAMPLE}",))
    admin = g.admin()
    admin.metadata().require_topic(name)
    require_configs(admin, "topic", name, delete_config or ())
    done = "could be" if dry_run else "were"
    if changes or delete_config:
        admin.alter_configs("topic", name, changes, delete_config or (), validate_only=dry_run)
        g.out.note(f"{name}: configs {done} changed")
    if partitions is not None:
        admin.add_partitions(name, partitions, validate_only=dry_run)
        g.out.note(f"{name}: partitions {done} grown to {partitions}")


@topics.command("delete", examples=("yak topics delete orders", "yak topics delete a b --if-exists --yes"))
def delete(
    g: Globals,
    names: Names,
    if_exists: bool = flag("--if-exists", "Do nothing if it does not exist.", WHAT, default=False),
) -> int:
    """Delete topics and all their records."""
    g.must_not_be_readonly(f"deleting {', '.join(names)}")
    admin = g.admin()
    known = admin.metadata()
    if not if_exists:
        for name in names:
            known.require_topic(name)
    present = [name for name in names if name in known.topics]
    if present:
        _confirm(g, admin, present, f"Delete {', '.join(present)} and all records?")

    def delete_one(name: str) -> str:
        if name not in known.topics:
            return "not there"
        try:
            admin.delete_topic(name)
        except YakError as error:
            if not if_exists or error.code != "unknown-topic":
                raise
            return "not there"
        return "deleted"

    return _each(g, names, delete_one)


@topics.command("trim", examples=("yak topics trim orders --before 1000", "yak topics trim orders --before -1h"))
def trim(
    g: Globals,
    name: Name,
    before: Annotated[
        str,
        option("--before", "Delete records below this offset, or older than this time.", WHAT, metavar="OFFSET|TIME"),
    ],
    partitions: str | None = flag("--partitions", "Only these.", WHAT, metavar="0,2"),
    dry_run: bool = flag("--dry-run", "Show the records to delete.", WHAT, default=False),
) -> int:
    """Delete a topic's oldest records."""

    if not dry_run:
        g.must_not_be_readonly(f"deleting records of {name}")
    admin = g.admin()
    plan, offline = plan_trim(g, admin, name, before, partitions)
    if not dry_run:
        gone = sum(max(0, step.new - step.old) for step in plan)
        _confirm(g, admin, [name], f"Delete {gone} records of {name}?")
    rows, failed = trim_rows(admin, plan, offline, dry_run=dry_run)
    g.out.table(rows, ("partition", "old_start", "new_start", "records", "result"))
    if dry_run:
        g.out.note("dry run: nothing was deleted")
        return 0
    return 1 if failed else 0


@topics.command("clone", examples=("yak topics clone orders orders-test",))
def clone(
    g: Globals,
    source: Name,
    target: Annotated[str, argument("NEW", "The new topic.")],
    dry_run: DryRun = False,
) -> None:
    """Create an empty topic with another's partitions and configs."""
    if not dry_run:
        g.must_not_be_readonly(f"creating {target}")
    admin = g.admin()
    original = admin.metadata().require_topic(source)
    configs = {
        each.name: each.value
        for each in admin.configs("topic", source)
        if each.source == "topic" and each.value is not None and not each.is_read_only
    }
    admin.create_topic(
        target,
        partitions=len(original.partitions),
        replication_factor=original.replication_factor,
        configs=configs,
        validate_only=dry_run,
    )
    verb = "could be created" if dry_run else "created"
    g.out.note(f"{verb} {target} like {source}: {len(original.partitions)} partitions, {len(configs)} configs")


def _confirm(g: Globals, admin: "Admin", names: Sequence[str], question: str) -> None:
    """Ask before something of these topics is deleted.

    Raises UsageError (`not-confirmed`); YakError (`unknown-topic`) if the answer came after one was deleted and created
    again: the question was about the other topic.
    """
    before = {} if g.yes else admin.topic_ids(names)
    g.confirm(question)
    now = admin.topic_ids(list(before)) if before else {}
    for name, topic_id in before.items():
        if now.get(name, topic_id) != topic_id:
            raise YakError(
                "unknown-topic",
                f'topic "{name}" does not exist any more; nothing was deleted',
                why="it was deleted, and created again, before the confirmation",
                try_=(f"yak topics describe {name}",),
            )


def _each(g: Globals, names: list[str], act: Callable[[str], str]) -> int:
    """Run `act` for each name and report each result; return 1 if any failed. A failure does not stop the others."""
    rows, failed = [], 0
    for name in dict.fromkeys(names):
        try:
            result = act(name)
        except YakError as error:
            if len(names) == 1:
                raise
            failed += 1
            g.out.error(error)
            result = f"failed: {error.code}"
        rows.append({"name": name, "result": result})
    g.out.results(rows)
    return 1 if failed else 0
