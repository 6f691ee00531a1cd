"""Scripts of the metadata store: the restore of a lost history from the brokers' offers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from yak.metadata_store.checks import Refused, Value
from yak.ports.metadata_store import TailedRecord

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def is_held_for(state: StoreState, node_id: int) -> bool:
    """Whether a restore keeps partitions quarantined until this broker has answered."""
    return str(node_id) in state.cluster.get("held_for", "").split(",")


def incarnation_for(state: StoreState, a: Mapping[str, Any]) -> Value:
    """The cluster's present incarnation, for a broker of another one, with that broker's part in the restore."""
    cluster, node_id = state.cluster, a["node_id"]
    broker = state.brokers.get(node_id, {})
    value: Value = {name: cluster[name] for name in ("incarnation", "incarnation_id")}
    value |= {"parents": cluster.get("parents", ""), "is_held_for": is_held_for(state, node_id)}
    value["lost"] = cluster.get("lost", 0)
    value |= {"broker_epoch": broker.get("broker_epoch", 0), "boot_id": broker.get("boot_id", "")}
    took_part = cluster.get("took_part", {}).get(str(node_id))
    return value if took_part is None else value | {"took_part": took_part}


def seed_begin(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """A broker finds that this store lost its history; `history` is the refusal that it would get, or OK."""
    cluster = state.cluster
    if cluster:
        if a.get("cluster_id") and a["cluster_id"] != cluster["cluster_id"]:
            raise Refused("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
        if cluster["state"] == "SEEDING":
            return {"seed_nonce": state.seed["nonce"], "begun": False}
        _check_lost(state, a)
    else:
        cluster |= {"cluster_id": a["cluster_id"], "incarnation": 0, "incarnation_id": "", "mo": 0, "h": ""}
    state.seed = {
        "nonce": a["new_seed_nonce"],
        "begun_ms": now_ms,
        "begun_by": a["node_id"],
        "was": cluster.get("state", ""),
        "offset": cluster["mo"],
        "incarnation": cluster["incarnation"],
        "brokers": {
            str(node_id): [broker["broker_epoch"], broker["boot_id"], broker["acted_epoch"]]
            for node_id, broker in state.brokers.items()
        },
        "pieces": {},
        "offers": {},
    }
    cluster["state"] = "SEEDING"
    return {"seed_nonce": a["new_seed_nonce"], "begun": True}


def _check_lost(state: StoreState, a: Mapping[str, Any]) -> None:
    cluster = state.cluster
    if a["incarnation_id"] == cluster["incarnation_id"]:
        if a["history"] == "OK":
            raise Refused("NOT_LOST")
        if a["history"] not in ("REGRESSED", "FORKED"):
            raise Refused(a["history"])
    elif cluster["incarnation"] >= a["incarnation"] and not is_held_for(state, a["node_id"]):
        raise Refused("WRONG_INCARNATION", **incarnation_for(state, a))


def _check_seed(state: StoreState, a: Mapping[str, Any]) -> dict[str, Any]:
    """The pending restore; refuses a caller that does not take part in it."""
    cluster = state.cluster
    if not cluster:
        raise Refused("NO_CLUSTER")
    if a.get("cluster_id") and a["cluster_id"] != cluster["cluster_id"]:
        raise Refused("WRONG_CLUSTER", cluster_id=cluster["cluster_id"])
    if cluster["state"] != "SEEDING" or state.seed.get("nonce") != a["seed_nonce"]:
        raise Refused("SEED_OVER")
    return state.seed


def seed_offer(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Store one piece of a broker's offer; the offer counts once all its pieces are there."""
    seed = _check_seed(state, a)
    node = str(a["node_id"])
    if a["chunk"] == 0:
        seed["pieces"].pop(node, None)
        seed["offers"].pop(node, None)
    pieces = seed["pieces"].setdefault(node, {})
    pieces[a["chunk"]] = a["data"]
    complete = len(pieces) == a["chunks"]
    if complete:
        seed["offers"][node] = a["header"] | {"digest": a["digest"], "chunks": a["chunks"]}
    return {"complete": complete}


def _offers_digest(seed: Mapping[str, Any]) -> str:
    parts = [f"{node}:{seed['offers'][str(node)]['digest']}" for node in sorted(map(int, seed["offers"]))]
    return hashlib.sha1(",".join(parts).encode(), usedforsecurity=False).hexdigest()


