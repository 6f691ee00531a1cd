"""Snapshots of a node: built, fetched in pieces, installed in time or too late."""

import errno

import pytest

from tests.unit.quorum.conftest import Node, directory_id, partition_of, voter_set
from yak.core.events import DisksLost, JobDone
from yak.errors import ErrorCode
from yak.protocol.topic_names import METADATA_TOPIC
from yak.protocol.versions import FETCH
from yak.quorum.state_machine import read_snapshot
from yak.quorum.transport import FETCH_SNAPSHOT
from yak.sim.quorum.reference import whole_digest
from yak.sim.seeded_random import SeededRandom


def leader_with_snapshot(commands: int = 8) -> Node:
    """A quorum of one, whose log begins behind offset 0."""
    node = Node(2, voters=voter_set(2), snapshot_bytes=300).start()
    node.append_commands(commands)
    return node


def follower_of(leader: Node) -> Node:
    node = Node(1, voters=voter_set(1, 2, 3))
    node.follow(2, leader.quorum.epoch)
    return node


def name_snapshot(node: Node, leader: Node) -> None:
    """Answer a fetch of the node as the leader, with the id of its snapshot."""
    end_offset, epoch = leader.quorum.log.snapshot_id
    node.send_records(node.take(FETCH)[0], snapshot_id={"end_offset": end_offset, "epoch": epoch})


def send_snapshot(node: Node, leader: Node, data: bytes | None = None) -> None:
    """Likewise, and answer the fetch of the snapshot that follows."""
    name_snapshot(node, leader)
    node.send_snapshot(node.take(FETCH_SNAPSHOT)[0], data or leader.quorum.log.snapshot)


def fetch_snapshot(
    node: Node, position: int, max_bytes: int = 1 << 20, end_offset: int | None = None, epoch: int | None = None
) -> object:
    snapshot_id = node.quorum.log.snapshot_id
    partition = {
        "partition": 0,
        "current_leader_epoch": node.quorum.epoch,
        "snapshot_id": {
            "end_offset": snapshot_id.end_offset if end_offset is None else end_offset,
            "epoch": snapshot_id.epoch if epoch is None else epoch,
        },
        "position": position,
        "replica_directory_id": directory_id(1),
    }
    topics = [{"name": METADATA_TOPIC, "partitions": [partition]}]
    fields = {"cluster_id": "c", "replica_id": 1, "max_bytes": max_bytes, "topics": topics}
    return partition_of(node.handle(FETCH_SNAPSHOT, fields)[0])


def test_snapshot_has_the_state_and_the_voters_at_its_end():
    node = leader_with_snapshot()
    machine, voters = read_snapshot(node.quorum.log.snapshot)
    assert voters == node.quorum.committed_voters
    assert machine.state.cluster["cluster_id"] == "c"
    assert node.quorum.log.snapshot_id.end_offset > 0


def test_restart_begins_with_the_snapshot_and_replays_the_rest():
    node = leader_with_snapshot()
    end = node.quorum.log.end_offset
    node.disk.crash(SeededRandom(5))
    again = Node(2, voters=voter_set(2), disk=node.disk)
    assert again.quorum.applied_offset == again.quorum.log.snapshot_id.end_offset > 0
    again.start()
    assert again.quorum.applied_offset > end
    assert again.quorum.machine.state.cluster["cluster_id"] == "c"


def test_snapshot_without_room_for_another_segment_counts_and_the_log_is_trimmed_later():
    node = leader_with_snapshot(0)
    log, before = node.quorum.log, node.quorum.log.snapshot_id
    node.disk.fail_next("open", errno.ENOSPC, path_contains=".log")
    while log.snapshot_id == before:
        node.append_commands(1)
    assert "quorum-log-not-trimmed" in node.notices
    node.append_commands(16)
    assert log.start_offset > 0
    again = Node(2, voters=voter_set(2), disk=node.disk)
    assert again.quorum.log.end_offset == log.end_offset
    assert again.quorum.log.snapshot_id == log.snapshot_id


