"""A broker that is killed, stopped, damaged and cut: what was acknowledged is read back, and nothing else is invented."""

import os
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from support.client_kinds import Confluent, Message
from support.loads import SteadyLoad, check_complete, read_all
from support.waiting import wait_until

FOREVER = {"retention.ms": "-1"}
SMALL = {"log_segment_bytes": 16384, "log_index_interval_bytes": 256}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def messages(count: int, size: int = 100) -> list[Message]:
    return [Message(b"%06d " % number + b"x" * size, timestamp_ms=now_ms()) for number in range(count)]


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


def fill(broker: Any, topic: str, count: int = 600, **configs: str) -> list[Message]:
    """Batches of 20 messages over several segments."""
    Confluent(broker.bootstrap).create_topic(topic, configs={**FOREVER, **configs})
    sent = messages(count)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 200})
    for start in range(0, count, 20):
        for message in sent[start : start + 20]:
            producer.produce(topic, message.value, partition=0, timestamp=message.timestamp_ms)
        assert producer.flush(30) == 0
    return sent


def values(sent: list[Message]) -> list[bytes | None]:
    return [message.value for message in sent]


def lines(broker: Any, event: str) -> list[str]:
    return [line for line in broker.log().splitlines() if f" {event} " in f"{line} "]


# ---------------------------------------------------------------------------------------------------------- kill -9


def test_every_acknowledged_message_survives_kills_under_load(broker, unique_topic):
    broker.start(**SMALL)
    Confluent(broker.bootstrap).create_topic(unique_topic, partitions=3, configs=FOREVER)
    with SteadyLoad(broker.bootstrap, unique_topic, partitions=3) as load:
        for _ in range(3):
            load.wait_for(300)
            broker.kill9()
            broker.restart()
        load.wait_for(100)
        load.stop()
        check_complete(load, broker.bootstrap, unique_topic)
    assert "Traceback" not in broker.log()


def test_compressed_batches_of_two_producers_survive_a_kill(broker, unique_topic):
    broker.start(**SMALL)
    Confluent(broker.bootstrap).create_topic(unique_topic, configs=FOREVER)
    settings = {"compression.type": "lz4"}
    with (
        SteadyLoad(broker.bootstrap, unique_topic, name="a", **settings) as first,
        SteadyLoad(broker.bootstrap, unique_topic, name="b", **settings) as second,
    ):
        first.wait_for(200)
        broker.kill9()
        broker.restart()
        first.wait_for(100)
        second.wait_for(100)
        first.stop()
        second.stop()
        check_complete(first, broker.bootstrap, unique_topic)
        check_complete(second, broker.bootstrap, unique_topic)


def test_a_repeated_batch_is_recognised_after_a_kill(broker, unique_topic):
    """The producer's state comes back from the log: a retry of a batch from before the kill is no new batch."""
    broker.start()
    Confluent(broker.bootstrap).create_topic(unique_topic, configs=FOREVER)
    with SteadyLoad(broker.bootstrap, unique_topic, pause_seconds=0.0005) as load:
        for _ in range(4):
            load.wait_for(150)
            os.kill(broker.pid, 9)  # no wait: requests are on their way
            broker.restart()
        load.stop()
        check_complete(load, broker.bootstrap, unique_topic)


# ---------------------------------------------------------------------------------------------------------- damage


def test_torn_tail_is_truncated_and_writing_continues(broker, unique_topic):
    broker.start()
    sent = fill(broker, unique_topic, 100)
    broker.kill9()
    log = files(broker.data_dir / f"{unique_topic}-0", ".log")[-1]
    whole = log.stat().st_size
    with log.open("ab") as file:
        file.write(log.read_bytes()[:900])  # valid bytes at a wrong offset
        file.write(b"\0" * 5000)
    broker.restart()
    assert log.stat().st_size == whole
    assert len(lines(broker, "log-tail-truncated")) == 1
    assert read_all(broker.bootstrap, unique_topic) == values(sent)
    assert Confluent(broker.bootstrap).produce(unique_topic, messages(1)) == [100]


HELPERS = (".index", ".timeindex", ".snapshot")


