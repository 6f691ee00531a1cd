from yak.client.produce import Acknowledged, DeliveryCounts
from yak.tui.produce.run import SECOND_NS, DeliveryCounter, DeliveryStatistics

MS = 1_000_000


def test_statistics_before_the_first_record_have_no_latency():
    stats = DeliveryCounter(0).statistics(DeliveryCounts(), 0, "sending", SECOND_NS)
    assert (stats.p50_ms, stats.p99_ms, stats.max_ms) == (None, None, None)
    assert not stats.is_over
    assert DeliveryStatistics(state="stopped").is_over


def test_rates_and_latencies_are_of_each_second():
    counting = DeliveryCounter(0)
    counts = DeliveryCounts(sent=6, acknowledged=3, failed=1)
    counts.reasons["too large"] += 1
    counts.few = [Acknowledged(1, "t", 0, 1), Acknowledged(0, "t", 0, 0)]
    for latency_ms in (1, 2, 100):
        counting.acknowledged(latency_ms * MS)
    first = counting.statistics(counts, 2, "sending", SECOND_NS // 2)
    assert (first.rates, first.rate) == ((), 6.0)
    counting.acknowledged(5 * MS)
    later = counting.statistics(counts, 2, "sending", 3 * SECOND_NS + 1)
    assert later.rates == (4.0, 0.0, 0.0)
    assert (later.rate, later.mean_rate) == (0.0, 3 / ((3 * SECOND_NS + 1) / SECOND_NS))
    assert later.max_ms == 100
    assert later.p50_ms is not None
    assert 2 <= later.p50_ms < 2.01
    assert 99.9 <= later.latencies_ms[0] <= 100
    assert later.reasons == (("too large", 1),)
    assert [each.number for each in later.few] == [0, 1]
    assert later.sent == later.acknowledged + later.failed + later.waiting


def test_the_history_is_bounded():
    counting = DeliveryCounter(0)
    stats = counting.statistics(DeliveryCounts(), 0, "sending", 500 * SECOND_NS)
    assert len(stats.rates) == len(stats.latencies_ms) == 120
