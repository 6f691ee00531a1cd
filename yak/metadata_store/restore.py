"""Scripts of the metadata store: an operator's restore of a lost history from a broker's image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import parse_isr
from yak.metadata_store.checks import RefusedCall, Value
from yak.metadata_store.migration import check_not_frozen
from yak.ports.metadata_store import TailedRecord

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def incarnation_for(state: StoreState, a: Mapping[str, Any]) -> Value:
    """The cluster's present incarnation, for a broker of another one, with that broker's part in the restore."""
    cluster = state.cluster
    value: Value = {name: cluster[name] for name in ("incarnation", "incarnation_id")}
    value |= {"parents": cluster.get("parents", ""), "lost": cluster.get("lost", 0)}
    took_part = cluster.get("took_part", {}).get(str(a["node_id"]))
    return value if took_part is None else value | {"took_part": took_part}


def seed_offer(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Take the image of a broker whose history this store lost; from then on the store refuses all other calls.

    `history` is the refusal that the broker would get, or OK.
    """
    cluster = state.cluster
    if not cluster:
        cluster |= {"cluster_id": a["cluster_id"], "incarnation": 0, "incarnation_id": "", "mo": 0, "h": ""}
        _begin(state, "")
    else:
        _check_cluster(state, a)
        check_not_frozen(state)
        if cluster["state"] == "LIVE":
            _check_lost(state, a)
            _begin(state, "LIVE")
    cluster["state"] = "SEEDING"
    state.offers[a["node_id"]] = a["offer"]
    return {}


def _begin(state: StoreState, before: str) -> None:
    state.offers.clear()
    state.cluster["before_restore"] = before


def _check_cluster(state: StoreState, a: Mapping[str, Any]) -> None:
    if a.get("cluster_id") and a["cluster_id"] != state.cluster["cluster_id"]:
        raise RefusedCall("WRONG_CLUSTER", cluster_id=state.cluster["cluster_id"])


def _check_lost(state: StoreState, a: Mapping[str, Any]) -> None:
    cluster = state.cluster
    if a["incarnation_id"] == cluster["incarnation_id"]:
        if a["history"] == "OK":
            raise RefusedCall("NOT_LOST")
        if a["history"] not in ("REGRESSED", "FORKED"):
            raise RefusedCall(a["history"])
    elif cluster["incarnation"] >= a["incarnation"]:
        raise RefusedCall("WRONG_INCARNATION", **incarnation_for(state, a))


def offers_digest(offers: Mapping[int, str]) -> str:
    """One digest of all offers."""
    text = ",".join(f"{node_id}:{offers[node_id]}" for node_id in sorted(offers))
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _check_seeding(state: StoreState, a: Mapping[str, Any]) -> None:
    """Refuses an operator's call unless the offers are the ones that the operator read."""
    if not state.cluster:
        raise RefusedCall("NO_CLUSTER")
    if state.cluster["state"] != "SEEDING":
        raise RefusedCall("SEED_OVER")
    if offers_digest(state.offers) != a["offers_digest"]:
        raise RefusedCall("OFFERS_CHANGED")


def seed_abort(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:  # noqa: ARG001
    """Forget the offers: the store is as before. Brokers that still miss their history offer again."""
    _check_seeding(state, a)
    before = state.cluster.pop("before_restore", "")
    if before:
        state.cluster["state"] = before
    else:
        state.cluster.clear()
    state.offers.clear()
    return {}


def seed_commit(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Replace the content of the store by a snapshot, which begins a new incarnation of the cluster."""
    _check_seeding(state, a)
    for held in (state.brokers, state.unregistered, state.heartbeats, state.topic_ids, state.topics, state.partitions):
        held.clear()
    for more in (state.configs, state.full, state.high_watermarks, state.log_end_offsets, state.offers):
        more.clear()
    state.log.clear()
    image = json.loads(a["snapshot"])
    state.snapshot = TailedRecord(a["offset"], a["hash"], "Snapshot", now_ms, image)
    for broker in image["brokers"]:
        _write_broker(state, broker)
    for member in parse_isr(image["unregistered"]):
        state.unregistered[member.node_id] = True
    _write_topics(state, image)
    _write_configs(state, image)
    cluster = state.cluster
    cluster.pop("before_restore", None)
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
        "lost": a["lost"],
    }
    ids = {name: cluster[name] for name in ("cluster_id", "incarnation_id", "incarnation")}
    # the log keeps how many partitions went on although acknowledged records may be missing
    state.append("Cluster", ids | {"format": 0, "lost": a["lost"]}, now_ms)
    return {}


def _write_broker(state: StoreState, broker: Mapping[str, Any]) -> None:
    named = ("boot_id", "directories", "host", "port", "rack", "role", "state", "broker_epoch", "lossy_epoch")
    epoch = broker["broker_epoch"]
    state.brokers[broker["node_id"]] = {name: broker[name] for name in named} | {
        "lossy": broker["lossy_epoch"] == epoch,
        # it may have acted in its last registration: a disk that does not know that one lost something
        "acted_epoch": epoch,
        "fast_fenced_ms": 0,
        "persisted": 0,
        "http_port": broker.get("http_port", 0),
    }


def _write_topics(state: StoreState, image: Mapping[str, Any]) -> None:
    """Each topic with its target and present numbers of partitions; a growing one is complete all the same."""
    pending = {topic["topic_id"]: topic for topic in image["pending"]}
    complete = {topic["topic_id"]: topic for topic in image["topics"]}
    for topic_id, topic in (pending | complete).items():
        partitions = {each["partition"]: each for each in pending.get(topic_id, {"partitions": []})["partitions"]}
        partitions |= {each["partition"]: each for each in topic["partitions"]}
        total = pending[topic_id]["total"] if topic_id in pending else len(partitions)
        state.topic_ids[topic["name"]] = topic_id
        # the creator is unknown now: an incomplete topic has none
        about = {"name": topic["name"], "total": total, "made": len(partitions), "complete": topic_id in complete}
        state.topics[topic_id] = about | {"creator_id": -1, "creator_epoch": 0}
        for number, partition in partitions.items():
            names = ("partition", "replicas", "isr", "elr", "leader", "leader_epoch", "partition_epoch")
            row = {name: partition[name] for name in names}
            more = {name: partition.get(name, "") for name in ("adding", "removing")}
            state.partitions[topic_id, number] = row | more | {"nonce": ""}


def _write_configs(state: StoreState, image: Mapping[str, Any]) -> None:
    found = {f"topic:{topic['name']}": topic["configs"] for topic in (*image["pending"], *image["topics"])}
    found |= {f"broker:{each['node_id']}": each["configs"] for each in image["broker_configs"]}
    found["broker:"] = image["default_broker_configs"]
    found |= {f"group:{each['group_id']}": each["configs"] for each in image["group_configs"]}
    found |= {f"user:{each['user']}": each["credentials"] for each in image.get("user_credentials", ())}
    found |= {f"token:{each['token_id']}": each["configs"] for each in image.get("delegation_tokens", ())}
    found |= {f"quota:{each['entity']}": each["configs"] for each in image.get("quotas", ())}
    found |= {f"acl:{each['pattern']}": each["configs"] for each in image.get("acls", ())}
    state.configs |= {name: dict(configs) for name, configs in found.items() if configs}
