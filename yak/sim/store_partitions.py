"""Scripts of the store in memory: leaders, ISRs, high watermarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.sim.store_checks import (
    MAX_PARTITIONS,
    Refused,
    Value,
    change_of,
    check_broker,
    check_controller,
    is_current,
    next_elr,
)

if TYPE_CHECKING:
    from yak.sim.store import StoreState


def elect(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """New leaders, each by compare and set; what cannot be done has its code in `codes`."""
    check_controller(state, a)
    if not 0 < len(a["partitions"]) <= MAX_PARTITIONS:
        raise Refused("BAD_REQUEST", message="a call takes 1 to 200 partitions")
    codes, changes = [], []
    for item in a["partitions"]:
        partition = state.partitions.get((item["topic_id"], item["partition"]))
        code = "NO_TOPIC" if partition is None else _elect(state, item, partition)
        codes.append(code)
        if partition is not None and code == "OK":
            changes.append(change_of(item["topic_id"], partition, unclean=item["unclean"]))
    if changes:
        state.append("PartitionChange", {"changes": changes}, now_ms)
    return {"codes": codes}


def _elect(state: StoreState, item: dict[str, Any], partition: dict[str, Any]) -> str:
    if partition["partition_epoch"] != item["partition_epoch"]:
        return "INVALID_UPDATE_VERSION"
    leader = item["leader"]
    members = list(parse_isr(partition["isr"]))
    live = [member for member in members if is_current(state, member, "ACTIVE", "STOPPING")]
    if leader == -1:
        if any(member.node_id == partition["leader"] for member in live):
            return "INELIGIBLE_REPLICA"
        isr, elr = members, partition["elr"]
    else:
        broker = state.brokers.get(leader)
        replicas = parse_nodes(partition["replicas"])
        if broker is None or broker["state"] != "ACTIVE" or leader not in replicas:
            return "INELIGIBLE_REPLICA"
        former = [*members, *parse_isr(partition["elr"])]
        kept_all = any(m.node_id == leader and m.broker_epoch >= broker["lossy_epoch"] for m in former)
        if any(member.node_id == leader for member in live):
            isr = live
        elif (not live and kept_all) or (item["unclean"] and len(replicas) == 1):
            isr = [IsrMember(leader, broker["broker_epoch"])]
        else:
            return "INELIGIBLE_REPLICA"
        elr = next_elr(state, partition, item["topic_id"], isr)
    partition |= {"leader": leader, "isr": format_isr(tuple(isr)), "elr": elr, "nonce": ""}
    partition["leader_epoch"] += 1
    partition["partition_epoch"] += 1
    return "OK"


def _led(state: StoreState, a: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The partition that the caller leads, and whether this very call was done before."""
    check_broker(state, a)
    partition = state.partitions.get((a["topic_id"], a["partition"]))
    if partition is None:
        raise Refused("NO_TOPIC")
    if partition["leader"] != a["node_id"] or partition["leader_epoch"] != a["leader_epoch"]:
        raise Refused("FENCED_LEADER_EPOCH", **change_of(a["topic_id"], partition))
    if partition["partition_epoch"] == a["partition_epoch"] + 1 and partition["nonce"] == a["nonce"]:
        return partition, True
    if partition["partition_epoch"] != a["partition_epoch"]:
        raise Refused("INVALID_UPDATE_VERSION", **change_of(a["topic_id"], partition))
    return partition, False


def alter_isr(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """The leader changes the ISR."""
    partition, repeated = _led(state, a)
    if not repeated:
        isr = list(parse_isr(a["isr"]))
        replicas = parse_nodes(partition["replicas"])
        if not any(member.node_id == a["node_id"] for member in isr):
            raise Refused("INELIGIBLE_REPLICA", message="the leader is not in the new ISR")
        for member in isr:
            if member.node_id not in replicas or not is_current(state, member, "ACTIVE"):
                raise Refused("INELIGIBLE_REPLICA", message=f"replica {member.node_id}@{member.broker_epoch}")
        elr = next_elr(state, partition, a["topic_id"], isr)
        partition |= {"isr": a["isr"], "elr": elr, "nonce": a["nonce"]}
        partition["partition_epoch"] += 1
        state.append("PartitionChange", {"changes": [change_of(a["topic_id"], partition)]}, now_ms)
    return change_of(a["topic_id"], partition)


def barrier(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Raise the partition epoch, so that an older change still under way must fail."""
    partition, repeated = _led(state, a)
    if not repeated:
        partition["partition_epoch"] += 1
        partition["nonce"] = a["nonce"]
        state.append("PartitionChange", {"changes": [change_of(a["topic_id"], partition)]}, now_ms)
    return change_of(a["topic_id"], partition)


def report_hw(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Take high watermarks; they never go back."""
    check_broker(state, a)
    for topic_id, partition, leader_epoch, high_watermark in a["partitions"]:
        held = state.high_watermarks.get((topic_id, partition), (0, 0))
        if topic_id in state.topics and leader_epoch >= held[0] and high_watermark >= held[1]:
            state.high_watermarks[topic_id, partition] = (leader_epoch, high_watermark)
    return {}
