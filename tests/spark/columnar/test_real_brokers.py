"""The columnar reader against librdkafka's eyes: the same records from YAK, and from Apache Kafka where Java and Maven are."""

import itertools
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from columnar_support.batch_bytes import Record, batch
from columnar_support.scripted_broker import ScriptedBroker, fetched
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clusters import running_cluster
from yak.local.cluster import LocalCluster, UpSettings
from yak.spark.columnar.read import read
from yak.spark.columnar.schema import READ_COMMITTED, DataLoss, NotReadable, OffsetRange, ReadSettings
from yak.spark.source.librdkafka import read as by_librdkafka

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))
from versus.brokers import KafkaBroker, running  # noqa: E402
from versus.kafka_jars import KAFKA_VERSION, SHORT_JVM_FLAGS, Missing, java_version, kafka_jars  # noqa: E402

pytestmark = pytest.mark.timeout(120)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_names = itertools.count(1)
Row = tuple[int, bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers, so that a leader can die."""
    with running_cluster(tmp_path_factory.mktemp("columnar"), UpSettings(port=0, brokers=3, leaders=3)) as local:
        yield local


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Apache Kafka, one node."""
    try:
        java_version()
        jars = kafka_jars(ROOT / "build/kafka", KAFKA_VERSION)
    except Missing as missing:
        pytest.skip(str(missing))
    with running(KafkaBroker(jars, tmp_path_factory.mktemp("kafka") / "broker", jvm_flags=SHORT_JVM_FLAGS)) as broker:
        yield broker


def bootstrap_of(local: LocalCluster) -> str:
    return ",".join(broker.address for broker in local.status().brokers)


def make_topic(bootstrap: str, replicas: int = 1, **configs: str) -> str:
    topic = f"columnar-{next(_names)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # The records' times are old: retention must not take them.
    dotted = {"retention.ms": "-1"} | {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, 1, replicas, config=dotted)])[topic].result(20)
    return topic


