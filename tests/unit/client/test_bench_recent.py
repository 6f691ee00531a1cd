"""The latencies of the last moments: only what was recorded since the last look."""

from yak.client.bench import clients
from yak.client.bench.clients import RecentLatency, recent_ms, worst
from yak.client.bench.histogram import Histogram


def test_empty_histogram_gives_zeros_and_percentiles_are_of_the_buckets() -> None:
    assert recent_ms({}) == (0.0, 0.0, 0.0)
    histogram = Histogram()
    for millis in range(1, 101):
        histogram.record(millis * 1_000_000)
    p50, p99, longest = recent_ms(histogram.counts)
    assert abs(p50 - histogram.percentile(50) / 1e6) < 0.1
    assert abs(p99 - histogram.percentile(99) / 1e6) < 0.2
    assert 100.0 <= longest < 100.2


def test_only_latencies_since_the_last_sample_count(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clients.time, "monotonic", lambda: now[0])
    histogram, shared = Histogram(), [0.0] * 6
    looking = RecentLatency(histogram, shared, 3)
    histogram.record(5_000_000)
    looking.sample()
    assert shared == [0.0] * 6
    now[0] = 0.6
    looking.sample()
    assert shared[:3] == [0.0] * 3
    assert [round(each) for each in shared[3:]] == [5, 5, 5]
    histogram.record(80_000_000)
    now[0] = 1.2
    looking.sample()
    assert [round(each) for each in shared[3:]] == [80, 80, 80]
    now[0] = 1.8
    looking.sample()
    assert shared[3:] == [0.0, 0.0, 0.0]


def test_slowest_of_several_clients_is_reported() -> None:
    assert worst([1.0, 2.0, 9.0, 3.0, 2.5, 4.0]) == (3.0, 2.5, 9.0)
    assert worst([]) == (0.0, 0.0, 0.0)
