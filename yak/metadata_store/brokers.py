"""Scripts of the metadata store: the cluster, its brokers, producer ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.metadata_store.checks import (
    RefusedCall,
    Value,
    caller_of,
    change_broker,
    check_broker,
)
from yak.metadata_store.migration import check_not_frozen

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState

PRODUCER_ID_BLOCK = 1000


def bootstrap(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Create the cluster unless there is one."""
    cluster = state.cluster
    if cluster:
        if a.get("cluster_id") and a["cluster_id"] != cluster["cluster_id"]:
            raise RefusedCall("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
        check_not_frozen(state)
        if cluster["state"] != "LIVE":
            raise RefusedCall("SEEDING")
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
        "lease_n": 0,
        "next_pid": 0,
        "format": 0,
    }
    ids = {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")}
    state.append("Cluster", ids | {"format": 0}, now_ms)
    return ids | {"created": True}


def verify(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Return the cluster's state; the caller's history was checked before."""
    cluster = state.cluster
    value: Value = {k: cluster[k] for k in ("cluster_id", "incarnation_id", "incarnation")}
    value |= {"controller_id": cluster["ctl_id"], "controller_epoch": cluster["ctl_epoch"], "secret": state.secret}
    return value | caller_of(state, a)


def register(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Give a broker incarnation its epoch in state FENCED; a broker that was fenced and renews gets a new one too."""
    old = state.brokers.get(a["node_id"])
    if old is not None and old["state"] != "CLOSED":
        # a renewal without an epoch, or with an outdated one, repeats one that was done
        renews = a.get("renew") and a["broker_epoch"] in (0, old["broker_epoch"])
        if old["boot_id"] == a["boot_id"] and not renews:
            return {"broker_epoch": old["broker_epoch"], "lossy": old["lossy"], "secret": _agree_on_secret(state, a)}
        if old["boot_id"] != a["boot_id"]:
            _check_takeover(state, a, old)
    epoch = state.cluster["mo"] + 1
    named = {k: a[k] for k in ("boot_id", "directories", "host", "port", "rack", "role")}
    # an unregistered broker left nothing: its former ISR memberships must not count
    returns = state.unregistered.pop(a["node_id"], False)
    lossy = bool(a["lossy"]) or returns or (old is not None and _lost_something(a, old))
    state.brokers[a["node_id"]] = named | {
        "broker_epoch": epoch,
        "state": "FENCED",
        "lossy": lossy,
        "lossy_epoch": epoch if lossy else (old["lossy_epoch"] if old is not None else 0),
        "acted_epoch": old["acted_epoch"] if old is not None else 0,
        "fast_fenced_ms": 0,
        # until the first heartbeat of this incarnation: a later one could have an older disk
        "persisted": old["persisted"] if old is not None else 0,
        "min_isr": a.get("min_isr", 1),
        "http_port": a.get("http_port", 0),
    }
    record = named | {
        "node_id": a["node_id"],
        "broker_epoch": epoch,
        "lossy": lossy,
        "http_port": a.get("http_port", 0),
    }
    if a.get("endpoints"):  # a command of an earlier version must have the same record when a quorum's log is replayed
        record["endpoints"] = a["endpoints"]
    state.append("RegisterBroker", record, now_ms)
    return {"broker_epoch": epoch, "lossy": lossy, "secret": _agree_on_secret(state, a)}


def _agree_on_secret(state: StoreState, a: Mapping[str, Any]) -> str:
    """Keep the first registration's secret; every later one gets it."""
    state.secret = state.secret or a.get("secret", "")
    return state.secret


def _directories(text: str) -> list[str]:
    return [directory for directory in text.split(",") if directory]


def _check_takeover(state: StoreState, a: Mapping[str, Any], old: dict[str, Any]) -> None:
    """Check another incarnation with this node id.

    A shared directory proves the old one dead: its lock was free.
    """
    counter = state.heartbeats.get(a["node_id"], 0)
    shared = set(_directories(old["directories"])) & set(_directories(a["directories"]))
    if not shared and a.get("observed_heartbeat") != counter:
        where = {k: old[k] for k in ("host", "port", "boot_id")}
        raise RefusedCall("NODE_ID_IN_USE", heartbeat=counter, **where)


def _lost_something(a: Mapping[str, Any], old: dict[str, Any]) -> bool:
    """Whether a directory is missing, or the disk is older than the last incarnation that may have acknowledged.

    It is also older if it lacks metadata that an earlier incarnation had on it: the log of a new topic may be lost too.
    """
    missing = set(_directories(old["directories"])) - set(_directories(a["directories"]))
    lacks_metadata = a["boot_id"] != old["boot_id"] and a.get("persisted", old["persisted"]) < old["persisted"]
    return bool(missing) or lacks_metadata or a.get("last_epoch", 0) < old["acted_epoch"]


def begin_stop(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A broker begins or ends its controlled shutdown (STOPPING, CLOSED)."""
    broker = check_broker(state, a)
    if a["state"] not in ("STOPPING", "CLOSED"):
        raise RefusedCall("BAD_REQUEST", message="state")
    if a["state"] == "CLOSED":
        state.heartbeats.pop(a["node_id"], None)
        state.full.pop(a["node_id"], None)
    if broker["state"] != a["state"]:
        change_broker(state, a["node_id"], a["state"], now_ms)
    return {}


def unregister(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Remove a broker that will not come back; refused if it has registered again since the caller's image."""
    check_broker(state, a)
    broker = state.brokers.get(a["target_id"])
    if broker is None:
        raise RefusedCall("NO_BROKER")
    is_back = a.get("target_epoch", broker["broker_epoch"]) != broker["broker_epoch"]
    if is_back or broker["state"] in ("ACTIVE", "STOPPING"):
        raise RefusedCall("BROKER_ACTIVE")
    del state.brokers[a["target_id"]]
    state.unregistered[a["target_id"]] = True
    state.heartbeats.pop(a["target_id"], None)
    state.full.pop(a["target_id"], None)
    record = {"node_id": a["target_id"], "broker_epoch": broker["broker_epoch"]}
    state.append("UnregisterBroker", record, now_ms)
    return {}


def alloc_pid(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Allocate a block of producer ids."""
    check_broker(state, a)
    first = state.cluster["next_pid"]
    state.cluster["next_pid"] = first + PRODUCER_ID_BLOCK
    block = {"first": first, "next": first + PRODUCER_ID_BLOCK}
    state.append("ProducerIds", block | {"node_id": a["node_id"], "broker_epoch": a["broker_epoch"]}, now_ms)
    return block
