"""Moves of replicas between log directories: under writes, with every interruption, ended by every disk call."""

import errno
import re

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.requests import BROKER, alter, delete_records, delete_topic
from yak.broker.apis import describe_log_dirs
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.partitions import log_moves
from yak.protocol.record_batch import iterate_headers
from yak.sim.disk import Death
from yak.sim.request_fields import produce_fields
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import record_batch
from yak.storage import log_move

ORDERS = TopicPartition("orders", 0)
DIRECTORIES = ("/a", "/b")
SMALL = {"segment_bytes": "4096", "file_delete_delay_ms": "1000"}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    for module in (log_move, log_moves):
        monkeypatch.setattr(module, "MOVE_PIECE_BYTES", 1500)


def filled(batches=20, *, seed=1, **configs):
    rig = Rig(seed=seed, directories=DIRECTORIES, settings={"log.retention.check.interval.ms": "500"})
    rig.create_topic("orders", **SMALL | configs)
    for number in range(batches):
        assert produce(rig, number) == number
    return rig


def payload(number):
    return b"%06d" % number + b"x" * 700


def produce(rig, number, **batch):
    answer = rig.produce("orders", [payload(number)], **batch)
    assert answer.error_code == ErrorCode.none, answer
    return answer.base_offset


def log_of(rig):
    return rig.node.broker.partitions[ORDERS].log


def other(rig):
    return next(each for each in DIRECTORIES if each != log_of(rig).directory)


def request(rig, directory):
    dirs = [{"path": directory, "topics": [{"name": "orders", "partitions": [0]}]}]
    return rig.ask(34, 2, dirs=dirs).results[0].partitions[0].error_code


def move(rig):
    target = other(rig)
    assert request(rig, target) == ErrorCode.none
    return target


def events(rig):
    return [each.event for each in rig.node.notices]


def run_until(rig, *ends):
    ends = ends or ("replica-moved", "replica-move-failed", "replica-move-cancelled")
    rig.world.run(lambda: any(each in events(rig) for each in ends), events_max=100_000)


def run_while_moving(rig):
    """Produce a record after the other until the move is over; returns how many."""
    count = 0
    while rig.node.broker.log_moves._move is not None or rig.node.broker.log_moves._wanted:
        produce(rig, log_of(rig).log_end_offset)
        rig.run_for(10)
        count += 1
    return count


def values(rig, log=None):
    """The numbers of all records, as the log has them on disk."""
    found = []
    log = log or log_of(rig)
    for segment in log.segments:
        data = memoryview(rig.node.disk.peek(segment.path(".log"), 0))
        found += [(header.base_offset, bytes(data[at:][: header.size_bytes])) for at, header in iterate_headers(data)]
    return [(offset, int((re.search(rb"(\d{6})xxx", batch) or [b"", b"-1"])[1])) for offset, batch in found]


def folders(rig):
    disk = rig.node.disk
    return {name: path for path in DIRECTORIES for name in disk.names(path) if name.startswith("orders")}


def assert_moved(rig, target):
    log = log_of(rig)
    assert (log.directory, log.path) == (target, f"{target}/orders-0")
    assert {segment.folder for segment in log.segments} == {log.path}
    assert [offset for offset, number in values(rig) if offset == number] == list(
        range(log.segments[0].base_offset, log.log_end_offset)
    )


# ------------------------------------------------------------------------------------------------- moves that succeed


def test_move_of_a_leader_under_writes_keeps_all_records():
    rig = filled()
    target = move(rig)
    assert run_while_moving(rig) > 3
    assert_moved(rig, target)
    assert [rig.fetch("orders", offset).records[:8] for offset in (0, 19)] == [
        offset.to_bytes(8, "big") for offset in (0, 19)
    ]
    rig.run_for(2_000)
    assert folders(rig) == {"orders-0": target}
    move(rig)
    run_while_moving(rig)
    rig.run_for(2_000)
    assert_moved(rig, next(each for each in DIRECTORIES if each != target))
    for how in ({}, {"orderly": True}):
        end, start = log_of(rig).log_end_offset, log_of(rig).log_start_offset
        rig.restart(**how)
        assert (log_of(rig).log_end_offset, log_of(rig).log_start_offset) == (end, start)
        assert len(folders(rig)) == 1


