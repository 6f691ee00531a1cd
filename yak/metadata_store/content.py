"""The whole content of a metadata store as rows, in which it moves to another store (`yak.metadata_store.migration`).

The rows are the keys of Redis with all values as text, as `yak/server/redis_scripts` write them:

    {"hashes": [[name, {field: text}], ...], "sets": [[name, [text, ...]], ...], "secret": text,
     "log": [[offset, kind, payload, chain hash, previous hash, time in ms], ...]}

A name is the key without its prefix, and a key that holds nothing is absent. High watermarks and log ends are not part of
the content, since brokers report them again; neither are the offers of a restore. `guests` is the registry of external
brokers, which clients of HTTP write. Of a long log only the end is moved, with a snapshot (`with_snapshot`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from yak.ids import MetadataOffset
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import TailedRecord

Rows: TypeAlias = dict[str, Any]

_NUMBERS: Final = frozenset(
    {
        *("incarnation", "mo", "ctl_id", "ctl_epoch", "ctl_broker_epoch", "lease_n", "next_pid", "format", "lost"),
        *("migration_id", "port", "broker_epoch", "lossy_epoch", "acted_epoch", "fast_fenced_ms", "persisted"),
        *("min_isr", "http_port", "total", "made", "creator_id", "creator_epoch", "leader", "leader_epoch"),
        "partition_epoch",
    }
)
_FLAGS: Final = frozenset({"lossy", "complete"})
_JSON: Final = frozenset({"took_part"})
# What the Lua scripts read into a field that an older version did not write.
_OF_CLUSTER: Final = {"lease_n": 0}
_OF_BROKER: Final = {"rack": None, "acted_epoch": 0, "fast_fenced_ms": 0, "persisted": 0}
_OF_TOPIC: Final = {"complete": True, "creator_id": -1, "creator_epoch": 0}
_OF_PARTITION: Final = {"nonce": "", "adding": "", "removing": ""}


def rows_of(state: StoreState, log_from: MetadataOffset = 0) -> Rows:
    """The content of a store.

    Records before `log_from` are left out if every broker except CLOSED ones has them on disk.
    """
    sets = (("brokers", state.brokers), ("full", state.full), ("unregistered", state.unregistered))
    log_from = min([log_from, *(each["persisted"] for each in state.brokers.values() if each["state"] != "CLOSED")])
    log = ([each.offset, *_texts_of_record(each), each.timestamp_ms] for each in state.log if each.offset >= log_from)
    return {
        "hashes": [[name, fields] for name, fields in _hashes(state) if fields],
        "sets": [[name, [str(node_id) for node_id in sorted(nodes)]] for name, nodes in sets if nodes],
        "secret": state.secret,
        "log": list(log),
    }


def with_snapshot(rows: Rows, snapshot: TailedRecord) -> Rows | None:
    """The rows, with this snapshot if their own does not reach their log; None if it is of another history."""
    log = rows["log"]
    held = next((int(fields["offset"]) for name, fields in rows["hashes"] if name == "snapshot"), 0)
    if not log or log[0][0] <= held + 1:
        return rows
    if not any(row[0] == snapshot.offset and row[3] == snapshot.chain_hash for row in log):
        return None
    others = [row for row in rows["hashes"] if row[0] != "snapshot"]
    return {**rows, "hashes": [*others, ["snapshot", _fields_of_snapshot(snapshot)]]}


def state_of(rows: Mapping[str, Any]) -> StoreState:
    """The store with this content. Raises ValueError, KeyError or TypeError for rows that are damaged."""
    state = StoreState(secret=rows["secret"] or "")
    # Lua encodes an empty list as {}: all lists are only iterated over
    sets = {name: [int(text) for text in texts] for name, texts in rows["sets"]}
    state.full = dict.fromkeys(sets.get("full", ()))
    state.unregistered = dict.fromkeys(sets.get("unregistered", ()), True)
    for name, fields in rows["hashes"]:
        _take_hash(state, name, fields)
    if set(sets.get("brokers", ())) != set(state.brokers):
        raise ValueError("the set of brokers and their hashes differ")
    for offset, kind, payload, chain_hash, previous_hash, timestamp_ms in rows["log"]:
        record = TailedRecord(offset, chain_hash, kind, timestamp_ms, json.loads(payload), previous_hash)
        state.log.append(record)
    return state


def _hashes(state: StoreState) -> Iterator[tuple[str, dict[str, str]]]:
    yield "cluster", _texts(state.cluster)
    yield "hb", {str(node_id): str(count) for node_id, count in state.heartbeats.items()}
    yield "tn", dict(state.topic_ids)
    yield "configs", {name: json.dumps(configs) for name, configs in state.configs.items()}
    yield "guests", {str(node_id): entry for node_id, entry in state.external_brokers.items()}
    for node_id, broker in state.brokers.items():
        yield f"b:{node_id}", _texts(broker)
    for topic_id, topic in state.topics.items():
        yield f"t:{topic_id}", _texts(topic)
    for (topic_id, number), partition in state.partitions.items():
        # its number is part of the key
        yield f"p:{topic_id}:{number}", _texts({name: partition[name] for name in partition if name != "partition"})
    if state.snapshot is not None:
        yield "snapshot", _fields_of_snapshot(state.snapshot)


def _fields_of_snapshot(snapshot: TailedRecord) -> dict[str, str]:
    _kind, payload, chain_hash, _previous_hash = _texts_of_record(snapshot)
    about = {"offset": str(snapshot.offset), "t": str(snapshot.timestamp_ms)}
    return about | {"h": chain_hash, "payload": payload}


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(name, value) for name, value in fields.items() if value is not None}


def _text(name: str, value: Any) -> str:
    if name in _FLAGS:
        return "1" if value else "0"
    return json.dumps(value) if name in _JSON else str(value)


def _texts_of_record(record: TailedRecord) -> tuple[str, str, str, str]:
    # sorted as in `StoreState.append`: for a record of this store it is the text that its chain hash was made of
    payload = json.dumps(record.payload, sort_keys=True)
    return record.kind, payload, record.chain_hash, record.previous_hash


def _take_hash(state: StoreState, name: str, fields: Mapping[str, str]) -> None:
    kind, _, key = name.partition(":")
    match kind:
        case "cluster":
            state.cluster = _OF_CLUSTER | _values(fields)
        case "hb":
            state.heartbeats = {int(node_id): int(count) for node_id, count in fields.items()}
        case "tn":
            state.topic_ids = dict(fields)
        case "configs":
            state.configs = {resource: json.loads(configs) for resource, configs in fields.items()}
        case "guests":
            state.external_brokers = {int(node_id): entry for node_id, entry in fields.items()}
        case "b":
            state.brokers[int(key)] = _OF_BROKER | _values(fields)
        case "t":
            state.topics[key] = _OF_TOPIC | _values(fields)
        case "p":
            topic_id, _, number = key.rpartition(":")
            place = {"partition": int(number)}
            state.partitions[topic_id, int(number)] = _OF_PARTITION | place | _values(fields)
        case "snapshot":
            state.snapshot = TailedRecord.from_snapshot(fields)
        case _:
            raise ValueError(f"no key is named {name}")


def _values(fields: Mapping[str, str]) -> dict[str, Any]:
    return {name: _value(name, text) for name, text in fields.items()}


def _value(name: str, text: str) -> Any:
    if name in _FLAGS:
        return text != "0"
    if name in _JSON:
        return json.loads(text)
    return int(text) if name in _NUMBERS else text
