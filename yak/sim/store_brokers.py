"""Scripts of the store in memory: the cluster, its brokers, the controller's office, producer ids, trimming."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.seams.metadata_store import TailedRecord
from yak.sim.store_checks import Refused, Value, check_broker, check_controller, target_broker

if TYPE_CHECKING:
    from yak.sim.store import StoreState

PRODUCER_ID_BLOCK = 1000


def bootstrap(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Make the cluster unless there is one."""
    cluster = state.cluster
    if cluster:
        if a.get("cluster_id") and a["cluster_id"] != cluster["cluster_id"]:
            raise Refused("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
        if cluster["state"] != "LIVE":
            raise Refused("SEEDING")
        return {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")} | {"created": False}
    cluster |= {
        "cluster_id": a["new_cluster_id"],
        "incarnation": 1,
        "incarnation_id": a["new_incarnation_id"],
        "state": "LIVE",
        "mo": 0,
        "h": "",
        "ctl_id": -1,
        "ctl_epoch": 0,
        "ctl_broker_epoch": 0,
        "next_pid": 0,
        "format": 0,
    }
    ids = {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")}
    state.append("Cluster", ids | {"format": 0}, now_ms)
    return ids | {"created": True}


def verify(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Say what the store holds; the history was compared already."""
    cluster = state.cluster
    value: Value = {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")}
    value |= {"controller_id": cluster["ctl_id"], "controller_epoch": cluster["ctl_epoch"]}
    broker = state.brokers.get(a["node_id"])
    if broker is not None:
        value["broker"] = {k: broker[k] for k in ("broker_epoch", "boot_id", "state", "host", "port")}
    return value


def register(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A boot of a broker gets its epoch, and starts FENCED."""
    old = state.brokers.get(a["node_id"])
    if old is not None and old["state"] != "CLOSED":
        if old["boot_id"] == a["boot_id"]:
            return {"broker_epoch": old["broker_epoch"]}
        counter = state.heartbeats.get(a["node_id"], 0)
        shared = set(old["directories"].split(",")) & set(a["directories"].split(","))
        if not shared and a.get("observed_heartbeat") != counter:
            where = {k: old[k] for k in ("host", "port", "boot_id")}
            raise Refused("NODE_ID_IN_USE", heartbeat=counter, **where)
    epoch = state.cluster["mo"] + 1
    named = {k: a[k] for k in ("boot_id", "directories", "host", "port", "rack", "role")}
    lossy_epoch = epoch if a["lossy"] else (old["lossy_epoch"] if old else 0)
    state.brokers[a["node_id"]] = named | {
        "broker_epoch": epoch,
        "state": "FENCED",
        "lossy_epoch": lossy_epoch,
        "persisted": 0,
    }
    record = named | {"node_id": a["node_id"], "broker_epoch": epoch, "lossy": a["lossy"]}
    state.append("RegisterBroker", record, now_ms)
    return {"broker_epoch": epoch}


def heartbeat(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Count up; the controller gets everyone's counters."""
    broker = check_broker(state, a)
    state.heartbeats[a["node_id"]] = state.heartbeats.get(a["node_id"], 0) + 1
    broker["persisted"] = a["persisted"]
    cluster = state.cluster
    value: Value = {"state": broker["state"], "controller_id": cluster["ctl_id"]}
    value |= {"controller_epoch": cluster["ctl_epoch"], "lease_ms": _lease_left(state, now_ms)}
    if cluster["ctl_id"] == a["node_id"]:
        value["heartbeats"] = {str(node_id): count for node_id, count in state.heartbeats.items()}
    return value


def _lease_left(state: StoreState, now_ms: int) -> int:
    return max(0, state.lease["expires_ms"] - now_ms) if state.lease else 0


def acquire_lease(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Take the controller's office when nobody alive has it; a repeat by its holder changes nothing."""
    check_broker(state, a)
    cluster = state.cluster
    mine = cluster["ctl_id"] == a["node_id"] and cluster["ctl_broker_epoch"] == a["broker_epoch"]
    left_ms = _lease_left(state, now_ms)
    if left_ms > 0 and not mine:
        holder = state.brokers.get(cluster["ctl_id"])
        alive = holder is not None and holder["broker_epoch"] == cluster["ctl_broker_epoch"]
        if holder is not None and alive and holder["state"] != "CLOSED":
            raise Refused("LEASE_HELD", controller_id=cluster["ctl_id"], ttl_ms=left_ms)
    if not mine:
        cluster["ctl_epoch"] += 1
        cluster |= {"ctl_id": a["node_id"], "ctl_broker_epoch": a["broker_epoch"]}
        record = {"controller_id": a["node_id"], "controller_epoch": cluster["ctl_epoch"]}
        state.append("ControllerChange", record | {"broker_epoch": a["broker_epoch"]}, now_ms)
    state.lease = {"expires_ms": now_ms + a["lease_ms"]}
    return {"controller_epoch": cluster["ctl_epoch"]}


def renew_lease(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Keep the office; a lease that ran out but was not taken is still ours."""
    check_controller(state, a)
    state.lease = {"expires_ms": now_ms + a["lease_ms"]}
    return {}


def _change_broker(state: StoreState, node_id: int, new: str, now_ms: int) -> None:
    broker = state.brokers[node_id]
    broker["state"] = new
    state.append("BrokerChange", {"node_id": node_id, "broker_epoch": broker["broker_epoch"], "state": new}, now_ms)


def unfence(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A FENCED broker becomes ACTIVE, once it has its own registration on disk."""
    check_controller(state, a)
    broker = target_broker(state, a)
    if a["target_id"] != a["node_id"] and broker["persisted"] < broker["broker_epoch"]:
        raise Refused("NOT_CAUGHT_UP")
    if broker["state"] == "FENCED":
        _change_broker(state, a["target_id"], "ACTIVE", now_ms)
    return {}


def fence(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A broker that is not heard from loses its say."""
    check_controller(state, a)
    if target_broker(state, a)["state"] in ("ACTIVE", "STOPPING"):
        _change_broker(state, a["target_id"], "FENCED", now_ms)
    return {}


def begin_stop(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A broker stops in order; CLOSED is its last word."""
    broker = check_broker(state, a)
    if a["state"] not in ("STOPPING", "CLOSED"):
        raise Refused("BAD_REQUEST", message="state")
    if a["state"] == "CLOSED":
        state.heartbeats.pop(a["node_id"], None)
        if state.cluster["ctl_id"] == a["node_id"]:
            state.lease = {}
    if broker["state"] != a["state"]:
        _change_broker(state, a["node_id"], a["state"], now_ms)
    return {}


def unregister(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Forget a broker that will not come back."""
    check_broker(state, a)
    broker = state.brokers.get(a["target_id"])
    if broker is None:
        raise Refused("NO_BROKER")
    if broker["state"] in ("ACTIVE", "STOPPING"):
        raise Refused("BROKER_ACTIVE")
    del state.brokers[a["target_id"]]
    state.heartbeats.pop(a["target_id"], None)
    record = {"node_id": a["target_id"], "broker_epoch": broker["broker_epoch"]}
    state.append("UnregisterBroker", record, now_ms)
    return {}


def alloc_pid(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Give away a block of producer ids."""
    check_broker(state, a)
    first = state.cluster["next_pid"]
    state.cluster["next_pid"] = first + PRODUCER_ID_BLOCK
    block = {"first": first, "next": first + PRODUCER_ID_BLOCK}
    state.append("ProducerIds", block | {"node_id": a["node_id"], "broker_epoch": a["broker_epoch"]}, now_ms)
    return block


def trim(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Keep a snapshot, and drop records that everyone has on disk."""
    check_controller(state, a)
    entry = state.entry(a["snapshot_offset"])
    if entry is None or entry.chain_hash != a["snapshot_hash"]:
        raise Refused("BAD_REQUEST", message="the snapshot is not of this history")
    upto = a["snapshot_offset"] - a["keep"]
    upto = min([upto, *(b["persisted"] for b in state.brokers.values() if b["state"] != "CLOSED")])
    first = state.log[0].offset
    state.snapshot = TailedRecord(
        a["snapshot_offset"], a["snapshot_hash"], "Snapshot", now_ms, json.loads(a["snapshot"])
    )
    trimmed = max(0, upto - first)
    del state.log[:trimmed]
    return {"trimmed": trimmed}
