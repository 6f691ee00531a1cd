"""The rows and documents that `yak topics` prints, from the admin client's answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.commands.units import parse_time_ms
from yak.errors import UsageError, YakError
from yak.ids import Offset, TopicPartition
from yak.view.formats import group_digits
from yak.view.partition_state import Conditions, PartitionState, worst

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.client.metadata import Topic
    from yak.commands.options import Globals

SORTS = ("name", "partitions", "records", "size")


def state_of(topic: "Topic", min_isr: int) -> PartitionState:
    """A topic's state: the worst of its partitions."""
    return worst(each.replication(min_isr).state for each in topic.partitions)


def partitions_of(topic: "Topic", *, led: bool = False) -> list[TopicPartition]:
    """A topic's partitions; with `led` only those with a leader."""
    return [TopicPartition(topic.name, each.number) for each in topic.partitions if not led or each.leader >= 0]


def list_rows(
    g: "Globals",
    admin: "Admin",
    *,
    internal: bool,
    conditions: Conditions,
    sort: str,
) -> list[dict[str, Any]]:
    """One row per topic. Offsets and sizes are requested only if they are printed or sorted by."""
    if sort not in SORTS:
        raise UsageError("usage", f'"{sort}" is not a sort column', why=f"columns are {', '.join(SORTS)}")
    found = [topic for topic in admin.metadata().topics.values() if internal or not topic.is_internal]
    min_isrs = admin.min_isrs(topic.name for topic in found)
    found = [
        topic
        for topic in found
        if any(conditions.match(each.replication(min_isrs[topic.name])) for each in topic.partitions)
    ]
    wants_more = g.output not in ("table", "raw") or sort in ("records", "size")
    records = _record_counts(admin, found) if wants_more else {}
    sizes = _sizes(admin, found) if wants_more else {}
    rows: list[dict[str, Any]] = [
        {
            "name": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "state": state_of(topic, min_isrs[topic.name]).value,
            "internal": topic.is_internal,
            **({"records": records.get(topic.name), "size_bytes": sizes.get(topic.name)} if wants_more else {}),
        }
        for topic in found
    ]
    column = {"size": "size_bytes"}.get(sort, sort)
    if column != "name":
        rows.sort(key=lambda row: int(row[column] or 0), reverse=True)
    return rows


def _record_counts(admin: "Admin", topics: "list[Topic]") -> dict[str, int]:
    """High watermark minus log start, summed over partitions with a leader."""
    partitions = [each for topic in topics for each in partitions_of(topic, led=True)]
    marks = admin.watermarks(partitions)
    counts: dict[str, int] = {topic.name: 0 for topic in topics}
    for partition, (low, high) in marks.items():
        counts[partition.topic] += high - low
    return counts


def _sizes(admin: "Admin", topics: "list[Topic]") -> dict[str, int | None]:
    """Bytes on disk of each topic's leader replicas."""
    from yak.client.log_dirs import replica_sizes

    by_broker = replica_sizes(admin.metadata(), timeout_s=admin.timeout_s)
    sizes: dict[str, int | None] = {}
    for topic in topics:
        known = [by_broker.get(each.leader, {}).get((topic.name, each.number)) for each in topic.partitions]
        answered = [size for size in known if size is not None]
        sizes[topic.name] = sum(answered) if answered else None
    return sizes


def describe_topic(admin: "Admin", name: str) -> dict[str, Any]:
    """All details of one topic. Raises YakError (`unknown-topic`)."""
    metadata = admin.metadata()
    topic = metadata.require_topic(name)
    partitions = partitions_of(topic, led=True)
    marks = admin.watermarks(partitions)
    latest = admin.offsets(dict.fromkeys(partitions, "latest"))
    configs = admin.configs("topic", name)
    damaged = admin.damaged_offsets(name)
    min_isr = next((int(each.value or 1) for each in configs if each.name == "min.insync.replicas"), 1)
    rows = []
    for each in topic.partitions:
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
                "state": each.replication(min_isr).state.value,
            }
        )
    return {
        "name": name,
        "topic_id": admin.topic_id(name),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "records": sum(high - low for low, high in marks.values()),
        "state": state_of(topic, min_isr).value,
        "partitions": rows,
        "configs": [{"name": each.name, "value": each.value, "source": each.source} for each in configs],
    }


def _condition(row: dict[str, Any]) -> str:
    """A partition's state for people, and its damaged replicas with the offset of the damaged batch."""
    damaged = [f"damaged on broker {node} at offset {offset}" for node, offset in row["damaged_replicas"].items()]
    state = PartitionState(row["state"])
    return ", ".join([*damaged, *([state.label] if state is not PartitionState.OK or not damaged else [])])


def with_labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows for people: their states as labels."""
    return [{**row, "state": PartitionState(row["state"]).label} for row in rows]


def print_description(g: "Globals", described: dict[str, Any], *, all_configs: bool) -> None:
    """Print for people: a header, the configs that were set, the partitions, and their states."""
    from yak.commands.output import layout

    out = g.out
    partitions = [{**each, "state": _condition(each)} for each in described["partitions"]]
    out.line(f"topic        {described['name']}  ({described['topic_id']})")
    out.line(f"partitions   {len(partitions)}, replication factor {described['replication_factor']}")
    out.line(f"records      {group_digits(described['records'])}")
    configs = [each for each in described["configs"] if all_configs or each["source"] == "topic"]
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


def plan_trim(g: "Globals", admin: "Admin", name: str, before: str, partitions: str | None) -> list[TrimStep]:
    """The plan of `trim`. An integer below 100 thousand million is an offset, anything else a time."""
    topic = admin.metadata().require_topic(name)
    wanted = partitions_of(topic, led=True)
    if partitions is not None:
        numbers = {int(part) for part in partitions.split(",") if part.strip().isdigit()}
        wanted = [each for each in wanted if each.partition in numbers]
        if not wanted:
            raise UsageError("unknown-partition", f"{name} has none of the partitions {partitions}")
    marks = admin.watermarks(wanted)
    if before.isdigit() and len(before) < 12:
        targets = dict.fromkeys(wanted, int(before))
    else:
        moment = parse_time_ms(before, now_ms=g.now_ms(), zone=g.zone)
        found = admin.offsets(dict.fromkeys(wanted, moment))
        # No record is that new: all records are older.
        targets = {each: found[each].offset if found[each].offset >= 0 else marks[each][1] for each in wanted}
    return [TrimStep(each, marks[each][0], min(max(targets[each], marks[each][0]), marks[each][1])) for each in wanted]


def trim_rows(admin: "Admin", plan: list[TrimStep], *, dry_run: bool) -> tuple[list[dict[str, Any]], int]:
    """Carry out a plan; return a row per partition, and the number of failures."""
    moves = {step.partition: step.new for step in plan if step.new > step.old}
    results = {} if dry_run or not moves else admin.delete_records(moves)
    rows, failed = [], 0
    for step in plan:
        result = results.get(step.partition)
        if isinstance(result, YakError):
            failed += 1
            words = f"failed: {result.why}"
        elif step.partition not in moves:
            words = "nothing to delete"
        else:
            words = "would be deleted" if dry_run else "deleted"
        new = result if isinstance(result, int) else step.new
        rows.append(
            {
                "partition": step.partition.partition,
                "old_start": step.old,
                "new_start": new,
                "records": new - step.old,
                "result": words,
            }
        )
    return rows, failed
