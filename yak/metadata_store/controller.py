"""Scripts of the metadata store for the controller: its lease, fencing and unfencing, elections, trimming.

Nothing here expires. The lease is a counter that the controller's heartbeats increment; a candidate for controller
watches it on its own clock, and claims with the value that it saw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_isr, parse_nodes
from yak.metadata_store.checks import (
    ItemResult,
    RefusedCall,
    Value,
    change_broker,
    change_each,
    change_of,
    check_broker,
    check_controller,
    has_all_data,
    has_node,
    is_current,
    min_isr,
    next_elr,
    target_broker,
)
from yak.ports.metadata_store import TailedRecord

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState

FAST_FENCES_WINDOW_MS = 10_000


def note_acted(broker: dict[str, Any]) -> None:
    """Note that an unfenced broker with its registration on disk may act: later incarnations must know of this one."""
    if broker["state"] in ("ACTIVE", "STOPPING") and broker["persisted"] >= broker["broker_epoch"]:
        broker["acted_epoch"] = broker["broker_epoch"]


def heartbeat(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Increment the heartbeat counter. The controller also renews its lease, and gets all brokers' counters."""
    broker = check_broker(state, a)
    state.heartbeats[a["node_id"]] = state.heartbeats.get(a["node_id"], 0) + 1
    broker["persisted"] = a["persisted"]
    state.full.pop(a["node_id"], None)
    if a.get("is_full"):
        state.full[a["node_id"]] = None
    note_acted(broker)
    cluster = state.cluster
    held = _is_holder(state, a)
    if held and a["controller_epoch"] == cluster["ctl_epoch"]:
        cluster["lease_n"] += 1
    value: Value = {"state": broker["state"]} | _holder(state)
    if state.full:
        value["full"] = sorted(state.full)
    if held:
        value["heartbeats"] = {str(node_id): count for node_id, count in state.heartbeats.items()}
    return value