def limit(rig, value):
    """Set the throttle of moves."""
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert alter(rig, BROKER, "1", {name: value}).error_code == ErrorCode.none


def test_moves_of_logs_of_one_piece_are_throttled_too():
    """Kafka's ReplicaAlterLogDirsThread counts all records."""
    rig = filled(1)
    moved_bytes = log_of(rig).size_bytes
    assert 700 < moved_bytes < log_moves.MOVE_PIECE_BYTES
    limit(rig, "100")
    before_ms = rig.world.now_ms
    for _ in range(3):
        target = move(rig)
        rig.world.run(lambda target=target: log_of(rig).directory == target, events_max=100_000)
    assert 2 * moved_bytes / 100 * 800 < rig.world.now_ms - before_ms < 2 * moved_bytes / 100 * 1300


def test_move_is_throttled_and_a_changed_rate_counts_at_once():
    rig = filled(40)
    moved_bytes = log_of(rig).size_bytes
    assert moved_bytes > 25_000
    limit(rig, "5000")
    before_ms = rig.world.now_ms
    target = move(rig)
    run_until(rig)
    assert_moved(rig, target)
    assert moved_bytes / 5000 * 800 < rig.world.now_ms - before_ms < moved_bytes / 5000 * 1300
    limit(rig, "0")
    target = move(rig)
    rig.run_for(60_000)
    assert log_of(rig).directory != target
    limit(rig, "1000000000")
    rig.run_for(1_000)
    assert_moved(rig, target)


def test_appends_wait_during_the_log_handover_and_reads_continue():
    rig = filled()
    rig.node.jobs.delays_us = {"move": 50_000}
    target = move(rig)
    partition = rig.node.broker.partitions[ORDERS]
    rig.world.run(lambda: partition.is_handed_over, events_max=50_000)
    waiting = [
        rig.begin(0, 9, **produce_fields("orders", record_batch([payload(number)], 1)), client=rig.new_client())
        for number in (20, 21)
    ]
    rig.run_for(10)
    assert not any(each.is_done for each in waiting)
    with pytest.raises(PeerError) as refused:
        rig.node.broker.leader_appends.append_own_batch(partition, record_batch([b"own"], 1))
    assert refused.value.error_code == ErrorCode.not_enough_replicas
    assert partition.log.log_end_offset == 20
    assert rig.fetch("orders", 3).records
    run_until(rig)
    rig.run_for(100)
    assert {each.answer.responses[0].partition_responses[0].base_offset for each in waiting} == {20, 21}
    assert rig.node.broker.held_bytes == 0
    assert log_of(rig).directory == target
    assert sorted(number for _, number in values(rig)) == list(range(22))


def test_describe_log_dirs_lists_the_future_replica_with_its_lag():
    rig = filled()
    rig.node.jobs.delays_us = {"move": 5_000}
    target = move(rig)
    seen = []
    while rig.node.broker.log_moves._wanted:
        rows = {
            (each.log_dir, row.is_future_key): row
            for each in rig.ask(35, 4, topics=None).results
            for topic in each.topics
            for row in topic.partitions
        }
        if (target, True) in rows:
            row = rows[target, True]
            seen.append((row.partition_size, row.offset_lag))
        rig.run_for(3)
    assert seen[0] == (0, 20)
    assert seen == sorted(seen, key=lambda each: (each[0], -each[1]))
    assert seen[-1][1] < 3
    rows = [
        (each.log_dir, row.is_future_key)
        for each in rig.ask(35, 4, topics=None).results
        for row in (each.topics and each.topics[0].partitions)
    ]
    assert rows == [(target, False)]


def test_move_with_flushes_acknowledges_after_the_move():
    rig = filled(flush_messages="1")
    target = move(rig)
    run_while_moving(rig)
    assert_moved(rig, target)
    assert log_of(rig).recovery_point == log_of(rig).log_end_offset


