"""Brokers for the tests of groups: they wait little for a group's first members, and allow short sessions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from support.client_kinds import Confluent
from support.raw import assert_no_bugs

SETTINGS = {
    "group_consumer_heartbeat_interval_ms": 200,
    "group_consumer_session_timeout_ms": 2000,
    "group_initial_rebalance_delay_ms": 100,
    "group_min_session_timeout_ms": 1,
    "offsets_topic_num_partitions": 5,
}


@pytest.fixture(scope="package")
def group_broker(borrowed_broker: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """One broker for all tests here that leave it whole."""
    with borrowed_broker() as harness:
        yield harness.start(**SETTINGS)
        assert_no_bugs(harness)


@pytest.fixture
def topic(group_broker: Any, unique_topic: str) -> str:
    """A topic of six partitions that nobody wrote to."""
    Confluent(group_broker.bootstrap).create_topic(unique_topic, partitions=6, configs={"retention.ms": "-1"})
    return unique_topic
