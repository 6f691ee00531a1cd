"""Scripts of the metadata store: configs of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.metadata_store.checks import (
    MIN_ISR,
    RefusedCall,
    Value,
    append_changes,
    change_of,
    check_broker,
    commits_nothing,
)

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


def alter_configs(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Set and remove configs of a topic, a broker, all brokers, a group, or an entity with quotas, or a pattern with ACLs.

    A change is a name and the new value, and where that was computed from a value, that one too. If the config has neither
    of the two, nothing changes; the caller computes again from the image of the answer's offset.
    """
    check_broker(state, a)
    kind, resource = a["resource_type"], a["resource_name"]
    if kind == "topic" and resource not in state.topic_ids:
        raise RefusedCall("NO_TOPIC")
    key = f"{kind}:{resource}"
    old = state.configs.get(key, {})
    new = {} if a["replace"] else dict(old)
    for name, value, *expected in a["changes"]:
        if expected and old.get(name) not in (*expected, value):
            return {"code": "INVALID_UPDATE_VERSION"}
        if value is None:
            new.pop(name, None)
        else:
            new[name] = value
    if new == old:
        return {}
    if new:
        state.configs[key] = new
    else:
        state.configs.pop(key, None)
    state.append("Config", {"resource_type": kind, "resource_name": resource, "configs": new}, now_ms)
    if old.get(MIN_ISR) != new.get(MIN_ISR):
        _clear_elrs(state, a, now_ms)
    return {}


def _clear_elrs(state: StoreState, a: Mapping[str, Any], now_ms: int) -> None:
    """Raise partition epochs: the minimum ISR is part of the commit rule, so a leader with the old one must fail.

    An empty ISR commits nothing, nor does a partition without a leader, so its ELR stays eligible.
    """
    kind, resource = a["resource_type"], a["resource_name"]
    names = [resource] if kind == "topic" else sorted(state.topic_ids)
    changes = []
    for name in names:
        if kind != "topic" and MIN_ISR in state.configs.get("topic:" + name, {}):
            continue
        topic_id = state.topic_ids[name]
        for number in range(state.topics[topic_id]["total"]):
            partition = state.partitions.get((topic_id, number))
            if partition is None:
                continue
            # a broker's own config counts for the partitions that it leads
            if kind == "topic" or resource in ("", str(partition["leader"])):
                if partition["isr"] and not commits_nothing(state, a, partition["leader"]):
                    partition["elr"] = ""
                partition["nonce"] = ""
                partition["partition_epoch"] += 1
                changes.append(change_of(topic_id, partition))
    append_changes(state, changes, now_ms)
