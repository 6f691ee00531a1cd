"""The APIs of replication on three real brokers, through the clients that have them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition as PythonPartition
from kafka.admin import KafkaAdminClient
from kio.schema.errors import ErrorCode
from support.client_kinds import CLIENT_KINDS, Message
from support.raw import RawClient
from support.waiting import wait_until

from tests.kafka.same_answers.engine import filled, plain
from yak.config.broker_config_table import RACK_AWARE_SELECTOR
from yak.sim.wire import read_answer, request_class, request_frame

RACKS = {1: "r1", 2: "r2", 3: "r3"}


class Brokers:
    """Brokers 1 to 3, each in a rack of its own."""

    def __init__(self, start: Callable[[int], Any]) -> None:
        self.by_id = {node_id: start(node_id) for node_id in (1, 2, 3)}
        self.bootstrap = ",".join(broker.bootstrap for broker in self.by_id.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wait_until(lambda: len(self.admin.list_topics(timeout=10).brokers) == 3, "three brokers")

    def create(self, topic: str, *replicas: list[int]) -> None:
        """A topic with these replicas for each partition, all of them in sync."""
        new = NewTopic(topic, len(replicas), replica_assignment=list(replicas), config={"retention.ms": "-1"})
        created = self.admin.create_topics([new])
        created[topic].result(20)
        self.wait_in_sync(topic)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every replica of every partition is in the ISR."""
        wait_until(lambda: all(set(p.isrs) == set(p.replicas) for p in self.partitions(topic).values()), "in sync")

    def partitions(self, topic: str) -> dict[int, Any]:
        """Partitions as the metadata show them."""
        return dict(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def leader(self, topic: str) -> int:
        """Who leads partition 0."""
        return int(self.partitions(topic)[0].leader)

    def raw(self, node_id: int) -> RawClient:
        """A connection that speaks frames to one broker."""
        return RawClient(self.by_id[node_id].port)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory, redis_databases) -> Iterator[Brokers]:
    from conftest import BrokerHarness

    folder: Path = tmp_path_factory.mktemp("brokers")
    harnesses = []
    with redis_databases.borrow() as url:

        def start(node_id: int) -> BrokerHarness:
            harness = BrokerHarness(folder / f"broker-{node_id}", url)
            harness.data_dir.parent.mkdir()
            harnesses.append(harness)
            return harness.start(
                node_id=node_id,
                broker_rack=RACKS[node_id],
                replica_selector_class=RACK_AWARE_SELECTOR,
                auto_leader_rebalance_enable=False,
            )

        try:
            yield Brokers(start)
        finally:
            for harness in harnesses:
                harness.close()


@pytest.fixture
def python_admin(brokers) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=brokers.bootstrap.split(","))
    try:
        yield admin
    finally:
        admin.close()


def reassign(admin: KafkaAdminClient, topic: str, targets: dict[int, list[int] | None]) -> dict[int, Any]:
    answer = admin.alter_partition_reassignments({PythonPartition(topic, p): to for p, to in targets.items()})
    return {partition.partition: error for partition, error in answer.items()}


# ------------------------------------------------------------------------------------------------- elections


def test_confluent_kafka_elects_preferred_leaders(brokers, python_admin, unique_topic):
    brokers.create(unique_topic, [1, 2, 3], [2, 3, 1])
    assert reassign(python_admin, unique_topic, {0: [3, 1, 2]}) == {0: None}
    assert brokers.leader(unique_topic) == 1
    wanted = [TopicPartition(unique_topic, 0), TopicPartition(unique_topic, 1), TopicPartition(unique_topic, 9)]
    errors = brokers.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(20)
    codes = {partition.partition: error and error.code() for partition, error in errors.items()}
    assert codes == {0: None, 1: KafkaError.ELECTION_NOT_NEEDED, 9: KafkaError.UNKNOWN_TOPIC_OR_PART}
    wait_until(lambda: brokers.leader(unique_topic) == 3, "the new leader")


def test_kafka_python_elects_preferred_leaders_of_all_partitions(brokers, python_admin, unique_topic):
    brokers.create(unique_topic, [1, 2, 3])
    assert reassign(python_admin, unique_topic, {0: [2, 1, 3]}) == {0: None}
    python_admin.elect_leaders(0, {unique_topic: [0]})
    wait_until(lambda: brokers.leader(unique_topic) == 2, "the new leader")
    python_admin.elect_leaders(0)


