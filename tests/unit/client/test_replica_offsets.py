"""High watermarks and log ends asked of several brokers, one of which may be gone."""

import threading
import time

import pytest
from fake_brokers import FakeBroker
from kio.schema.errors import ErrorCode

from yak.client.log_dirs import replica_sizes
from yak.client.metadata import Broker, ClusterMetadata
from yak.client.raw_connection import TOPIC_RESOURCE, RawConnection, describe_configs
from yak.client.replica_offsets import _list_offsets, read_cluster
from yak.errors import Unreachable
from yak.ids import TopicPartition

ENDS = {1: 100, 2: 90}
MARK = 90
CONFIGS = {"min.insync.replicas": "2", "yak.partition.epochs": "0:11,1:4"}


class Cluster:
    """Two brokers that answer and a third that the metadata names; `is_kafka` ones know no config of ours."""

    is_kafka = False

    def __init__(self):
        self.brokers = {node: FakeBroker(self.answers(node)) for node in (1, 2)}
        self.ports = {**{node: broker.port for node, broker in self.brokers.items()}, 3: 1}

    def answers(self, node):
        return {3: lambda _: self.metadata(), 32: self.configs, 2: lambda request: self.offsets(node, request)}

    def metadata(self):
        partition = {"leader_id": 1, "leader_epoch": 7, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2]}
        partition |= {"partition_index": 0, "offline_replicas": [3]}
        topics = [{"name": name, "topic_id": None, "partitions": [partition]} for name in ("orders", "audit")]
        brokers = [{"node_id": node, "host": "127.0.0.1", "port": port} for node, port in self.ports.items()]
        return {"brokers": brokers, "cluster_id": "c", "controller_id": 2, "topics": topics}

    def configs(self, request):
        found = []
        for each in request.resources:
            rows = [
                {"name": name, "value": value}
                for name, value in CONFIGS.items()
                if name in each.configuration_keys and (name == "min.insync.replicas" or not self.is_kafka)
            ]
            found.append(
                {"error_message": None, "resource_type": 2, "resource_name": each.resource_name, "configs": rows}
            )
        return {"results": found}

    @staticmethod
    def offsets(node, request):
        offset = ENDS[node] if request.replica_id == -2 else MARK
        topics = []
        for topic in request.topics:
            rows = [{"partition_index": each.partition_index, "offset": offset} for each in topic.partitions]
            topics.append({"name": topic.name, "partitions": rows})
        return {"topics": topics}

    @property
    def servers(self):
        return ",".join(broker.address for broker in self.brokers.values())


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    for broker in made.brokers.values():
        broker.close()


def test_partition_epoch_is_returned_by_a_yak_broker_and_unknown_of_a_kafka_broker(cluster):
    assert {each.partition_epoch for each in read_cluster(cluster.servers, timeout_s=5).partitions} == {11}
    cluster.is_kafka = True
    assert {each.partition_epoch for each in read_cluster(cluster.servers, timeout_s=5).partitions} == {None}


def test_each_broker_reports_its_log_end_offset_and_the_leader_the_high_watermark(cluster):
    found = read_cluster(cluster.servers, timeout_s=5)
    assert [each.topic for each in found.partitions] == ["audit", "orders"]
    orders = found.partitions[1]
    assert orders.log_end_offsets == {1: 100, 2: 90, 3: None}
    assert (orders.high_watermark, orders.leader_epoch, orders.min_isr) == (90, 7, 2)
    assert orders.away == {3: "no answer"}
    assert found.controller_id == 2
    assert list(found.silent) == [3]


def test_replica_without_a_log_on_a_broker_that_answers_is_offline(cluster):
    def offsets(request):
        answer = cluster.offsets(2, request)
        next(each for each in answer["topics"] if each["name"] == "orders")["partitions"][0] |= {
            "error_code": 56,
            "offset": -1,
        }
        return answer

    cluster.brokers[2].answers[2] = offsets
    audit, orders = read_cluster(cluster.servers, timeout_s=5).partitions
    assert (audit.away, orders.away) == ({3: "no answer"}, {2: "offline", 3: "no answer"})


