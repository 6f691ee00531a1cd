"""Cluster events, derived from two images and the delta between them. Pure.

    for event in of_image(before, after, delta): ...

A kind's family is the part before its first dash: `broker-fenced` is of `broker`. Listeners select kinds or families.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from yak.cluster.image import BrokerInfo, Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.metadata_delta import CONFIG_MAPS
from yak.cluster.records import NO_LEADER, TOKEN, USER, BrokerState
from yak.ids import NodeId
from yak.views.metadata_json import HIDDEN

_STATES = {
    BrokerState.ACTIVE: ("broker-unfenced", "serves"),
    BrokerState.FENCED: ("broker-fenced", "is fenced: it can neither lead nor join an ISR"),
    BrokerState.STOPPING: ("broker-stopping", "is in controlled shutdown: its partitions move to other leaders"),
    BrokerState.CLOSED: ("broker-stopped", "has shut down"),
}


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """One event: its kind, a message for people, its topic if it has one, and fields for programs."""

    kind: str
    message: str
    topic: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


def of_image(before: Image, after: Image, delta: Delta) -> Iterator[BrokerEvent]:
    """The events between two images, causes first: brokers, the controller, topics, configs."""
    for node_id in delta.brokers_changed:
        yield from _broker(node_id, before.brokers.get(node_id), after.brokers.get(node_id))
    if (before.controller_id, before.controller_epoch) != (after.controller_id, after.controller_epoch):
        yield _controller(before, after)
    for name, topic_id in delta.topics_removed:
        yield BrokerEvent("topic-deleted", f"topic {name} is deleted", name, {"topic_id": str(topic_id)})
    for name in delta.topics_changed:
        yield from _topic(before.topics.get(name), after.topics[name], delta)
    for resource in delta.configs_changed:
        yield from _config(before, after, *resource)


def _broker(node_id: NodeId, before: BrokerInfo | None, after: BrokerInfo | None) -> Iterator[BrokerEvent]:
    if after is None:
        yield BrokerEvent("broker-unregistered", f"broker {node_id} is unregistered", None, {"broker": node_id})
        return
    fields = {"broker": node_id, "broker_epoch": after.broker_epoch, "state": after.state.value}
    is_new = before is None or before.broker_epoch != after.broker_epoch
    if is_new:
        where = {"host": after.host, "port": after.port, "http_port": after.http_port, "rack": after.rack}
        yield BrokerEvent(
            "broker-registered",
            f"broker {node_id} registered as {after.role} at {after.host}:{after.port}",
            None,
            {**fields, **where, "role": after.role},
        )
    # a new registration begins fenced: no event
    known = BrokerState.FENCED if before is None or is_new else before.state
    if after.state is not known:
        kind, message = _STATES[after.state]
        yield BrokerEvent(kind, f"broker {node_id} {message}", None, fields)


def _controller(before: Image, after: Image) -> BrokerEvent:
    old, new = _named(before.controller_id), _named(after.controller_id)
    message = f"broker {new} is elected controller" if new is not None else "there is no controller"
    if None not in (old, new):
        message += f", previously broker {old}"
    fields = {"from": old, "to": new, "controller_epoch": after.controller_epoch}
    return BrokerEvent("controller-changed", message, None, fields)


def _topic(before: TopicInfo | None, after: TopicInfo, delta: Delta) -> Iterator[BrokerEvent]:
    name, count = after.name, len(after.partitions)
    if before is None or before.topic_id != after.topic_id:
        factor = len(after.partitions[0].replicas) if after.partitions else 0
        yield BrokerEvent(
            "topic-created",
            f"topic {name} is created: {count} partitions, {factor} replicas each",
            name,
            {"topic_id": str(after.topic_id), "partitions": count, "replication_factor": factor},
        )
        return
    if len(before.partitions) != count:
        yield BrokerEvent(
            "topic-changed",
            f"topic {name} has {count} partitions, previously {len(before.partitions)}",
            name,
            {"topic_id": str(after.topic_id), "partitions": count},
        )
    for info in delta.changed_partitions(after):
        if info.partition < len(before.partitions):
            yield from _partition(name, before.partitions[info.partition], info)


def _partition(topic: str, before: PartitionInfo, after: PartitionInfo) -> Iterator[BrokerEvent]:
    name = f"{topic}-{after.partition}"
    fields: dict[str, Any] = {
        "partition": after.partition,
        "leader": _named(after.leader),
        "leader_epoch": after.leader_epoch,
        "partition_epoch": after.partition_epoch,
    }
    if (before.leader, before.leader_epoch) != (after.leader, after.leader_epoch):
        yield BrokerEvent(
            "leader-changed",
            _leader_change(name, before, after),
            topic,
            {**fields, "from": _named(before.leader), "to": _named(after.leader)},
        )
    left = [node for node in before.isr if node not in after.isr]
    joined = [node for node in after.isr if node not in before.isr]
    if left or joined:
        kind = "isr-changed" if left and joined else "isr-shrunk" if left else "isr-expanded"
        isr = {"from": list(before.isr), "to": list(after.isr), "left": left, "joined": joined}
        message = f"ISR of {name}: {_nodes(before.isr)} -> {_nodes(after.isr)}"
        yield BrokerEvent(kind, message, topic, {**fields, **isr, "eligible_leaders": list(after.elr)})
    yield from _reassignment(name, topic, fields, before, after)


def _leader_change(name: str, before: PartitionInfo, after: PartitionInfo) -> str:
    if after.leader == NO_LEADER:
        return f"{name} is offline, previously led by {before.leader}"
    if before.leader == NO_LEADER:
        return f"{name} is led by {after.leader} again, in epoch {after.leader_epoch}"
    if before.leader == after.leader:
        return f"{name} is led by {after.leader} in a new epoch, {after.leader_epoch}"
    return f"{name} is led by {after.leader} in epoch {after.leader_epoch}, previously by {before.leader}"


def _reassignment(
    name: str, topic: str, fields: dict[str, Any], before: PartitionInfo, after: PartitionInfo
) -> Iterator[BrokerEvent]:
    old, new = ((each.adding_replicas, each.removing_replicas) for each in (before, after))
    if old == new and before.replicas == after.replicas:
        return
    if any(new):
        kind = "reassignment-started" if not any(old) else "reassignment-changed"
        message = f"{name} is being reassigned: adding {_nodes(new[0])}, removing {_nodes(new[1])}"
    elif any(old):
        kind, message = "reassignment-done", f"{name} has the replicas {_nodes(after.replicas)}"
    else:
        kind, message = "reassignment-done", f"{name} has the new replica order {_nodes(after.replicas)}"
    replicas = {
        "replicas": list(after.replicas),
        "adding_replicas": list(after.adding_replicas),
        "removing_replicas": list(after.removing_replicas),
    }
    yield BrokerEvent(kind, message, topic, {**fields, **replicas})


def _config(before: Image, after: Image, resource_type: str, name: str) -> Iterator[BrokerEvent]:
    old, new = _configs_of(before, resource_type, name), _configs_of(after, resource_type, name)
    if old is None or new is None or old == new:
        return  # unchanged, or the topic is new or deleted
    values = dict.fromkeys(new, HIDDEN) if resource_type in (USER, TOKEN) else new
    changed = {key: values.get(key) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}
    message = ", ".join(f"{key}={'(default)' if value is None else value}" for key, value in changed.items())
    what = f"{resource_type} {name}" if name else "all brokers"
    fields = {"resource_type": resource_type, "resource_name": name, "changed": changed}
    yield BrokerEvent("config-changed", f"{what}: {message}", name if resource_type == "topic" else None, fields)


def _configs_of(image: Image, resource_type: str, name: str) -> Mapping[str, str] | None:
    if resource_type == "topic":
        topic = image.topics.get(name)
        return None if topic is None else topic.configs
    if resource_type in CONFIG_MAPS:
        configs: Mapping[str, str] = getattr(image, CONFIG_MAPS[resource_type]).get(name, {})
        return configs
    if not name:
        return image.default_broker_configs
    return image.broker_configs.get(int(name), {}) if name.isascii() and name.isdigit() else None


def _named(node_id: NodeId) -> NodeId | None:
    return None if node_id == NO_LEADER else node_id


def _nodes(nodes: tuple[NodeId, ...]) -> str:
    return ",".join(map(str, nodes)) or "none"
