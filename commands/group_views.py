"""The rows and documents that `yak groups` prints. Pure: brokers' answers are arguments."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yak.client.groups.places import partitions_text
from yak.commands.units import format_time
from yak.errors import YakError
from yak.ids import Offset, TopicPartition
from yak.view.formats import counted, format_duration, group_digits

if TYPE_CHECKING:
    from yak.client.groups.describing import Group, Member
    from yak.client.groups.lag import Marks, PartitionLag
    from yak.client.groups.reset import Step

LIST_COLUMNS = ("group", "type", "state", "members", "coordinator", "lag")
LIST_WIDE = ("protocol_type", "assignor", "partitions", "coordinator_address")
LAG_COLUMNS = ("topic", "partition", "committed", "log_end", "lag", "behind", "member", "client", "host")
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
MEMBER_COLUMNS = ("member_id", "instance_id", "client_id", "host", "partitions", "assignment")
MEMBER_WIDE = ("subscription", "assignor", "member_epoch")
RESET_COLUMNS = ("topic", "partition", "before", "after", "change", "result")


def total_lag(committed: Mapping[TopicPartition, Offset], marks: "Mapping[TopicPartition, Marks]") -> int | None:
    """Unread records over all partitions with a known lag; None when there is none."""
    known = [max(0, marks[each].end - offset) for each, offset in committed.items() if each in marks]
    return sum(known) if known else None


def list_row(
    group: "Group", committed: Mapping[TopicPartition, Offset] | None, marks: "Mapping[TopicPartition, Marks]"
) -> dict[str, Any]:
    """One row of `yak groups list`; `committed` is None if offsets were not requested."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "members": None if group.members is None else len(group.members),
        "coordinator": group.coordinator.node_id,
        "lag": None if committed is None else total_lag(committed, marks),
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor,
        "partitions": None if committed is None else len(committed),
        "coordinator_address": group.coordinator.address,
    }


def group_document(
    group: "Group", lags: "Sequence[PartitionLag]", *, now_ms: int, when: Callable[[int], str]
) -> dict[str, Any]:
    """A whole group, as `yak groups describe -o json` prints it."""
    ages = [age for each in lags if (age := each.age_ms(now_ms)) is not None]
    known = [each.lag for each in lags if each.lag is not None]
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "coordinator": group.coordinator.node_id,
        "coordinator_address": group.coordinator.address,
        "members": len(group.members or ()),
        "lag": sum(known) if known else None,
        "lag_ms": max(ages, default=None),
        "partitions": [_lag_row(each, now_ms=now_ms, when=when) for each in lags],
    }


def _lag_row(each: "PartitionLag", *, now_ms: int, when: Callable[[int], str]) -> dict[str, Any]:
    member = each.member
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "committed_offset": each.committed,
        "log_start_offset": None if each.marks is None else each.marks.start,
        "log_end_offset": None if each.marks is None else each.marks.end,
        "lag": each.lag,
        "lag_ms": each.age_ms(now_ms),
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
    from yak.commands.output import layout

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
            "behind": None if row["lag_ms"] is None else format_duration(row["lag_ms"]) if row["lag"] else "0",
            "member": row["member_id"],
            "client": row["client_id"],
            "host": None if row["host"] is None else row["host"].lstrip("/"),
        }
        for row in document["partitions"]
    ]
    if not rows:
        return [*lines, "nothing is committed, and no member has a partition"]
    columns = [each for each in LAG_COLUMNS if with_time or each != "behind"]
    return [*lines, *layout(rows, columns, headers=headers), "", _totals(document)]


def _totals(document: Mapping[str, Any]) -> str:
    partitions = document["partitions"]
    count = counted(len(partitions), "partition")
    if document["lag"] is None:
        return f"{count}, nothing is committed"
    if not document["lag"]:
        words = f"all read: {count}"
    else:
        age = f"; the oldest unread record is {format_duration(document['lag_ms'])} old" if document["lag_ms"] else ""
        words = f"lag {counted(document['lag'], 'record')} in {count}{age}"
    untold = sum(each["lag"] is None for each in partitions)
    return words + (f"; {group_digits(untold)} without a committed offset that can be compared" if untold else "")


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
            "assignment": _partition_documents(each.assigned),
            "target_assignment": _partition_documents(each.target),
            "subscription": None if each.topics is None else list(each.topics),
            "subscription_regex": each.pattern,
            "assignor": group.assignor,
            "member_epoch": each.epoch,
        }
        for each in group.members or ()
    ]


def _partition_documents(partitions: Sequence[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


def reset_rows(
    group: str, steps: "Iterable[Step]", results: Mapping[TopicPartition, YakError | None] | None
) -> list[dict[str, Any]]:
    """One row per partition of `yak groups reset`; `results` is None for a dry run."""
    return [
        {
            "group": group,
            "topic": each.partition.topic,
            "partition": each.partition.partition,
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
        words = "left alone"
    elif not step.is_change:
        words = "unchanged"
    elif results is None:
        words = "would be set"
    else:
        error = results.get(step.partition)
        words = "set" if error is None else f"failed: {error.code}"
    return words


def with_notes(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same rows for people and csv: a note is appended to the result."""
    return [{**row, "result": f"{row['result']} ({row['note']})" if row["note"] else row["result"]} for row in rows]


def time_text(zone: Any) -> Callable[[int], str]:
    """A function that formats a time in the chosen zone."""
    return lambda timestamp_ms: format_time(timestamp_ms, zone)