def fill(bootstrap: str, topic: str, count: int, **config: object) -> None:
    """Records with and without key, value and headers."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **config})
    for number in range(count):
        producer.produce(
            topic,
            None if number % 11 == 0 else b"value-%d" % number * (number % 7),
            key=None if number % 3 else b"key-%d" % number,
            headers=None if number % 5 else [("n", b"%d" % number), ("ü", None)],
            partition=0,
            timestamp=1_700_000_000_000 + 37 * number,
        )
    assert producer.flush(30) == 0


def as_librdkafka_sees(bootstrap: str, topic: str, end: int, isolation: str = "read_uncommitted") -> list[Row]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    while True:
        message = consumer.poll(20)
        assert message is not None, "nothing for 20 s"
        if message.error() or message.offset() >= end:
            break
        kind, milliseconds = message.timestamp()
        rows.append(
            (message.offset(), message.key(), message.value(), milliseconds, kind - 1, message.headers() or None)
        )
    consumer.close()
    return rows


def as_read(
    bootstrap: str, topic: str, start: int, end: int, *, reader: Callable[..., Any] = read, **more: object
) -> list[Row]:
    settings = ReadSettings(**{"bootstrap": bootstrap, "include_headers": True, "timeout_ms": 30_000} | more)
    rows: list[Row] = []
    for each in reader(OffsetRange(topic, 0, start, end), settings):
        each.validate(full=True)
        assert set(each["topic"].to_pylist()) == {topic}
        assert set(each["partition"].to_pylist()) == {0}
        times = [micros // 1000 for micros in each["timestamp"].view(pa.int64()).to_pylist()]
        headers = [
            None if found is None else [(header["key"], header["value"]) for header in found]
            for found in each["headers"].to_pylist()
        ]
        columns = [each[name].to_pylist() for name in ("offset", "key", "value")]
        rows += zip(*columns, times, each["timestampType"].to_pylist(), headers, strict=True)
    return rows


def mixed(bootstrap: str) -> str:
    """A topic with batches of all codecs, small and large."""
    topic = make_topic(bootstrap)
    for codec in CODECS:
        fill(bootstrap, topic, 700, **{"compression.type": codec})
        fill(bootstrap, topic, 30, **{"compression.type": codec, "batch.num.messages": 3})
    return topic


def check_all_codecs(bootstrap: str) -> None:
    topic = mixed(bootstrap)
    end = 730 * len(CODECS)
    wanted = as_librdkafka_sees(bootstrap, topic, end)
    assert len(wanted) == end
    assert as_read(bootstrap, topic, 0, end) == wanted
    assert as_read(bootstrap, topic, 650, 2222, fetch_bytes=3000, batch_rows=100) == wanted[650:2222]


def check_append_time(bootstrap: str) -> None:
    topic = make_topic(bootstrap, message_timestamp_type="LogAppendTime")
    fill(bootstrap, topic, 100)
    rows = as_read(bootstrap, topic, 0, 100)
    assert rows == as_librdkafka_sees(bootstrap, topic, 100)
    assert {row[4] for row in rows} == {1}


def check_losses(bootstrap: str) -> None:
    topic = make_topic(bootstrap)
    fill(bootstrap, topic, 100)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, 60)]).values():
        done.result(20)
    with pytest.raises(DataLoss, match="from offset 10 on are gone") as raised:
        as_read(bootstrap, topic, 10, 100)
    assert raised.value.earliest == 60
    rows = as_read(bootstrap, topic, 10, 100, fail_on_data_loss=False)
    assert [row[0] for row in rows] == list(range(60, 100))
    with pytest.raises(DataLoss, match="from offset 100 on"):
        as_read(bootstrap, topic, 90, 110, timeout_ms=1500)
    admin.delete_topics([topic])[topic].result(20)
    with pytest.raises(DataLoss) as raised:
        as_read(bootstrap, topic, 60, 100, timeout_ms=1500)
    assert raised.value.earliest is None


def check_transactions(bootstrap: str) -> None:
    """Both clients give committed records only, whatever lies at a range's ends, and stop before an open transaction."""
    topic = make_topic(bootstrap)
    numbers = itertools.count()
    producers = [
        Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{index}", "linger.ms": 0})
        for index in range(2)
    ]
    for producer in producers:
        producer.init_transactions(30)
    for decision in ("commit", "abort", "commit", "abort", "abort"):
        for producer in producers:
            producer.begin_transaction()
        for _ in range(4):
            for producer in producers:
                producer.produce(topic, b"%d" % next(numbers), partition=0)
                producer.flush(20)
        producers[0].commit_transaction(30) if decision == "commit" else producers[0].abort_transaction(30)
        producers[1].abort_transaction(30)
    fill(bootstrap, topic, 5)
    end = 5 * 10 + 5
    producers[0].begin_transaction()
    producers[0].produce(topic, b"open", partition=0)
    producers[0].flush(20)
    fill(bootstrap, topic, 5)
    committed = as_librdkafka_sees(bootstrap, topic, end, READ_COMMITTED)
    assert len(committed) == 2 * 4 + 5
    for start, stop in ((0, end), (3, 41), (0, 10), (10, 20), (13, 17), (30, 50), (49, 50), (51, end)):
        wanted = [row for row in committed if start <= row[0] < stop]
        small = {"fetch_bytes": 100, "isolation": READ_COMMITTED}
        assert as_read(bootstrap, topic, start, stop, isolation=READ_COMMITTED) == wanted
        assert as_read(bootstrap, topic, start, stop, **small) == wanted
        assert as_read(bootstrap, topic, start, stop, reader=by_librdkafka, isolation=READ_COMMITTED) == wanted
    for reader in (read, by_librdkafka):
        assert len(as_read(bootstrap, topic, 0, end, reader=reader)) == 45
        with pytest.raises(NotReadable):
            as_read(bootstrap, topic, 0, end + 6, reader=reader, isolation=READ_COMMITTED, timeout_ms=1_000)
    producers[0].abort_transaction(30)
    for reader in (read, by_librdkafka):
        assert len(as_read(bootstrap, topic, 0, end + 7, reader=reader, isolation=READ_COMMITTED)) == 2 * 4 + 10


