"""How many elements one request may have, by the kind of connection that it came over."""

import pytest

from tests.unit.broker import test_large_requests as large
from tests.unit.broker.test_large_requests import Broker, Request
from yak.limits import REQUEST_ELEMENTS_MAX
from yak.protocol.peer_proof import Incarnation

CREATE_TOPICS, CREATE_PARTITIONS, ALTER_REASSIGNMENTS = 19, 37, 45
REPLICAS = [1, 2, 3, 4, 5]


def produce(topics: int, partitions: int) -> Request:
    return large.produce(named(topics, partitions))


def fetch(topics: int, partitions: int) -> Request:
    return large.fetch(named(topics, partitions))


def offset_fetch(topics: int, partitions: int) -> Request:
    return large.offset_fetch(named(topics, partitions))


def metadata(topics: int, partitions: int) -> Request:
    return large.metadata([f"t{number}" for number in range(topics * partitions)])


def named(topics: int, partitions: int) -> large.Topics:
    return [(f"t{number}", partitions) for number in range(topics)]


def create_topics(topics: int, partitions: int) -> Request:
    assignments = [{"partition_index": number, "broker_ids": REPLICAS} for number in range(partitions)]
    row = {"num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": []}
    rows = [{"name": f"t{number}"} | row for number in range(topics)]
    return CREATE_TOPICS, 5, {"topics": rows, "timeout": 1000, "validate_only": True}


def create_partitions(topics: int, partitions: int) -> Request:
    assignments = [{"broker_ids": REPLICAS}] * partitions
    rows = [{"name": f"t{number}", "count": partitions + 1, "assignments": assignments} for number in range(topics)]
    return CREATE_PARTITIONS, 2, {"topics": rows, "timeout": 1000, "validate_only": True}


def reassignments(topics: int, partitions: int) -> Request:
    numbers = [{"partition_index": number, "replicas": REPLICAS} for number in range(partitions)]
    rows = [{"name": f"t{number}", "partitions": numbers} for number in range(topics)]
    return ALTER_REASSIGNMENTS, 0, {"timeout": 1000, "topics": rows}


EVERY = (produce, fetch, offset_fetch, metadata, create_topics, create_partitions, reassignments)


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


def is_taken(broker: Broker, request: Request, *, is_broker: bool = False, is_in_process: bool = False) -> bool:
    """Whether a connection of this kind stays open after the request."""
    connection_id = broker.open(is_in_process=is_in_process)
    connection = broker.core.connections[connection_id]
    if is_broker:
        connection.proven = Incarnation(2, 1, "boot")
    broker.send(connection_id, request)
    broker.finish(connection_id)
    return connection.is_open


@pytest.mark.parametrize("request_of", EVERY)
@pytest.mark.parametrize(("topics", "partitions"), [(1, 10_000), (10, 1000), (10_000, 1)])
def test_client_request_of_10_000_partitions_is_taken(broker, request_of, topics, partitions):
    assert is_taken(broker, request_of(topics, partitions))


@pytest.mark.parametrize("request_of", EVERY)
@pytest.mark.parametrize("is_in_process", [False, True])
def test_client_request_past_the_bound_closes_its_connection(broker, request_of, is_in_process):
    for topics, partitions in ((1, REQUEST_ELEMENTS_MAX + 1), (REQUEST_ELEMENTS_MAX + 1, 1)):
        assert not is_taken(broker, request_of(topics, partitions), is_in_process=is_in_process)


@pytest.mark.parametrize("request_of", [fetch, metadata])
def test_request_of_a_proven_broker_is_taken_up_to_its_own_bound(broker, request_of, monkeypatch):
    monkeypatch.setattr("yak.broker.broker.BROKER_REQUEST_ELEMENTS_MAX", 2 * REQUEST_ELEMENTS_MAX)
    assert is_taken(broker, request_of(1, 2 * REQUEST_ELEMENTS_MAX - 1), is_broker=True)
    assert not is_taken(broker, request_of(1, 2 * REQUEST_ELEMENTS_MAX + 1), is_broker=True)


def test_assignment_of_very_many_replicas_closes_its_connection(broker):
    api_key, version, fields = create_topics(1, 1)
    fields["topics"][0]["assignments"][0]["broker_ids"] = list(range(8 * REQUEST_ELEMENTS_MAX + 8))
    assert not is_taken(broker, (api_key, version, fields))
