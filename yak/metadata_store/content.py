"""The whole content of a metadata store as rows of text, as they lie in Redis: what a move to another store carries.

    {"hashes": [[name, {field: text}], ...], "sets": [[name, [text, ...]], ...], "secret": text,
     "log": [[offset, kind, payload, hash, previous hash, time in ms], ...]}

`name` is a key of Redis without its prefix. High watermarks and log ends are not part of it: brokers report them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import TailedRecord

Rows: TypeAlias = dict[str, Any]
_CLUSTER_NUMBERS: Final = frozenset(
    {"incarnation", "mo", "ctl_id", "ctl_epoch", "ctl_broker_epoch", "lease_n", "next_pid", "format", "lost"}
    | {"migration_id"}
)
_BROKER_NUMBERS: Final = frozenset(
    {"port", "broker_epoch", "lossy_epoch", "acted_epoch", "fast_fenced_ms", "persisted", "min_isr", "http_port"}
)
_TOPIC_NUMBERS: Final = frozenset({"total", "made", "creator_id", "creator_epoch"})
_PARTITION_NUMBERS: Final = frozenset({"leader", "leader_epoch", "partition_epoch"})
_OLD_TOPIC: Final = {"complete": "1", "creator_id": "-1", "creator_epoch": "0"}
"""What a topic of an early version lacks."""
_OLD_PARTITION: Final = {"elr": "", "nonce": "", "adding": "", "removing": ""}


def rows_of(state: StoreState) -> Rows:
    """The rows of a store's content."""
    hashes: dict[str, dict[str, str]] = {
        "cluster": _texts(state.cluster),
        "tn": state.topic_ids,
        "configs": {name: json.dumps(configs) for name, configs in state.configs.items()},
        "hb": {str(node_id): str(count) for node_id, count in state.heartbeats.items()},
        "guests": {str(node_id): entry for node_id, entry in state.external_brokers.items()},
    }
    if state.snapshot is not None:
        offset, payload = str(state.snapshot.offset), json.dumps(state.snapshot.payload)
        hashes["snapshot"] = {
            "offset": offset,
            "h": state.snapshot.chain_hash,
            "t": str(state.snapshot.timestamp_ms),
            "payload": payload,
        }
    hashes |= {f"b:{node_id}": _texts(broker) for node_id, broker in state.brokers.items()}
    hashes |= {f"t:{topic_id}": _texts(topic) for topic_id, topic in state.topics.items()}
    for (topic_id, number), partition in state.partitions.items():
        hashes[f"p:{topic_id}:{number}"] = _texts(partition, leave_out="partition")
    sets: dict[str, Iterable[int]] = {
        "brokers": state.brokers,
        "unregistered": state.unregistered,
        "full": state.full,
    }
    return {
        "hashes": [[name, dict(fields)] for name, fields in hashes.items() if fields],
        "sets": [[name, sorted(map(str, members))] for name, members in sets.items() if members],
        "secret": state.secret,
        "log": [
            [each.offset, each.kind, json.dumps(each.payload), each.chain_hash, each.previous_hash, each.timestamp_ms]
            for each in state.log
        ],
    }


def state_of(rows: Rows) -> StoreState:
    """The content that the rows describe."""
    # Lua's JSON has one kind of empty table
    hashes: dict[str, dict[str, str]] = dict(rows["hashes"] or [])
    sets: dict[str, list[str]] = dict(rows["sets"] or [])
    state = StoreState(cluster=_cluster(hashes.pop("cluster", {})), secret=rows["secret"])
    state.topic_ids = hashes.pop("tn", {})
    state.configs = {name: json.loads(text) for name, text in hashes.pop("configs", {}).items()}
    state.heartbeats = {int(node_id): int(count) for node_id, count in hashes.pop("hb", {}).items()}
    state.external_brokers = {int(node_id): entry for node_id, entry in hashes.pop("guests", {}).items()}
    state.unregistered = {int(node_id): True for node_id in sets.get("unregistered", ())}
    state.full = {int(node_id): None for node_id in sets.get("full", ())}
    snapshot = hashes.pop("snapshot", None)
    state.snapshot = None if snapshot is None else TailedRecord.from_snapshot(snapshot)
    for name, fields in hashes.items():
        kind, _, key = name.partition(":")
        if kind == "b":
            state.brokers[int(key)] = _broker(fields)
        elif kind == "t":
            topic = _typed(_OLD_TOPIC | fields, _TOPIC_NUMBERS)
            state.topics[key] = topic | {"complete": topic["complete"] != "0"}
        else:
            topic_id, _, number = key.rpartition(":")
            partition = _typed(_OLD_PARTITION | fields, _PARTITION_NUMBERS)
            state.partitions[topic_id, int(number)] = {"partition": int(number), **partition}
    state.log = [
        TailedRecord(int(offset), chain_hash, kind, int(time_ms), json.loads(payload), previous)
        for offset, kind, payload, chain_hash, previous, time_ms in rows["log"] or []
    ]
    return state


def _texts(fields: Mapping[str, Any], leave_out: str = "") -> dict[str, str]:
    return {name: _text(value) for name, value in fields.items() if value is not None and name != leave_out}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _typed(fields: Mapping[str, str], numbers: frozenset[str]) -> dict[str, Any]:
    return {name: int(text) if name in numbers else text for name, text in fields.items()}


def _cluster(fields: Mapping[str, str]) -> dict[str, Any]:
    cluster = _typed(fields, _CLUSTER_NUMBERS)
    return cluster | {"took_part": json.loads(fields["took_part"])} if "took_part" in fields else cluster


def _broker(fields: Mapping[str, str]) -> dict[str, Any]:
    broker = _typed(fields, _BROKER_NUMBERS)
    return {"rack": None} | broker | {"lossy": broker["lossy"] == "1"}
