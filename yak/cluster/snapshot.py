"""Writes an image as one JSON payload and reads it: the head of a broker's local log and of a trimmed metadata log."""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from yak.cluster.image import BrokerInfo, Image, PartitionInfo, PendingTopic, ProducerBlock, RemovedTopic, TopicInfo
from yak.cluster.payload import Fields, format_isr, format_nodes
from yak.cluster.records import NO_LEADER, Kind, broker_state, register_broker
from yak.config.listeners import write_endpoints
from yak.ports.disk import Disk
from yak.ports.metadata_store import TailedRecord


def write_snapshot(image: Image) -> TailedRecord:
    """A record of kind Snapshot that holds all of `image`."""
    payload: dict[str, object] = {
        "version": 0,
        "cluster_id": image.cluster_id,
        "incarnation": image.incarnation,
        "incarnation_id": image.incarnation_id,
        "controller_id": image.controller_id,
        "controller_epoch": image.controller_epoch,
        "controller_broker_epoch": image.controller_broker_epoch,
        "next_producer_id": image.next_producer_id,
        "brokers": [_write_broker(image.brokers[node_id]) for node_id in sorted(image.brokers)],
        "broker_configs": [{"node_id": n, "configs": dict(c)} for n, c in sorted(image.broker_configs.items())],
        "default_broker_configs": dict(image.default_broker_configs),
        "group_configs": [{"group_id": g, "configs": dict(c)} for g, c in sorted(image.group_configs.items())],
        "user_credentials": [{"user": u, "credentials": dict(c)} for u, c in sorted(image.user_credentials.items())],
        "delegation_tokens": [{"token_id": t, "configs": dict(c)} for t, c in sorted(image.delegation_tokens.items())],
        "quotas": [{"entity": e, "configs": dict(c)} for e, c in sorted(image.quotas.items())],
        "acls": [{"pattern": p, "configs": dict(c)} for p, c in sorted(image.acls.items())],
        "topics": [_write_topic(image.topics[name]) for name in sorted(image.topics)],
        "pending": [_write_pending(p) for p in sorted(image.pending.values(), key=lambda p: p.topic_id.int)],
        "parents": ",".join(image.parents),
        "removed_topics": ",".join(map(str, image.removed_topics)),
        "unregistered": format_isr(image.unregistered.items()),
        "incarnation_ms": image.incarnation_ms,
        "removals": [
            {"topic_id": str(topic_id), "name": removed.name, "changed_ms": removed.changed_ms}
            for topic_id, removed in image.removed_topics.items()
        ],
        "former": [_write_broker(image.former[node_id]) for node_id in sorted(image.former)],
        "producer_blocks": [_write_block(block) for _, block in sorted(image.producer_blocks.items())],
    }
    return TailedRecord(image.offset, image.chain_hash, Kind.SNAPSHOT, image.timestamp_ms, payload)


@dataclass(frozen=True, slots=True)
class SnapshotText:
    """A plan to write an image, which is immutable, as JSON: ten thousand partitions take a tenth of a second."""

    image: Image

    def run(self, disk: Disk) -> str:  # noqa: ARG002
        """The payload of a Snapshot record."""
        return "".join(json_pieces(write_snapshot(self.image).payload))


def json_pieces(value: object) -> Iterator[str]:
    """A payload as JSON, in pieces: one call of the encoder would block all other threads until it ends."""
    if isinstance(value, dict) and any(type(each) in (dict, list) for each in value.values()):
        separator = "{"
        for key, each in value.items():
            yield f"{separator}{json.dumps(key)}:"
            yield from json_pieces(each)
            separator = ","
        yield "}"
    elif isinstance(value, list) and value and type(value[0]) is dict:
        separator = "["
        for each in value:
            yield separator
            yield from json_pieces(each)
            separator = ","
        yield "]"
    else:
        yield json.dumps(value, separators=(",", ":"))


def read_snapshot(record: TailedRecord) -> Image:
    """The image that `write_snapshot` wrote. Raises BadRecord."""
    f = Fields(record.payload, f"metadata snapshot at {record.offset}")
    # Times that a snapshot of an older YAK lacks are no later than the snapshot.
    at_ms = record.timestamp_ms
    topics = {topic.name: topic for topic in (_read_topic(each, at_ms) for each in f.items("topics"))}
    pending = {topic.topic_id: topic for topic in (_read_pending(each, at_ms) for each in f.items("pending"))}
    removals = {
        each.id("topic_id"): RemovedTopic(each.text("name"), _time(each, at_ms)) for each in _more(f, "removals")
    }
    return Image(
        cluster_id=f.text("cluster_id"),
        incarnation=f.integer("incarnation"),
        incarnation_id=f.text("incarnation_id"),
        controller_id=f.integer("controller_id", minimum=-1),
        controller_epoch=f.integer("controller_epoch"),
        controller_broker_epoch=f.integer("controller_broker_epoch"),
        brokers={broker.node_id: broker for broker in (_read_broker(each, at_ms) for each in f.items("brokers"))},
        topics=topics,
        topic_names={topic.topic_id: topic.name for topic in topics.values()},
        pending=pending,
        broker_configs={c.integer("node_id"): c.texts("configs") for c in f.items("broker_configs")},
        default_broker_configs=f.texts("default_broker_configs"),
        group_configs={c.text("group_id"): c.texts("configs") for c in _more(f, "group_configs")},
        user_credentials={c.text("user"): c.texts("credentials") for c in _more(f, "user_credentials")},
        delegation_tokens={c.text("token_id"): c.texts("configs") for c in _more(f, "delegation_tokens")},
        quotas={c.text("entity"): c.texts("configs") for c in _more(f, "quotas")},
        acls={c.text("pattern"): c.texts("configs") for c in _more(f, "acls")},
        next_producer_id=f.integer("next_producer_id"),
        parents=tuple(filter(None, (f.optional_text("parents") or "").split(","))),
        removed_topics={
            topic_id: removals.get(topic_id) or RemovedTopic("", at_ms) for topic_id in f.ids("removed_topics")
        },
        unregistered={member.node_id: member.broker_epoch for member in f.isr("unregistered")},
        former={broker.node_id: broker for broker in (_read_broker(each, at_ms) for each in _more(f, "former"))},
        producer_blocks={
            block.node_id: block for block in (_read_block(each, at_ms) for each in _more(f, "producer_blocks"))
        },
        incarnation_ms=f.integer("incarnation_ms") if f.has("incarnation_ms") else 0,
        offset=record.offset,
        chain_hash=record.chain_hash,
        timestamp_ms=record.timestamp_ms,
    )


