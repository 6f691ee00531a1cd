"""Reading a broker's copy of the metadata records, and folding them to a state."""

import pytest

from tests.errors import raises_error
from yak.cluster.image_log import ImageLog
from yak.errors import Unreachable, YakError
from yak.local.failover import RecordWatch
from yak.local.layout import METADATA_FOLDER
from yak.local.metadata_log import CopySource, RedisSource, fold, newest_copy
from yak.local.metadata_restore import RestoreStore
from yak.local.redis_server import EmbeddedRedis
from yak.local.replicas_in_redis import read_cluster
from yak.ports.metadata_store import TailedRecord
from yak.server.disk import RealDisk

TIME_MS = 1_795_176_000_000


def record(offset, kind, payload):
    return TailedRecord(
        offset, f"h{offset}", kind, TIME_MS + offset * 1000, {"version": 0, **payload}, previous_hash=previous(offset)
    )


def previous(offset):
    return f"h{offset - 1}" if offset > 1 else ""


RECORDS = [
    record(1, "Cluster", {"cluster_id": "c", "incarnation": 1, "incarnation_id": "i", "format": 0}),
    record(2, "ProducerIds", {"next": 1000, "broker_epoch": 2, "first": 0, "node_id": 1}),
    record(3, "ProducerIds", {"next": 2000, "broker_epoch": 2, "first": 1000, "node_id": 1}),
]


@pytest.fixture
def copy(tmp_path):
    disk = RealDisk()
    log, _ = ImageLog.open(disk, str(tmp_path / METADATA_FOLDER))
    log.append(RECORDS).run(disk)
    return CopySource(str(tmp_path))


def test_a_copy_is_read_without_being_touched(copy, tmp_path):
    (path,) = (tmp_path / METADATA_FOLDER).glob("*.log")
    with path.open("ab") as file:
        file.write(b"\0\0\0\x40torn")
    before = path.read_bytes()
    assert list(copy.records()) == RECORDS
    assert path.read_bytes() == before


def test_the_state_is_folded_as_of_an_offset_or_a_time(copy):
    assert fold(copy).next_producer_id == 2000
    assert fold(copy, offset=2).next_producer_id == 1000
    assert fold(copy, timestamp_ms=TIME_MS + 2500).next_producer_id == 1000
    assert fold(copy, offset=0).cluster_id == ""


def test_metadata_log_with_trimmed_records_is_reported_as_trimmed():
    class Trimmed:
        name = "x"

        def base(self):
            return None

        def records(self):
            return iter(RECORDS[1:])

    with raises_error(YakError, "log-trimmed"):
        fold(Trimmed())


def test_a_broken_chain_is_said_to_be_broken():
    class Broken:
        name = "x"

        def base(self):
            return None

        def records(self):
            return iter([RECORDS[0], RECORDS[2]])

    with raises_error(YakError, "log-broken"):
        fold(Broken())


def test_unreadable_sources_are_named_without_passwords(tmp_path):
    with raises_error(YakError, "log-source"):
        list(CopySource(str(tmp_path / "none")).records())
    source = RedisSource("redis://u:secret@127.0.0.1:1/0", timeout_s=0.2)
    with pytest.raises(YakError) as caught:
        list(source.records())
    assert caught.value.exit_code == 3
    assert "secret" not in caught.value.message + caught.value.why
    assert caught.value.try_[0].startswith("yak metadata log --redis-url")


@pytest.mark.parametrize(
    ("read", "command"),
    [
        (lambda url: read_cluster(url, timeout_s=0.2), "yak isr --from-redis"),
        (lambda url: RestoreStore(url, timeout_s=0.2).__enter__(), "yak cluster restore"),
    ],
)
def test_store_that_does_not_answer_is_named_with_options_of_the_requesting_command(read, command):
    with raises_error(YakError, "log-source") as caught:
        read("redis://127.0.0.1:1/0")
    assert len(caught.value.try_) == 2
    assert all(each.startswith(f"{command} --") for each in caught.value.try_)


def test_store_that_ends_while_its_records_are_read_is_an_error_and_no_bug(tmp_path):
    redis = EmbeddedRedis(str(tmp_path)).start()
    follows = RedisSource(redis.url, timeout_s=2.0).follow(0)
    assert next(follows) is None

    def find_twice():
        with RestoreStore(redis.url, timeout_s=2.0) as restore:
            assert restore.find().state == "EMPTY"
            redis.kill()
            restore.find()

    for read in (find_twice, lambda: next(follows)):
        with pytest.raises(Unreachable, match=f"the metadata store at {redis.url} failed"):
            read()


def test_newest_copy_is_that_of_the_broker_with_the_last_record(copy, tmp_path):
    disk = RealDisk()
    log, _ = ImageLog.open(disk, str(tmp_path / "behind" / METADATA_FOLDER))
    log.append(RECORDS[:2]).run(disk)
    found = newest_copy([str(tmp_path / "behind"), str(tmp_path), str(tmp_path / "lost")])
    assert found.directory == str(tmp_path)
    with raises_error(YakError, "log-source"):
        newest_copy([str(tmp_path / "lost")])


def test_watch_of_copies_has_the_records_since_it_began_whichever_broker_has_them(tmp_path):
    disk = RealDisk()
    logs = []
    for node in ("node-1", "node-2"):
        log, _ = ImageLog.open(disk, str(tmp_path / node / METADATA_FOLDER))
        log.append(RECORDS[:1]).run(disk)
        logs.append(log)
    directories = [str(tmp_path / "node-1"), str(tmp_path / "node-2")]
    watch = RecordWatch([CopySource(each) for each in directories], fold(newest_copy(directories)))
    assert watch.records() == []
    logs[0].append(RECORDS[1:2]).run(disk)
    logs[1].append(RECORDS[1:]).run(disk)
    assert watch.records() == RECORDS[1:]
