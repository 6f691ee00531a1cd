"""Transactions as coordinators and partition leaders describe them, and the marker that aborts one."""

from types import SimpleNamespace

import pytest
from fake_brokers import FakeBroker
from kio.schema.errors import ErrorCode

from tests.errors import raises_error
from yak.client.groups import group_brokers
from yak.client.groups.group_brokers import GroupBrokers
from yak.client.metadata import Broker, ClusterMetadata, Partition, Topic
from yak.client.transactions import (
    OpenTransaction,
    abort_transaction,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    open_transactions,
)
from yak.errors import Unreachable, YakError
from yak.ids import TopicPartition

O0, O1, P0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)


class Cluster:
    """One broker: `known` has (state, producer id, start, partitions) by transactional id, `producers` by partition."""

    def __init__(self):
        self.known = {}
        self.producers = {}
        self.codes = {}
        self.marker_code = ErrorCode.none
        self.listing = ErrorCode.none
        self.broker = FakeBroker(
            {10: self.find, 65: self.describe, 66: self.list, 61: self.describe_producers, 27: self.mark}
        )
        self.node = Broker(1, "127.0.0.1", self.broker.port)
        topics = {
            name: Topic(name, tuple(Partition(n, 1, (1,), (1,)) for n in range(count)))
            for name, count in (("orders", 2), ("payments", 1))
        }
        self.metadata = ClusterMetadata("c", 1, {1: self.node}, topics)

    def requests(self, name):
        return [each for each in self.broker.requests if type(each).__name__ == name]

    def find(self, request):
        assert request.key_type == 1
        place = {"node_id": 1, "host": "127.0.0.1", "port": self.broker.port, "error_message": None}
        return {"coordinators": [place | {"key": key} for key in request.coordinator_keys]}

    def list(self, request):
        found = [
            {"transactional_id": name, "producer_id": producer_id, "transaction_state": state}
            for name, (state, producer_id, _, _) in self.known.items()
            if not request.producer_id_filters or producer_id in request.producer_id_filters
        ]
        return {"error_code": self.listing, "transaction_states": found}

    def describe(self, request):
        states = []
        for name in request.transactional_ids:
            state, producer_id, start_ms, places = self.known.get(name, ("", -1, -1, ()))
            missing = ErrorCode.none if name in self.known else ErrorCode.transactional_id_not_found
            states.append(
                {
                    "error_code": self.codes.get(name, missing),
                    "transactional_id": name,
                    "transaction_state": state,
                    "transaction_timeout": 60_000,
                    "transaction_start_time": start_ms,
                    "producer_id": producer_id,
                    "producer_epoch": 3,
                    "topics": [{"topic": each.topic, "partitions": [each.partition]} for each in places],
                }
            )
        return {"transaction_states": states}

    def describe_producers(self, request):
        topics = [
            {
                "name": topic.name,
                "partitions": [self.producers_of(topic.name, each) for each in topic.partition_indexes],
            }
            for topic in request.topics
        ]
        return {"topics": topics}

    def producers_of(self, topic, index):
        some = self.producers.get(TopicPartition(topic, index), ())
        code = some if isinstance(some, ErrorCode) else ErrorCode.none
        state = {"producer_epoch": 3, "last_timestamp": 1000, "coordinator_epoch": -1}
        found = [
            state | {"producer_id": producer_id, "current_txn_start_offset": start}
            for producer_id, start in (() if code else some)
        ]
        return {"partition_index": index, "error_code": code, "error_message": None, "active_producers": found}

    def mark(self, request):
        def rows(topic):
            return [{"partition_index": each, "error_code": self.marker_code} for each in topic.partition_indexes]

        markers = []
        for marker in request.markers:
            topics = [{"name": topic.name, "partitions": rows(topic)} for topic in marker.topics]
            markers.append({"producer_id": marker.producer_id, "topics": topics})
        return {"markers": markers}


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.broker.close()


@pytest.fixture
def brokers(cluster, monkeypatch):
    monkeypatch.setattr(group_brokers, "PAUSE_S", 0.01)
    admin = SimpleNamespace(answered=cluster.node.address, timeout_s=0.3, metadata=lambda: cluster.metadata)
    with GroupBrokers(admin, "transaction") as made:
        yield made


def opened(place, producer_id, start=5):
    return OpenTransaction(place, producer_id, 3, -1, start, 1000)


def test_list_sends_its_filters(cluster, brokers):
    cluster.known = {"b": ("Ongoing", 2, 0, ()), "a": ("Empty", 1, -1, ())}
    found, silent = list_transactions(brokers, states=("Ongoing",), producer_ids=(2, 1), longer_than_ms=60_000)
    assert [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found] == [
        ("a", "Empty", 1, cluster.node),
        ("b", "Ongoing", 2, cluster.node),
    ]
    assert silent == {}
    (sent,) = cluster.requests("ListTransactionsRequest")
    assert (sent.state_filters, sent.producer_id_filters, sent.duration_filter) == (("Ongoing",), (2, 1), 60_000)


