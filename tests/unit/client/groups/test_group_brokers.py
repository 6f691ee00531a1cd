"""Finding coordinators, and finding them again: brokers that move groups, load, and hang up."""

import threading
from types import SimpleNamespace

import pytest
from fake_brokers import FakeBroker
from kio.schema.errors import ErrorCode

from yak.client.groups import group_brokers
from yak.client.groups.descriptions import describe_groups, list_groups
from yak.client.groups.group_brokers import GroupBrokers
from yak.client.groups.offsets import commit_offsets, delete_groups
from yak.client.metadata import Broker
from yak.errors import YakError
from yak.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
NO_COORDINATOR = {"node_id": -1, "host": "", "port": -1, "error_message": "no leader"}
NO_COORDINATOR["error_code"] = ErrorCode.coordinator_not_available


class Cluster:
    """Two brokers. `places` says who coordinates each group; `codes` what a coordinator answers, by turns."""

    def __init__(self):
        self.places = {"audit": 1, "billing": 2}
        self.codes = {}
        self.deleted = []
        self.listing = {1: [ErrorCode.none], 2: [ErrorCode.none]}
        self.brokers = {node: FakeBroker(self.answers(node)) for node in (1, 2)}

    def answers(self, node):
        return {
            10: self.find,
            16: lambda _: self.list(node),
            42: lambda request: self.delete(node, request),
            8: lambda request: self.commit(node, request),
        }

    def next_code(self, name):
        codes = self.codes.get(name, [ErrorCode.none])
        return codes.pop(0) if len(codes) > 1 else codes[0]

    def find(self, request):
        def place(name):
            if name not in self.places:
                return NO_COORDINATOR | {"key": name}
            port = self.brokers[self.places[name]].port
            return {"key": name, "node_id": self.places[name], "host": "127.0.0.1", "port": port}

        return {"coordinators": [place(name) for name in request.coordinator_keys]}

    def list(self, node):
        codes = self.listing[node]
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        group = {"protocol_type": "consumer", "group_state": "Empty", "group_type": "Classic"}
        groups = [group | {"group_id": name} for name, place in self.places.items() if place == node]
        return {"error_code": code, "groups": [] if code else groups}

    def delete(self, node, request):
        results = []
        for name in request.groups_names:
            code = ErrorCode.not_coordinator if self.places[name] != node else self.next_code(name)
            if code is None:
                self.deleted.append(name)
                return None
            if not code and name in self.deleted:
                code = ErrorCode.group_id_not_found
            elif not code:
                self.deleted.append(name)
            results.append({"group_id": name, "error_code": code})
        return {"results": results}

    def commit(self, node, request):
        code = self.next_code(request.group_id)
        topics = []
        for topic in request.topics:
            rows = [{"partition_index": each.partition_index, "error_code": code} for each in topic.partitions]
            topics.append({"name": topic.name, "partitions": rows})
        return {"topics": topics}

    def requests(self, node, key):
        return [each for each in self.brokers[node].requests if int(each.__api_key__) == key]


def describe_stable(request, code=ErrorCode.none):
    group = {"error_code": code, "group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range"}
    return {"groups": [group | {"group_id": name} for name in request.groups]}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(group_brokers, "PAUSE_S", 0.005)
    made = Cluster()
    yield made
    for broker in made.brokers.values():
        broker.close()


@pytest.fixture
def brokers(cluster):
    """An admin that only knows the two brokers."""
    nodes = {node: Broker(node, "127.0.0.1", broker.port) for node, broker in cluster.brokers.items()}
    admin = SimpleNamespace(
        timeout_s=2.0, answered=nodes[1].address, metadata=lambda: SimpleNamespace(brokers=dict(nodes))
    )
    with GroupBrokers(admin) as made:
        made.nodes = nodes
        yield made


def test_each_coordinator_receives_one_request_for_all_its_groups(cluster, brokers):
    cluster.places = {f"g{n}": 1 + n % 2 for n in range(10)}
    assert delete_groups(brokers, list(cluster.places)) == dict.fromkeys(cluster.places)
    assert len(cluster.requests(1, 10)) == 1
    assert [len(each.groups_names) for node in (1, 2) for each in cluster.requests(node, 42)] == [5, 5]


