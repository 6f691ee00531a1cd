"""The rows that `yak brokers` prints."""

import time
from typing import TYPE_CHECKING, Any

from yak.cluster.placement import MACHINE
from yak.commands.live_table import refreshes, show_refresh
from yak.errors import YakError, closest
from yak.ids import TopicPartition
from yak.view.broker_state import SeenState

if TYPE_CHECKING:
    from yak.client.admin import Admin
    from yak.client.metadata import ClusterMetadata
    from yak.commands.options import Globals


def broker_rows(admin: "Admin", *, sizes: bool) -> list[dict[str, Any]]:
    """One row per broker, including offline ones. Skew: how far its leader count is from an even share, in percent."""
    from yak.client.members import read_members
    from yak.view.partition_state import BrokerCounts, count_by_broker

    metadata = admin.metadata()
    members = read_members(metadata, answered=admin.answered, timeout_s=admin.timeout_s)
    controller_id = admin.controller_id(metadata, is_yak=any(member.role for member in members))
    partitions = [each for topic in metadata.topics.values() for each in topic.partitions]
    share = len(partitions) / len(metadata.brokers) if metadata.brokers else 0.0
    counts = count_by_broker(partitions)
    rows = []
    on_disk = _bytes_by_broker(admin, metadata) if sizes else {}
    for member in members:
        node_id, is_up = member.node_id, member.node_id in metadata.brokers
        leaders, replicas, out_of_sync = counts.get(node_id, BrokerCounts())
        rows.append(
            {
                "id": node_id,
                "address": member.address,
                "rack": member.rack,
                "role": member.role,
                "state": member.state.value,
                "controller": node_id == controller_id,
                "leaders": leaders,
                "leaders_skew_percent": round(100 * (leaders - share) / share) if share and is_up else 0,
                "replicas": replicas,
                "under_replicated": out_of_sync,
                **({"size_bytes": on_disk.get(node_id) if member.state is SeenState.ACTIVE else None} if sizes else {}),
            }
        )
    return rows


def fold(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for the brokers of a machine that has several; the other rows as they are."""
    folded: list[dict[str, Any]] = []
    by_machine = _by_machine(rows)
    for row in rows:
        mates = by_machine.get(row["rack"], [row])
        if len(mates) == 1:
            folded.append(row)
        elif row is mates[0]:
            folded.append(_folded(mates))
    return folded


def with_machines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with the row of its machine as `machine`; None for a broker that is on none."""
    by_machine = {rack: _folded(mates) for rack, mates in _by_machine(rows).items()}
    return [{**row, "machine": by_machine.get(row["rack"])} for row in rows]


def _by_machine(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    by_machine: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["rack"] is not None and row["rack"].startswith(MACHINE):
            by_machine.setdefault(row["rack"], []).append(row)
    return by_machine


def _folded(mates: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a machine: ids and states together, sums of what its brokers have."""
    states = [row["state"] for row in mates]
    up = states.count(SeenState.ACTIVE)
    hosts = dict.fromkeys(row["address"].rpartition(":")[0] for row in mates if row["address"] is not None)
    folded = {
        **mates[0],
        "id": ",".join(str(row["id"]) for row in mates),
        "address": ",".join(hosts) or None,
        "role": mates[0]["role"] if len({row["role"] for row in mates}) == 1 else None,
        "state": states[0] if len(set(states)) == 1 else f"{up} of {len(mates)} {SeenState.ACTIVE}",
        "controller": any(row["controller"] for row in mates),
        "leaders_skew_percent": round(sum(row["leaders_skew_percent"] for row in mates) / max(up, 1)),
    }
    for name in ("leaders", "replicas", "under_replicated", "size_bytes", "records_per_s"):
        if name in mates[0]:
            known = [row[name] for row in mates if row[name] is not None]
            folded[name] = sum(known) if known else None
    return folded


def columns(g: "Globals", rows: list[dict[str, Any]], *more: str) -> tuple[str, ...]:
    """The columns of a table of brokers; tables for people have roles and racks only if a broker has one."""
    optional = [name for name in ("role", "rack") if not g.out.for_people or any(row[name] is not None for row in rows)]
    return ("id", "address", *optional, "state", "controller", "leaders", "replicas", "under_replicated", *more)


def _bytes_by_broker(admin: "Admin", metadata: "ClusterMetadata") -> dict[int, int]:
    from yak.client.log_dirs import replica_sizes

    found = replica_sizes(metadata, timeout_s=admin.timeout_s)
    return {node_id: sum(sizes.values()) for node_id, sizes in found.items()}


def find_broker(rows: list[dict[str, Any]], node_id: int) -> dict[str, Any]:
    """The broker's row. Raises YakError (`unknown-broker`)."""
    for row in rows:
        if row["id"] == node_id:
            return row
    ids = [str(row["id"]) for row in rows]
    raise YakError(
        "unknown-broker",
        f"broker {node_id} is not in the cluster",
        why=f"brokers are {', '.join(ids)}",
        try_=(f"yak brokers describe {closest(str(node_id), ids) or ids[0]}" if ids else "yak brokers list",),
    )


def watch_brokers(g: "Globals", interval_ms: int, count: int | None, *, unfold: bool = False) -> None:
    """Print the table every interval; rates are the growth of the high watermarks that a broker leads."""
    admin = g.admin()
    before: dict[TopicPartition, int] = {}
    before_at = 0.0
    for refresh in refreshes(g, interval_ms, count):
        with refresh:
            metadata = admin.metadata()
            led = {partition: leader for topic in metadata.topics.values() for partition, leader in topic.led.items()}
            ends = _ends(admin, list(led))
            now = time.monotonic()
            rows = broker_rows(admin, sizes=False)
            for row in rows:
                grown = sum(ends[each] - before.get(each, ends[each]) for each in ends if led[each] == row["id"])
                row["records_per_s"] = round(grown / (now - before_at)) if before and ends else None
            folded = rows if unfold or not g.out.for_people else fold(rows)
            flat = ("id", "address", "leaders", "records_per_s")
            show_refresh(g, folded, columns(g, folded, "records_per_s"), ("leaders_skew_percent",), flat)
            before, before_at = ends, now


def _ends(admin: "Admin", partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The high watermarks; empty while a partition has no leader, which the next refresh shows."""
    try:
        return {each: found.offset for each, found in admin.offsets(dict.fromkeys(partitions, "latest")).items()}
    except YakError:
        return {}
