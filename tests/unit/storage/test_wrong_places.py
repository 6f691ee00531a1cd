"""Bytes that no checksum tells: whole batches in the wrong place, and wrong offsets, lengths and epochs."""

import struct

import pytest

from tests.unit.storage.compaction.rounds import pieces
from tests.unit.storage.conftest import finished
from yak.errors import ProtocolViolation
from yak.storage.compaction import Compaction, Uncleanable, cleanable
from yak.storage.recovery import DamagedLog, is_incomplete_write

FIRST = "/data/t-0/00000000000000000000.log"


def fill(bench, count=6, **fields):
    for _ in range(count):
        bench.append([b"x" * 30], **fields)
    return bench.log.size_bytes // count


def damage(bench, position, wrong):
    assert bench.disk.contents()[FIRST].damage(position, wrong)


def after_a_kill(bench):
    """The process alone ended, and the partition has other replicas."""
    bench.disk.kill()
    return bench.open(kernel_boot_id="b", is_replicated=lambda _place: True)


@pytest.fixture
def replicated(bench):
    bench.store = after_a_kill(bench)
    bench.log = bench.store.logs[bench.partition]
    return bench


@pytest.mark.parametrize("batch", [0, 3, 5])
@pytest.mark.parametrize("bit", [0, 5, 6, 7, 12, 30, 31])
def test_after_a_kill_a_wrong_length_is_damage_and_nothing_is_cut(replicated, batch, bit):
    size = fill(replicated)
    at = batch * size + 8
    (length,) = struct.unpack(">i", replicated.disk.peek(FIRST, at)[:4])
    damage(replicated, at, struct.pack(">I", length ^ (1 << bit)))
    store = after_a_kill(replicated)
    assert replicated.partition in store.unavailable
    assert len(replicated.disk.contents()[FIRST].data) == 6 * size


@pytest.mark.parametrize("kept", [1, 20, 61, 80])
def test_after_a_kill_the_beginning_of_one_batch_is_cut(replicated, kept):
    size = fill(replicated)
    replicated.disk.open(FIRST).truncate(5 * size + kept)
    assert after_a_kill(replicated).logs[replicated.partition].log_end_offset == 5


def test_a_negative_epoch_behind_others_is_no_epoch(replicated):
    size = fill(replicated)
    damage(replicated, 3 * size + 12, b"\x80")
    assert "leader epoch" in after_a_kill(replicated).unavailable[replicated.partition].reason


def test_incomplete_write_has_the_next_offset(build):
    begin = build([b"x" * 50], base_offset=7)[:-10]
    assert is_incomplete_write(begin, len(begin), 7, allows_gaps=False)
    assert not is_incomplete_write(begin, len(begin), 6, allows_gaps=False)
    assert is_incomplete_write(begin, len(begin), 6, allows_gaps=True)
    assert not is_incomplete_write(begin, len(begin), 8, allows_gaps=True)
    behind = begin + build([b"y"], base_offset=8)
    assert not is_incomplete_write(
        begin[:8] + b"\0\1" + begin[10:] + behind, len(begin) + len(behind), 7, allows_gaps=False
    )
    elsewhere = b"0\n1\n0 0\n1 2\n"  # over offset and length, and offsets may be left out
    data = elsewhere + begin[len(elsewhere) :] + behind
    assert not is_incomplete_write(data, len(data), 7, allows_gaps=True)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("other", [0, 5])
def test_a_read_gives_no_batch_that_stands_where_another_is(bench, other, cached):
    size = fill(bench)
    damage(bench, 3 * size, bench.disk.peek(FIRST, other * size)[:size])
    bench.log.positions.clear()
    bench.disk.cached_bytes = None if cached else 0
    data = bench.log.read(3, size, 6, at_least_one=True)
    assert not finished(data)


def test_a_read_of_a_compacted_log_passes_gaps_and_no_step_back(make_bench, build):
    bench = make_bench(cleanup_policy="compact")
    for offset in (0, 10, 20):
        bench.log.append_as_follower(build([b"x" * 30], base_offset=offset), 0)
    size = bench.log.size_bytes // 3
    bench.log.positions.clear()
    assert bytes(bench.log.read(5, size, 21, at_least_one=True))[7] == 10
    damage(bench, size, bench.disk.peek(FIRST, 0)[:size])
    bench.log.positions.clear()
    data = bench.log.read(15, size, 21, at_least_one=True)
    assert not finished(data)


@pytest.mark.parametrize("at", range(16))
def test_an_index_that_says_what_is_not_so_is_not_believed(make_bench, at):
    bench = make_bench(index_interval_bytes=150)
    fill(bench, 30)
    whole = bench.read_all()
    bench.store.close_plan(1).run(bench.disk)
    path = "/data/t-0/00000000000000000000.index"
    entries = bytearray(bench.disk.read_file(path))
    entries[at] ^= 1 << at % 8
    bench.disk.write_file(path, bytes(entries))
    bench.reopen(checkpoint=False, clean=True)
    assert bench.read_all(max_bytes=300) == whole
    for offset in range(30):
        bench.log.positions.clear()
        data = bytes(bench.log.read(offset, 1, 30, at_least_one=True))
        assert int.from_bytes(data[:8], "big") == offset