def test_move_of_a_follower_keeps_its_log_equal_to_the_leaders():
    rig = ClusterRig()
    rig.create_topic("orders", **SMALL)
    follower = rig.followers("orders")[0]
    node = rig.nodes[follower - 1]
    node.kill()
    node.directories = (*node.directories, "/more")
    node.start()
    rig.run_until(lambda: node.is_ready and rig.is_in_sync("orders"))
    for number in range(20):
        assert rig.produce("orders", [payload(number)]).error_code == ErrorCode.none
    dirs = [{"path": "/more", "topics": [{"name": "orders", "partitions": [0]}]}]
    assert rig.ask(follower, 34, 2, dirs=dirs).results[0].partitions[0].error_code == ErrorCode.none
    count = 20
    while "replica-moved" not in rig.events(follower):
        assert rig.produce("orders", [payload(count)]).error_code == ErrorCode.none
        rig.run_for(10)
        count += 1
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(follower, "orders").log.directory == "/more"
    rig.elect("orders", follower)
    assert rig.produce("orders", [b"more"]).base_offset == count
    rig.run_until(lambda: rig.is_in_sync("orders"))


# ----------------------------------------------------------------------------------------- what happens in between


def test_truncation_during_the_copy_copies_the_rest_again():
    rig = filled()
    target = move(rig)
    rig.run_for(15)
    log, moves = log_of(rig), rig.node.broker.log_moves
    assert moves._move is not None
    assert moves._move.copied
    log.lower_recovery_point(5)
    log.truncate_to(5)
    log.sync_truncation()
    rig.node.broker.partitions[ORDERS].high_watermark = 5
    for number in range(5, 15):
        assert produce(rig, number) == number
    run_until(rig)
    assert_moved(rig, target)
    assert log_of(rig).log_end_offset == 15


def test_retention_during_the_copy_leaves_no_old_segment():
    rig = filled(retention_bytes="100000")
    target = move(rig)
    rig.run_for(20)
    delete_records(rig, "orders", 12)
    run_until(rig)
    rig.run_for(50)
    assert_moved(rig, target)
    base = log_of(rig).segments[0].base_offset
    assert 0 < base <= log_of(rig).log_start_offset == 12
    rig.run_for(2_000)
    assert min(name for name in rig.node.disk.names(f"{target}/orders-0") if name.endswith(".log")) == f"{base:020}.log"
    rig.restart()
    assert log_of(rig).log_start_offset == 12


