"""Quotas on real brokers: a throttled producer and consumer, a muted socket, connections of an ip, and a restart."""

import datetime as dt
import json
import time
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from support.raft_cluster import RaftCluster
from support.raw import RawClient
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.client.quotas import EntityQuotas, alter_quotas, describe_quotas
from yak.sim.rig import build, produce_fields
from yak.sim.wire import read_answer, record_batch, request_class, request_frame

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


def produce_frame(correlation_id):
    fields = produce_fields("orders", record_batch([b"v" * 1_000] * 100, 1_700_000_000_000))
    return request_frame(0, 9, correlation_id, build(request_class(0, 9), fields), client_id="loader")


def test_pipelined_requests_of_a_muted_channel_are_not_read_until_its_time_is_over(small_windows):
    set_quota(small_windows.bootstrap, CLIENT, producer_byte_rate=25_000)
    with RawClient(small_windows.port) as client:
        client.send(b"".join(len(each).to_bytes(4, "big") + each for each in map(produce_frame, (1, 2))))
        first = read_answer(0, 9, client.receive_frame())[1]
        assert dt.timedelta(seconds=2) < first.throttle_time < dt.timedelta(seconds=10)
        client.sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        metadata = httpx.get(f"{small_windows.http_url}/metrics", trust_env=False).text
        assert "\nyak_connections_muted 1" in metadata
        assert 'yak_partition_log_end_offset{topic="orders",partition="0"} 100' in metadata
        client.sock.settimeout(20)
        second = read_answer(0, 9, client.receive_frame())[1]
        assert second.responses[0].partition_responses[0].base_offset == 100


def test_connections_of_an_ip_beyond_its_rate_are_closed(small_windows):
    set_quota(small_windows.bootstrap, (("ip", "127.0.0.1"),), connection_creation_rate=5)
    refused = 0
    for _ in range(15):
        with RawClient(small_windows.port) as client:
            client.send_frame(request_frame(18, 0, 1, build(request_class(18, 0), {})))
            try:
                client.receive_frame()
            except Exception:
                refused += 1
    assert 5 <= refused < 15
    wait_until(lambda: metric(small_windows, "yak_throttled_total", "connection_creation_rate") >= refused, "the count")
    time.sleep(2)  # the samples pass
    set_quota(small_windows.bootstrap, (("ip", "127.0.0.1"),), connection_creation_rate=None)
    assert describe_quotas(small_windows.bootstrap, None, timeout_s=10) == []


def test_quotas_survive_a_restart(small_windows):
    set_quota(small_windows.bootstrap, CLIENT, producer_byte_rate=RATE, request_percentage=12.5)
    small_windows.kill9()
    small_windows.restart()
    kept = EntityQuotas(CLIENT, {"producer_byte_rate": RATE, "request_percentage": 12.5})
    assert describe_quotas(small_windows.bootstrap, None, timeout_s=10) == [kept]


def test_quotas_survive_a_restart_with_a_quorum(tmp_path: Path):
    cluster = RaftCluster(tmp_path, brokers=1, voters=1).start()
    try:
        address = cluster.bootstrap
        set_quota(address, CLIENT, producer_byte_rate=RATE)
        cluster.kill9(1)
        cluster.start(1)
        assert describe_quotas(address, None, timeout_s=20) == [EntityQuotas(CLIENT, {"producer_byte_rate": RATE})]
    finally:
        cluster.close()


def test_command_sets_lists_and_removes_quotas(small_windows, yak):
    at = ("-b", small_windows.bootstrap)
    assert yak.run("quotas", "set", "--client-id", "loader", "producer_byte_rate=1MB", *at).code == 0
    rows = json.loads(yak.run("quotas", "list", "-o", "json", *at).out)
    assert rows == [{"entity": "client-id=loader", "quota": "producer_byte_rate", "value": 1_000_000}]
    refused = yak.run("quotas", "set", "--client-id", "loader", "producer_byte_rate=0", *at)
    assert (refused.code, "greater than 0" in refused.err) == (2, True)
    assert yak.run("quotas", "remove", "--client-id", "loader", *at).code == 0
    assert json.loads(yak.run("quotas", "list", "-o", "json", *at).out) == []
