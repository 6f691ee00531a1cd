"""Scripts of the metadata store: topics and their partition counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from yak.cluster.payload import IsrMember, format_isr, parse_nodes
from yak.metadata_store.checks import RefusedCall, Value, check_broker, check_controller, check_size, is_current
from yak.protocol.topic_names import find_collision

if TYPE_CHECKING:
    from yak.metadata_store.state import StoreState


_REMOVALS_SCANNED_MAX = 1000


def _new_partitions(state: StoreState, a: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The slice's partitions that do not exist yet, checked."""
    check_size(a)
    if len({item["partition"] for item in a["partitions"]}) < len(a["partitions"]):
        raise RefusedCall("BAD_REQUEST", message="a partition is named twice")
    new = []
    for item in a["partitions"]:
        if not 0 <= item["partition"] < a["total"]:
            raise RefusedCall("BAD_REQUEST", message="partition number")
        if (a["topic_id"], item["partition"]) in state.partitions:
            continue
        replicas = parse_nodes(item["replicas"])
        unknown = [node_id for node_id in replicas if node_id not in state.brokers]
        if unknown:
            raise RefusedCall("INELIGIBLE_BROKER", message=f"broker {unknown[0]} is not registered")
        isr = [n for n in replicas if state.brokers[n]["state"] == "ACTIVE"]
        if not isr:
            raise RefusedCall("INELIGIBLE_BROKER", message=f"no replica of partition {item['partition']} is active")
        new.append(
            {
                "partition": item["partition"],
                "replicas": item["replicas"],
                "isr": format_isr((n, state.brokers[n]["broker_epoch"]) for n in isr),
                "leader": isr[0],
                "leader_epoch": 0,
                "partition_epoch": 0,
            }
        )
    return new


def _add_partitions(state: StoreState, topic_id: str, new: list[dict[str, Any]], now_ms: int) -> None:
    if new:
        for item in new:
            more = {"adding": "", "removing": "", "elr": "", "nonce": ""}
            state.partitions[topic_id, item["partition"]] = dict(item) | more
        topic = state.topics[topic_id]
        topic["made"] += len(new)
        topic["complete"] = topic["complete"] or topic["made"] >= topic["total"]
        state.append("Partition", {"topic_id": topic_id, "partitions": new}, now_ms)


def _is_abandoned(state: StoreState, topic: dict[str, Any]) -> bool:
    """Whether the topic's creator died between two slices, so that no client has ever seen the topic complete.

    A killed creator is FENCED until its restart, which may never come. A creator that is fenced and alive finds the
    topic gone, and starts again.
    """
    creator = IsrMember(topic["creator_id"], topic["creator_epoch"])
    return not topic["complete"] and not is_current(state, creator, "ACTIVE", "STOPPING")


def create_topic(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Create a topic with its first partitions; the same id again is a repeat, and restores no deleted topic."""
    check_broker(state, a)
    held = state.topic_ids.get(a["name"])
    half_made = None
    if held == a["topic_id"]:
        return {"created": False}
    if held is not None:
        if not _is_abandoned(state, state.topics[held]):
            raise RefusedCall("TOPIC_EXISTS", message=f"topic {a['name']} exists")
        half_made = held
    elif a.get("refuses_collision") and (other := find_collision(a["name"], state.topic_ids)) is not None:
        raise RefusedCall("TOPIC_COLLIDES", message=f"Topic '{a['name']}' collides with existing topic: {other}")
    newest = state.log[-_REMOVALS_SCANNED_MAX:]
    if any(
        record.kind == "RemoveTopic"
        and record.payload["topic_id"] == a["topic_id"]
        and record.offset > a["broker_epoch"]
        for record in newest
    ):
        raise RefusedCall("NO_TOPIC", message=f"topic {a['name']} was deleted meanwhile")
    new = _new_partitions(state, a)
    if half_made is not None:
        _remove(state, half_made, now_ms)
    state.topic_ids[a["name"]] = a["topic_id"]
    state.topics[a["topic_id"]] = {
        "name": a["name"],
        "total": a["total"],
        "made": 0,
        "complete": False,
        "creator_id": a["node_id"],
        "creator_epoch": a["broker_epoch"],
    }
    record = {"name": a["name"], "topic_id": a["topic_id"], "partitions": a["total"], "configs": a["configs"]}
    if a["configs"]:
        state.configs["topic:" + a["name"]] = dict(a["configs"])
    state.append("Topic", record, now_ms)
    _add_partitions(state, a["topic_id"], new, now_ms)
    return {"created": True}


def create_partitions(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Add partitions to a topic: further slices of a new one, or growth.

    Growth to a total that the topic already has is a repeat if its id is that of the last growth. Otherwise it is a second
    request, which Kafka refuses (ReplicationControlManager.createPartitions).
    """
    check_broker(state, a)
    topic = state.topics.get(a["topic_id"])
    if topic is None:
        raise RefusedCall("NO_TOPIC")
    if a["total"] < topic["total"]:
        raise RefusedCall("INVALID_PARTITIONS", message=f"the topic has {topic['total']} partitions")
    growth_id = a.get("growth_id", "")
    if growth_id and a["total"] == topic["total"] and growth_id != topic.get("growth_id"):
        raise RefusedCall("INVALID_PARTITIONS", message=f"Topic already has {topic['total']} partitions.")
    new = _new_partitions(state, a)
    if a["total"] > topic["total"]:
        topic["total"] = a["total"]
        topic["growth_id"] = growth_id
        record = {"name": topic["name"], "topic_id": a["topic_id"], "partitions": a["total"]}
        state.append("Topic", record, now_ms)
    _add_partitions(state, a["topic_id"], new, now_ms)
    return {}


def _remove(state: StoreState, topic_id: str, now_ms: int) -> None:
    topic = state.topics.pop(topic_id)
    for number in range(topic["total"]):
        state.partitions.pop((topic_id, number), None)
        state.high_watermarks.pop((topic_id, number), None)
        state.log_end_offsets.pop((topic_id, number), None)
    state.topic_ids.pop(topic["name"])
    state.configs.pop("topic:" + topic["name"], None)
    state.append("RemoveTopic", {"name": topic["name"], "topic_id": topic_id}, now_ms)


def delete_topic(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Delete a topic by id; if it is gone already, the call is a repeat."""
    check_broker(state, a)
    removed = a["topic_id"] in state.topics
    if removed:
        _remove(state, a["topic_id"], now_ms)
    return {"removed": removed}


def undo_half_made(state: StoreState, a: Mapping[str, Any], now_ms: int) -> Value:
    """Remove an incomplete topic that is overdue, or of a dead creator; of incomplete growth, return the missing partitions."""
    check_controller(state, a)
    topic = state.topics.get(a["topic_id"])
    if topic is None or topic["made"] >= topic["total"]:
        return {"removed": False}
    if topic["complete"]:
        missing = [n for n in range(topic["total"]) if (a["topic_id"], n) not in state.partitions]
        return {"removed": False, "missing": missing, "total": topic["total"]}
    removed = bool(a.get("is_overdue")) or _is_abandoned(state, topic)
    if removed:
        _remove(state, a["topic_id"], now_ms)
    return {"removed": removed}