def seed_status(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """The progress of a restore: the offers, and the store's own content when it began."""
    if not state.cluster or state.cluster["state"] != "SEEDING":
        return {"seed_nonce": ""}
    seed = state.seed
    return {
        "seed_nonce": seed["nonce"],
        "age_ms": now_ms - seed["begun_ms"],
        "offers_digest": _offers_digest(seed),
        "cluster_id": state.cluster["cluster_id"],
        "parents": ",".join((state.cluster.get("parents", ""), state.cluster["incarnation_id"])),
        "is_committing": "token" in seed,
    } | {name: seed[name] for name in ("begun_by", "offset", "incarnation", "brokers", "offers")}


def seed_read(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """One piece of a broker's offer."""
    data = _check_seed(state, a)["pieces"].get(str(a["of_node"]), {}).get(a["chunk"])
    if data is None:
        raise Refused("OFFERS_CHANGED")
    return {"data": data}


def seed_commit(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Write the merged state in slices. The last one makes it live; a new `begin` replaces a half-written state."""
    seed = _check_seed(state, a)
    if a["step"] == "begin":
        if _offers_digest(seed) != a["offers_digest"]:
            raise Refused("OFFERS_CHANGED")
        _remove_old_state(state)
        seed |= {"token": a["token"], "slices": 0, "snapshot": ""}
        return {}
    if seed.get("token") != a["token"]:
        raise Refused("SEED_OVER")
    if a["step"] == "write":
        for item in a["items"]:
            _WRITE[a["what"]](state, item)
        seed["slices"] += 1
        return {}
    if seed["slices"] != a["slices"]:
        raise Refused("BAD_REQUEST", message="a slice of the new state is missing")
    _go_live(state, a, now_ms)
    return {}


def _remove_old_state(state: StoreState) -> None:
    for held in (state.brokers, state.unregistered, state.heartbeats, state.topic_ids, state.topics, state.partitions):
        held.clear()
    for more in (state.configs, state.full, state.high_watermarks, state.log_end_offsets):
        more.clear()
    state.log.clear()
    state.snapshot = None


def _write_broker(state: StoreState, item: Mapping[str, Any]) -> None:
    broker = {name: value for name, value in item.items() if name != "node_id"}
    state.brokers[item["node_id"]] = broker | {"fast_fenced_ms": 0, "persisted": 0}


def _write_unregistered(state: StoreState, node_id: int) -> None:
    state.unregistered[node_id] = True


def _write_topic(state: StoreState, item: Mapping[str, Any]) -> None:
    state.topic_ids[item["name"]] = item["topic_id"]
    # the creator is unknown now: an incomplete topic has none
    topic = {name: item[name] for name in ("name", "total", "made", "complete")}
    state.topics[item["topic_id"]] = topic | {"creator_id": -1, "creator_epoch": 0}


def _write_partition(state: StoreState, item: Mapping[str, Any]) -> None:
    partition = {name: value for name, value in item.items() if name not in ("topic_id", "held")} | {"nonce": ""}
    if item["held"]:
        partition["held"] = item["held"]
    state.partitions[item["topic_id"], item["partition"]] = partition


def _write_configs(state: StoreState, item: Mapping[str, Any]) -> None:
    state.configs[item["name"]] = dict(item["configs"])


def _write_snapshot(state: StoreState, piece: str) -> None:
    state.seed["snapshot"] += piece


_WRITE: dict[str, Callable[[Any, Any], None]] = {
    "brokers": _write_broker,
    "unregistered": _write_unregistered,
    "topics": _write_topic,
    "partitions": _write_partition,
    "configs": _write_configs,
    "snapshot": _write_snapshot,
}


def _go_live(state: StoreState, a: Mapping[str, Any], now_ms: int) -> None:
    cluster = state.cluster
    payload = json.loads(state.seed["snapshot"])
    state.snapshot = TailedRecord(a["offset"], a["hash"], "Snapshot", now_ms, payload)
    cluster |= {
        "incarnation": a["incarnation"],
        "incarnation_id": a["new_incarnation_id"],
        "state": "LIVE",
        "mo": a["offset"],
        "h": a["hash"],
        "ctl_id": -1,
        "ctl_epoch": a["controller_epoch"],
        "ctl_broker_epoch": 0,
        "lease_n": 0,
        "next_pid": a["next_producer_id"],
        "format": 0,
        "parents": a["parents"],
        "took_part": dict(a["took_part"]),
        "held_for": a["held_for"],
        "lost": a["lost"],
    }
    state.seed = {}
    ids = {name: cluster[name] for name in ("cluster_id", "incarnation_id", "incarnation")}
    # the log keeps how many partitions went on although acknowledged records may be missing
    state.append("Cluster", ids | {"format": 0, "lost": a["lost"]}, now_ms)


def seed_abort(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Abort a restore that wrote nothing yet: the store is as before."""
    seed = _check_seed(state, a)
    if "token" in seed:
        raise Refused("HALF_DONE")
    if seed["was"]:
        state.cluster["state"] = seed["was"]
    else:
        state.cluster.clear()
    state.seed = {}
    return {}
