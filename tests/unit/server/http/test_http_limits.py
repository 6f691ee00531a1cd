"""HTTP has no file handles that Kafka's clients need."""

import pytest

from yak.server.http.context import HttpLimits, handles_of_http, limits_of


def test_http_limits_are_the_defaults_when_handles_are_many() -> None:
    assert limits_of(handles_of_http(1_000_000)) == HttpLimits()


@pytest.mark.parametrize("handles", [0, 16, 100, 1_000, 3_000])
def test_kafka_retains_three_quarters_of_the_handles_when_handles_are_few(handles: int) -> None:
    reserved = handles_of_http(handles)
    assert reserved <= handles / 4
    limits = limits_of(reserved)
    assert limits.connections_max <= max(8, reserved // 2)
    assert 1 <= limits.consumers_max <= HttpLimits().consumers_max
