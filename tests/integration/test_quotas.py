"""Quotas on real brokers: a throttled producer and consumer, a muted socket, connections of an ip, and a restart."""

import json
import time

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.client.quotas import alter_quotas

RATE = 1_000_000
CLIENT = (("client-id", "loader"),)


def set_quota(address, entity, **quotas):
    alter_quotas(address, entity, quotas, validate_only=False, timeout_s=10)


@pytest.fixture
def small_windows(broker):
    """A broker that measures rates over two samples, so that a burst is the quota of one second."""
    broker.start(http_port=0, quota_window_num=2)
    Admin(broker.bootstrap).create_topic("orders", partitions=1)
    return broker


def metric(broker, name, quota):
    text = httpx.get(f"{broker.http_url}/metrics", trust_env=False).text
    line = next(each for each in text.splitlines() if each.startswith(f'{name}{{quota="{quota}"}}'))
    return float(line.split()[1])


def test_producer_stays_below_its_rate_and_receives_the_throttle_times(small_windows):
    set_quota(small_windows.bootstrap, CLIENT, producer_byte_rate=RATE)
    throttled_ms, windows = [], []
    producer = Producer(
        {
            "bootstrap.servers": small_windows.bootstrap,
            "client.id": "loader",
            "batch.size": 100_000,
            "linger.ms": 5,
            "max.in.flight": 1,
            "statistics.interval.ms": 500,
            # an event without a time tells that throttling is over
            "throttle_cb": lambda event: event.throttle_time and throttled_ms.append(event.throttle_time * 1000),
            "stats_cb": lambda text: windows.extend(
                each["throttle"]["max"] for each in json.loads(text)["brokers"].values()
            ),
        }
    )
    count, value = 6_000, b"v" * 1_000
    started = time.monotonic()
    for _ in range(count):
        producer.produce("orders", value)
        producer.poll(0)
    assert producer.flush(60) == 0
    elapsed_s = time.monotonic() - started
    # the first second's worth is a burst
    assert count * len(value) <= (elapsed_s + 1) * RATE * 1.1
    reported_s = metric(small_windows, "yak_throttle_seconds_total", "producer_byte_rate")
    assert reported_s >= 3
    assert sum(throttled_ms) / 1000 == pytest.approx(reported_s, rel=0.1)
    assert max(windows) > 0
    assert metric(small_windows, "yak_throttled_total", "producer_byte_rate") >= len(throttled_ms) > 0


def test_throttled_consumer_reads_everything(small_windows):
    producer = Producer({"bootstrap.servers": small_windows.bootstrap})
    for number in range(3_000):
        producer.produce("orders", b"%04d" % number + b"v" * 1_000)
        producer.poll(0)
    assert producer.flush(30) == 0
    set_quota(small_windows.bootstrap, CLIENT, consumer_byte_rate=RATE)
    consumer = Consumer(
        {
            "bootstrap.servers": small_windows.bootstrap,
            "client.id": "loader",
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "max.partition.fetch.bytes": 200_000,
        }
    )
    consumer.subscribe(["orders"])
    values = []
    wait_until(lambda: values.extend(consumer.consume(1_000, timeout=0.5)) or len(values) >= 3_000, "all records", 60)
    consumer.close()
    assert [int(each.value()[:4]) for each in values] == list(range(3_000))
    assert metric(small_windows, "yak_throttled_total", "consumer_byte_rate") > 0


def test_command_sets_lists_and_removes_quotas(small_windows, yak):
    at = ("-b", small_windows.bootstrap)
    assert yak.run("quotas", "set", "--client-id", "loader", "producer_byte_rate=1MB", *at).code == 0
    rows = json.loads(yak.run("quotas", "list", "-o", "json", *at).out)
    assert rows == [{"entity": "client-id=loader", "quota": "producer_byte_rate", "value": 1_000_000}]
    refused = yak.run("quotas", "set", "--client-id", "loader", "producer_byte_rate=0", *at)
    assert (refused.code, "greater than 0" in refused.err) == (2, True)
    assert yak.run("quotas", "remove", "--client-id", "loader", *at).code == 0
    assert json.loads(yak.run("quotas", "list", "-o", "json", *at).out) == []
