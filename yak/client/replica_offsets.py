"""Reads the state of each replica from the brokers, with requests that librdkafka has no call for.

Metadata (key 3) gives leader, leader epoch, replicas and ISR. Then all brokers get requests in parallel, a thread each,
for the high watermarks that they lead, and then for the log end offsets of all their replicas. For the latter,
ListOffsets (key 2) has replica id -2, Kafka's debugging consumer: any replica answers it with its own log end offset.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from yak.client.errors import reason_of
from yak.client.metadata import Broker
from yak.client.raw_connection import TOPIC_RESOURCE, RawConnection, describe_configs, runs
from yak.client.reach import BUDGET_S, of_each, require_kafka
from yak.errors import Unreachable
from yak.ids import NodeId, Offset, PartitionEpoch, TopicPartition, by_topic
from yak.view.partition_replicas import NO_ANSWER, NO_LEADER, OFFLINE, PartitionReplicas

LATEST: Final = -1
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
MIN_ISR: Final = "min.insync.replicas"
PARTITION_EPOCHS: Final = "yak.partition.epochs"
"""A YAK broker reports partition epochs as a topic config, since no API of Kafka has them: `0:5,1:7`."""
DAMAGED_OFFSETS: Final = "yak.damaged.offsets"
"""A YAK broker reports its damaged replicas as a topic config: `1:4711` is a damaged batch of partition 1 at offset
4711."""
ANSWER_SECONDS: Final = 3.0
_METADATA: Final = 3, 12
_LIST_OFFSETS: Final = 2, 7


@dataclass(frozen=True, slots=True)
class ClusterReplicas:
    """All partitions by topic and number. `silent` has the brokers that did not answer, with the reason."""

    cluster_id: str
    controller_id: NodeId
    brokers: dict[NodeId, Broker]
    partitions: tuple[PartitionReplicas, ...]
    topics: tuple[str, ...] = ()
    silent: dict[NodeId, str] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for the next request."""
        return ",".join(broker.address for broker in self.brokers.values())

    def of_topic(self, topic: str) -> tuple[PartitionReplicas, ...]:
        """The partitions of one topic."""
        return tuple(each for each in self.partitions if each.topic == topic)


def read_cluster(servers: str, *, timeout_s: float, topic: str | None = None) -> ClusterReplicas:
    """Read the replicas of all topics, or of one. Raises Unreachable when no broker answers."""
    found = read_metadata(servers, timeout_s=timeout_s)
    if topic is not None:
        found = replace(found, partitions=found.of_topic(topic))
    patience = min(ANSWER_SECONDS, timeout_s)
    # Read all high watermarks before the log end offsets, so that no in-sync replica seems to be below the watermark.
    silent: dict[NodeId, str] = {}
    leads = {node: _keys(each for each in found.partitions if each.leader == node) for node in found.brokers}
    marks: _Offsets = {}
    for each in _ask_all(found.brokers, leads, CONSUMER, patience, silent).values():
        marks |= each
    has = {
        node: _keys(each for each in found.partitions if node in each.replicas)
        for node in found.brokers
        if node not in silent
    }
    ends = _ask_all(found.brokers, has, DEBUGGING_CONSUMER, patience, silent)
    partitions = tuple(_with_offsets(each, marks, ends) for each in found.partitions)
    return replace(found, partitions=partitions, silent=dict(sorted(silent.items())))


def read_metadata(servers: str, *, timeout_s: float) -> ClusterReplicas:
    """Everything but offsets, from the first broker that answers. Raises Unreachable when none does."""
    first = require_kafka(servers, budget_s=min(BUDGET_S, timeout_s))
    addresses = [first, *(each for each in servers.split(",") if each != first)]
    failures: list[str] = []
    for address in addresses:
        try:
            with RawConnection(address, timeout_s=min(ANSWER_SECONDS, timeout_s)) as connection:
                return _metadata(connection)
        except OSError as error:
            failures.append(f"{address}: {reason_of(error)}")
    raise Unreachable(
        "unreachable", f"no broker answered at {servers}", why="; ".join(failures), try_=(f"yak doctor -b {servers}",)
    )


def _metadata(connection: RawConnection) -> ClusterReplicas:
    fields = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    answer = connection.call(_METADATA, fields)
    brokers = {int(each.node_id): Broker(int(each.node_id), each.host, int(each.port)) for each in answer.brokers}
    names = sorted(str(topic.name) for topic in answer.topics if not int(topic.error_code))
    configs = describe_configs(connection, TOPIC_RESOURCE, names, (MIN_ISR, PARTITION_EPOCHS))
    epochs = {name: parse_epochs(configs.get(name, {}).get(PARTITION_EPOCHS, "")) for name in names}
    partitions = [
        PartitionReplicas(
            topic=str(topic.name),
            partition=int(each.partition_index),
            leader=int(each.leader_id),
            leader_epoch=int(each.leader_epoch),
            partition_epoch=epochs[str(topic.name)].get(int(each.partition_index)),
            replicas=tuple(map(int, each.replica_nodes)),
            isr=tuple(map(int, each.isr_nodes)),
            high_watermark=None,
            log_end_offsets=dict.fromkeys(map(int, each.replica_nodes)),
            min_isr=parse_min_isr(configs.get(str(topic.name), {})),
            topic_id=str(topic.topic_id or ""),
        )
        for topic in answer.topics
        if not int(topic.error_code)
        for each in topic.partitions
    ]
    partitions.sort(key=lambda each: (each.topic, each.partition))
    controller = int(answer.controller_id)
    return ClusterReplicas(
        answer.cluster_id or "", controller, dict(sorted(brokers.items())), tuple(partitions), tuple(names)
    )