def test_request_to_a_loading_coordinator_is_sent_again(cluster, brokers):
    cluster.codes["audit"] = [ErrorCode.coordinator_load_in_progress, ErrorCode.none]
    assert delete_groups(brokers, ["audit", "billing"]) == {"audit": None, "billing": None}
    assert [each.groups_names for each in cluster.requests(1, 42)] == [("audit",), ("audit",)]
    assert len(cluster.requests(2, 42)) == 1


def test_coordinator_of_a_group_that_moved_is_searched_again(cluster, brokers):
    moves = iter([1, 2])
    find = cluster.find
    cluster.brokers[1].answers[10] = lambda request: (cluster.places.update(audit=next(moves)), find(request))[1]
    moved = {"group_id": "audit", "error_code": ErrorCode.not_coordinator}
    cluster.brokers[1].answers[42] = lambda _request: {"results": [moved]}
    assert delete_groups(brokers, ["audit"]) == {"audit": None}
    assert cluster.deleted == ["audit"]


def test_a_deletion_whose_answer_got_lost_has_happened(cluster, brokers):
    cluster.codes["audit"] = [None, ErrorCode.none]
    assert delete_groups(brokers, ["audit"]) == {"audit": None}
    assert cluster.deleted == ["audit"]


def test_a_group_that_was_never_there_is_an_error(cluster, brokers):
    cluster.deleted.append("audit")
    error = delete_groups(brokers, ["audit"])["audit"]
    assert (error.code, error.kafka_code) == ("unknown-group", 69)
    assert error.message == 'group "audit" was not deleted'


def test_group_that_was_never_there_is_an_error_behind_a_coordinator_that_loads(cluster, brokers):
    """A coordinator that loads has deleted nothing: there is no lost answer that would explain the missing group."""
    cluster.deleted.append("audit")
    cluster.codes["audit"] = [ErrorCode.coordinator_load_in_progress, ErrorCode.none]
    assert delete_groups(brokers, ["audit"])["audit"].code == "unknown-group"


def test_group_without_coordinator_is_reported_with_the_brokers_message_at_the_timeout(cluster, brokers):
    brokers.admin.timeout_s = 0.05
    results = delete_groups(brokers, ["nobody", "audit"])
    assert results["audit"] is None
    assert results["nobody"].code == "no-coordinator"
    assert "no leader" in results["nobody"].why
    with pytest.raises(YakError, match="no coordinator"):
        brokers.coordinators(["nobody"])
    assert brokers.coordinators(["billing"])["billing"].node_id == 2


def test_missing_coordinator_is_reported_as_unreachable(cluster, brokers):
    brokers.admin.timeout_s = 0.05
    cluster.codes["billing"] = [None]
    error = delete_groups(brokers, ["billing"])["billing"]
    assert (error.code, error.exit_code) == ("unreachable", 3)


def test_group_error_is_reported_for_every_partition_of_a_commit(cluster, brokers):
    cluster.codes["audit"] = [ErrorCode.unknown_member_id]
    error = commit_offsets(brokers, "audit", {ORDERS: 4})[ORDERS]
    assert error.code == "left-group"
    cluster.codes["audit"] = [ErrorCode.coordinator_load_in_progress, ErrorCode.none]
    assert commit_offsets(brokers, "audit", {ORDERS: 4}) == {ORDERS: None}
    request = cluster.requests(1, 8)[-1]
    assert (request.member_id, int(request.generation_id_or_member_epoch)) == ("", -1)


def test_offsets_of_many_partitions_are_committed_with_several_requests(cluster, brokers):
    offsets = {TopicPartition("orders", number): 4 for number in range(2_500)}
    assert commit_offsets(brokers, "audit", offsets) == dict.fromkeys(offsets)
    sizes = [sum(len(topic.partitions) for topic in request.topics) for request in cluster.requests(1, 8)]
    assert sizes == [1_000, 1_000, 500], "a batch of the coordinator's log takes 1 MiB"
    cluster.codes["audit"] = [ErrorCode.coordinator_load_in_progress]
    before = len(cluster.requests(1, 8))
    found = commit_offsets(brokers, "audit", offsets)
    assert {error.code for error in found.values()} == {"no-coordinator"}
    assert all(len(request.topics[0].partitions) == 1_000 for request in cluster.requests(1, 8)[before:])


