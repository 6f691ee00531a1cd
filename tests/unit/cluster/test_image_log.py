import pytest

from yak.cluster import image_log
from yak.cluster.image import Image
from yak.cluster.image_log import ImageLog
from yak.cluster.payload import BadRecord
from yak.ports.metadata_store import TailedRecord
from yak.server.disk import RealDisk
from yak.sim.disk import SimDisk
from yak.sim.seeded_random import SeededRandom


def records(first, count, previous=""):
    result = []
    for offset in range(first, first + count):
        payload = {"version": 0, "resource_type": "broker", "resource_name": "", "configs": {"k": str(offset)}}
        result.append(
            TailedRecord(
                offset, f"h{offset}", "Config", offset, payload, previous or (f"h{offset - 1}" if offset > 1 else "")
            )
        )
        previous = ""
    return result


@pytest.fixture
def disk():
    return RealDisk()


def test_image_log_has_its_appended_records_after_a_restart(disk, tmp_path):
    directory = f"{tmp_path}/meta"
    log, image = ImageLog.open(disk, directory)
    assert image == Image()
    log.append(records(1, 3)).run(disk)
    log.append(records(4, 2)).run(disk)
    again, image = ImageLog.open(disk, directory)
    assert image == Image().apply_all(records(1, 5))[0]
    assert again.truncated_bytes == 0
    again.append(records(6, 1)).run(disk)
    assert ImageLog.open(disk, directory)[1].offset == 6


def test_torn_tail_is_truncated_wherever_it_is_torn(disk, tmp_path):
    directory = tmp_path / "meta"
    log, _image = ImageLog.open(disk, str(directory))
    log.append(records(1, 3)).run(disk)
    [path] = directory.iterdir()
    whole = path.read_bytes()
    lengths = []
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        log, image = ImageLog.open(disk, str(directory))
        assert log.truncated_bytes == size - path.stat().st_size
        lengths.append(image.offset)
    assert lengths == sorted(lengths)
    assert set(lengths) == {0, 1, 2}


def test_zeros_left_by_a_power_loss_are_a_torn_tail(disk, tmp_path):
    directory = tmp_path / "meta"
    log, _image = ImageLog.open(disk, str(directory))
    log.append(records(1, 3)).run(disk)
    [path] = directory.iterdir()
    path.write_bytes(path.read_bytes() + bytes(100))
    log, image = ImageLog.open(disk, str(directory))
    assert (image.offset, log.truncated_bytes) == (3, 100)


@pytest.mark.parametrize("seed", range(8))
def test_records_that_a_killed_process_left_unsynced_are_durable_once_a_start_has_read_them(seed):
    disk = SimDisk()
    log, _image = ImageLog.open(disk, "/data/meta")
    disk.sync_directory("/data")
    log.append(records(1, 3))
    disk.kill()
    assert ImageLog.open(disk, "/data/meta")[1].offset == 3
    disk.crash(SeededRandom(seed))
    assert ImageLog.open(disk, "/data/meta")[1].offset == 3


def test_damaged_entry_ends_the_log_and_later_appends_continue_from_there(disk, tmp_path):
    directory = tmp_path / "meta"
    log, _image = ImageLog.open(disk, str(directory))
    log.append(records(1, 3)).run(disk)
    [path] = directory.iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    log, image = ImageLog.open(disk, str(directory))
    assert image.offset == 1
    log.append(records(2, 4)).run(disk)
    assert ImageLog.open(disk, str(directory))[1].offset == 5


def test_a_long_log_becomes_a_snapshot_and_a_tail(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(image_log, "MAX_RECORDS", 10)
    directory = tmp_path / "meta"
    log, image = ImageLog.open(disk, str(directory))
    for first in range(1, 100, 5):
        fresh = records(first, 5)
        log.append(fresh).run(disk)
        assert log.compaction(image) is None
        image = image.apply_all(fresh)[0]
        compact = log.compaction(image)
        if compact is not None:
            compact.run(disk)
            log.compacted(compact)
    log.append(records(101, 3)).run(disk)
    assert len(list(directory.iterdir())) <= 2
    assert ImageLog.open(disk, str(directory))[1] == image.apply_all(records(101, 3))[0]


def test_no_snapshot_is_begun_while_an_earlier_one_is_written(disk, tmp_path, monkeypatch):
    """The earlier one could replace the later one, whose job has removed the records between both."""
    monkeypatch.setattr(image_log, "MAX_RECORDS", 3)
    directory = tmp_path / "meta"
    log, image = ImageLog.open(disk, str(directory))
    plans = []
    for first in (1, 5):
        fresh = records(first, 4)
        log.append(fresh).run(disk)
        image = image.apply_all(fresh)[0]
        plans.append(log.compaction(image))
    for plan in filter(None, reversed(plans)):
        plan.run(disk)
    assert ImageLog.open(disk, str(directory))[1] == image
    assert plans[1] is None
    log.compacted(plans[0])
    log.compaction(image).run(disk)
    assert ImageLog.open(disk, str(directory))[1] == image


def test_hash_chain_tail_survives_a_snapshot_and_a_restart(disk, tmp_path, monkeypatch):
    """Otherwise a restore takes a broker that is a record behind for one of another history."""
    monkeypatch.setattr(image_log, "MAX_RECORDS", 3)
    directory = tmp_path / "meta"
    log, image = ImageLog.open(disk, str(directory))
    first = records(1, 4)
    log.append(first).run(disk)
    log.compaction(image.apply_all(first)[0]).run(disk)
    log.append(records(5, 1)).run(disk)
    known = ImageLog.open(disk, str(directory))[0].hash_chain
    assert [known.holds(each.offset, each.chain_hash) for each in (*first, *records(5, 1))] == [True] * 5
    assert known.holds(3, "0" * 40) is False


def test_a_crash_between_snapshot_and_removal_loses_nothing(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(image_log, "MAX_RECORDS", 3)
    directory = tmp_path / "meta"
    log, image = ImageLog.open(disk, str(directory))
    log.append(records(1, 4)).run(disk)
    image = image.apply_all(records(1, 4))[0]
    compact = log.compaction(image)
    log.append(records(5, 2)).run(disk)
    [old] = [path for path in directory.iterdir() if path.name.endswith("1.log")]
    kept = old.read_bytes()
    compact.run(disk)
    old.write_bytes(kept)
    assert ImageLog.open(disk, str(directory))[1].offset == 6


def test_entries_of_a_newer_version_are_refused_not_cut(disk, tmp_path):
    log, _image = ImageLog.open(disk, str(tmp_path / "meta"))
    log.append([TailedRecord(1, "h", "Config", 0, {"version": 99}, "")]).run(disk)
    with pytest.raises(BadRecord, match="newer"):
        ImageLog.open(disk, str(tmp_path / "meta"))