def damaged_offsets(
    brokers: Mapping[NodeId, Broker], topic: str, *, timeout_s: float
) -> dict[int, dict[NodeId, Offset]]:
    """The damaged offset of each broker's replica, by partition; nothing from a broker that does not answer."""
    found: dict[int, dict[NodeId, Offset]] = {}

    def ask(node: NodeId) -> str:
        try:
            with RawConnection(brokers[node].address, timeout_s=min(ANSWER_SECONDS, timeout_s)) as connection:
                configs = describe_configs(connection, TOPIC_RESOURCE, [topic], (DAMAGED_OFFSETS,))
                return configs.get(topic, {}).get(DAMAGED_OFFSETS, "")
        except OSError:
            return ""

    for node, text in of_each(brokers, ask).items():
        for partition, offset in parse_epochs(text).items():
            found.setdefault(partition, {})[node] = offset
    return found


def parse_min_isr(configs: Mapping[str, str]) -> int:
    """min.insync.replicas among a topic's configs; Kafka's default when it is missing."""
    value = configs.get(MIN_ISR, "")
    return int(value) if value.isdigit() else 1


def parse_epochs(text: str) -> dict[int, PartitionEpoch]:
    """Partition epochs by partition, from `0:5,1:7`."""
    return {int(number): int(epoch) for number, _, epoch in (each.partition(":") for each in text.split(",") if each)}


_Offsets = dict[TopicPartition, Offset]
_STORAGE_ERROR: Final = 56
"""Kafka's KAFKA_STORAGE_ERROR."""
_NO_LOG: Final = -2
"""In place of the offset of a replica whose log is offline."""


def _keys(partitions: Iterable[PartitionReplicas]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def _ask_all(
    brokers: Mapping[NodeId, Broker],
    wanted: Mapping[NodeId, Sequence[TopicPartition]],
    replica_id: int,
    timeout_s: float,
    silent: dict[NodeId, str],
) -> dict[NodeId, _Offsets]:
    """The offsets of these partitions from each broker, in parallel; brokers that do not answer are added to
    `silent`."""
    nodes = [node for node, partitions in wanted.items() if partitions]
    found: dict[NodeId, _Offsets] = {}

    def ask(node: NodeId) -> _Offsets | OSError:
        try:
            with RawConnection(brokers[node].address, timeout_s=timeout_s) as connection:
                return _list_offsets(connection, wanted[node], replica_id)
        except OSError as error:
            return error

    for node, answer in of_each(nodes, ask).items():
        if isinstance(answer, OSError):
            silent[node] = reason_of(answer)
        else:
            found[node] = answer
    return found


def _list_offsets(connection: RawConnection, wanted: Sequence[TopicPartition], replica_id: int) -> _Offsets:
    """The latest offsets, as a consumer (-1) or as the debugging consumer (-2)."""
    found: _Offsets = {}
    for some in runs(wanted):
        topics = [
            {"name": topic, "partitions": [{"partition_index": each.partition, "timestamp": LATEST} for each in of]}
            for topic, of in by_topic(some).items()
        ]
        fields = {"replica_id": replica_id, "isolation_level": 0, "topics": topics}
        for topic in connection.call(_LIST_OFFSETS, fields).topics:
            for each in topic.partitions:
                has_no_log = int(each.error_code) == _STORAGE_ERROR
                if has_no_log or (not int(each.error_code) and each.offset >= 0):
                    offset = _NO_LOG if has_no_log else int(each.offset)
                    found[TopicPartition(str(topic.name), int(each.partition_index))] = offset
    return found


def _with_offsets(partition: PartitionReplicas, marks: _Offsets, ends: Mapping[NodeId, _Offsets]) -> PartitionReplicas:
    key = TopicPartition(partition.topic, partition.partition)
    reported = {node: ends.get(node, {}).get(key) for node in partition.replicas}
    known = {node: None if end == _NO_LOG else end for node, end in reported.items()}
    # the metadata keep the last replica in sync as the leader, also without a log
    leader = NO_LEADER if reported.get(partition.leader) == _NO_LOG else partition.leader
    return replace(
        partition,
        leader=leader,
        high_watermark=marks.get(key) if leader != NO_LEADER else None,
        log_end_offsets=known,
        away={node: OFFLINE if node in ends else NO_ANSWER for node, end in known.items() if end is None},
    )
