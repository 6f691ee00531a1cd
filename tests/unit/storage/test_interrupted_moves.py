"""What a start does with the copy of a log that was moving to another log directory."""

import uuid

import pytest

from tests.unit.storage.conftest import append_batch, lower
from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.sim.disk import SimDisk
from yak.sim.seeded_random import SeededRandom
from yak.storage.checkpoints import BadCheckpoint, MovedLog, format_moved, format_partition_metadata, parse_moved
from yak.storage.log_move import Folders, move_seal
from yak.storage.log_store import LogStore
from yak.storage.names import NEW_LOG_MARK

TOPIC = uuid.UUID(int=5)
PARTITION = TopicPartition("t", 0)
FUTURE = "/b/t-0.x-future"
FOLDERS = Folders("/a", "/a/t-0", "/b", FUTURE)


@pytest.fixture
def disk():
    return SimDisk()


def opened(disk, *directories):
    return LogStore.open(
        disk,
        directories or ["/a", "/b"],
        1,
        SeededRandom(1 + len(directories)).uuid4,
        0,
        lambda _topic: LogConfig(),
        kernel_boot_id="1",
    )


@pytest.fixture
def store(disk):
    """A store with a log of 5 records in /a that begins at 2, and a sealed copy of it in /b."""
    store = opened(disk)
    log = store.create(PARTITION, TOPIC, LogConfig())
    assert log.directory == "/a"
    for _ in range(5):
        append_batch(log, epoch=3)
    log.advance_log_start(2)
    log.cleaned_offset = 1
    move_seal(log, FOLDERS, None, 4).run(disk)
    return store


def restarted(store, *directories):
    disk = store.disk
    disk.kill()
    return opened(disk, *directories)


def names(disk):
    return {f"{path}/{name}" for path in ("/a", "/b") for name in disk.names(path) if name.startswith("t-")}


def test_copy_of_a_log_that_has_its_name_is_removed(store):
    again = restarted(store)
    assert again.logs[PARTITION].directory == "/a"
    assert again.report.leftovers == [FUTURE]


def test_copy_that_one_start_found_void_never_becomes_the_log(store, disk):
    """The rename of the log's folder had failed; the next start ended before it removed the copy (seed 2001631)."""
    again = restarted(store)
    log = again.logs[PARTITION]
    for _ in range(2):
        append_batch(log, epoch=3)
    newer = Folders("/a", "/a/t-0", "/b", "/b/t-0.y-future")
    move_seal(log, newer, None, 7).run(disk)
    again.set_aside(log).run(disk)
    assert not disk.exists(f"{FUTURE}/{NEW_LOG_MARK}")
    moved = restarted(again).logs[PARTITION]
    assert (moved.directory, moved.log_end_offset) == ("/b", 7)


@pytest.mark.parametrize("has_topic", [True, False])
def test_folder_of_another_topic_in_a_directory_that_came_back_does_not_void_the_copy(store, disk, has_topic):
    """It has the log's name, of an earlier topic or of a creation that was cut short."""
    store.set_aside(store.logs[PARTITION]).run(disk)
    opened(disk, "/c")
    disk.make_directory("/c/t-0")
    disk.write_file(f"/c/t-0/{0:020d}.log", b"")
    if has_topic:
        disk.write_file("/c/t-0/partition.metadata", format_partition_metadata(uuid.UUID(int=4)))
    again = restarted(store, "/a", "/c", "/b")
    held = [each.get(PARTITION) for each in (again.logs, again.rivals)]
    assert [each.log_end_offset for each in held if each is not None and each.topic_id == TOPIC] == [5]


def test_copy_of_an_earlier_topic_is_not_taken_for_a_newer_one(store, disk):
    """It has the higher leader epoch; each copy becomes the log of its own topic."""
    store.set_aside(store.logs[PARTITION]).run(disk)
    del store.logs[PARTITION]
    log = store.create(PARTITION, uuid.UUID(int=6), LogConfig())
    append_batch(log, epoch=3)
    move_seal(log, Folders(log.directory, log.path, "/c", "/c/t-0.z-future"), None, 1).run(disk)
    store.set_aside(log).run(disk)
    again = restarted(store, "/a", "/b", "/c")
    held = [again.logs[PARTITION], again.rivals[PARTITION]]
    assert {each.topic_id: each.directory for each in held} == {TOPIC: "/b", uuid.UUID(int=6): "/c"}


