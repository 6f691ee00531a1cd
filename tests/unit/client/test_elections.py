"""ElectLeaders by hand, against a broker that answers one request."""

import socket
from typing import Any

import pytest
from fake_brokers import ask
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.errors import ErrorCode

from yak.client.leadership import elect_preferred_leaders
from yak.client.metadata import Broker, ClusterMetadata
from yak.client.reach import split_address
from yak.errors import Unreachable, YakError
from yak.ids import TopicPartition

PARTITIONS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def answer(top: ErrorCode, *codes: tuple[ErrorCode, str | None]) -> dict[str, Any]:
    """One answer about `orders`."""
    rows = [
        {"partition_id": number, "error_code": code, "error_message": message}
        for number, (code, message) in enumerate(codes)
    ]
    results = [{"topic": "orders", "partition_result": rows}] if rows else []
    return {"error_code": top, "replica_election_results": results}


def elect(response: dict[str, Any]) -> tuple[dict[TopicPartition, str | None], ElectLeadersRequest]:
    """What the client makes of this answer, and what it asked."""

    def call(address: str) -> dict[TopicPartition, str | None]:
        broker = Broker(2, *split_address(address))
        return elect_preferred_leaders(ClusterMetadata("c", 2, {2: broker}, {}), PARTITIONS, timeout_s=5.0)

    request, found = ask(43, response, call)
    return found, request


def test_controller_receives_the_election_request_and_each_partition_has_its_reason() -> None:
    found, request = elect(
        answer(ErrorCode.none, (ErrorCode.none, None), (ErrorCode.preferred_leader_not_available, "node 1 is away"))
    )
    assert found == {PARTITIONS[0]: None, PARTITIONS[1]: "node 1 is away"}
    assert request.election_type == 0
    assert request.topic_partitions is not None
    assert [(each.topic, each.partitions) for each in request.topic_partitions] == [("orders", (0, 1))]


def test_an_election_that_is_not_needed_is_none_that_failed() -> None:
    found, _ = elect(answer(ErrorCode.none, (ErrorCode.election_not_needed, "it leads"), (ErrorCode.none, None)))
    assert found == dict.fromkeys(PARTITIONS)


def test_a_refusal_of_the_whole_request_is_an_error() -> None:
    with pytest.raises(YakError, match="no leader was elected"):
        elect(answer(ErrorCode.not_controller))


def test_no_controller_and_a_silent_one_are_unreachable() -> None:
    with pytest.raises(Unreachable):
        elect_preferred_leaders(ClusterMetadata("c", -1, {}, {}), PARTITIONS, timeout_s=0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker = Broker(2, "127.0.0.1", server.getsockname()[1])
    with pytest.raises(Unreachable):
        elect_preferred_leaders(ClusterMetadata("c", 2, {2: broker}, {}), PARTITIONS, timeout_s=0.1)
