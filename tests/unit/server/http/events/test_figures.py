"""Progress and rates: what moved, once, within bounds."""

from types import SimpleNamespace

import trio

from tests.unit.server.threads import start_no_thread
from yak.ids import TopicPartition
from yak.replication.traffic import Traffic
from yak.server.http.events.pump import CHECKED_MAX, MOVED_MAX, TOPICS_MAX, ProcessFigures, Progress, Rates


class FakePartition:
    def __init__(self, number, topic="a"):
        self.topic_partition = TopicPartition(topic, number)
        self.is_leader = True
        self.log = object()
        self.leader_epoch = 1
        self.high_watermark = 0
        self.ends = {1: 0, 2: 0}

    def log_end_offsets(self):
        return dict(self.ends)


def broker_with(count):
    partitions = [FakePartition(number) for number in range(count)]
    return partitions, SimpleNamespace(partitions={each.topic_partition: each for each in partitions})


def moved(progress):
    return [each["partition"] for each in progress.moved()]


def test_partition_that_moved_is_reported_once():
    partitions, broker = broker_with(3)
    progress = Progress(broker)
    assert moved(progress) == []
    partitions[1].high_watermark = 5
    partitions[2].ends[2] = 7
    assert moved(progress) == [1, 2]
    assert moved(progress) == []
    partitions[1].is_leader = False
    partitions[1].high_watermark = 9
    assert moved(progress) == []


def test_a_row_has_the_high_watermark_and_every_log_end():
    partitions, broker = broker_with(1)
    progress = Progress(broker)
    progress.moved()
    partitions[0].high_watermark, partitions[0].ends = 4, {1: 6, 2: 4}
    assert progress.moved() == [
        {"topic": "a", "partition": 0, "leader_epoch": 1, "high_watermark": 4, "log_end_offsets": {"1": 6, "2": 4}}
    ]


def test_many_partitions_are_checked_in_slices_and_all_reported():
    partitions, broker = broker_with(CHECKED_MAX * 2 + 10)
    progress = Progress(broker)
    for _ in range(3):
        assert moved(progress) == []
    for each in partitions:
        each.high_watermark = 1
    found = []
    for _ in range(20):
        reported = moved(progress)
        assert len(reported) <= MOVED_MAX
        found += reported
    assert sorted(found) == list(range(len(partitions)))


def test_progress_without_listeners_is_not_reported():
    partitions, broker = broker_with(2)
    progress = Progress(broker)
    progress.moved()
    progress.forget()
    partitions[0].high_watermark = 5
    assert moved(progress) == []


def rates_of(broker, interval_ms=1000):
    return Rates(broker, interval_ms, now_ms=10_000)


def counters(**topics):
    return SimpleNamespace(counters=SimpleNamespace(topics=topics, retired=Traffic()))


def test_rates_are_a_second_and_for_the_time_that_went_by():
    traffic = Traffic()
    broker = counters(a=traffic, idle=Traffic())
    rates = rates_of(broker)
    traffic.bytes_in, traffic.messages_in, traffic.bytes_out, traffic.messages_out = 4000, 40, 2000, 20
    found = rates.since_last(12_000)
    assert found["elapsed_ms"] == 2000
    assert found["bytes_in_per_second"] == 2000.0
    assert found["topics"] == [
        {
            "topic": "a",
            "bytes_in_per_second": 2000.0,
            "messages_in_per_second": 20.0,
            "bytes_out_per_second": 1000.0,
            "messages_out_per_second": 10.0,
        }
    ]
    assert rates.since_last(13_000)["topics"] == []


def test_the_busiest_topics_are_named_and_the_others_are_summed():
    topics = {f"t{number}": Traffic() for number in range(TOPICS_MAX + 5)}
    rates = rates_of(counters(**topics))
    for number, traffic in enumerate(topics.values()):
        traffic.bytes_in = 1000 + number
    found = rates.since_last(11_000)
    assert len(found["topics"]) == TOPICS_MAX
    assert found["topics"][0]["topic"] == f"t{TOPICS_MAX + 4}"
    assert found["other_topics"]["count"] == 5
    assert found["other_topics"]["bytes_in_per_second"] == sum(1000 + number for number in range(5))


def test_recreated_topic_has_no_negative_rates():
    topics = {"a": Traffic()}
    topics["a"].bytes_in = 500
    broker = counters()
    broker.counters.topics = topics
    rates = rates_of(broker)
    broker.counters.retired.bytes_in = 500
    topics["a"] = Traffic()
    topics["a"].bytes_in = 100
    found = rates.since_last(11_000)
    assert found["bytes_in_per_second"] == 100.0
    assert found["topics"] == []


async def test_disk_figures_wait_while_the_system_starts_no_thread(tmp_path, monkeypatch):
    failures = start_no_thread(monkeypatch, times=1)
    directories = [SimpleNamespace(path=str(tmp_path), failure=None)]
    async with trio.open_nursery() as nursery:
        figures = ProcessFigures(
            SimpleNamespace(nursery=nursery), SimpleNamespace(log_store=SimpleNamespace(directories=directories))
        )
        figures.figures()
    assert failures == []
    assert figures.figures()["disk_size_bytes"] > 0
