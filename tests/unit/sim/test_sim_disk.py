"""The simulated disk loses what was not synced, and only that."""

import errno

import pytest

from tests.unit.storage.conftest import KeepsNothing
from yak.sim.disk import SimDisk
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import record_batch


@pytest.fixture
def disk():
    disk = SimDisk()
    disk.make_directory("/d/sub")
    return disk


def after_power_losses(prepare, seeds=120):
    """What a file holds after a power loss, and what kinds of losses there were, for each of some seeds."""
    for seed in range(seeds):
        disk = SimDisk()
        disk.make_directory("/d")
        file = disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        prepare(file)
        lost = disk.crash(SeededRandom(seed))
        yield disk.read_file("/d/f"), lost


def test_power_loss_keeps_the_synced_part_and_all_nothing_or_a_part_of_the_rest():
    def prepare(file):
        file.append([b"synced"])
        file.sync()
        file.append([b"0123456789"])

    ends = set()
    for data, lost in after_power_losses(prepare):
        assert data.startswith(b"synced")
        if "holes" not in lost:
            assert b"synced0123456789".startswith(data)
            ends.add(len(data))
    assert {6, 16} < ends


def test_power_loss_may_leave_holes_of_whole_sectors_before_what_reached_the_device():
    written = b"s" * 60 + b"x" * 1500

    def prepare(file):
        file.append([b"s" * 60])
        file.sync()
        file.append([b"x" * 1500])

    holes = 0
    for data, lost in after_power_losses(prepare):
        assert data.startswith(b"s" * 60)
        if lost == {"holes": 1} and data != written[: len(data)]:
            assert set(data[60:]) <= set(b"x\0")
            edges = [at for at in range(61, len(data)) if data[at] != data[at - 1]]
            assert all(at % 64 == 0 for at in edges)
            holes += data.rstrip(b"\0") != data[: data.index(0)]
    assert holes > 5


def test_a_cut_that_was_not_synced_may_be_undone_and_old_bytes_stand_where_new_ones_did_not_come():
    def prepare(file):
        file.append([b"a" * 600])
        file.sync()
        file.truncate(100)
        file.append([b"b" * 300])

    found = {data for data, _lost in after_power_losses(prepare)}
    assert b"a" * 600 in found
    assert b"a" * 100 in found
    assert any(b"ba" in data for data in found)
    assert all(data.startswith(b"a" * 100) for data in found)


def test_a_cut_is_as_durable_as_the_sync_after_it():
    def prepare(file):
        file.append([b"a" * 600])
        file.sync()
        file.truncate(100)
        file.sync()

    assert {data for data, _lost in after_power_losses(prepare)} == {b"a" * 100}


def names_after_power_losses(prepare, seeds=40):
    """The names below /d after a power loss, for each of some seeds."""
    for seed in range(seeds):
        disk = SimDisk()
        disk.make_directory("/d/sub")
        for name in ("kept", "old", "gone"):
            disk.open(f"/d/sub/{name}", create=True)
        disk.sync_directory("/d/sub")
        disk.sync_directory("/d")
        prepare(disk)
        disk.crash(SeededRandom(seed))
        yield tuple(disk.names("/d/sub")) if disk.exists("/d/sub") else None


def test_names_whose_directory_was_not_synced_may_be_as_they_were():
    def prepare(disk):
        disk.open("/d/sub/new", create=True)
        disk.rename("/d/sub/old", "/d/sub/renamed")
        disk.remove("/d/sub/gone")

    assert set(names_after_power_losses(prepare)) == {
        ("gone", "kept", "old"),
        ("gone", "kept", "new", "old"),
        ("gone", "kept", "new", "renamed"),
        ("kept", "new", "renamed"),
    }


def test_names_in_a_synced_directory_stay_under_whatever_name_it_has():
    def prepare(disk):
        disk.open("/d/sub/new", create=True)
        disk.rename("/d/sub", "/d/other")
        disk.sync_directory("/d/other")
        disk.rename("/d/other", "/d/sub")

    assert set(names_after_power_losses(prepare)) <= {("gone", "kept", "new", "old"), None}

    def removed(disk):
        disk.remove_tree("/d/sub")
        disk.sync_directory("/d")

    assert set(names_after_power_losses(removed)) == {None}


