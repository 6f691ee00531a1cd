"""A compacted topic, written and read by unmodified clients, through a kill, while old values go."""

import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords
from confluent_kafka import OFFSET_BEGINNING, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from support.loads import read_messages
from support.waiting import wait_until

TOPIC = "prices"
SETTINGS = {"log_cleaner_backoff_ms": 100, "log_segment_delete_delay_ms": 500}
KEYS = 40


def write(bootstrap: str, numbers: range) -> dict[bytes, bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    newest = {}
    for number in numbers:
        key, value = b"item-%d" % (number % KEYS), b"%06d" % number + os.urandom(200)
        producer.produce(TOPIC, value, key=key, partition=0)
        newest[key] = value
        if number % 50 == 49:
            assert producer.flush(20) == 0
    assert producer.flush(20) == 0
    return newest


def read_all(bootstrap: str) -> list[tuple[int, bytes, bytes]]:
    """Every record from the beginning on, as (offset, key, value)."""
    found = read_messages(bootstrap, TOPIC, offset=OFFSET_BEGINNING)
    return [(each.offset(), each.key(), each.value()) for each in found]


def alter(admin: AdminClient, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)


def log_bytes(folder: Path) -> int:
    """The size of all segments; listed again when one is compacted away before it is looked at."""
    while True:
        with suppress(FileNotFoundError):
            return sum(path.stat().st_size for path in folder.glob("*.log"))


def wait_for_compaction(folder: Path, below_bytes: int) -> None:
    wait_until(lambda: log_bytes(folder) < below_bytes, f"less than {below_bytes} bytes", 30)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_old_values_go_and_the_newest_of_every_key_stays_through_a_kill(broker, compression):
    broker.start(**SETTINGS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "65536",
        "compression.type": compression.replace("none", "producer"),
    }
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)])[TOPIC].result(20)
    folder = broker.data_dir / f"{TOPIC}-0"
    newest = write(broker.bootstrap, range(3000))
    wait_for_compaction(folder, 3000 * 200 // 2)
    found = read_all(broker.bootstrap)
    assert {key: value for _, key, value in found} == newest
    assert len(found) < 3000
    assert [offset for offset, _, _ in found] == sorted({int(value[:6]) for _, _, value in found})
    broker.kill9()
    broker.start(**SETTINGS)
    after = read_all(broker.bootstrap)
    assert {key: value for _, key, value in after} == newest
    assert set(after) <= set(found)
    newest |= write(broker.bootstrap, range(3000, 3100))
    again = read_all(broker.bootstrap)
    assert {key: value for _, key, value in again} == newest
    assert again[-1][0] == 3099
    # the old files are gone, and other people's parser reads what is left
    time.sleep(1)
    assert not [path.name for path in folder.iterdir() if path.suffix in (".cleaned", ".swap")]
    for path in folder.glob("*.log"):
        records = MemoryRecords(path.read_bytes())
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            for record in batch:
                assert int(record.value[:6]) == record.offset


def test_consumer_of_librdkafka_passes_many_segments_without_records(broker):
    # librdkafka doubles its fetch size at each answer without a record, and after ten takes the next record for too large
    broker.start(**SETTINGS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    # what is not flushed is compacted by a second round, which joins the segments that the first one emptied
    config = {"segment.bytes": "8192", "flush.messages": "1"}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(20)
    newest = write(broker.bootstrap, range(30 * KEYS))
    alter(admin, "cleanup.policy", "compact")
    folder = broker.data_dir / f"{TOPIC}-0"
    wait_for_compaction(folder, 4 * 8192)
    assert len([path for path in folder.glob("*.log") if path.stat().st_size == 61]) > 12
    assert {key: value for _, key, value in read_all(broker.bootstrap)} == newest


def test_a_topic_becomes_compacted_and_loses_its_oldest_by_age(broker):
    broker.start(**SETTINGS, log_retention_check_interval_ms=200)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config={"segment.bytes": "65536"})])[TOPIC].result(20)
    folder = broker.data_dir / f"{TOPIC}-0"
    newest = write(broker.bootstrap, range(3000))
    assert len(read_all(broker.bootstrap)) == 3000
    alter(admin, "cleanup.policy", "compact,delete")
    wait_for_compaction(folder, 3000 * 200 // 2)
    assert {key: value for _, key, value in read_all(broker.bootstrap)} == newest
    alter(admin, "retention.ms", "1000")
    write(broker.bootstrap, range(3000, 3001))
    wait_until(lambda: len(read_all(broker.bootstrap)) <= 1, "one record at most", 30)


@pytest.mark.jvm
def test_kafkas_dump_log_segments_reads_what_is_left(broker, java):
    broker.start(**SETTINGS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    configs = {"cleanup.policy": "compact", "segment.bytes": "65536", "compression.type": "lz4"}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)])[TOPIC].result(20)
    folder = broker.data_dir / f"{TOPIC}-0"
    newest = write(broker.bootstrap, range(2000))
    wait_for_compaction(folder, 2000 * 200 // 2)
    left = read_all(broker.bootstrap)
    assert {key: value for _, key, value in left} == newest
    broker.stop()
    command = [*java, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration"]
    files = ",".join(map(str, sorted(folder.glob("*.log"))))
    done = subprocess.run([*command, "--files", files], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "isvalid: false" not in done.stdout
    offsets = {int(found) for found in re.findall(r"^\| offset: (\d+)", done.stdout, re.MULTILINE)}
    assert offsets <= {offset for offset, _, _ in left}
    assert {offset for offset, _, value in left if value in newest.values()} <= offsets
