"""Fetches as the leader answers them."""

from tests.unit.quorum.conftest import Node, directory_id, log_bytes, partition_of, voter, voter_set
from yak.errors import ErrorCode
from yak.protocol.versions import FETCH


def test_fetch_returns_the_batches_from_its_offset(leader):
    answer = partition_of(leader.fetch(2, 1, 1)[0])
    assert bytes(answer.records) == leader.quorum.log.read(1)
    assert answer.high_watermark == leader.quorum.high_watermark


def test_fetch_at_the_end_waits_for_a_command(leader):
    answers = leader.fetch_all(2)
    assert answers == []
    leader.propose("alloc_pid", node_id=1, broker_epoch=0)
    assert bytes(partition_of(answers[0]).records) == leader.quorum.log.read(leader.quorum.log.end_offset - 1)


def test_fetch_that_waits_is_answered_empty_in_time(leader):
    answers = leader.fetch_all(2, max_wait=100)
    leader.advance(99)
    assert answers == []
    leader.advance(1)
    assert bytes(partition_of(answers[0]).records or b"") == b""


def test_fetch_that_waits_learns_a_new_high_watermark(leader):
    leader.append_commands(1)
    answers = leader.fetch_all(2)
    leader.fetch_all(3, max_wait=0)
    end = leader.quorum.log.end_offset
    assert partition_of(answers[0]).high_watermark == end


def test_fetch_at_once_when_its_sender_knows_an_older_high_watermark(leader):
    answers = leader.fetch_all(2, high_watermark=0)
    assert partition_of(answers[0]).high_watermark == leader.quorum.high_watermark


def test_fetch_in_an_older_or_newer_epoch_is_refused(leader):
    epoch = leader.quorum.epoch
    assert partition_of(leader.fetch_all(2, current_leader_epoch=epoch - 1)[0]).error_code == (
        ErrorCode.fenced_leader_epoch
    )
    assert partition_of(leader.fetch_all(2, current_leader_epoch=epoch + 1)[0]).error_code == (
        ErrorCode.unknown_leader_epoch
    )
    assert leader.quorum.leader.followers[2].acknowledged_round == 0


def test_fetch_from_a_follower_names_the_leader():
    node = Node()
    node.follow(2, 3)
    response = node.fetch(3, 0, -1)[0]
    answer = partition_of(response)
    assert answer.error_code == ErrorCode.not_leader_or_follower
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 3)
    assert [(each.node_id, each.port) for each in response.node_endpoints] == [(2, 9002)]


def test_fetch_of_another_cluster_is_refused(leader):
    assert leader.quorum.is_foreign("other")
    assert not leader.quorum.is_foreign("c")


def test_fetch_of_a_diverging_log_returns_the_diverging_epoch_and_its_end_offset():
    node = Node()
    node.follow(2, 2)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 2), high_watermark=1)
    node.run_jobs()
    node.become_leader(3)
    answer = partition_of(node.fetch(2, 9, 1)[0])
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 2)
    answer = partition_of(node.fetch(2, 3, 1)[0])
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 2)


def test_diverging_fetch_acknowledges_no_record():
    node = Node()
    node.follow(2, 2)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 2), high_watermark=1)
    node.run_jobs()
    node.become_leader(3)
    node.fetch(2, 9, 1)
    assert node.quorum.leader.followers[2].end_offset == -1


def test_fetch_of_a_replica_behind_the_log_start_returns_the_snapshot_id():
    node = Node(voters=voter_set(1), snapshot_bytes=300).start()
    node.append_commands(8)
    assert node.quorum.log.start_offset > 0
    answer = partition_of(node.fetch(2, 0, -1)[0])
    assert (answer.snapshot_id.end_offset, answer.snapshot_id.epoch) == node.quorum.log.snapshot_id


def test_newer_fetch_of_a_replica_replaces_the_one_that_waits(leader):
    first, second = leader.fetch_all(2), leader.fetch_all(2)
    leader.propose("alloc_pid", node_id=1, broker_epoch=0)
    assert (len(first), len(second)) == (0, 1)


def test_fetch_that_waits_is_redirected_when_the_leader_resigns(leader):
    answers = leader.fetch_all(2)
    leader.vote(3, leader.quorum.epoch + 1)
    leader.run_jobs()
    assert partition_of(answers[0]).error_code == ErrorCode.not_leader_or_follower


def test_replica_with_a_new_directory_acknowledges_no_offset_of_the_old_directory(leader):
    leader.fetch_all(2, max_wait=0)
    leader.fetch(2, 0, -1, replica_directory_id=directory_id(50), max_wait=0)
    assert leader.quorum.leader.end_of(voter(2)) == -1