CHECKS: list[Callable[[str], None]] = [check_all_codecs, check_append_time, check_losses, check_transactions]


@pytest.mark.parametrize("check", CHECKS)
def test_yak_is_read_as_librdkafka_reads_it(three, check):
    check(bootstrap_of(three))


@pytest.mark.jvm
@pytest.mark.parametrize("check", CHECKS)
def test_apache_kafka_is_read_as_librdkafka_reads_it(kafka, check):
    check(kafka.bootstrap)


def test_a_leader_that_is_killed_is_followed(three):
    bootstrap = bootstrap_of(three)
    topic = make_topic(bootstrap, replicas=3)
    fill(bootstrap, topic, 3000, acks="all")
    leader = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, 20).topics[topic].partitions[0].leader
    settings = ReadSettings(bootstrap, fetch_bytes=2000, batch_rows=50, timeout_ms=60_000)
    reading = read(OffsetRange(topic, 0, 0, 3000), settings)
    found = next(reading)["offset"].to_pylist()
    three.kill(leader)
    try:
        for each in reading:
            found += each["offset"].to_pylist()
    finally:
        three.up(UpSettings())
    assert found == list(range(3000))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subprocess.run(command, check=True, capture_output=True)
    made.write_bytes((folder / "cert").read_bytes() + (folder / "key").read_bytes())
    return made


def test_tls_is_spoken_and_the_certificate_checked(certificate):
    """YAK's own listener is plain: a scripted broker answers behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    records = b"".join(batch(offset, [Record(0, b"k")]) for offset in range(10))
    with ScriptedBroker(lambda _: fetched(records), tls=context) as broker:
        trusting = {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}
        settings = ReadSettings(broker.bootstrap, timeout_ms=5000, client=trusting)
        assert sum(each.num_rows for each in read(OffsetRange("t", 0, 0, 10), settings)) == 10
        stranger = ReadSettings(broker.bootstrap, timeout_ms=5000, client={"security.protocol": "SSL"})
        with pytest.raises(NotReadable, match="no TLS connection"):
            list(read(OffsetRange("t", 0, 0, 10), stranger))


def test_tls_handshake_that_a_broker_does_not_finish_is_retried(certificate):
    """It stops, or it is a proxy in front of a broker that restarts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    class ClosesFirst:
        connections = 0

        def wrap_socket(self, connection, server_side):
            self.connections += 1
            if self.connections > 1:
                return context.wrap_socket(connection, server_side=server_side)
            connection.recv(10_000)
            connection.close()
            raise OSError("closed")

    with ScriptedBroker(lambda _: fetched(batch(0, [Record(0)])), tls=ClosesFirst()) as broker:
        trusting = {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}
        settings = ReadSettings(broker.bootstrap, timeout_ms=5000, client=trusting)
        assert sum(each.num_rows for each in read(OffsetRange("t", 0, 0, 1), settings)) == 1


def test_two_readings_at_once_do_not_mix(three):
    bootstrap = bootstrap_of(three)
    topics = [make_topic(bootstrap) for _ in range(2)]
    for index, topic in enumerate(topics):
        fill(bootstrap, topic, 500 + index)
    found: dict[str, int] = {}

    def count(topic: str, end: int) -> None:
        found[topic] = len(as_read(bootstrap, topic, 0, end, fetch_bytes=1500))

    threads = [threading.Thread(target=count, args=(topic, 500 + index)) for index, topic in enumerate(topics)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) in ([500, 501], [501, 500])
