"""The controller of a cluster, as a broker names it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_brokers import FakeBroker
from kio.schema.errors import ErrorCode

from yak.client.quorum import Controller, read_controller

NO_BROKER = "127.0.0.1:1"


def answer(leader_id: int, error_code: ErrorCode = ErrorCode.none) -> dict[str, Any]:
    partition = {"error_code": error_code, "leader_id": leader_id, "leader_epoch": 7}
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]}


@pytest.fixture
def brokers() -> Iterator[Callable[..., str]]:
    made: list[FakeBroker] = []

    def make(leader_id: int, error_code: ErrorCode = ErrorCode.none) -> str:
        made.append(FakeBroker({55: lambda _: answer(leader_id, error_code)}))
        return made[-1].address

    yield make
    for each in made:
        each.close()


def test_controller_is_the_quorum_leader_with_its_epoch(brokers: Callable[..., str]) -> None:
    assert read_controller([NO_BROKER, brokers(3000)], timeout_s=2) == Controller(3000, 7)


def test_controller_unknown_to_a_broker_is_read_from_the_next(brokers: Callable[..., str]) -> None:
    unknown, refusing = brokers(-1), brokers(5, ErrorCode.unknown_topic_or_partition)
    assert read_controller([unknown, refusing], timeout_s=2) is None
    assert read_controller([unknown, refusing, brokers(2)], timeout_s=2) == Controller(2, 7)


def test_controller_without_a_broker_is_none() -> None:
    assert read_controller([NO_BROKER], timeout_s=2) is None
