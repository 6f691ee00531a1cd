"""The metadata quorum as its leader describes it, and changes of its voters."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_brokers import FakeBroker
from kio.schema.errors import ErrorCode

from tests.errors import raises_error
from yak.client.quorum import add_voter, describe_quorum, remove_voter
from yak.errors import Unreachable, YakError

DESCRIBE, ADD, REMOVE = 55, 80, 81
NOW = 1_000_000
FIRST, SECOND, THIRD = (uuid.UUID(int=number) for number in (1 << 100, 2 << 100, 3 << 100))


Fields = dict[str, Any]


def replica(node_id: int, directory_id: uuid.UUID | None, end: int, fetched: int, caught_up: int) -> Fields:
    times = {"last_fetch_timestamp": fetched, "last_caught_up_timestamp": caught_up}
    return times | {"replica_id": node_id, "replica_directory_id": directory_id, "log_end_offset": end}


def described(error_code: ErrorCode = ErrorCode.none) -> Fields:
    partition = {
        "error_code": error_code, "error_message": "no leader at this moment" if error_code else None,
        "leader_id": 2, "leader_epoch": 7, "high_watermark": 40,
        "current_voters": [replica(1, None, -1, -1, -1), replica(2, SECOND, 42, -1, NOW)],
        "observers": [replica(3, THIRD, 39, NOW - 5_000, NOW - 6_000)],
    }  # fmt: skip
    node = {"node_id": 2, "listeners": [{"name": "PLAINTEXT", "host": "h2", "port": 9092}]}
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    return {"error_message": None, "nodes": [node], "topics": topics}


def added(error_code: ErrorCode, message: str | None = None) -> Fields:
    return {"error_code": error_code, "error_message": message}


@pytest.fixture
def broker() -> Iterator[Callable[..., FakeBroker]]:
    made: list[FakeBroker] = []

    def make(answers: dict[int, Any], lists: tuple[int, ...] = (DESCRIBE, ADD, REMOVE)) -> FakeBroker:
        made.append(FakeBroker(answers, lists))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_description_has_ages_and_lags_by_the_leaders_entry(broker: Callable[..., FakeBroker]) -> None:
    state = describe_quorum(broker({DESCRIBE: lambda _: described()}).address, timeout_s=2)
    assert (state.leader_id, state.epoch, state.high_watermark, state.voter_ids) == (2, 7, 40, [1, 2])
    unknown, leader = state.voters
    (observer,) = state.observers
    assert (unknown.log_end_offset, unknown.lag, unknown.fetched_ms_ago) == (None, None, None)
    assert (leader.address, leader.lag, leader.fetched_ms_ago, leader.caught_up_ms_ago) == ("h2:9092", 0, None, 0)
    assert (observer.lag, observer.fetched_ms_ago, observer.caught_up_ms_ago) == (3, 5_000, 6_000)
    assert [state.status_of(each) for each in (unknown, leader, observer)] == ["follower", "leader", "observer"]
    assert state.running_voters() == {2}


def test_cluster_with_redis_has_no_quorum(broker: Callable[..., FakeBroker]) -> None:
    server = broker({DESCRIBE: lambda _: described()}, (DESCRIBE,))
    with raises_error(YakError, "no-quorum"):
        describe_quorum(server.address, timeout_s=2)
    assert server.requests == []


def test_describe_quorum_without_a_leader_is_retried_until_the_timeout(broker: Callable[..., FakeBroker]) -> None:
    answers = [described(ErrorCode.request_timed_out), described()]
    describe_quorum(broker({DESCRIBE: lambda _: answers.pop(0)}).address, timeout_s=60)
    assert answers == []
    server = broker({DESCRIBE: lambda _: described(ErrorCode.request_timed_out)})
    with raises_error(Unreachable, "quorum-no-leader") as caught:
        describe_quorum(server.address, timeout_s=0.05)
    assert "no leader at this moment" in caught.value.why


def test_addition_names_directory_and_address_and_waits_for_another_change(broker: Callable[..., FakeBroker]) -> None:
    answers = [added(ErrorCode.request_timed_out, "another change is under way"), added(ErrorCode.none)]
    server = broker({ADD: lambda _: answers.pop(0)})
    add_voter(server.address, "c", 3, THIRD, ("h3", 9093), timeout_s=2)
    request = server.requests[-1]
    assert (request.cluster_id, request.voter_id, request.voter_directory_id) == ("c", 3, THIRD)
    assert [(each.host, each.port) for each in request.listeners] == [("h3", 9093)]
    assert len(server.requests) == 2


def test_addition_that_is_refused_says_why(broker: Callable[..., FakeBroker]) -> None:
    server = broker({ADD: lambda _: added(ErrorCode.duplicate_voter, "node 3 is a voter already")})
    with pytest.raises(YakError) as caught:
        add_voter(server.address, "c", 3, THIRD, ("h3", 9093), timeout_s=2)
    assert (caught.value.code, caught.value.why) == ("quorum-not-changed", "node 3 is a voter already")


def test_addition_whose_answer_was_lost_is_done_when_the_voter_is_there(broker: Callable[..., FakeBroker]) -> None:
    answers = [added(ErrorCode.not_leader_or_follower), added(ErrorCode.duplicate_voter)]
    add_voter(broker({ADD: lambda _: answers.pop(0)}).address, "c", 3, THIRD, ("h3", 9093), timeout_s=2)
    assert not answers


def test_removal_names_the_directory(broker: Callable[..., FakeBroker]) -> None:
    server = broker({REMOVE: lambda _: {"error_message": None}})
    remove_voter(server.address, "c", 1, FIRST, timeout_s=2)
    assert (server.requests[0].voter_id, server.requests[0].voter_directory_id) == (1, FIRST)


def test_broker_that_does_not_answer_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        describe_quorum("127.0.0.1:1", timeout_s=1)