def acquire_lease(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Become controller if there is none or the claim is valid; a repeat by the controller changes nothing."""
    me = check_broker(state, a)
    cluster = state.cluster
    if not _is_holder(state, a):
        if not _is_free(state, a, me):
            _fence_holder(state, a, me, now_ms)
        cluster["ctl_epoch"] += 1
        cluster |= {"ctl_id": a["node_id"], "ctl_broker_epoch": a["broker_epoch"]}
        record = {"controller_id": a["node_id"], "controller_epoch": cluster["ctl_epoch"]}
        state.append("ControllerChange", record | {"broker_epoch": a["broker_epoch"]}, now_ms)
    return {"controller_epoch": cluster["ctl_epoch"]}


def _is_holder(state: StoreState, a: Mapping[str, Any]) -> bool:
    cluster = state.cluster
    return bool(cluster["ctl_id"] == a["node_id"] and cluster["ctl_broker_epoch"] == a["broker_epoch"])


def _holder(state: StoreState) -> Value:
    cluster = state.cluster
    controller = {"controller_id": cluster["ctl_id"], "controller_epoch": cluster["ctl_epoch"]}
    return controller | {"lease_n": cluster["lease_n"]}


def _is_free(state: StoreState, a: Mapping[str, Any], me: dict[str, Any]) -> bool:
    cluster = state.cluster
    holder = state.brokers.get(cluster["ctl_id"])
    if holder is None or holder["broker_epoch"] != cluster["ctl_broker_epoch"] or cluster["ctl_id"] == a["node_id"]:
        return True
    # a FENCED controller has just started and unfences itself next; if it is dead, its lease stops
    preferred = me["role"] == "leader" and me["state"] == "ACTIVE" and holder["role"] == "follower"
    return bool(preferred or holder["state"] == "CLOSED")


def _fence_holder(state: StoreState, a: Mapping[str, Any], me: dict[str, Any], now_ms: int) -> None:
    """Fence the controller that the caller considers dead; refuses an invalid claim.

    Any broker may claim a lease that stopped: after a failure of all brokers no live one is ACTIVE.
    """
    cluster = state.cluster
    holder_id = cluster["ctl_id"]
    claimed = a.get("claimed_epoch") == cluster["ctl_epoch"]
    stood_still = a.get("claimed_renewals") == cluster["lease_n"]
    fast = a.get("fast") and me["state"] == "ACTIVE" and may_fence_fast(state, holder_id, now_ms)
    if not claimed or not (stood_still or fast):
        raise RefusedCall("LEASE_HELD", **_holder(state))
    if not stood_still:
        state.brokers[holder_id]["fast_fenced_ms"] = now_ms
    if state.brokers[holder_id]["state"] != "FENCED":
        change_broker(state, holder_id, "FENCED", now_ms)


def unfence(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Make a FENCED broker ACTIVE, once it has its own registration on disk."""
    check_controller(state, a)
    broker = target_broker(state, a)
    if a["target_id"] != a["node_id"] and broker["persisted"] < broker["broker_epoch"]:
        raise RefusedCall("NOT_CAUGHT_UP")
    if broker["state"] == "FENCED":
        change_broker(state, a["target_id"], "ACTIVE", now_ms)
    note_acted(broker)
    return {}


def fence(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Fence a broker without heartbeats. On mere suspicion (`fast`) the number of recent fencings is limited."""
    check_controller(state, a)
    broker = target_broker(state, a)
    if broker["state"] in ("ACTIVE", "STOPPING"):
        if a.get("fast"):
            if not may_fence_fast(state, a["target_id"], now_ms):
                raise RefusedCall("TOO_MANY_FENCED")
            broker["fast_fenced_ms"] = now_ms
        change_broker(state, a["target_id"], "FENCED", now_ms)
    return {}


def may_fence_fast(state: StoreState, target_id: int, now_ms: int) -> bool:
    """Whether one more broker may be fenced on suspicion: never more than half of all within ten seconds.

    A fencing in the future is one from before the store's clock went back: it does not count.
    """
    registered = {node_id: broker for node_id, broker in state.brokers.items() if broker["state"] != "CLOSED"}
    lately = sum(
        node_id != target_id
        and broker["fast_fenced_ms"] > 0
        and 0 <= now_ms - broker["fast_fenced_ms"] < FAST_FENCES_WINDOW_MS
        for node_id, broker in registered.items()
    )
    return len(registered) == 1 or (lately + 1) * 2 <= len(registered)


def elect(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Elect leaders, each by compare and set; `codes` has each result."""
    check_controller(state, a)
    return change_each(state, a, now_ms, partial(_elect, state))


def _elect(state: StoreState, item: dict[str, Any], partition: dict[str, Any]) -> ItemResult:
    if partition["partition_epoch"] != item["partition_epoch"]:
        return "INVALID_UPDATE_VERSION", None
    leader = item["leader"]
    members = list(parse_isr(partition["isr"]))
    live = [member for member in members if is_current(state, member, "ACTIVE", "STOPPING")]
    isr, elr, unclean = members, partition["elr"], False
    if leader == -1:
        if has_node(live, partition["leader"]):
            return "INELIGIBLE_REPLICA", None
    else:
        broker = state.brokers.get(leader)
        replicas = parse_nodes(partition["replicas"])
        if broker is None or broker["state"] != "ACTIVE" or leader not in replicas:
            return "INELIGIBLE_REPLICA", None
        clean = _clean_candidates(state, partition)
        unclean = not live and not clean and bool(item["unclean"])
        if unclean and item.get("unclean_config") not in (None, _unclean_config(state, item["topic_id"])):
            return "INVALID_UPDATE_VERSION", None
        if has_node(live, leader):
            isr = live
        elif unclean or (not live and leader in clean):
            isr = [IsrMember(leader, broker["broker_epoch"])]
        else:
            return "INELIGIBLE_REPLICA", None
        minimum = min_isr(state, item["topic_id"], leader, replicas)
        elr = "" if unclean else next_elr(state, partition, isr, minimum)
    partition |= {"leader": leader, "isr": format_isr(isr), "elr": elr, "nonce": ""}
    partition["leader_epoch"] += 1
    partition["partition_epoch"] += 1
    return "OK", change_of(item["topic_id"], partition, unclean=unclean)


def _unclean_config(state: StoreState, topic_id: str) -> str:
    """The config that allows or forbids unclean elections; empty if none is set. A call of an earlier version names none."""
    names = "topic:" + state.topics[topic_id]["name"], "broker:"
    values = (state.configs.get(name, {}).get("unclean.leader.election.enable") for name in names)
    return next((value for value in values if value), "")


def _clean_candidates(state: StoreState, partition: dict[str, Any]) -> list[int]:
    """Former members that are ACTIVE and lost nothing: if no member is alive, any of them may lead."""
    return [
        member.node_id
        for member in [*parse_isr(partition["isr"]), *parse_isr(partition["elr"])]
        if has_all_data(state, member) and state.brokers[member.node_id]["state"] == "ACTIVE"
    ]


def trim(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Keep a snapshot, and drop records that every broker except CLOSED ones has on disk."""
    check_controller(state, a)
    entry = state.entry(a["snapshot_offset"])
    if entry is None or entry.chain_hash != a["snapshot_hash"]:
        raise RefusedCall("BAD_REQUEST", message="the snapshot is not of this history")
    upto = a["snapshot_offset"] - a["keep"]
    upto = min([upto, *(b["persisted"] for b in state.brokers.values() if b["state"] != "CLOSED")])
    first = state.log[0].offset
    state.snapshot = TailedRecord(
        a["snapshot_offset"], a["snapshot_hash"], "Snapshot", now_ms, json.loads(a["snapshot"])
    )
    trimmed = max(0, upto - first)
    del state.log[:trimmed]
    return {"trimmed": trimmed}
