"""What a clean shutdown mark promises, against a disk."""

import pytest

from yak.sim.checks.clean_marks_hold import check_clean_marks
from yak.sim.deliveries import Violation
from yak.sim.disk import SimDisk


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data/t-0")
    disk.sync_file_system("/data")
    return disk


def test_unsynced_log_without_a_clean_mark_is_no_violation(disk: SimDisk) -> None:
    disk.open("/data/t-0/0.log", create=True)
    check_clean_marks(disk, ["/data"])


def test_unsynced_file_that_is_no_log_is_no_violation(disk: SimDisk) -> None:
    disk.write_file("/data/.kafka_cleanshutdown", b"")
    disk.write_file_lazily("/data/other", b"x")
    check_clean_marks(disk, ["/data"])


def test_segment_that_is_being_deleted_is_no_violation(disk: SimDisk) -> None:
    disk.open("/data/t-0/0.log", create=True)
    disk.sync_file_system("/data")
    disk.rename("/data/t-0/0.log", "/data/t-0/0.log.deleted")
    disk.write_file("/data/.kafka_cleanshutdown", b"")
    check_clean_marks(disk, ["/data"])


@pytest.mark.parametrize("change", ["append", "truncate", "replace", "rename"])
def test_unsynced_change_of_a_log_beside_a_clean_mark_is_a_violation(disk: SimDisk, change: str) -> None:
    path = "/data/t-0/0.log"
    file = disk.open(path, create=True)
    file.append([b"ab"])
    disk.sync_file_system("/data")
    disk.write_file("/data/.kafka_cleanshutdown", b"")
    check_clean_marks(disk, ["/data"])
    match change:
        case "append":
            file.append([b"c"])
        case "truncate":
            file.truncate(1)
        case "replace":
            disk.write_file_lazily(path, b"x")
        case _:
            disk.rename(path, "/data/t-0/1.log")
    with pytest.raises(Violation, match=r"t-0/..log is not durable"):
        check_clean_marks(disk, ["/data"])