def test_compaction_during_the_copy_is_moved_or_repeated():
    rig = filled(0, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for number in range(30):
        rig.produce("orders", [payload(number)], keys=[b"k%d" % (number % 3)])
    rig.run_for(14_900)
    for _ in range(6):
        move(rig)
        while rig.node.broker.log_moves._wanted:
            rig.run_for(5)
    run_until(rig, "log-compacted")
    rig.run_for(40_000)
    log = log_of(rig)
    assert events(rig).count("replica-moved") == 6
    assert log.cleaned_offset is not None
    kept = [offset for offset, _ in values(rig)]
    for _ in range(2):
        rig.restart()
        assert [offset for offset, _ in values(rig)] == kept
        assert log_of(rig).cleaned_offset is not None


def test_topic_deleted_during_the_copy_leaves_no_folder():
    for wait_ms in (5, 20, 40, 60, 80):
        rig = filled()
        rig.node.jobs.delays_us = {"move": 2_000}
        move(rig)
        rig.run_for(wait_ms)
        delete_topic(rig, "orders")
        rig.run_for(3_000)
        assert folders(rig) == {}
        rig.create_topic("orders")
        assert produce(rig, 0) == 0
        rig.restart()
        assert values(rig) == [(0, 0)]


def test_request_for_the_present_directory_cancels_a_move():
    rig = filled()
    home = log_of(rig).directory
    move(rig)
    rig.run_for(15)
    assert request(rig, home) == ErrorCode.none
    run_until(rig, "replica-move-cancelled")
    rig.run_for(100)
    assert folders(rig) == {"orders-0": home}
    assert produce(rig, 20) == 20
    target = move(rig)
    rig.node.notices.clear()
    run_until(rig)
    assert_moved(rig, target)


def test_orderly_stop_ends_a_move_or_completes_it():
    for wait_ms in range(0, 90, 6):
        rig = filled()
        rig.node.jobs.delays_us = {"move": 3_000}
        move(rig)
        rig.run_for(wait_ms)
        rig.restart(orderly=True)
        assert log_of(rig).log_end_offset == 20
        assert sum(name == "orders-0" for path in DIRECTORIES for name in rig.node.disk.names(path)) == 1
        assert produce(rig, 20) == 20


# --------------------------------------------------------------------------------------------------- disks that fail


def test_move_to_a_full_directory_fails_and_the_replica_stays(monkeypatch):
    rig = filled()
    home = log_of(rig).directory
    rig.node.disk.fail_next("append", errno.ENOSPC, path_contains="-future")
    move(rig)
    run_until(rig)
    assert events(rig).count("replica-move-failed") == 1
    assert produce(rig, 20) == 20
    rig.run_for(100)
    assert folders(rig) == {"orders-0": home}
    assert log_of(rig).directory == home
    monkeypatch.setattr("yak.sim.disk._TOTAL_BYTES", 100_000)
    move(rig)
    rig.run_for(100)
    assert "too little" in rig.node.notices[-1].fields["failure"]


@pytest.mark.parametrize("operation", ["append", "sync", "write_file", "open", "rename"])
def test_failure_of_the_target_directory_leaves_the_replica_where_it_is(operation):
    skipped = 0
    while fails_in_target(operation, skipped):
        skipped += 1
    assert skipped >= {"rename": 1}.get(operation, 2)


def fails_in_target(operation, skipped):
    """Let such a call of a move fail behind so many others; False when the move makes fewer of them."""
    rig = filled()
    home, disk, seen, fail = log_of(rig).directory, rig.node.disk, [], rig.node.disk.may_fail

    def may_fail(called, path):
        if called == operation and path.startswith(f"{other_path}/orders"):
            seen.append(path)
            if len(seen) == skipped + 1:
                raise OSError(errno.EIO, "EIO", path)
        fail(called, path)

    other_path = other(rig)
    disk.may_fail = may_fail
    move(rig)
    run_until(rig)
    if len(seen) <= skipped:
        return False
    assert log_of(rig).directory == home
    assert not rig.node.broker.partitions[ORDERS].is_handed_over
    assert "log-directory-offline" in events(rig)
    assert produce(rig, 20) == 20
    assert [number for _, number in values(rig)] == list(range(21))
    disk.may_fail = fail
    rig.restart()
    assert [number for _, number in values(rig)] == list(range(21))
    assert log_of(rig).directory == home
    return True


@pytest.mark.parametrize("is_target", [False, True])
def test_directory_without_room_for_a_name_ends_the_move_and_stays_online(is_target):
    rig = filled()
    home = log_of(rig).directory
    rig.node.disk.fail_next("rename", errno.ENOSPC, path_contains=f"{other(rig) if is_target else home}/orders")
    move(rig)
    run_until(rig)
    assert "replica-move-failed" in events(rig)
    assert "log-directory-offline" not in events(rig)
    assert produce(rig, 20) == 20
    rig.run_for(100)
    assert folders(rig) == {"orders-0": home}


def test_failure_of_the_own_directory_takes_the_log_offline_and_loses_nothing():
    for operation in ("open", "read", "rename", "sync"):
        rig = filled()
        rig.run_for(100)
        rig.node.disk.fail_next(operation, errno.EIO, path_contains=log_of(rig).directory)
        move(rig)
        rig.run_for(500)
        rig.restart()
        assert [number for _, number in values(rig)] == list(range(20))


def test_wrong_bytes_of_one_read_are_not_copied():
    rig = filled()
    for seed in range(5):
        rig.node.notices.clear()
        rig.node.disk.garble_next(SeededRandom(seed), path_contains=log_of(rig).path)
        target = move(rig)
        run_until(rig)
        assert_moved(rig, target)
        rig.run_for(2_000)


def test_damaged_log_is_not_moved():
    rig = filled()
    home = log_of(rig).directory
    rig.node.disk.corrupt(log_of(rig).segments[1].path(".log"), 200, 7)
    move(rig)
    run_until(rig)
    assert "CRC" in next(each for each in rig.node.notices if each.event == "replica-move-failed").fields["failure"]
    assert log_of(rig).directory == home
    assert produce(rig, 20) == 20


# --------------------------------------------------------------------------------------- the end of the process


def ended_inside(writes, *, power_loss, seed):
    """A move under writes whose process ends in that write; (rig, acknowledged records), None if it was not reached."""
    rig = filled(14, seed=seed, flush_messages="1")
    delete_records(rig, "orders", 3)
    produce(rig, 14, producer_id=7, epoch=2, sequence=0)
    rig.run_for(1_500)
    node, acked = rig.node, 15
    node.on_ended_inside = node.crash if power_loss else node.kill
    epochs = list(log_of(rig).epochs.entries)
    node.disk.end_inside(Death(SeededRandom(seed * 1000 + writes), writes))
    dirs = [{"path": other(rig), "topics": [{"name": "orders", "partitions": [0]}]}]
    rig.begin(34, 2, dirs=dirs)
    sent = None
    for _ in range(400):
        if sent is None or sent.is_done:
            if sent is not None and sent.answer is not None:
                answer = sent.answer.responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset) == (ErrorCode.none, acked)
                acked += 1
            sent = rig.begin(0, 9, **produce_fields("orders", record_batch([payload(acked)], 1)))
        rig.run_for(1)
        if node.broker is None:
            rig.client.close()  # a machine without power resets no connection
            node.start()
            rig.run_until_ready()
            return rig, acked, epochs
        moves = node.broker.log_moves
        if "replica-moved" in events(rig) and moves._move is None and not node.broker.jobs._running:
            return None
    raise AssertionError("the move does not end")


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_end_of_the_process_in_any_write_of_a_move_loses_nothing(power_loss, seed, pytestconfig):
    ends = set()
    # each seed takes a third of the writes; in make test every other one is ended by a power loss, and the rest by a kill
    all_writes = pytestconfig.getoption("all_examples")
    for writes in range(seed - 1, 1_000, 3) if all_writes else range(seed - 1 + 3 * power_loss, 1_000, 6):
        ended = ended_inside(writes, power_loss=power_loss, seed=seed)
        if ended is None:
            break
        rig, acked, epochs = ended
        log = log_of(rig)
        assert log is not None, writes
        assert log.log_start_offset == 3
        assert [number for _, number in values(rig)][: acked - log.segments[0].base_offset] == list(
            range(log.segments[0].base_offset, acked)
        ), writes
        assert log.epochs.entries[: len(epochs)] == [(epoch, max(start, 3)) for epoch, start in epochs]
        assert log.producers.check_epoch(7, 2) is None
        assert sum(name == "orders-0" for path in DIRECTORIES for name in rig.node.disk.names(path)) == 1
        assert rig.node.broker.partitions[ORDERS].high_watermark >= acked
        ends.add(log.directory)
        number = log.log_end_offset
        assert produce(rig, number) == number
        rig.node.notices.clear()
        target = move(rig)
        run_until(rig)
        assert_moved(rig, target)
    assert writes > 60
    assert len(ends) == 2


def test_describe_log_dirs_visits_each_replica_once(monkeypatch):
    monkeypatch.setattr(describe_log_dirs, "SLICE_ELEMENTS", 2)
    directories = tuple(f"/{number}" for number in range(10))
    rig = Rig(directories=directories, settings={})
    rig.create_topic("orders", partitions=4)
    described = []

    def slices():
        described.append((yield from describe_log_dirs._described(rig.node.broker, None)))

    assert len(list(slices())) == 2
    results = described[0].fields["results"]
    assert [each["log_dir"] for each in results] == list(directories)
    found = [part["partition_index"] for each in results for topic in each["topics"] for part in topic["partitions"]]
    assert sorted(found) == [0, 1, 2, 3]
