"""The APIs of replication on three and four real brokers, through the clients that have them."""

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import TopicPartition as PythonPartition
from kafka.admin import KafkaAdminClient
from kio.schema.errors import ErrorCode
from support.client_kinds import CLIENT_KINDS, Message
from support.raw import RawClient, batch

from tests.kafka.same_answers.engine import filled, plain
from yak.config.broker_config_table import RACK_AWARE_SELECTOR
from yak.sim.rig import fetch_fields, produce_fields
from yak.sim.wire import read_answer, request_class, request_frame

PATIENCE_SECONDS = 20.0
RACKS = {1: "r1", 2: "r2", 3: "r3", 4: "r1"}
TIMEOUT = dt.timedelta(seconds=10)


class Brokers:
    """Brokers 1 to 3, each in a rack of its own, and a fourth that joins when asked for."""

    def __init__(self, start: Callable[[int], Any]) -> None:
        self._start = start
        self.by_id = {node_id: start(node_id) for node_id in (1, 2, 3)}
        self.bootstrap = ",".join(broker.bootstrap for broker in self.by_id.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wait_until(lambda: len(self.admin.list_topics(timeout=10).brokers) == 3)

    def add(self, node_id: int) -> None:
        """One more broker."""
        if node_id not in self.by_id:
            self.by_id[node_id] = self._start(node_id)
            wait_until(lambda: node_id in self.admin.list_topics(timeout=10).brokers)

    def create(self, topic: str, *replicas: list[int]) -> None:
        """A topic with these replicas for each partition, all of them in sync."""
        new = NewTopic(topic, len(replicas), replica_assignment=list(replicas), config={"retention.ms": "-1"})
        created = self.admin.create_topics([new])
        created[topic].result(20)
        self.wait_in_sync(topic)

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every replica of every partition is in the ISR."""
        wait_until(lambda: all(set(p.isrs) == set(p.replicas) for p in self.partitions(topic).values()))

    def partitions(self, topic: str) -> dict[int, Any]:
        """Partitions as the metadata show them."""
        return dict(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)

    def leader(self, topic: str) -> int:
        """Who leads partition 0."""
        return int(self.partitions(topic)[0].leader)

    def raw(self, node_id: int) -> RawClient:
        """A connection that speaks frames to one broker."""
        return RawClient(self.by_id[node_id].port)


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Look again and again; fails the test when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.02)


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
    wait_until(lambda: brokers.leader(unique_topic) == 3)


def test_kafka_python_elects_preferred_leaders_of_all_partitions(brokers, python_admin, unique_topic):
    brokers.create(unique_topic, [1, 2, 3])
    assert reassign(python_admin, unique_topic, {0: [2, 1, 3]}) == {0: None}
    python_admin.elect_leaders(0, {unique_topic: [0]})
    wait_until(lambda: brokers.leader(unique_topic) == 2)
    python_admin.elect_leaders(0)


def test_an_unclean_election_of_a_led_partition_is_not_needed(brokers, unique_topic):
    brokers.create(unique_topic, [1, 2])
    errors = brokers.admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(unique_topic, 0)]).result(20)
    assert [error.code() for error in errors.values()] == [KafkaError.ELECTION_NOT_NEEDED]


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
    wait_until(lambda: python_admin.list_partition_reassignments() == {})
    assert sorted(brokers.partitions(unique_topic)[0].replicas) == [1, 3]
    brokers.wait_in_sync(unique_topic)
    assert reassign(python_admin, unique_topic, {0: [3]}) == {0: None}
    wait_until(lambda: brokers.leader(unique_topic) == 3)
    assert brokers.partitions(unique_topic)[0].replicas == [3]
    for client in clients.values():
        assert client.consume(unique_topic, len(messages)) == list(enumerate(messages)), client.name


def test_a_move_to_a_broker_that_is_not_there_is_listed_and_taken_back(brokers, python_admin, unique_topic):
    brokers.create(unique_topic, [1, 2])
    brokers.add(4)
    brokers.by_id[4].stop()
    assert reassign(python_admin, unique_topic, {0: [1, 4]}) == {0: None}
    under_way = {"replicas": [1, 4, 2], "adding_replicas": [4], "removing_replicas": [2]}
    assert python_admin.list_partition_reassignments() == {PythonPartition(unique_topic, 0): under_way}
    assert python_admin.list_partition_reassignments({unique_topic: [0]})
    assert reassign(python_admin, unique_topic, {0: None}) == {0: None}
    assert python_admin.list_partition_reassignments() == {}
    wait_until(lambda: sorted(brokers.partitions(unique_topic)[0].replicas) == [1, 2])
    again = reassign(python_admin, unique_topic, {0: None, 7: [1], 8: None})
    assert {index: error.errno for index, error in again.items()} == {
        0: ErrorCode.no_reassignment_in_progress,
        7: ErrorCode.unknown_topic_or_partition,
        8: ErrorCode.unknown_topic_or_partition,
    }
    with brokers.raw(2) as client:
        assert client.ask(64, 0, broker_id=4).error_code == ErrorCode.none
        assert client.ask(64, 0, broker_id=4).error_code == ErrorCode.broker_id_not_registered
        assert client.ask(64, 0, broker_id=3).error_code == ErrorCode.invalid_request


# ------------------------------------------------------------------------------------------- leaders and hints


def test_a_follower_names_the_leader_and_where_it_listens(brokers, unique_topic):
    brokers.create(unique_topic, [2, 1])
    host, _, port = brokers.by_id[2].bootstrap.rpartition(":")
    with brokers.raw(1) as client:
        produced = client.ask(0, 11, **produce_fields(unique_topic, batch(b"x")))
        topic_id = (
            client.ask(
                3,
                12,
                topics=[{"name": unique_topic, "topic_id": None}],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            .topics[0]
            .topic_id
        )
        fields = fetch_fields(unique_topic, 0)
        fields["topics"][0]["topic_id"] = topic_id
        del fields["topics"][0]["topic"]
        fields["topics"][0]["partitions"][0]["current_leader_epoch"] = -1
    partition = produced.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.not_leader_or_follower
    assert partition.current_leader.leader_id == 2
    assert [(node.node_id, node.host, node.port) for node in produced.node_endpoints] == [(2, host, int(port))]


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


def test_confluent_kafka_continues_to_produce_while_the_leader_changes_repeatedly(brokers, python_admin, unique_topic):
    brokers.create(unique_topic, [1, 2, 3])
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "enable.idempotence": True, "linger.ms": 0})

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failed.append(error)

    sent = 0
    for replicas in ([2, 3, 1], [3, 1, 2], [1, 2, 3]):
        for _ in range(50):
            producer.produce(unique_topic, b"%d" % sent, on_delivery=delivered)
            sent += 1
            producer.poll(0.002)
        reassign(python_admin, unique_topic, {0: replicas})
        python_admin.elect_leaders(0, {unique_topic: [0]})
    assert producer.flush(20) == 0
    assert failed == []
    read = CLIENT_KINDS["confluent-kafka"](brokers.bootstrap).consume(unique_topic, sent)
    assert [message.value for _offset, message in read] == [b"%d" % number for number in range(sent)]


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

        wait_until(read)
        CLIENT_KINDS["kafka-python"](brokers.bootstrap).produce(unique_topic, [Message(b"c")])
        wait_until(lambda: read() or len(values) == 3)
        assert values == [b"a", b"b", b"c"]
    finally:
        consumer.close()


def test_followers_serve_what_is_committed(brokers, unique_topic):
    brokers.create(unique_topic, [1, 2, 3])
    CLIENT_KINDS["aiokafka"](brokers.bootstrap).produce(unique_topic, [Message(b"a")])
    for node_id in (2, 3):
        with brokers.raw(node_id) as client:

            def fetch(client: RawClient = client) -> Any:
                return client.ask(1, 12, **fetch_fields(unique_topic, 0)).responses[0].partitions[0]

            wait_until(lambda: fetch().records)
            assert fetch().high_watermark == 1
            asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            topics = [{"name": unique_topic, "partitions": [asked]}]
            debug = client.ask(2, 7, replica_id=-2, isolation_level=0, topics=topics).topics[0].partitions[0]
            assert (debug.error_code, debug.offset) == (ErrorCode.none, 1)
            plain = client.ask(2, 7, replica_id=-1, isolation_level=0, topics=topics).topics[0].partitions[0]
            assert plain.error_code == ErrorCode.not_leader_or_follower


# ------------------------------------------------------------------------------------------------ deletions


def test_records_are_deleted_on_every_replica_when_the_answer_comes(brokers, unique_topic):
    brokers.create(unique_topic, [1, 2, 3])
    CLIENT_KINDS["confluent-kafka"](brokers.bootstrap).produce(unique_topic, [Message(b"x")] * 10)
    deleted = brokers.admin.delete_records([TopicPartition(unique_topic, 0, 7)])
    [future] = deleted.values()
    assert future.result(20).low_watermark == 7
    for node_id in (1, 2, 3):
        with brokers.raw(node_id) as client:
            asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
            topics = [{"name": unique_topic, "partitions": [asked]}]
            answer = client.ask(2, 7, replica_id=-2, isolation_level=0, topics=topics).topics[0].partitions[0]
            assert (answer.error_code, answer.offset) == (ErrorCode.none, 7)
