"""Processes that end inside a write, as `yak.sim.disk` does it."""

import errno

import pytest

from tests.cluster_rig import ClusterRig
from yak.core import events
from yak.sim.disk import Death, ProcessEnded, SimDisk
from yak.sim.seeded_random import SeededRandom


@pytest.fixture
def disk():
    disk = SimDisk()
    disk.make_directory("/d")
    disk.open("/d/f", create=True).append([b"old"])
    return disk


def die(disk, seed, act, writes_left=0):
    disk.end_inside(Death(SeededRandom(seed), writes_left))
    with pytest.raises(ProcessEnded):
        act()


def test_an_append_is_done_in_part_as_a_whole_or_not_at_all(disk):
    found = set()
    for seed in range(60):
        disk.open("/d/f").truncate(3)
        die(disk, seed, lambda: disk.open("/d/f").append([b"new", b"er"]))
        disk.kill()
        found.add(disk.peek("/d/f", 3))
    assert found == {b"", b"n", b"ne", b"new", b"newe", b"newer"}


@pytest.mark.parametrize(
    ("act", "is_done"),
    [
        (lambda disk: disk.open("/d/f").truncate(1), lambda disk: disk.peek("/d/f", 0) == b"o"),
        (lambda disk: disk.rename("/d/f", "/d/g"), lambda disk: disk.exists("/d/g")),
        (lambda disk: disk.remove("/d/f"), lambda disk: not disk.exists("/d/f")),
        (lambda disk: disk.write_file("/d/f", b"x"), lambda disk: disk.read_file("/d/f") == b"x"),
        (lambda disk: disk.write_file_lazily("/d/f", b"x"), lambda disk: disk.read_file("/d/f") == b"x"),
        (lambda disk: disk.open("/d/h", create=True), lambda disk: disk.exists("/d/h")),
        (lambda disk: disk.make_directory("/d/e"), lambda disk: disk.is_directory("/d/e")),
        (lambda disk: disk.open("/d/f").sync(), lambda disk: not disk.unsynced("/d/f")),
    ],
)
def test_any_other_write_is_done_or_not(act, is_done):
    found = set()
    for seed in range(30):
        disk = SimDisk()
        disk.make_directory("/d")
        disk.open("/d/f", create=True).append([b"old"])
        disk.unsynced = lambda path, disk=disk: disk.contents()[path].synced < len(disk.contents()[path].data)
        die(disk, seed, lambda disk=disk: act(disk))
        disk.kill()
        found.add(is_done(disk))
    assert found == {True, False}


def test_process_ends_in_the_write_after_the_given_count_and_writes_nothing_later(disk):
    file = disk.open("/d/f")
    disk.end_inside(Death(SeededRandom(1), 2))
    file.append([b"1"])
    file.append([b"2"])
    with pytest.raises(ProcessEnded):
        file.append([b"3"])
    before = disk.peek("/d/f", 0)
    with pytest.raises(ProcessEnded):
        file.append([b"4"])
    assert disk.peek("/d/f", 0) == before
    disk.kill()
    disk.open("/d/f").append([b"5"])
    assert disk.peek("/d/f", 0) == before + b"5"


def test_a_write_that_fails_is_none_of_them(disk):
    disk.fail_next("append", errno.ENOSPC)
    disk.end_inside(Death(SeededRandom(1), 0))
    with pytest.raises(OSError, match="ENOSPC"):
        disk.open("/d/f").append([b"1"])
    with pytest.raises(ProcessEnded):
        disk.open("/d/f").append([b"1"])


def test_broker_that_ends_inside_a_write_stops_at_once_and_loses_no_acknowledged_data():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="2")
    assert rig.produce("orders", [b"a"]).error_code == 0
    leader = rig.leader("orders")
    node = rig.nodes[leader - 1]
    node.disk.end_inside(Death(SeededRandom(3), 0))
    pending = rig.begin_produce("orders", [b"b"])
    rig.run_until(lambda: node.broker is None)
    rig.run_until(lambda: rig.leader("orders") != leader)
    assert not pending.is_done or pending.answer is None
    node.start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.produce("orders", [b"c"]).error_code == 0
    assert rig.replica(leader, "orders").log_start_offset == 0


def test_answers_of_a_step_are_checked_before_the_process_ends_in_the_next_one():
    """Of two requests in one read the first may be answered, and the process end in a write for the second."""
    node = ClusterRig().nodes[0]
    steps = []
    node.after_step = lambda: steps.append(1)
    for death, wanted in ((Death(SeededRandom(1), 5), 1), (None, 1)):
        node.disk.end_inside(death)
        node._step(events.TurnEnd())
        assert len(steps) == wanted