def test_every_broker_lists_its_groups_and_a_loading_one_receives_the_request_again(cluster, brokers):
    cluster.listing[2] = [ErrorCode.coordinator_load_in_progress, ErrorCode.none]
    found, silent = list_groups(brokers)
    assert [(each.group_id, each.type, each.coordinator) for each in found.values()] == [
        ("audit", "classic", 1),
        ("billing", "classic", 2),
    ]
    assert silent == {}
    assert len(cluster.requests(1, 16)) == 1


def test_a_broker_that_stays_silent_is_named(cluster, brokers):
    brokers.admin.timeout_s = 0.05
    cluster.brokers[2].answers[16] = lambda _: None
    found, silent = list_groups(brokers)
    assert list(found) == ["audit"]
    assert [each.node_id for each in silent] == [2]


def test_the_groups_of_a_broker_that_died_meanwhile_are_found_with_the_other(cluster, brokers):
    def dies(_request):
        del brokers.nodes[2]
        cluster.places["billing"] = 1

    cluster.brokers[2].answers[16] = dies
    found, silent = list_groups(brokers)
    assert ({name: each.coordinator for name, each in found.items()}, silent) == ({"audit": 1, "billing": 1}, {})


def silent_until(released):
    return lambda _request: released.wait(10) and None


def test_broker_that_takes_requests_without_an_answer_is_named_after_one_request(cluster, brokers, monkeypatch):
    monkeypatch.setattr(group_brokers, "ANSWER_S", 0.2)
    released = threading.Event()
    cluster.brokers[2].answers[16] = silent_until(released)
    found, silent = list_groups(brokers)
    released.set()
    assert list(found) == ["audit"]
    assert {each.node_id: why for each, why in silent.items()} == {2: "timed out"}
    assert len(cluster.requests(2, 16)) == 1


def test_brokers_list_their_groups_at_the_same_time(cluster, brokers):
    all_reached = threading.Barrier(2, timeout=5.0)

    def list_when_all_are_reached(node):
        all_reached.wait()
        return cluster.list(node)

    for node, broker in cluster.brokers.items():
        broker.answers[16] = lambda _, node=node: list_when_all_are_reached(node)
    assert list(list_groups(brokers)[0]) == ["audit", "billing"]


def test_broker_that_listed_a_group_describes_it_while_no_coordinator_can_be_found(cluster, brokers):
    listed = list_groups(brokers)[0]
    cluster.brokers[1].answers[10] = cluster.brokers[2].answers[10] = lambda request: {
        "coordinators": [NO_COORDINATOR | {"key": key} for key in request.coordinator_keys]
    }
    for broker in cluster.brokers.values():
        broker.answers[15] = describe_stable
    described = describe_groups(brokers, listed.values())
    assert {name: (each.state, each.coordinator) for name, each in described.items()} == {
        "audit": ("Stable", 1),
        "billing": ("Stable", 2),
    }
    assert cluster.requests(1, 10) == cluster.requests(2, 10) == []


def test_group_that_moved_since_it_was_listed_is_described_by_its_new_coordinator(cluster, brokers):
    listed = list_groups(brokers)[0]
    cluster.places["audit"] = 2
    cluster.brokers[1].answers[15] = lambda request: describe_stable(request, ErrorCode.not_coordinator)
    cluster.brokers[2].answers[15] = describe_stable
    described = describe_groups(brokers, [listed["audit"]])
    assert described["audit"].state == "Stable"
    assert [each.groups for each in cluster.requests(2, 15)] == [("audit",)]


def test_open_connection_finds_the_coordinators_before_a_silent_broker(cluster, brokers, monkeypatch):
    monkeypatch.setattr(group_brokers, "ANSWER_S", 0.2)
    released = threading.Event()
    cluster.brokers[1].answers[16] = cluster.brokers[1].answers[10] = silent_until(released)
    assert list(list_groups(brokers)[0]) == ["billing"]
    assert delete_groups(brokers, ["billing"]) == {"billing": None}
    released.set()
    assert cluster.requests(1, 10) == []
