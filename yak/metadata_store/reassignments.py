"""Scripts of the metadata store: partition reassignments (KIP-455).

During a reassignment `replicas` has the target replicas, then those that will be removed; `adding` and `removing` name
both kinds. It is complete once every target replica is in the ISR.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, format_nodes, parse_isr, parse_nodes
from yak.metadata_store.checks import (
    ItemResult,
    Value,
    change_each,
    change_of,
    check_broker,
    has_node,
    is_current,
    minimum_for_elr,
    next_elr,
)

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def complete(state: StoreState, partition: dict[str, Any]) -> None:
    """Complete a reassignment once every target replica is a live ISR member and one of them can lead."""
    if not partition["adding"] and not partition["removing"]:
        return
    removing = parse_nodes(partition["removing"])
    target = tuple(node_id for node_id in parse_nodes(partition["replicas"]) if node_id not in removing)
    isr = _limited(partition, target)
    live = [member for member in isr if is_current(state, member, "ACTIVE", "STOPPING")]
    if len(live) < len(target):
        return
    leader = _leader_of(state, partition, target, isr)
    if leader is None:
        return
    _take_replicas(partition, target, leader)
    # this ISR is large enough for any minimum, so no other replica may be eligible
    partition |= {"isr": format_isr(isr), "elr": "", "adding": "", "removing": ""}


def _limited(partition: dict[str, Any], replicas: tuple[int, ...]) -> list[IsrMember]:
    return [member for member in parse_isr(partition["isr"]) if member.node_id in replicas]


def _leader_of(
    state: StoreState, partition: dict[str, Any], replicas: tuple[int, ...], isr: list[IsrMember]
) -> int | None:
    """The leader among these replicas: the present one if it stays, else the first ACTIVE member, else None."""
    if partition["leader"] in replicas:
        return int(partition["leader"])
    active = [member for member in isr if is_current(state, member, "ACTIVE")]
    return next((node_id for node_id in replicas if has_node(active, node_id)), None)


def _take_replicas(partition: dict[str, Any], replicas: tuple[int, ...], leader: int) -> None:
    """Set these replicas and this leader. The leader epoch rises with a new leader, and when a replica is removed.

    A fetch in flight from a removed replica must not count for it when it returns with an empty log (Kafka's
    PartitionChangeBuilder).
    """
    goes = any(node_id not in replicas for node_id in parse_nodes(partition["replicas"]))
    if leader != partition["leader"] or goes:
        partition["leader"] = leader
        partition["leader_epoch"] += 1
    partition["replicas"] = format_nodes(replicas)


def alter_replicas(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Begin, replace or cancel reassignments, each by compare and set; `codes` has each result."""
    check_broker(state, a)
    return change_each(state, a, now_ms, partial(_alter, state))


def _alter(state: StoreState, item: dict[str, Any], partition: dict[str, Any]) -> ItemResult:
    present, adding = parse_nodes(partition["replicas"]), parse_nodes(partition["adding"])
    removing = parse_nodes(partition["removing"])
    target = None if item["replicas"] is None else parse_nodes(item["replicas"])
    if target is None and not adding and not removing:
        return "NO_REASSIGNMENT", None
    aimed_at = tuple(node_id for node_id in present if node_id not in removing)
    if partition["partition_epoch"] != item["partition_epoch"]:
        repeated = partition["partition_epoch"] == item["partition_epoch"] + 1 and target == aimed_at
        return "OK" if repeated else "INVALID_UPDATE_VERSION", None
    if target is not None and not _may_hold(state, target):
        return "INELIGIBLE_BROKER", None
    if target == aimed_at:
        return "OK", None
    old = tuple(node_id for node_id in present if node_id not in adding)
    if target is None:
        new = {"replicas": format_nodes(old), "adding": "", "removing": ""}
    else:
        removing = tuple(node_id for node_id in old if node_id not in target)
        adding = tuple(node_id for node_id in target if node_id not in old)
        new = {
            "replicas": format_nodes(target + removing),
            "adding": format_nodes(adding),
            "removing": format_nodes(removing),
        }
    return _change_replicas(state, item, partition, new)


def _may_hold(state: StoreState, target: tuple[int, ...]) -> bool:
    return bool(target) and len(set(target)) == len(target) and all(node_id in state.brokers for node_id in target)


def _change_replicas(
    state: StoreState, item: Mapping[str, Any], partition: dict[str, Any], new: dict[str, str]
) -> ItemResult:
    replicas = parse_nodes(new["replicas"])
    isr = _limited(partition, replicas)
    leader = partition["leader"]
    if len(isr) < len(parse_isr(partition["isr"])):
        # replicas of an earlier target are removed; without a live member left they may be the only ones with some
        # records
        if not any(is_current(state, member, "ACTIVE", "STOPPING") for member in isr):
            return "INELIGIBLE_REPLICA", None
        stays = _leader_of(state, partition, replicas, isr)
        if stays is None and leader != -1:
            return "INELIGIBLE_REPLICA", None
        leader = leader if stays is None else stays
    _take_replicas(partition, replicas, leader)
    partition |= new
    elr = next_elr(state, partition, isr, minimum_for_elr(state, item, partition))
    partition |= {"isr": format_isr(isr), "elr": elr, "nonce": ""}
    partition["partition_epoch"] += 1
    complete(state, partition)
    return "OK", change_of(item["topic_id"], partition)