def test_a_tree_that_was_removed_may_be_back_with_all_in_it():
    found = set(names_after_power_losses(lambda disk: disk.remove_tree("/d/sub")))
    assert {None, ("gone", "kept", "old")} <= found


def test_file_replaced_by_a_rename_may_return_after_a_crash():
    contents = set()
    for seed in range(20):
        disk = SimDisk()
        disk.make_directory("/d")
        disk.write_file("/d/f", b"old")
        disk.write_file("/d/g", b"new")
        disk.rename("/d/g", "/d/f")
        disk.crash(SeededRandom(seed))
        contents.add((disk.read_file("/d/f"), disk.exists("/d/g")))
    assert contents == {(b"old", True), (b"new", False)}


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


def test_removed_file_is_not_found_by_its_handle_as_on_the_real_disk(disk):
    file = disk.open("/d/f", create=True)
    file.append([b"x"])
    disk.remove("/d/f")
    for use in (
        lambda: file.read(9, 0),
        lambda: file.read_cached(9, 0),
        lambda: file.slice_cached(1, 0),
        lambda: file.append([b"y"]),
        lambda: file.truncate(0),
        file.sync,
        lambda: disk.open("/d/f"),
    ):
        with pytest.raises(FileNotFoundError):
            use()
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


def test_a_read_gives_a_wrong_bit_once_and_only_in_the_records_of_a_batch():
    disk = SimDisk()
    disk.make_directory("/d")
    batch = record_batch([b"value"], 0)
    for name in ("a.log", "a.index"):
        disk.open(f"/d/{name}", create=True).append([batch, batch])
    disk.garble_next(SeededRandom(1), path_contains="/d/")
    log = disk.open("/d/a.log")
    assert disk.open("/d/a.index").read(1000, 0) == batch * 2
    assert log.read(61, 0) == batch[:61]
    assert log.read(1000, 7) == (batch * 2)[7:]
    wrong = log.read(1000, 0)
    assert next(at for at in range(len(wrong)) if wrong[at] != (batch * 2)[at]) in range(61, len(batch))
    assert log.read(1000, 0) == batch * 2
    disk.garble_next(SeededRandom(1), path_contains="/d/")
    disk.kill()
    assert log.read(1000, 0) == batch * 2


def test_cached_read_of_uncached_bytes_returns_none_or_fewer_bytes(disk):
    file = disk.open("/d/f", create=True)
    file.append([b"0123456789"])
    disk.cached_bytes = 0
    assert file.read_cached(5, 0) is None
    disk.cached_bytes = 3
    assert file.read_cached(5, 2) == b"234"
    disk.cached_bytes = None
    assert file.read_cached(5, 2) == b"23456"


def test_replaced_file_is_durable_unless_written_lazily(disk):
    disk.write_file("/d/durable", b"12345")
    for seed in range(20):
        disk.write_file_lazily("/d/lazy", b"12345")
        lost = disk.crash(SeededRandom(seed))
        assert disk.read_file("/d/durable") == b"12345"
        assert lost or disk.read_file("/d/lazy") == b"12345"


def test_after_a_sync_that_failed_no_later_one_counts():
    disk = SimDisk()
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    disk.sync_directory("/d")
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


def test_file_renamed_to_its_own_name_stays(disk):
    disk.write_file("/d/sub/f", b"a")
    disk.rename("/d/sub/f", "/d/sub/f")
    assert disk.read_file("/d/sub/f") == b"a"
    disk.rename("/d/sub", "/d/sub")
    assert disk.names("/d/sub") == ["f"]


def test_saved_disk_that_is_brought_back_has_the_files_of_then_and_survives_a_power_loss(disk):
    file = disk.open("/d/sub/f", create=True)
    file.append([b"then"])
    saved = disk.saved()
    file.append([b" and now"])
    disk.open("/d/sub/new", create=True)
    disk.bring_back(saved)
    disk.crash(SeededRandom(1))
    assert disk.names("/d/sub") == ["f"]
    assert disk.open("/d/sub/f").read(100, 0) == b"then"
