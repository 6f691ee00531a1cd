"""What a start knows of producers when their snapshot and the log are both damaged: nothing is better than a part."""

import pytest

LOG = "/data/t-0/00000000000000000000.log"


def fill(bench, count=10):
    for number in range(count):
        bench.append([b"x" * 30], producer_id=number, producer_epoch=0, sequence=0)


def damage(bench, path, position, data):
    content = bytearray(bench.disk.read_file(path))
    content[position : position + len(data)] = data
    bench.disk.write_file(path, bytes(content))


def stop_and_damage_the_snapshot(bench):
    bench.store.close_plan(3)()
    (snapshot,) = [name for name in bench.files() if name.endswith(".snapshot")]
    damage(bench, f"/data/t-0/{snapshot}", 40, b"\xff")
    return snapshot


@pytest.mark.parametrize(
    ("position", "data", "why"),
    [
        (0, b"\0" * 100, "no batch that could be there"),
        (43, b"\1", "its bytes are not what its CRC says"),
    ],
    ids=["zeros", "another producer id"],
)
def test_a_log_that_cannot_tell_who_wrote_is_not_served(make_bench, position, data, why):
    bench = make_bench()
    fill(bench)
    snapshot = stop_and_damage_the_snapshot(bench)
    damage(bench, LOG, position, data)
    bench.disk.kill()
    store = bench.open()
    assert bench.partition not in store.logs
    assert f"{why}; it was read because {snapshot} is damaged too" in store.unavailable[bench.partition].reason


def test_without_its_snapshot_a_log_with_a_batch_that_a_checksum_refuses_is_served_again(make_bench):
    """What docs/operations.md says of the only replica there is."""
    bench = make_bench()
    fill(bench)
    snapshot = stop_and_damage_the_snapshot(bench)
    damage(bench, LOG, 43, b"\1")
    bench.disk.remove(f"/data/t-0/{snapshot}")
    bench.disk.kill()
    assert bench.open().logs[bench.partition].log_end_offset == 10


def test_a_snapshot_alone_that_is_damaged_is_read_back_from_the_log(make_bench):
    bench = make_bench()
    fill(bench)
    stop_and_damage_the_snapshot(bench)
    bench.disk.kill()
    store = bench.open()
    found = store.logs[bench.partition].producers.describe()
    assert sorted(each.producer_id for each in found) == list(range(10))


def test_a_damaged_log_whose_snapshot_is_good_is_served_as_before(make_bench):
    bench = make_bench()
    fill(bench)
    bench.store.close_plan(3)()
    damage(bench, LOG, 43, b"\1")
    bench.disk.kill()
    store = bench.open()
    found = store.logs[bench.partition].producers.describe()
    assert sorted(each.producer_id for each in found) == list(range(10))