def test_list_of_a_coordinator_that_loads_is_missing(cluster, brokers):
    cluster.listing = ErrorCode.coordinator_load_in_progress
    found, silent = list_transactions(brokers)
    assert (found, list(silent)) == ([], [cluster.node])


def test_describe_returns_transactions_and_errors_in_order(cluster, brokers):
    cluster.known = {"a": ("Empty", 1, -1, ()), "b": ("Ongoing", 2, 7000, (O1, O0))}
    cluster.codes["c"] = ErrorCode.transactional_id_authorization_failed
    found = describe_transactions(brokers, ["b", "nothing", "a", "c"])
    assert list(found) == ["b", "nothing", "a", "c"]
    ongoing = found["b"]
    assert (ongoing.state, ongoing.producer_epoch, ongoing.timeout_ms) == ("Ongoing", 3, 60_000)
    assert (ongoing.started_ms, ongoing.partitions) == (7000, (O0, O1))
    assert (found["a"].started_ms, found["a"].partitions) == (None, ())
    assert found["nothing"].code == "unknown-transaction"
    assert isinstance(found["c"], YakError)


def test_open_transactions_are_those_with_a_first_offset(cluster):
    cluster.producers = {O0: [(1, 5), (2, -1)], O1: ErrorCode.not_leader_or_follower, P0: [(3, 0)]}
    found, failed = open_transactions(cluster.metadata, [O0, O1, P0], timeout_s=1)
    assert found == [opened(O0, 1, 5), opened(P0, 3, 0)]
    assert list(failed) == [O1]
    assert len(cluster.requests("DescribeProducersRequest")) == 1


def test_transactions_of_more_partitions_than_a_request_takes_are_read_with_several(cluster):
    places = [TopicPartition("orders", number) for number in range(10_001)]
    cluster.metadata.topics["orders"] = Topic(
        "orders", tuple(Partition(each.partition, 1, (1,), (1,)) for each in places)
    )
    cluster.producers = {places[-1]: [(1, 5)]}
    assert open_transactions(cluster.metadata, places, timeout_s=5) == ([opened(places[-1], 1, 5)], {})
    requests = cluster.requests("DescribeProducersRequest")
    assert [len(topic.partition_indexes) for each in requests for topic in each.topics] == [10_000, 1]


def test_partitions_without_a_leader_or_an_answer_are_named(cluster):
    cluster.metadata.topics["payments"] = Topic("payments", (Partition(0, -1, (1,), ()),))
    cluster.broker.answers[61] = lambda _: None
    found, failed = open_transactions(cluster.metadata, [O0, P0], timeout_s=1)
    assert found == []
    assert failed[P0] == "no leader"
    assert cluster.node.address in failed[O0]


def test_transaction_hangs_if_no_coordinator_has_it_with_the_partition(cluster, brokers):
    cluster.known = {"a": ("Ongoing", 1, 0, (O0,)), "b": ("CompleteCommit", 2, -1, ())}
    cluster.codes = {"b": ErrorCode.transactional_id_not_found}
    found = [opened(O0, 1), opened(O1, 1), opened(O0, 2), opened(O0, 9)]
    assert hanging_transactions(brokers, found) == found[1:]
    assert cluster.requests("ListTransactionsRequest")[0].producer_id_filters == (1, 2, 9)
    assert hanging_transactions(brokers, []) == []


def test_no_transaction_is_called_hanging_while_a_coordinator_is_away(cluster, brokers):
    cluster.listing = ErrorCode.coordinator_not_available
    with pytest.raises(Unreachable):
        hanging_transactions(brokers, [opened(O0, 1)])
    cluster.listing = ErrorCode.none
    cluster.known = {"a": ("Ongoing", 1, 0, (O0,))}
    cluster.codes = {"a": ErrorCode.coordinator_load_in_progress}
    with raises_error(YakError, "no-coordinator"):
        hanging_transactions(brokers, [opened(O0, 1)])


def test_abort_writes_an_abort_marker_of_the_producer(cluster):
    abort_transaction(cluster.metadata, opened(O1, 7), timeout_s=1)
    (request,) = cluster.requests("WriteTxnMarkersRequest")
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)
    assert marker.transaction_result is False
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("orders", (1,))]


def test_abort_that_is_refused_or_not_answered_fails(cluster):
    cluster.marker_code = ErrorCode.invalid_producer_epoch
    with raises_error(YakError, "not-aborted", match="offset 5 of orders-1 was not aborted"):
        abort_transaction(cluster.metadata, opened(O1, 7), timeout_s=1)
    cluster.broker.answers[27] = lambda _: None
    with pytest.raises(Unreachable):
        abort_transaction(cluster.metadata, opened(O1, 7), timeout_s=1)