def test_snapshot_is_served_in_pieces():
    node = leader_with_snapshot()
    data, found = node.quorum.log.snapshot, b""
    while len(found) < len(data):
        piece = fetch_snapshot(node, len(found), max_bytes=100)
        assert piece.size == len(data)
        found += bytes(piece.unaligned_records)
    assert found == data


def test_snapshot_or_position_that_is_not_there_is_refused():
    node = leader_with_snapshot()
    assert fetch_snapshot(node, 0, end_offset=1).error_code == ErrorCode.snapshot_not_found
    assert fetch_snapshot(node, 1 << 20).error_code == ErrorCode.position_out_of_range


def test_fetched_snapshot_and_the_log_after_it_are_retained_until_the_follower_stops():
    """A slow follower of a busy quorum began again with each newer snapshot, and never ended."""
    node = leader_with_snapshot()
    first, data = node.quorum.log.snapshot_id, node.quorum.log.snapshot
    found = bytes(fetch_snapshot(node, 0, 100).unaligned_records)
    for _ in range(60):
        node.append_commands(1)
        if len(found) < len(data):
            piece = fetch_snapshot(node, len(found), 100, first.end_offset, first.epoch)
            assert (piece.error_code, piece.size) == (ErrorCode.none, len(data))
            found += bytes(piece.unaligned_records)
    assert found == data
    assert node.quorum.log.snapshot_id.end_offset > first.end_offset
    answer = partition_of(node.fetch(1, first.end_offset, first.epoch)[0])
    assert (answer.snapshot_id.end_offset, answer.diverging_epoch.end_offset) == (-1, -1), "it fetches on from there"
    assert answer.records
    node.advance(31_000)
    node.append_commands(20)
    assert fetch_snapshot(node, 0, 100, first.end_offset, first.epoch).error_code == ErrorCode.snapshot_not_found
    assert node.quorum.log.start_offset > first.end_offset


def test_follower_installs_the_leaders_snapshot_and_fetches_from_its_end():
    leader = leader_with_snapshot()
    node = follower_of(leader)
    send_snapshot(node, leader)
    assert node.take(FETCH) == [], "nothing is fetched before the snapshot is durable"
    node.run_jobs()
    end = leader.quorum.log.snapshot_id.end_offset
    node.advance(1)
    assert node.take(FETCH)[0].partition["fetch_offset"] == end
    assert (node.quorum.applied_offset, node.quorum.log.start_offset) == (end, end)
    assert whole_digest(node.quorum.machine) == whole_digest(read_snapshot(leader.quorum.log.snapshot)[0])
    assert node.quorum.voters == voter_set(2)


def test_snapshot_without_room_for_the_new_log_is_installed_later():
    leader = leader_with_snapshot()
    node = follower_of(leader)
    for is_full in (True, False):
        send_snapshot(node, leader)
        if is_full:
            node.disk.fail_next("open", errno.ENOSPC, path_contains=".log")
        node.run_jobs()
        assert (node.quorum.applied_offset == 0) == is_full
        node.advance(150)
    assert "quorum-snapshot-unusable" in node.notices
    assert node.take(FETCH)[0].partition["fetch_offset"] == leader.quorum.log.snapshot_id.end_offset


@pytest.mark.parametrize(("operation", "path"), [("open", ".log"), ("write_file", "")])
def test_snapshot_without_room_is_logged_once(operation, path):
    """The log of the node is on the full disk, too: ten lines a second."""
    leader = leader_with_snapshot()
    node = follower_of(leader)
    for _ in range(5):
        send_snapshot(node, leader)
        node.disk.fail_next(operation, errno.ENOSPC, path_contains=path)
        node.collect()
        job = node.waiting.pop()
        try:
            done = JobDone(job.job_id, job.plan.run(node.disk), None)
        except OSError as error:
            done = JobDone(job.job_id, None, error)
        node.jobs.on_done(done)
        node.advance(150)
    assert node.notices.count("quorum-snapshot-unusable") == 1


