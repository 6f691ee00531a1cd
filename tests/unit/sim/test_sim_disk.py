"""The simulated disk loses what was not synced, and only that."""

import errno
import random

import pytest

from yak.sim.disk import SimDisk


class Die:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def below(self, limit):
        return self.random.randrange(limit)


@pytest.fixture
def disk():
    disk = SimDisk()
    disk.make_directory("/d/sub")
    return disk


def test_power_loss_keeps_the_synced_part_and_all_nothing_or_a_part_of_the_rest():
    ends = set()
    for seed in range(60):
        disk = SimDisk()
        file = disk.open("/f", create=True)
        file.append([b"synced"])
        file.sync()
        file.append([b"0123456789"])
        disk.crash(Die(seed))
        data = disk.read_file("/f")
        assert data.startswith(b"synced")
        assert b"synced0123456789".startswith(data)
        ends.add(len(data))
    assert {6, 16} < ends


def test_the_end_of_a_process_keeps_everything_but_locks(disk):
    disk.open("/d/f", create=True).append([b"x"])
    disk.lock("/d/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/d/.lock")
    disk.kill()
    disk.lock("/d/.lock").release()
    assert disk.read_file("/d/f") == b"x"


def test_files_follow_renames_of_their_directory(disk):
    file = disk.open("/d/sub/f", create=True)
    disk.rename("/d/sub", "/d/other")
    file.append([b"x"])
    assert file.path == "/d/other/f"
    assert disk.read_file("/d/other/f") == b"x"
    assert disk.names("/d") == ["other"]
    assert disk.file_sizes("/d/other") == [("f", 1)]


def test_a_removed_file_is_still_read_by_who_has_it_open(disk):
    file = disk.open("/d/f", create=True)
    file.append([b"x"])
    disk.remove("/d/f")
    assert file.read(9, 0) == b"x"
    with pytest.raises(FileNotFoundError):
        disk.open("/d/f")
    disk.remove("/d/f")
    disk.remove_tree("/nowhere")


def test_failures_come_once_and_where_they_were_ordered(disk):
    one, two = disk.open("/d/one", create=True), disk.open("/d/two", create=True)
    disk.fail_next("append", errno.ENOSPC, path_contains="two")
    assert one.append([b"x"]) == 1
    with pytest.raises(OSError, match="two") as caught:
        two.append([b"x"])
    assert caught.value.errno == errno.ENOSPC
    assert two.append([b"x"]) == 1


def test_what_is_not_cached_is_not_there_or_short(disk):
    file = disk.open("/d/f", create=True)
    file.append([b"0123456789"])
    disk.cached_bytes = 0
    assert file.read_cached(5, 0) is None
    disk.cached_bytes = 3
    assert file.read_cached(5, 2) == b"234"
    disk.cached_bytes = None
    assert file.read_cached(5, 2) == b"23456"


def test_a_replaced_file_is_durable_only_when_asked(disk):
    disk.write_file("/d/durable", b"12345")
    for seed in range(20):
        disk.write_file_lazily("/d/lazy", b"12345")
        disk.crash(Die(seed))
        assert disk.read_file("/d/durable") == b"12345"
        assert b"12345".startswith(disk.read_file("/d/lazy"))


def test_after_a_sync_that_failed_no_later_one_counts():
    class KeepsNothing:
        def below(self, limit):
            return 1

    disk = SimDisk()
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    file.append([b"kept"])
    file.sync()
    file.append([b"lost"])
    disk.fail_next("sync")
    with pytest.raises(OSError, match="EIO"):
        file.sync()
    file.sync()
    disk.crash(KeepsNothing())
    assert disk.peek("/d/f", 0) == b"kept"
    file = disk.open("/d/f")
    file.append([b" again"])
    file.sync()
    disk.crash(KeepsNothing())
    assert disk.peek("/d/f", 0) == b"kept again"
