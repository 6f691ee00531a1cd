"""`yak bench --workload` on a real broker: producers and consumers at once, each record received."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("name", "is_timed"), [("1-topic-1-partition-100b", True), ("max-rate-1-topic-10-partitions-1p-1c-100b", False)]
)
def test_a_workload_is_produced_and_consumed(broker: Any, yak: Any, name: str, is_timed: bool) -> None:
    broker.start()
    words = ("-b", broker.bootstrap, "--workload", name, "--duration", "1s", "--warm-up", "300ms", "-o", "json")
    ran = yak.run("bench", *words, timeout=100)
    assert ran.code == 0, ran.err
    found = ran.json
    assert found["records"] > 1000
    assert found["errors"] == 0
    consumed = found["consumed"]
    if is_timed:
        assert consumed["records"] == found["records"]
        assert found["latency_ms"]["p50"] > 0
        assert 0 < consumed["latency_ms"]["p50"] < 60_000
    else:
        assert consumed["records"] > 1000
        assert consumed["latency_ms"] is None