def test_damaged_indexes_and_snapshots_are_rebuilt_after_a_kill(broker, unique_topic):
    """A topic for each kind of file, all of whose files of that kind are damaged."""
    broker.start(**SMALL)
    sent = {suffix: fill(broker, unique_topic + suffix, 400) for suffix in HELPERS}
    broker.kill9()
    for suffix in HELPERS:
        damaged = files(broker.data_dir / f"{unique_topic}{suffix}-0", suffix)
        assert len(damaged) > 1
        for path in damaged:
            path.write_bytes(os.urandom(max(8, path.stat().st_size)))
    broker.restart()
    for suffix in HELPERS:
        check_reads(broker, unique_topic + suffix, sent[suffix])


def check_reads(broker: Any, topic: str, sent: list[Message]) -> None:
    """From the start, from the middle, and by time; and it goes on where it ended."""
    assert read_all(broker.bootstrap, topic) == values(sent)
    for offset in (77, 301):
        assert read_all(broker.bootstrap, topic, offset=offset, count_max=1) == [sent[offset].value]
    client = Confluent(broker.bootstrap)
    middle = sent[len(sent) // 2].timestamp_ms
    first_at = next(number for number, message in enumerate(sent) if message.timestamp_ms >= middle)
    assert client.offset_for_time(topic, middle) == first_at
    assert client.produce(topic, messages(1)) == [len(sent)]
    assert "Traceback" not in broker.log()


# ---------------------------------------------------------------------------------------------------------- retention


def test_retention_by_size_removes_old_segments_and_keeps_the_rest(broker, unique_topic):
    broker.start(**SMALL, log_retention_check_interval_ms=300)
    sent = fill(broker, unique_topic, **{"retention.bytes": "30000", "file.delete.delay.ms": "0"})
    folder = broker.data_dir / f"{unique_topic}-0"
    client = Confluent(broker.bootstrap)
    wait_until(lambda: client.watermarks(unique_topic)[0], "a segment is removed")
    wait_until(lambda: sum(path.stat().st_size for path in files(folder, ".log")) < 30000 + 16384, "the size")
    low = client.watermarks(unique_topic)[0]
    assert min(int(path.stem) for path in files(folder, ".log")) == low
    assert read_all(broker.bootstrap, unique_topic, offset=low) == values(sent)[low:]
    broker.kill9()
    broker.restart()
    assert client.watermarks(unique_topic) == (low, len(sent))


# ------------------------------------------------------------------------------------------------ several directories


def test_replica_that_moves_between_directories_under_load_loses_nothing(
    make_broker, redis_databases, tmp_path, unique_topic
):
    from kafka.admin import KafkaAdminClient
    from kafka.errors import NoError

    with redis_databases.borrow() as url:
        broker = make_broker(tmp_path / "broker", url)
        directories = [tmp_path / "one", tmp_path / "two"]
        broker.data_dir = ",".join(map(str, directories))
        broker.start(**SMALL)
        configs = {**FOREVER, "file.delete.delay.ms": "1000"}
        Confluent(broker.bootstrap).create_topic(unique_topic, configs=configs)

        def home() -> Path:
            (found,) = [each for each in directories if (each / f"{unique_topic}-0").exists()]
            return found

        def move() -> None:
            admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
            (target,) = {*directories} - {home()}
            done = len(lines(broker, "replica-moved"))
            assert set(admin.alter_replica_log_dirs({(unique_topic, 0, 1): str(target)}).values()) == {NoError}
            admin.close()
            wait_until(lambda: len(lines(broker, "replica-moved")) > done, "the replica is moved")
            assert home() == target

        with SteadyLoad(broker.bootstrap, unique_topic, partitions=1) as load:
            for _ in range(4):
                load.wait_for(200)
                move()
            broker.kill9()
            broker.restart()
            move()
            load.stop()
            check_complete(load, broker.bootstrap, unique_topic)
        read = read_all(broker.bootstrap, unique_topic, 0)
        wait_until(
            lambda: not [each for path in directories for each in path.glob(f"{unique_topic}*-delete")],
            "the replicas that were moved away are deleted",
        )
        broker.restart()
        assert read_all(broker.bootstrap, unique_topic, 0) == read
        assert "Traceback" not in broker.log()
