"""Who is in a cluster: brokers that are up, fenced, stopped, or silent, and what they say of themselves."""

import pytest
from fake_brokers import FakeBroker

from yak.client import members
from yak.client.members import ROLE, STOPPED, read_members
from yak.client.metadata import Broker, ClusterMetadata, Partition, Topic


def configs(request):
    (resource,) = request.resources
    said = {ROLE: "leader", STOPPED: "2,5"}
    rows = [{"name": name, "value": value} for name, value in said.items() if name in resource.configuration_keys]
    found = {"error_message": None, "resource_type": 4, "resource_name": resource.resource_name, "configs": rows}
    return {"results": [found]}


def cluster(request):
    if request.__version__ == 0:
        brokers = [{"broker_id": 1, "host": "127.0.0.1", "port": 9092, "rack": "r1"}]
    else:
        brokers = [
            {"broker_id": node, "host": "127.0.0.1", "port": 9091 + node, "rack": f"r{node}", "is_fenced": node != 1}
            for node in (1, 3, 5)
        ]
    return {"cluster_id": "c", "error_message": None, "brokers": brokers}


@pytest.fixture
def broker():
    made = FakeBroker({60: cluster, 32: configs})
    yield made
    made.close()


def metadata(broker):
    """1 is up, 2 does not answer, 3 and 4 only have replicas."""
    brokers = {1: Broker(1, "127.0.0.1", broker.port), 2: Broker(2, "127.0.0.1", 1)}
    return ClusterMetadata("c", 1, brokers, {"t": Topic("t", (Partition(0, 1, (1, 2, 3, 4), (1,)),))})


def test_each_broker_is_what_it_is(broker):
    found = read_members(metadata(broker), answered=broker.address, timeout_s=2)
    assert [(each.node_id, each.state, each.role, each.rack) for each in found] == [
        (1, "ACTIVE", "leader", "r1"),
        (2, "SILENT", None, None),
        (3, "FENCED", None, "r3"),
        (4, "CLOSED", None, None),
        (5, "CLOSED", None, "r5"),
    ]
    assert [each.address for each in found[2:]] == ["127.0.0.1:9094", None, "127.0.0.1:9096"]


def test_broker_that_described_the_cluster_is_queried_for_stopped_brokers(broker, monkeypatch):
    requests = []
    monkeypatch.setattr(members, "own_configs", lambda broker, *_: requests.append(broker.node_id))
    live = dict(reversed(metadata(broker).brokers.items()))
    members.list_members(live, (), [broker.address], timeout_s=2)
    assert requests == [1, 2]


def test_stopped_brokers_are_listed_as_fenced_when_no_live_broker_identifies_them(broker):
    broker.answers[32] = lambda request: None
    found = read_members(metadata(broker), answered=broker.address, timeout_s=2)
    assert [(each.node_id, each.state) for each in found[2:]] == [(3, "FENCED"), (4, "CLOSED"), (5, "FENCED")]


def test_broker_that_cannot_list_fenced_brokers_still_reports_the_racks(broker):
    broker.answers[60] = lambda request: None if request.__version__ else cluster(request)
    found = read_members(metadata(broker), answered=broker.address, timeout_s=2)
    assert [(each.state, each.rack) for each in found[:1]] == [("ACTIVE", "r1")]


def test_brokers_without_an_answer_to_describe_cluster_are_only_known_to_be_down(broker):
    broker.answers[60] = lambda request: None
    found = read_members(metadata(broker), answered=broker.address, timeout_s=2)
    assert [each.state for each in found] == ["ACTIVE", "SILENT", "DOWN", "DOWN"]


def test_only_the_requested_configs_are_returned(broker):
    found = read_members(metadata(broker), answered=broker.address, timeout_s=2, names=("node.id",))
    assert found[0].configs == {}
