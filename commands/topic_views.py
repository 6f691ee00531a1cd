"""The rows and documents that `yak topics` prints, from the admin client's answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.commands.units import group_digits, parse_time_ms
from yak.errors import UsageError, YakError
from yak.ids import NodeId, Offset, TopicPartition

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.client.metadata import Partition, Topic
    from yak.commands.options import Globals

SORTS = ("name", "partitions", "records", "size")


def health(topic: "Topic") -> str:
    """A topic's health in one word: the worst of its partitions."""
    found = {each.health for each in topic.partitions}
    return next((word for word in ("no leader", "under-replicated") if word in found), "in sync")


def partitions_of(topic: "Topic", *, led: bool = False) -> list[TopicPartition]:
    """A topic's partitions; with `led` only those with a leader."""
    return [TopicPartition(topic.name, each.number) for each in topic.partitions if not led or each.leader >= 0]


def list_rows(
    g: "Globals",
    admin: "Admin",
    *,
    internal: bool,
    under_replicated: bool,
    at_min_isr: bool,
    unavailable: bool,
    sort: str,
) -> list[dict[str, Any]]:
    """One row per topic. Offsets and sizes are requested only if they are printed or sorted by."""
    if sort not in SORTS:
        raise UsageError("usage", f'"{sort}" is not a sort column', why=f"columns are {', '.join(SORTS)}")
    found = [topic for topic in admin.metadata().topics.values() if internal or not topic.is_internal]
    if under_replicated or unavailable or at_min_isr:
        found = [
            topic
            for topic in found
            if (under_replicated and any(len(each.isr) < len(each.replicas) for each in topic.partitions))
            or (unavailable and any(each.leader < 0 for each in topic.partitions))
            or (at_min_isr and _is_at_min_isr(admin, topic))
        ]
    wants_more = g.output not in ("table", "raw") or sort in ("records", "size")
    records = _record_counts(admin, found) if wants_more else {}
    sizes = _sizes(admin, found) if wants_more else {}
    rows: list[dict[str, Any]] = [
        {
            "name": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": topic.replication_factor,
            "health": health(topic),
            "internal": topic.is_internal,
            **({"records": records.get(topic.name), "size_bytes": sizes.get(topic.name)} if wants_more else {}),
        }
        for topic in found
    ]
    column = {"size": "size_bytes"}.get(sort, sort)
    if column != "name":
        rows.sort(key=lambda row: int(row[column] or 0), reverse=True)
    return rows


def _is_at_min_isr(admin: "Admin", topic: "Topic") -> bool:
    configs = {each.name: each.value for each in admin.configs("topic", topic.name)}
    least = int(configs.get("min.insync.replicas") or 1)
    return any(len(each.isr) <= least for each in topic.partitions)


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
    least = next((int(each.value or 1) for each in configs if each.name == "min.insync.replicas"), 1)
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
                "damaged_replicas": sorted(damaged.get(each.number, {})),
                "state": _state(each, least, damaged.get(each.number, {})),
            }
        )
    return {
        "name": name,
        "topic_id": admin.topic_id(name),
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
        "records": sum(high - low for low, high in marks.values()),
        "health": health(topic),
        "partitions": rows,
        "configs": [{"name": each.name, "value": each.value, "source": each.source} for each in configs],
    }


def _state(partition: "Partition", least: int, damaged: dict[NodeId, Offset]) -> str:
    """A partition's health, `below min ISR` if acks=all is refused, and damaged replicas with the batch's offset."""
    if damaged:
        return "damaged: " + ", ".join(f"node {node} at offset {offset}" for node, offset in sorted(damaged.items()))
    is_below = len(partition.isr) < min(least, len(partition.replicas))
    return "below min ISR" if is_below and partition.leader >= 0 else partition.health


def print_description(g: "Globals", described: dict[str, Any], *, all_configs: bool) -> None:
    """Print for people: a header, the configs that were set, the partitions, and their health."""
    from yak.commands.output import layout

    out = g.out
    partitions = described["partitions"]
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
    bad = [each for each in partitions if each["state"] != "in sync"]
    if not bad:
        out.line(f"{len(partitions)} of {len(partitions)} partitions in sync")
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