OF_THE_CLUSTER = {
    19: (7, {"topics": [{"name": "made-by-any", "num_partitions": 1, "replication_factor": 1}]}, {ErrorCode.none}),
    37: (3, {"topics": [{"name": "made-by-any", "count": 2, "assignments": None}]}, {ErrorCode.none}),
    33: (2, {"resources": [{"resource_type": 2, "resource_name": "made-by-any"}]}, {ErrorCode.none}),
    44: (1, {"resources": [{"resource_type": 2, "resource_name": "made-by-any"}]}, {ErrorCode.none}),
    45: (
        1,
        {
            "topics": [{"name": "made-by-any", "partitions": [{"partition_index": 0, "replicas": [3]}]}],
            "allow_replication_factor_change": True,
        },
        {ErrorCode.none},
    ),
    46: (0, {"topics": None}, {ErrorCode.none}),
    43: (2, {"topic_partitions": [{"topic": "made-by-any", "partitions": [1]}]}, {ErrorCode.election_not_needed}),
    20: (6, {"topics": [{"name": "made-by-any", "topic_id": None}]}, {ErrorCode.none}),
    29: (3, {"resource_type_filter": 1, "pattern_type_filter": 1}, {ErrorCode.security_disabled}),
    30: (3, {"creations": [{"resource_type": 2, "resource_name": "x"}]}, {ErrorCode.security_disabled}),
    31: (3, {"filters": [{"resource_type_filter": 2}]}, {ErrorCode.security_disabled}),
    38: (3, {}, {ErrorCode.delegation_token_request_not_allowed}),
    39: (2, {"hmac": b"x"}, {ErrorCode.delegation_token_request_not_allowed}),
    40: (2, {"hmac": b"x"}, {ErrorCode.delegation_token_request_not_allowed}),
    49: (1, {"entries": [], "validate_only": False}, {ErrorCode.none}),
    51: (0, {"deletions": [{"name": "unknown-user", "mechanism": 1}]}, {ErrorCode.resource_not_found}),
    55: (2, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]}, {ErrorCode.none}),
    57: (2, {"feature_updates": []}, {ErrorCode.none}),
    64: (0, {"broker_id": 77}, {ErrorCode.broker_id_not_registered}),
}
"""The requests that Kafka's brokers forward to the controller (KafkaApis.handle): version, fields, and error codes."""


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_any_broker_answers_a_change_of_the_cluster(brokers, node_id):
    for api_key, (version, given, expected) in OF_THE_CLUSTER.items():
        with brokers.raw(node_id) as client:
            fields = filled(request_class(api_key, version), given)
            client.send_frame(request_frame(api_key, version, 1, fields))
            answer = plain(read_answer(api_key, version, client.receive_frame())[1])
        assert codes_of(answer) | {"none"} == {code.name for code in expected} | {"none"}, (api_key, answer)


def codes_of(answer: Any) -> set[str]:
    """All error codes in a plain answer."""
    if isinstance(answer, list):
        return set().union(*map(codes_of, answer))
    if not isinstance(answer, dict):
        return set()
    own = {answer["error_code"]} if "error_code" in answer else set()
    return own.union(*map(codes_of, answer.values()))


# ---------------------------------------------------------------------------------------------- reassignments


def test_partition_is_reassigned_with_its_records_while_clients_continue(brokers, python_admin, unique_topic):
    brokers.create(unique_topic, [1, 2])
    clients = {name: make(brokers.bootstrap) for name, make in CLIENT_KINDS.items()}
    messages = [Message(b"value %d" % number, b"key") for number in range(200)]
    clients["confluent-kafka"].produce(unique_topic, messages[:100])
    assert reassign(python_admin, unique_topic, {0: [3, 1]}) == {0: None}
    clients["kafka-python"].produce(unique_topic, messages[100:])
    wait_until(lambda: python_admin.list_partition_reassignments() == {}, "the reassignment is complete")
    assert sorted(brokers.partitions(unique_topic)[0].replicas) == [1, 3]
    brokers.wait_in_sync(unique_topic)
    assert reassign(python_admin, unique_topic, {0: [3]}) == {0: None}
    wait_until(lambda: brokers.leader(unique_topic) == 3, "the new leader")
    assert brokers.partitions(unique_topic)[0].replicas == [3]
    for client in clients.values():
        assert client.consume(unique_topic, len(messages)) == list(enumerate(messages)), client.name


# ------------------------------------------------------------------------------------------- leaders and hints


@pytest.mark.parametrize("name", sorted(CLIENT_KINDS))
def test_clients_follow_a_leader_that_moves(brokers, python_admin, unique_topic, name):
    brokers.create(unique_topic, [1, 2, 3])
    client = CLIENT_KINDS[name](brokers.bootstrap)
    messages = [Message(b"before"), Message(b"after")]
    client.produce(unique_topic, messages[:1])
    reassign(python_admin, unique_topic, {0: [2, 3, 1]})
    python_admin.elect_leaders(0, {unique_topic: [0]})
    client.produce(unique_topic, messages[1:])
    assert client.consume(unique_topic, 2) == list(enumerate(messages))


# ------------------------------------------------------------------------------------------- reading by rack


def test_confluent_kafka_reads_from_the_replica_in_its_rack(brokers, unique_topic):
    brokers.create(unique_topic, [1, 2, 3])
    CLIENT_KINDS["confluent-kafka"](brokers.bootstrap).produce(unique_topic, [Message(b"a"), Message(b"b")])
    fetched_from: set[int] = set()

    def look(text: str) -> None:
        topics = json.loads(text)["topics"]
        if unique_topic in topics:
            fetched_from.add(topics[unique_topic]["partitions"]["0"]["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "client.rack": "r3",
            "statistics.interval.ms": 100,
            "stats_cb": look,
        }
    )
    try:
        consumer.assign([TopicPartition(unique_topic, 0, 0)])
        values: list[bytes] = []

        def read() -> bool:
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                values.append(message.value())
            return 3 in fetched_from and len(values) == 2

        wait_until(read, "the replica in the rack is read")
        CLIENT_KINDS["kafka-python"](brokers.bootstrap).produce(unique_topic, [Message(b"c")])
        wait_until(lambda: read() or len(values) == 3, "the last record")
        assert values == [b"a", b"b", b"c"]
    finally:
        consumer.close()