def _more(f: Fields, name: str) -> list[Fields]:
    """A list that snapshots of an older YAK may lack."""
    return f.items(name) if f.has(name) else []


def _time(f: Fields, otherwise_ms: int) -> int:
    return f.integer("changed_ms") if f.has("changed_ms") else otherwise_ms


def _write_broker(broker: BrokerInfo) -> dict[str, object]:
    return {
        "node_id": broker.node_id,
        "broker_epoch": broker.broker_epoch,
        "boot_id": broker.boot_id,
        "directories": ",".join(broker.directories),
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "role": broker.role,
        "state": broker.state.value,
        "lossy_epoch": broker.lossy_epoch,
        "emptied_epoch": broker.emptied_epoch,
        "was_active": broker.was_active,
        "http_port": broker.http_port,
        "endpoints": write_endpoints(broker.endpoints),
        "changed_ms": broker.changed_ms,
    }


def _read_broker(f: Fields, at_ms: int) -> BrokerInfo:
    return BrokerInfo.of(
        register_broker(f),
        state=broker_state(f),
        lossy_epoch=f.integer("lossy_epoch"),
        emptied_epoch=f.integer("emptied_epoch") if f.has("emptied_epoch") else 0,
        was_active=f.flag("was_active"),
        changed_ms=_time(f, at_ms),
    )


def _write_block(block: ProducerBlock) -> dict[str, object]:
    return {
        "node_id": block.node_id,
        "broker_epoch": block.broker_epoch,
        "first": block.first,
        "next": block.next_producer_id,
        "changed_ms": block.changed_ms,
    }


def _read_block(f: Fields, at_ms: int) -> ProducerBlock:
    return ProducerBlock(
        f.integer("node_id"), f.integer("broker_epoch"), f.integer("first"), f.integer("next"), _time(f, at_ms)
    )


def _write_topic(topic: TopicInfo) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": dict(topic.configs),
        "partitions": [_write_partition(partition) for partition in topic.partitions],
        "changed_ms": topic.changed_ms,
    }


def _read_topic(f: Fields, at_ms: int) -> TopicInfo:
    partitions = tuple(_read_partition(p, at_ms) for p in f.items("partitions"))
    return TopicInfo(f.text("name"), f.id("topic_id"), partitions, f.texts("configs"), _time(f, at_ms))


def _write_pending(topic: PendingTopic) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "total": topic.total,
        "configs": dict(topic.configs),
        "partitions": [_write_partition(topic.partitions[number]) for number in sorted(topic.partitions)],
    }


def _read_pending(f: Fields, at_ms: int) -> PendingTopic:
    read = (_read_partition(each, at_ms) for each in f.items("partitions"))
    partitions: Mapping[int, PartitionInfo] = {p.partition: p for p in read}
    topic_id: uuid.UUID = f.id("topic_id")
    return PendingTopic(f.text("name"), topic_id, f.integer("total"), partitions, f.texts("configs"))


def _write_partition(partition: PartitionInfo) -> dict[str, object]:
    written: dict[str, object] = {
        "partition": partition.partition,
        "replicas": format_nodes(partition.replicas),
        "isr": format_isr(partition.isr_members),
        "elr": format_isr(partition.elr_members),
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "changed_ms": partition.changed_ms,
    }
    # Left out where empty: a snapshot may hold very many partitions.
    if partition.adding_replicas:
        written["adding"] = format_nodes(partition.adding_replicas)
    if partition.removing_replicas:
        written["removing"] = format_nodes(partition.removing_replicas)
    return written


def _read_partition(f: Fields, at_ms: int) -> PartitionInfo:
    return PartitionInfo(
        partition=f.integer("partition"),
        replicas=f.nodes("replicas"),
        isr_members=f.isr("isr"),
        elr_members=f.isr("elr"),
        leader=f.integer("leader", minimum=NO_LEADER),
        leader_epoch=f.integer("leader_epoch"),
        partition_epoch=f.integer("partition_epoch"),
        adding_replicas=f.nodes("adding"),
        removing_replicas=f.nodes("removing"),
        changed_ms=_time(f, at_ms),
    )
