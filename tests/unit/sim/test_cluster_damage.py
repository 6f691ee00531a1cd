"""Damage of the simulator: what stands there, what should, and that whoever looks at the files knows."""

from types import SimpleNamespace

import pytest

from tests.sim.seeds import totals_of
from yak.ids import TopicPartition
from yak.protocol.record_writer import build_batch
from yak.sim import cluster_damage
from yak.sim.checks.watermark_monotonic import WatermarkMonotonic
from yak.sim.deliveries import Violation
from yak.sim.disk import Content, SimDisk
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec
from yak.sim.trial import run_spec


def content(data: bytes) -> Content:
    made = Content()
    made.data += data
    return made


def test_damaged_file_retains_its_original_bytes_for_damage_in_any_order():
    file = content(b"0123456789")
    assert file.damage(2, b"abcd")
    assert file.damage(4, b"XYZ")
    assert file.damage(8, b"zzzz")
    assert (bytes(file.data), bytes(file.sound())) == (b"01abXYZ7zz", b"0123456789")
    file.truncate(5)
    file.data += b"new"
    assert (bytes(file.data), bytes(file.sound())) == (b"01abXnew", b"01234new")
    file.truncate(2)
    assert not file.wounds


def test_the_same_bytes_again_and_what_is_behind_the_end_are_no_damage():
    file = content(b"0123")
    assert not file.damage(1, b"12")
    assert not file.damage(4, b"x")
    assert not file.wounds


def test_the_broker_reads_what_stands_there_and_the_checks_what_should():
    disk = SimDisk()
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    file.append([b"right"])
    disk.contents()["/d/f"].damage(0, b"w")
    assert (file.read(9, 0), disk.peek("/d/f", 0)) == (b"wight", b"right")


def test_misdirected_writes_occur_and_are_detected_by_all_readers(pytestconfig):
    # seed 5 reaches every state that is asked for
    seeds = (3, 4, 5, 6, 40) if pytestconfig.getoption("all_examples") else (5, 40)
    totals = totals_of(Spec(seed, 3, faults=("misdirected", "rot", "kill", "stop")) for seed in seeds)
    for name in (
        "misdirected",
        "rot",
        "damage found by brokers",
        "damage refused by followers",
        "damage repaired by hand",
    ):
        assert totals[name] > 0, name


def test_lost_end_of_a_synced_log_strikes_and_its_replica_resigns():
    report = run_spec(Spec(6, 3, faults=("lost tail", "kill")))
    assert report.error is None, report.error
    assert [report.counts[name] for name in ("lost tail", "damaged replicas resigned")] == [2, 2]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "orders"])
def test_an_offset_flips_into_a_gap_only_where_compaction_leaves_none(topic):
    """Offset 50 instead of 54 stands where compaction may have taken 50 to 53 away: nobody could tell."""
    disk = SimDisk()
    disk.make_directory(f"/d/{topic}-0")
    file = disk.open(f"/d/{topic}-0/00000000000000000050.log", create=True)
    for base_offset in (54, 62):
        file.append([batch_at(base_offset)])
    copy = Stand(node=SimpleNamespace(directories=["/d"], disk=disk), topic_partition=TopicPartition(topic, 0))
    first, second = cluster_damage.batches_of(copy)

    def flipped(batch):
        seen = set()
        for seed in range(1_000):
            _, position, bit = cluster_damage._uncovered(copy, batch, False, "base offset", SeededRandom(seed))
            offset = bytearray(batch.header.base_offset.to_bytes(8, "big"))
            offset[position - batch.place] ^= 1 << bit
            seen.add(int.from_bytes(offset, "big", signed=True))
        return seen

    undetectable = {"first": {50, 52, 55, 62}, "second": {58, 60, 63}}
    if topic == "orders":
        assert undetectable["first"] <= flipped(first)
        assert undetectable["second"] <= flipped(second)
    else:
        assert flipped(first) == {54 - 16, 54 - 32, 54 - (1 << 63)}
        assert flipped(second) == {62 - 8, 62 - 16, 62 - 32, 62 - (1 << 63)}