def test_a_log_is_not_cut_by_a_wrong_offset(bench):
    size = fill(bench)
    damage(bench, 4 * size, (1).to_bytes(8, "big"))
    bench.log.positions.clear()
    with pytest.raises(DamagedLog):
        bench.log.truncate_to(4)
    assert bench.log.log_end_offset == 6


def test_a_log_is_not_cut_by_a_batch_that_only_says_that_it_holds_the_offset(bench):
    """Something else stands over its last offset delta, and all behind it would go."""
    size = fill(bench)
    damage(bench, 2 * size + 23, b"\0\0\1\0")
    with pytest.raises(DamagedLog, match="offset 5: it cannot be truncated there"):
        bench.log.truncate_to(5)
    assert (bench.log.log_end_offset, bench.log.size_bytes) == (6, 6 * size)
    bench.log.truncate_to(2)
    assert bench.log.log_end_offset == 2


@pytest.mark.parametrize("left", [1, 26, 27, 60])
def test_log_whose_file_was_cut_inside_a_header_is_not_truncated_there(bench, left):
    size = fill(bench)
    bench.disk.open(bench.log.active.path(".log")).truncate(5 * size + left)
    with pytest.raises(DamagedLog, match="offset 5: it cannot be truncated there"):
        bench.log.truncate_to(5)
    assert bench.log.log_end_offset == 6


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_log_whose_batch_is_said_to_reach_beyond_the_file_is_neither_cut_nor_passed_over(make_bench, policy):
    """Nothing would be truncated, and the next records come twice, with the offsets that were to go (seed 300186 with --faults)."""
    bench = make_bench(cleanup_policy=policy)
    size = fill(bench)
    damage(bench, size + 8, (1 << 20).to_bytes(4, "big"))
    bench.log.positions.clear()
    with pytest.raises(DamagedLog, match="offset 4: it cannot be truncated there"):
        bench.log.truncate_to(4)
    assert (bench.log.log_end_offset, bench.log.size_bytes) == (6, 6 * size)
    bench.log.roll(0)
    bench.append()
    assert not bytes(finished(bench.log.read(4, 10_000, 7, at_least_one=True)))


def test_compacted_log_is_not_truncated_where_other_bytes_resemble_a_gap(make_bench):
    """Its first bytes say that it comes much later: what stood there would be gone, as compacted (seed 201945)."""
    bench = make_bench(cleanup_policy="compact")
    size = fill(bench)
    damage(bench, 0, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(DamagedLog, match="offset 1: it cannot be truncated there"):
        bench.log.truncate_to(1)
    assert (bench.log.log_end_offset, bench.log.size_bytes) == (6, 6 * size)


def test_a_follower_takes_no_epoch_that_its_leader_does_not_have(bench, build):
    bench.log.append_as_follower(build([b"a"], epoch=3), 0, 3)
    for bad in (4, 259, -(2**31)):
        with pytest.raises(ProtocolViolation, match="leader epoch"):
            bench.log.append_as_follower(build([b"b"], base_offset=1, epoch=bad), 0, 3)
    assert (bench.log.log_end_offset, bench.log.epochs.entries) == (1, [(3, 0)])


def test_a_follower_says_so_when_no_batch_is_whole(bench, build):
    batch = bytearray(build([b"a" * 80]))
    batch[9] ^= 1
    with pytest.raises(ProtocolViolation, match="without a complete batch"):
        bench.log.append_as_follower(bytes(batch), 0)
    assert bench.log.log_end_offset == 0


def test_compaction_does_not_take_a_batch_for_one_that_belongs_there(make_bench):
    bench = make_bench(cleanup_policy="compact")
    for number in range(6):
        bench.append([b"v%d" % number], keys=[b"k%d" % (number % 2)])
    bench.log.roll(0)
    bench.append([b"on"], keys=[b"on"])
    bench.flush()
    whole = bench.disk.peek(FIRST, 0)
    size = len(whole) // 6
    damage(bench, 4 * size, whole[:size])
    with pytest.raises(Uncleanable, match="offset 0 is outside the segment"):
        list(pieces(Compaction(bench.log, cleanable(bench.log, 7, 0), 10**6, 0), bench.disk))


@pytest.mark.parametrize("batches", [3, 4, 6])
def test_a_read_ends_before_an_earlier_batch_in_the_wrong_place(bench, batches):
    """The end of a read decides which aborted transactions a consumer is told of."""
    size = fill(bench, 10)
    damage(bench, 5 * size, bench.disk.peek(FIRST, size)[:size])
    data = finished(bench.log.read(3, batches * size, 10, at_least_one=True))
    assert len(data) == 2 * size
    assert bench.log.positions.read_end == 5