def test_disk_that_fails_while_a_snapshot_replaces_the_log_ends_the_node():
    leader = leader_with_snapshot()
    node = follower_of(leader)
    send_snapshot(node, leader)
    node.disk.fail_next("open", errno.EIO, path_contains=".log")
    node.collect()
    job = node.waiting.pop()
    node.jobs.on_done(JobDone(job.job_id, job.plan.run(node.disk), None))
    assert any(isinstance(effect, DisksLost) for effect in node.effects)


def test_damaged_snapshot_is_not_installed():
    leader = leader_with_snapshot()
    node = follower_of(leader)
    send_snapshot(node, leader, leader.quorum.log.snapshot[:-40])
    node.collect()
    job = node.waiting.pop()
    try:
        job.plan.run(node.disk)
    except Exception as error:
        node.jobs.on_done(JobDone(job.job_id, None, error))
    assert node.quorum.applied_offset == 0
    node.advance(150)
    assert node.take(FETCH)[0].partition["fetch_offset"] == 0


def test_follower_whose_snapshot_no_longer_exists_starts_again_with_a_fetch():
    leader = leader_with_snapshot()
    node = follower_of(leader)
    name_snapshot(node, leader)
    node.take(FETCH_SNAPSHOT)[0].done(None)
    node.advance(150)
    assert len(node.take(FETCH)) == 1


def _follower_with_late_install(leader: Node, end_offset: int) -> Node:
    """A follower whose installation takes long: meanwhile it fetches up to `end_offset` from another leader."""
    node = follower_of(leader)
    send_snapshot(node, leader)
    node.collect()
    [install] = node.waiting
    node.waiting.clear()
    node.begin(3, leader.quorum.epoch + 1)
    node.run_jobs()
    records = [entry.batch for entry in _whole_log(leader)]
    node.send_records(node.take(FETCH)[0], b"".join(records[:end_offset]))
    node.run_jobs()
    node.waiting.append(install)
    return node


def _whole_log(leader: Node) -> list:
    """The leader's entries from offset 0 on, which it has dropped itself: a second node that got the same commands."""
    other = Node(2, voters=voter_set(2)).start()
    while other.quorum.log.end_offset < leader.quorum.log.end_offset:
        other.append_commands(1)
    return other.quorum.log.entries(0, other.quorum.log.end_offset)


def test_late_installation_keeps_what_was_fetched_beyond_the_snapshot():
    """Those records may be committed by this node's fetches: dropping them would lose acknowledged commands."""
    leader = leader_with_snapshot(9)
    end = leader.quorum.log.end_offset
    node = _follower_with_late_install(leader, end)
    acknowledged = node.take(FETCH)[0].partition["fetch_offset"]
    assert acknowledged == end > leader.quorum.log.snapshot_id.end_offset > node.quorum.high_watermark
    node.run_jobs()
    assert node.quorum.log.end_offset == end
    again = Node(1, disk=node.disk)
    assert (again.quorum.log.end_offset, again.quorum.log.snapshot_id) == (end, leader.quorum.log.snapshot_id)


def test_answer_to_a_fetch_of_a_replaced_log_is_ignored():
    leader = leader_with_snapshot()
    node = _follower_with_late_install(leader, 2)
    fetch = node.take(FETCH)[0]
    assert fetch.partition["fetch_offset"] == 2
    node.run_jobs()
    end = leader.quorum.log.snapshot_id.end_offset
    assert node.quorum.log.end_offset == end
    node.send_records(fetch, diverging_epoch={"epoch": 0, "end_offset": 1})
    assert node.quorum.log.end_offset == end
    node.run_jobs()
    node.advance(1)
    assert node.take(FETCH)[0].partition["fetch_offset"] == end