@pytest.mark.parametrize(
    ("topic", "base_offset", "is_followed", "is_detectable"),
    [
        ("orders", 54, False, False),
        ("orders", 55, False, True),
        ("orders", 54, True, True),
        ("__consumer_offsets", 55, False, False),
        ("__consumer_offsets", 49, False, True),
        ("__consumer_offsets", 55, True, True),
    ],
)
def test_prefix_of_a_plausible_batch_at_the_end_is_undetectable(topic, base_offset, is_followed, is_detectable):
    disk = SimDisk()
    path = f"/d/{topic}-0/00000000000000000050.log"
    disk.make_directory(f"/d/{topic}-0")
    file = disk.open(path, create=True)
    file.append([batch_at(54)])
    if is_followed:
        file.append([batch_at(62)])
    copy = Stand(node=SimpleNamespace(directories=["/d"], disk=disk), topic_partition=TopicPartition(topic, 0))
    foreign = batch_at(base_offset, b"a longer value" * 20)[: len(batch_at(54))]
    assert cluster_damage._is_detectable(copy, path, 0, foreign) is is_detectable


class Stand(SimpleNamespace):
    """Stands for a copy; known by itself."""

    __hash__ = object.__hash__


def batch_at(base_offset, value=b"v"):
    made = bytearray(build_batch([(b"k", value)], 1))
    made[:8] = base_offset.to_bytes(8, "big")
    return bytes(made)


@pytest.mark.parametrize("has_failed", [True, False])
def test_a_watermark_is_not_compared_with_the_log_of_a_directory_that_failed_in_the_same_step(has_failed):
    log = SimpleNamespace()
    copy = Stand(
        key="t-0", life=1, births=0, leader_epoch=0, is_leader=True, high_watermark=25, log=log, log_start=0, end=0,
        partition=SimpleNamespace(log=None if has_failed else log), node=SimpleNamespace(disks_count=0),
    )  # fmt: skip
    check = WatermarkMonotonic(SimpleNamespace(nodes=[1, 2], forfeited={}, committed={}))
    if has_failed:
        check.watermark(copy, 0)
    else:
        with pytest.raises(Violation, match="outside"):
            check.watermark(copy, 0)


def test_start_without_the_directory_of_a_log_does_not_lower_the_watermark_that_the_next_start_may_have():
    log = SimpleNamespace()
    copy = Stand(
        key="t-0", life=1, births=0, leader_epoch=0, is_leader=True, high_watermark=2, log_start=0, end=2,
        partition=SimpleNamespace(log=log), node=SimpleNamespace(disks_count=0),
    )  # fmt: skip
    check = WatermarkMonotonic(SimpleNamespace(nodes=[1, 2], forfeited={}, committed={}))
    check.role(copy)
    copy.life, copy.high_watermark, copy.partition.log = 2, 0, None
    check.role(copy)
    copy.life, copy.high_watermark, copy.partition.log = 3, 2, log
    check.role(copy)
    copy.life, copy.high_watermark, copy.end = 4, 3, 3
    with pytest.raises(Violation, match="a start raised the high watermark from 2 to 3"):
        check.role(copy)


def test_flip_in_a_batch_with_a_wrong_length_is_left_out():
    """What begins so may be a process that ended in a write: with the rest wrong too, nobody can tell."""
    path = "/data/t-0/00000000000000000000.log"
    flips = []
    for number in range(20):
        disk = SimDisk()
        disk.make_directory("/data/t-0")
        disk.open(path, create=True).append([batch_at(0, b"v" * 40)])
        disk.contents()[path].damage(10, b"\1")
        copy = SimpleNamespace(
            node=SimpleNamespace(disk=disk, directories=["/data"]), topic_partition=TopicPartition("t", 0)
        )
        flips.append(cluster_damage.flip(copy, SeededRandom(f"flip {number}")))
    # another length, and a wrong offset, tell that no batch may begin so
    assert "" in flips
    assert all(int(each.rpartition(" ")[2]) < 12 for each in flips if each)
