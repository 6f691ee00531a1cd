"""A start after the machine went down: what was not synced may be gone, and the broker must say so."""

import errno
import uuid

import pytest

from yak.config.log_config import LogConfig
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.sim.disk import SimDisk
from yak.storage.log_store import LogStore

MARK = "/data/boot.yak"


class Machine:
    """One data directory and the starts of the machine and of the broker."""

    def __init__(self, **config):
        self.disk = SimDisk()
        self.config = LogConfig(**config)
        self.boot_id = "boot-1"
        self.ids = iter(uuid.UUID(int=number) for number in range(1, 100))

    def start(self, directories=("/data",), **more):
        store = LogStore.open(
            self.disk,
            directories,
            1,
            self.ids.__next__,
            0,
            lambda _topic: self.config,
            kernel_boot_id=self.boot_id,
            **more,
        )
        self.store = store
        return store

    def fill(self):
        self.store.create(TopicPartition("t", 0), uuid.UUID(int=7), self.config)
        return self

    def goes_down(self):
        """Power loss of the machine; the clean mark is not written."""
        self.disk.kill()
        self.boot_id += "1"
        return self

    def mark(self):
        return self.disk.read_file(MARK)


@pytest.fixture
def machine():
    machine = Machine()
    machine.start()
    return machine.fill()


def test_the_first_start_marks_the_directory_and_loses_nothing():
    machine = Machine()
    assert not machine.start().report.lossy
    assert machine.mark() == b"boot-1\n"


def test_a_crash_of_the_process_alone_is_not_lossy(machine):
    machine.disk.kill()
    assert not machine.start().report.lossy


def test_a_restart_of_the_machine_without_a_clean_stop_is_lossy(machine):
    report = machine.goes_down().start().report
    assert report.lossy
    assert [(event.level, event.event) for event in report.events] == [("warning", "machine-restarted")]


def test_a_restart_of_the_machine_after_a_clean_stop_is_not(machine):
    machine.store.close_plan(3).run(machine.store.disk)
    assert not machine.goes_down().start().report.lossy
    assert machine.mark() == b"boot-11\n"
    machine.disk.kill()
    assert not machine.start().report.lossy, "the process crashed since, the machine did not"


def test_start_is_lossy_again_until_the_cluster_was_notified(machine):
    assert machine.goes_down().start().report.lossy
    machine.disk.kill()
    assert machine.start().report.lossy, "it may have ended before it registered"
    machine.store.renew_boot_marks()
    machine.disk.kill()
    assert not machine.start().report.lossy


def test_start_is_lossy_again_after_a_clean_stop_before_the_cluster_was_notified(machine):
    assert machine.goes_down().start().report.lossy
    machine.store.close_plan(3).run(machine.store.disk)
    machine.disk.kill()
    assert machine.start().report.lossy, "it was stopped before it could register"
    machine.store.renew_boot_marks()
    machine.store.close_plan(4).run(machine.store.disk)
    machine.disk.kill()
    assert not machine.start().report.lossy


def test_logs_that_are_synced_at_every_record_lose_nothing():
    machine = Machine(flush_messages=1)
    machine.start()
    machine.fill().goes_down()
    assert not machine.start().report.lossy
    assert machine.mark() == b"boot-11\n"


def test_start_without_a_boot_id_is_not_lossy_and_writes_no_boot_mark():
    machine = Machine()
    machine.boot_id = None
    machine.start()
    machine.fill()
    machine.disk.kill()
    assert not machine.start().report.lossy
    assert not machine.disk.exists(MARK)


def test_boot_mark_in_one_of_two_directories_suffices_to_detect_a_machine_restart():
    machine = Machine()
    machine.start(("/data", "/more"))
    machine.fill()
    machine.disk.remove("/more/boot.yak")
    assert machine.goes_down().start(("/data", "/more")).report.lossy
    machine.store.renew_boot_marks()
    assert machine.disk.read_file("/more/boot.yak") == machine.mark() == b"boot-11\n"


def test_boot_mark_that_cannot_be_written_raises_log_directory_failure(machine):
    machine.goes_down().start()
    machine.disk.fail_next("write_file", errno.EIO, path_contains=MARK)
    with pytest.raises(LogDirectoryFailure):
        machine.store.renew_boot_marks()


# ------------------------------------------------------------------------------------------------ older directories


def closed(machine, epoch):
    machine.store.close_plan(epoch).run(machine.disk)
    machine.store.release()


def copies(machine, directory):
    return {path: machine.disk.read_file(path) for path in machine.disk.contents() if path.startswith(f"{directory}/")}


def put_back(machine, files):
    for path, data in files.items():
        machine.disk.write_file(path, data)


@pytest.fixture
def two():
    """A machine whose second directory was copied at the stop in epoch 3, and the copy."""
    machine = Machine()
    machine.start(("/data", "/more"))
    machine.fill()
    assert machine.store.create(TopicPartition("t", 1), uuid.UUID(int=7), machine.config).directory == "/more"
    closed(machine, 3)
    return machine, copies(machine, "/more")


def last_epoch_of(machine, epoch):
    return machine.start(("/data", "/more"), last_epoch=lambda: epoch).report


def test_directories_that_one_stop_closed_are_not_lossy(two):
    machine, _ = two
    assert not last_epoch_of(machine, 3).lossy


@pytest.mark.parametrize("was_killed", [False, True])
def test_directory_from_an_older_copy_is_lossy_until_the_cluster_was_notified(two, was_killed):
    machine, copy = two
    assert not last_epoch_of(machine, 3).lossy
    if was_killed:
        machine.disk.kill()
    else:
        closed(machine, 5)
    put_back(machine, copy)
    report = last_epoch_of(machine, 5)
    assert report.lossy
    assert [(each.event, each.fields["directory"]) for each in report.events] == [("data-directory-older", "/more")]
    machine.disk.kill()
    assert last_epoch_of(machine, 5).lossy, "the cluster does not know of it yet"
    machine.store.renew_boot_marks()
    machine.disk.kill()
    assert not last_epoch_of(machine, 6).lossy


def test_directory_that_the_broker_has_run_without_is_lossy(two):
    machine, _ = two
    machine.start()
    closed(machine, 5)
    assert last_epoch_of(machine, 5).lossy


def test_added_directory_is_not_lossy():
    machine = Machine()
    machine.start()
    closed(machine.fill(), 3)
    assert not last_epoch_of(machine, 3).lossy