def test_partition_whose_leader_has_no_log_has_no_leader(cluster):
    """The leader's own Metadata answer has none; those of other brokers name it, as the metadata do."""

    def offsets(request):
        answer = cluster.offsets(1, request)
        for each in answer["topics"]:
            each["partitions"][0] |= {"error_code": 56, "offset": -1}
        return answer

    cluster.brokers[1].answers[2] = offsets
    found = read_cluster(cluster.servers, timeout_s=5, topic="orders").partitions[0]
    assert (found.leader, found.state, found.high_watermark) == (-1, "offline", None)
    assert (found.log_end_offsets, found.away) == ({1: None, 2: 90, 3: None}, {1: "offline", 3: "no answer"})


def test_high_watermarks_are_requested_only_from_the_leader(cluster):
    read_cluster(cluster.servers, timeout_s=5)
    requests = {
        node: [each.replica_id for each in broker.requests if hasattr(each, "replica_id")]
        for node, broker in cluster.brokers.items()
    }
    assert requests == {1: [-1, -2], 2: [-2]}


def test_log_end_offsets_are_requested_after_all_high_watermarks_so_none_seems_lower(cluster):
    order = []

    def slow(request):
        if request.replica_id == -1:
            time.sleep(0.2)
        order.append(request.replica_id)
        return cluster.offsets(1, request)

    def quick(request):
        order.append(request.replica_id)
        return cluster.offsets(2, request)

    cluster.brokers[1].answers[2], cluster.brokers[2].answers[2] = slow, quick
    read_cluster(cluster.servers, timeout_s=5)
    assert order == [-1, -2, -2]


def test_cluster_offsets_can_be_requested_for_a_single_topic(cluster):
    found = read_cluster(cluster.servers, timeout_s=5, topic="orders")
    assert [each.topic for each in found.partitions] == ["orders"]
    assert found.topics == ("audit", "orders")


def test_read_cluster_without_a_reachable_broker_raises_unreachable():
    with pytest.raises(Unreachable):
        read_cluster("127.0.0.1:1", timeout_s=0.2)


def test_an_answer_that_makes_no_sense_is_an_error_of_the_connection(cluster):
    broker = cluster.brokers[1]
    broker.answers[2] = lambda request: None
    with RawConnection(broker.address, timeout_s=2) as connection, pytest.raises(OSError, match="closed"):
        connection.call((2, 7), {"replica_id": -2, "isolation_level": 0, "topics": []})


def test_offsets_of_more_replicas_than_a_request_takes_are_read_with_several(cluster):
    requests = []
    cluster.brokers[1].answers[2] = lambda request: requests.append(request) or cluster.offsets(1, request)
    wanted = [TopicPartition("orders", number) for number in range(20_000)]
    with RawConnection(cluster.brokers[1].address, timeout_s=5) as connection:
        found = _list_offsets(connection, wanted, -2)
    assert found == dict.fromkeys(wanted, ENDS[1])
    assert [len(topic.partitions) for request in requests for topic in request.topics] == [10_000, 10_000]


def test_configs_of_more_topics_than_a_request_takes_are_read_with_several(cluster):
    sizes = []
    cluster.brokers[1].answers[32] = lambda request: sizes.append(len(request.resources)) or cluster.configs(request)
    names = [f"topic-{number}" for number in range(5_000)]
    with RawConnection(cluster.brokers[1].address, timeout_s=5) as connection:
        found = describe_configs(connection, TOPIC_RESOURCE, names, tuple(CONFIGS))
    assert found == dict.fromkeys(names, CONFIGS)
    assert all((1 + len(CONFIGS)) * size <= 10_000 for size in sizes)


def test_sizes_are_read_from_all_brokers_at_once(cluster):
    both = threading.Barrier(2, timeout=5)

    def sizes(_request):
        both.wait()
        part = {"partition_index": 0, "partition_size": 7, "offset_lag": 0, "is_future_key": False}
        topics = [{"name": "orders", "partitions": [part]}]
        return {"results": [{"error_code": ErrorCode.none, "log_dir": "/d", "topics": topics}]}

    for broker in cluster.brokers.values():
        broker.answers[35] = sizes
    brokers = {node: Broker(node, "127.0.0.1", port) for node, port in cluster.ports.items()}
    found = replica_sizes(ClusterMetadata("c", 1, brokers, {}), timeout_s=5)
    assert found == {1: {("orders", 0): 7}, 2: {("orders", 0): 7}, 3: {}}