@pytest.mark.parametrize("name", ["a", "z"])
def test_newest_of_two_sealed_copies_becomes_the_log(store, disk, name):
    """The directory of the older copy could not be read when the log was served again."""
    log = store.logs[PARTITION]
    for _ in range(2):
        append_batch(log, epoch=3)
    move_seal(log, Folders("/a", "/a/t-0", "/b", f"/b/t-0.{name}-future"), None, 7).run(disk)
    store.set_aside(log).run(disk)
    for _ in range(2):
        store = restarted(store)
        assert store.logs[PARTITION].log_end_offset == 7
    assert FUTURE in store.report.leftovers


def test_copy_without_a_seal_is_removed(store, disk):
    disk.remove(f"{FUTURE}/fresh.yak")
    store.set_aside(store.logs[PARTITION])
    again = restarted(store)
    assert PARTITION not in again.logs
    assert FUTURE in again.report.leftovers


def test_sealed_copy_becomes_the_log_that_lost_its_name(store, disk):
    log = store.logs[PARTITION]
    store.set_aside(log)
    for _ in range(2):
        store = restarted(store)
        moved = store.logs[PARTITION]
        assert (moved.directory, moved.topic_id, moved.log_end_offset, moved.log_start_offset) == ("/b", TOPIC, 5, 2)
        assert (moved.recovery_point, moved.cleaned_offset, moved.epochs.entries) == (5, 1, [(3, 2)])
        assert store.high_watermarks[PARTITION] == 4
        assert {each for each in names(disk) if not each.endswith("-delete")} == {"/b/t-0"}


def test_sealed_copy_is_retained_while_a_directory_cannot_be_read(store, disk, monkeypatch):
    store.set_aside(store.logs[PARTITION])
    listed = SimDisk.names

    def fails(self, path):
        if path == "/a":
            raise OSError(5, "EIO", path)
        return listed(self, path)

    disk.kill()
    with monkeypatch.context() as patched:
        patched.setattr(SimDisk, "names", fails)
        patched.setattr("yak.storage.log_directory._check_agreement", lambda *_: None)
        store = opened(disk)
        assert PARTITION not in store.logs
        assert store.report.leftovers == []
    assert FUTURE in names(disk)
    assert restarted(store).logs[PARTITION].directory == "/b"


def test_undone_rename_of_the_copy_is_repeated(store):
    log = store.logs[PARTITION]
    store.set_aside(log).run(store.disk)
    store.move(log, "/b", FUTURE)
    store.disk.rename("/b/t-0", FUTURE)
    assert restarted(store).logs[PARTITION].log_end_offset == 5


def test_mark_of_a_moved_log_is_read_back():
    moved = MovedLog("t-0", 5, 2, 4, None)
    assert parse_moved(format_moved(moved)) == moved
    assert parse_moved(b"") is None
    for damaged in (b"{", b"[1]", b"7"):
        with pytest.raises(BadCheckpoint):
            parse_moved(damaged)


def test_recovery_point_of_a_moved_log_that_a_truncation_lowered_to_zero_stays_zero(disk):
    store = opened(disk)
    log = store.create(PARTITION, TOPIC, LogConfig())
    disk.write_file(f"{log.path}/{NEW_LOG_MARK}", format_moved(MovedLog(str(PARTITION), 5, 0, 5, None)))
    lower(store, log)
    assert not [event for event in restarted(store).report.events if event.level == "error"]


@pytest.mark.parametrize("seal", [b"", b"[", b"rubbish"])
def test_copy_with_a_damaged_seal_is_retained(store, seal):
    """The log lost its name, and its folder is removed: the copy was removed too."""
    store.disk.rename("/a/t-0", "/a/t-0.x-delete")
    store.disk.write_file(f"{FUTURE}/{NEW_LOG_MARK}", seal)
    again = restarted(store)
    assert again.report.leftovers == ["/a/t-0.x-delete"]
    assert [each.fields["folder"] for each in again.report.events if each.event == "stray-log-kept"] == ["t-0.x-future"]
