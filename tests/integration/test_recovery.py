"""A broker that is killed, stopped, damaged and cut: what was acknowledged is read back, and nothing else is invented."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode
from support.client_kinds import Confluent, Message
from support.loads import SteadyLoad, check_complete, read_all
from support.raw import RawClient, batch

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


# ---------------------------------------------------------------------------------------------------------- clean


def test_a_clean_stop_and_start_reads_no_log(broker, unique_topic):
    broker.start(**SMALL)
    sent = fill(broker, unique_topic)
    broker.stop()
    folder = broker.data_dir / f"{unique_topic}-0"
    logs = files(folder, ".log")
    assert len(logs) > 3
    assert (broker.data_dir / ".kafka_cleanshutdown").exists()
    # What is not read cannot be missed: a closed segment full of zeros is found out by readers only.
    kept = logs[1].read_bytes()
    logs[1].write_bytes(b"\0" * len(kept))
    before = len(lines(broker, "log-tail-truncated")) + len(lines(broker, "log-damaged"))
    broker.restart()
    assert len(lines(broker, "log-tail-truncated")) + len(lines(broker, "log-damaged")) == before
    logs[1].write_bytes(kept)
    assert read_all(broker.bootstrap, unique_topic) == values(sent)


def test_the_mark_of_a_clean_stop_is_used_once(broker, unique_topic):
    broker.start()
    fill(broker, unique_topic, 40)
    broker.stop()
    mark = broker.data_dir / ".kafka_cleanshutdown"
    assert mark.exists()
    broker.restart()
    assert not mark.exists()


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


def test_half_a_batch_at_the_end_is_cut(broker, unique_topic):
    broker.start()
    sent = fill(broker, unique_topic, 100)
    broker.kill9()
    log = files(broker.data_dir / f"{unique_topic}-0", ".log")[-1]
    os.truncate(log, log.stat().st_size - 7)
    broker.restart()
    assert read_all(broker.bootstrap, unique_topic) == values(sent)[:80]
    assert Confluent(broker.bootstrap).produce(unique_topic, messages(1)) == [80]


Damage = Callable[[Path], None]


def scramble(path: Path) -> None:
    path.write_bytes(os.urandom(max(8, path.stat().st_size)))


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 3)


HELPERS = (".index", ".timeindex", ".snapshot")


def damage_helpers(broker: Any, topic: str, damage: Damage) -> None:
    """A topic for each kind of file, all of whose files of that kind are damaged."""
    for suffix in HELPERS:
        damaged = files(broker.data_dir / f"{topic}{suffix}-0", suffix)
        assert len(damaged) > 1
        for path in damaged:
            damage(path)


@pytest.mark.parametrize("damage", [scramble, shorten, Path.unlink], ids=["scrambled", "shortened", "deleted"])
def test_damaged_indexes_and_snapshots_are_rebuilt_after_a_kill(broker, unique_topic, damage):
    broker.start(**SMALL)
    sent = {suffix: fill(broker, unique_topic + suffix, 400) for suffix in HELPERS}
    broker.kill9()
    damage_helpers(broker, unique_topic, damage)
    broker.restart()
    for suffix in HELPERS:
        check_reads(broker, unique_topic + suffix, sent[suffix])


@pytest.mark.parametrize("damage", [shorten, Path.unlink], ids=["shortened", "deleted"])
def test_missing_indexes_and_snapshots_are_rebuilt_after_a_clean_stop(broker, unique_topic, damage):
    broker.start(**SMALL)
    sent = {suffix: fill(broker, unique_topic + suffix, 400) for suffix in HELPERS}
    broker.stop()
    damage_helpers(broker, unique_topic, damage)
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


def test_missing_or_corrupt_checkpoints_do_not_prevent_a_start(broker, unique_topic):
    broker.start(**SMALL)
    sent = fill(broker, unique_topic)
    broker.kill9()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (broker.data_dir / name).write_text("nonsense\n")
    (broker.data_dir / f"{unique_topic}-0" / "leader-epoch-checkpoint").write_text("0\nmany\n")
    broker.restart()
    check_reads(broker, unique_topic, sent)


# ---------------------------------------------------------------------------------------------------------- retention


def test_retention_by_size_removes_old_segments_and_keeps_the_rest(broker, unique_topic):
    broker.start(**SMALL, log_retention_check_interval_ms=300)
    sent = fill(broker, unique_topic, **{"retention.bytes": "30000", "file.delete.delay.ms": "0"})
    folder = broker.data_dir / f"{unique_topic}-0"
    client = Confluent(broker.bootstrap)
    low = wait_until(lambda: client.watermarks(unique_topic)[0])
    wait_until(lambda: sum(path.stat().st_size for path in files(folder, ".log")) < 30000 + 16384)
    low = client.watermarks(unique_topic)[0]
    assert min(int(path.stem) for path in files(folder, ".log")) == low
    assert read_all(broker.bootstrap, unique_topic, offset=low) == values(sent)[low:]
    broker.kill9()
    broker.restart()
    assert client.watermarks(unique_topic) == (low, len(sent))


def test_retention_by_time_empties_a_topic_and_its_offsets_continue(broker, unique_topic):
    broker.start(**SMALL, log_retention_check_interval_ms=300)
    client = Confluent(broker.bootstrap)
    client.create_topic(unique_topic, configs={"retention.ms": "1000", "file.delete.delay.ms": "0"})
    old = [Message(b"old" * 50, timestamp_ms=now_ms() - 3_600_000) for _ in range(200)]
    client.produce(unique_topic, old)
    wait_until(lambda: client.watermarks(unique_topic) == (200, 200))
    assert client.produce(unique_topic, messages(1)) == [200]
    broker.kill9()
    broker.restart()
    assert client.watermarks(unique_topic)[1] == 201


def test_deleted_records_stay_deleted_over_a_stop_and_a_kill(broker, unique_topic):
    broker.start(**SMALL)
    sent = fill(broker, unique_topic)
    client = Confluent(broker.bootstrap)
    assert client.delete_records(unique_topic, 0, 333) == 333
    broker.restart()
    client = Confluent(broker.bootstrap)
    assert client.watermarks(unique_topic) == (333, 600)
    assert client.delete_records(unique_topic, 0, 444) == 444
    time.sleep(2.5)  # the checkpoint follows within a second
    broker.kill9()
    broker.restart()
    assert client.watermarks(unique_topic) == (444, 600)
    assert read_all(broker.bootstrap, unique_topic, offset=444) == values(sent)[444:]


def wait_until(condition: Callable[[], Any], seconds: float = 40) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)
    return found


# ------------------------------------------------------------------------------------------------ several directories


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB that can be filled; skipped where this user may not mount one."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small tmpfs here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def partition_of(directory: Path, topic: str) -> int:
    found = [int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-*")]
    assert found, f"no partition of {topic} in {directory}"
    return found[0]


def test_full_disk_keeps_its_directory_online_and_needs_no_restart_when_it_has_room(
    make_broker, redis_databases, small_disk, tmp_path, unique_topic
):
    with redis_databases.borrow() as url:
        broker = make_broker(tmp_path / "broker", url)
        good, full = tmp_path / "good", small_disk / "data"
        broker.data_dir = f"{good},{full}"
        filler = small_disk / "filler"
        filler.write_bytes(bytes(400_000))
        broker.start()
        client = Confluent(broker.bootstrap)
        client.create_topic(unique_topic, partitions=4, configs=FOREVER)
        full_partition, good_partition = partition_of(full, unique_topic), partition_of(good, unique_topic)
        with RawClient(broker.port) as raw:

            def produce() -> int:
                return raw.produce(unique_topic, batch(os.urandom(100_000)), partition=full_partition).error_code

            codes = [produce() for _ in range(20)]
            assert codes[0] == ErrorCode.none
            assert codes[-5:] == [ErrorCode.kafka_storage_error] * 5
            assert len(lines(broker, "log-directory-full")) == 1
            assert client.produce(unique_topic, messages(5), partition=good_partition) == list(range(5))
            assert log_dirs(broker.bootstrap) == {str(good): 0, str(full): 0}
            client.create_topic(unique_topic + "-2", configs=FOREVER)
            assert client.produce(unique_topic + "-2", messages(1)) == [0]
            filler.unlink()
            assert produce() == ErrorCode.none
        assert lines(broker, "log-directory-offline") == []
        acknowledged = codes.count(ErrorCode.none) + 1
        assert len(read_all(broker.bootstrap, unique_topic, full_partition)) == acknowledged
        broker.restart()
        assert len(read_all(broker.bootstrap, unique_topic, full_partition)) == acknowledged
        assert len(read_all(broker.bootstrap, unique_topic, good_partition)) == 5
        assert "Traceback" not in broker.log()


def log_dirs(bootstrap: str) -> dict[str, int]:
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        found = admin.describe_log_dirs()
    finally:
        admin.close()
    return {each["log_dir"]: each["error_code"] for _, entries in _by_broker(found) for each in entries}


def _by_broker(found: Any) -> list[tuple[int, list[dict[str, Any]]]]:
    if isinstance(found, dict):
        return [
            (node, entries.get("results", entries) if isinstance(entries, dict) else entries)
            for node, entries in found.items()
        ]
    return [(each.get("broker", 0), each.get("log_dirs") or each.get("results")) for each in found]


def test_a_directory_that_cannot_be_read_leaves_the_rest_serving(make_broker, redis_databases, tmp_path, unique_topic):
    with redis_databases.borrow() as url:
        broker = make_broker(tmp_path / "broker", url)
        one, two = tmp_path / "one", tmp_path / "two"
        broker.data_dir = f"{one},{two}"
        broker.start()
        client = Confluent(broker.bootstrap)
        client.create_topic(unique_topic, partitions=4, configs=FOREVER)
        in_one, in_two = partition_of(one, unique_topic), partition_of(two, unique_topic)
        client.produce(unique_topic, messages(5), partition=in_one)
        client.produce(unique_topic, messages(5), partition=in_two)
        broker.kill9()
        log = next((two / f"{unique_topic}-{in_two}").glob("*.log"))
        shutil.move(log, tmp_path / "kept")
        log.mkdir()
        broker.restart()
        assert len(read_all(broker.bootstrap, unique_topic, in_one)) == 5
        with RawClient(broker.port) as raw:
            assert raw.produce(unique_topic, batch(), partition=in_two).error_code == ErrorCode.kafka_storage_error
            assert raw.produce(unique_topic, batch(), partition=in_one).error_code == ErrorCode.none
        assert "Traceback" not in broker.log()


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
            deadline = time.monotonic() + 20
            while len(lines(broker, "replica-moved")) == done:
                assert time.monotonic() < deadline, broker.log()
                time.sleep(0.02)
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
        deadline = time.monotonic() + 20
        while left := [each.name for path in directories for each in path.glob(f"{unique_topic}*-delete")]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        broker.restart()
        assert read_all(broker.bootstrap, unique_topic, 0) == read
        assert "Traceback" not in broker.log()
