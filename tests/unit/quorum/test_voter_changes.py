"""Voters added, removed and updated, one change at a time."""

import pytest

from tests.unit.quorum.conftest import CLUSTER_ID, Node, directory_id, partition_of, voter, voter_set
from yak.errors import ErrorCode
from yak.protocol.versions import FETCH
from yak.quorum.quorum import Role
from yak.quorum.transport import END_QUORUM_EPOCH, UPDATE_RAFT_VOTER, VOTE


def update(node: Node, node_id: int, port: int, **changes: object) -> list:
    fields = {
        "cluster_id": CLUSTER_ID,
        "current_leader_epoch": node.quorum.epoch,
        "voter_id": node_id,
        "voter_directory_id": directory_id(node_id),
        "listeners": [{"name": "PLAINTEXT", "host": "h", "port": port}],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
    return node.handle(UPDATE_RAFT_VOTER, fields | changes)


def test_voter_is_added_when_it_has_caught_up(leader):
    answers = leader.add(4)
    assert (answers, leader.quorum.voters.node_ids) == ([], (1, 2, 3))
    leader.fetch_all(4, max_wait=0)
    assert leader.quorum.voters == voter_set(1, 2, 3, 4)
    assert answers == [], "the change is not committed"
    leader.commit(2, 3)
    assert answers[0].error_code == ErrorCode.none
    assert leader.quorum.committed_voters == voter_set(1, 2, 3, 4)


def test_new_voter_counts_from_its_record_on(leader):
    leader.add(4)
    leader.fetch_all(4, max_wait=0)
    leader.run_jobs()
    before = leader.quorum.high_watermark
    leader.fetch_all(2, max_wait=0)
    assert leader.quorum.high_watermark == before, "two of four are no majority"
    leader.fetch_all(4, max_wait=0)
    assert leader.quorum.high_watermark == leader.quorum.log.end_offset


def test_voter_without_a_directory_id_is_not_added(leader):
    leader.fetch_all(4, max_wait=0)
    answers = leader.add(4, voter_directory_id=None)
    leader.fetch_all(4, max_wait=0)
    assert answers[0].error_code == ErrorCode.invalid_request
    assert leader.quorum.voters.node_ids == (1, 2, 3)


def test_voter_that_does_not_catch_up_is_refused_in_time(leader):
    answers = leader.add(4, timeout=500)
    leader.advance(400)
    assert answers == []
    leader.advance(200)
    assert answers[0].error_code == ErrorCode.request_timed_out
    assert leader.quorum.voters.node_ids == (1, 2, 3)


def test_observer_that_does_not_fetch_any_more_is_not_added(leader):
    leader.fetch_all(4, max_wait=0)
    leader.advance(1_000)
    answers = leader.add(4, timeout=500)
    leader.commit(2, 3)
    assert leader.quorum.voters.node_ids == (1, 2, 3)
    leader.advance(600)
    assert answers[0].error_code == ErrorCode.request_timed_out
    assert leader.quorum.voters.node_ids == (1, 2, 3)


def test_observer_whose_fetch_waits_is_answered_to_show_that_it_runs(leader):
    parked = leader.fetch_all(4)
    leader.advance(10)
    assert parked == []
    leader.add(4)
    assert len(parked) == 1
    assert leader.quorum.voters.node_ids == (1, 2, 3)
    leader.fetch_all(4)
    assert leader.quorum.voters.node_ids == (1, 2, 3, 4)


def test_replica_with_another_directory_does_not_complete_the_addition(leader):
    leader.add(4)
    leader.fetch_all(4, replica_directory_id=directory_id(44), max_wait=0)
    assert leader.quorum.voters.node_ids == (1, 2, 3)


def test_node_that_is_a_voter_is_not_added_again(leader):
    assert leader.add(3)[0].error_code == ErrorCode.duplicate_voter


def test_second_change_waits_for_the_commit_of_the_first(leader):
    leader.remove(3)
    assert leader.remove(2)[0].error_code == ErrorCode.request_timed_out
    assert leader.add(4)[0].error_code == ErrorCode.request_timed_out
    assert update(leader, 2, 7000)[0].error_code == ErrorCode.request_timed_out
    leader.commit(2)
    assert leader.quorum.committed_voters == voter_set(1, 2)
    answers = leader.remove(2)
    leader.commit(2)
    assert answers[0].error_code == ErrorCode.none


def test_change_during_an_addition_is_refused(leader):
    leader.add(4)
    assert leader.remove(3)[0].error_code == ErrorCode.request_timed_out


def test_new_leader_changes_no_voters_before_its_first_record_is_committed(leader):
    node = Node()
    node.quorum.start()
    while node.quorum.role is not Role.LEADER:
        for request in node.take(VOTE):
            node.grant(request)
        node.advance(1)
    node.run_jobs()
    refused = node.remove(3)[0]
    assert refused.error_code == ErrorCode.request_timed_out
    assert "has not committed a record in its epoch" in refused.error_message


def test_voter_with_another_directory_is_not_removed(leader):
    fields = {"cluster_id": CLUSTER_ID, "voter_id": 3, "voter_directory_id": directory_id(30)}
    assert leader.handle(81, fields)[0].error_code == ErrorCode.voter_not_found


def test_last_voter_is_not_removed():
    node = Node(voters=voter_set(1)).start()
    assert node.remove(1)[0].error_code == ErrorCode.invalid_request


def test_leader_that_is_removed_commits_that_without_its_own_vote_and_resigns(leader):
    answers = leader.remove(1)
    leader.run_jobs()
    leader.fetch_all(2, max_wait=0)
    assert leader.quorum.role is Role.LEADER, "one of two voters is no majority"
    leader.fetch_all(3, max_wait=0)
    leader.run_jobs()
    assert answers[0].error_code == ErrorCode.none
    assert leader.quorum.role is Role.UNATTACHED
    assert {request.address.node_id for request in leader.take(END_QUORUM_EPOCH)} == {2, 3}
    assert len(leader.take(FETCH)) == 1, "it looks for the next leader"
    leader.advance(5_000)
    assert leader.take(VOTE) == []


def test_leader_that_resigns_answers_the_addition_under_way(leader):
    answers = leader.add(4)
    leader.vote(3, leader.quorum.epoch + 1)
    leader.run_jobs()
    assert answers[0].error_code == ErrorCode.request_timed_out


@pytest.mark.parametrize("change", [lambda node: node.remove(3), lambda node: update(node, 2, 7000)])
def test_leader_that_resigns_answers_the_change_under_way(leader, change):
    answers = change(leader)
    leader.run_jobs()
    assert answers == [], "the change is not committed"
    leader.vote(3, leader.quorum.epoch + 1)
    leader.run_jobs()
    assert answers[0].error_code == ErrorCode.request_timed_out


def test_update_takes_the_address_of_a_voter(leader):
    answers = update(leader, 2, 7000)
    leader.commit(2, 3)
    assert answers[0].error_code == ErrorCode.none
    assert leader.quorum.committed_voters.get(2).port == 7000


def test_update_of_a_replica_with_another_directory_is_refused(leader):
    answers = update(leader, 2, 7000, voter_directory_id=directory_id(20))
    assert answers[0].error_code == ErrorCode.voter_not_found


def test_update_in_another_epoch_is_refused(leader):
    answers = update(leader, 2, 7000, current_leader_epoch=leader.quorum.epoch + 1)
    assert answers[0].error_code == ErrorCode.fenced_leader_epoch


def test_follower_refuses_changes():
    node = Node()
    node.follow(2, 1)
    assert node.add(4)[0].error_code == ErrorCode.not_leader_or_follower


def test_voter_reports_its_directory_once_in_an_epoch():
    node = Node(voters=voter_set(1, 2, 3, known=False))
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0])
    node.send_records(node.take(FETCH)[0])
    [report] = node.take(UPDATE_RAFT_VOTER)
    assert report.fields["voter_directory_id"] == directory_id(1)
    report.done(None)
    node.send_records(node.take(FETCH)[0])
    assert len(node.take(UPDATE_RAFT_VOTER)) == 1


def test_leader_reports_its_directory_to_itself():
    node = Node(voters=voter_set(1, known=False)).start()
    assert node.quorum.committed_voters.get(1) == voter(1)


def test_observer_that_becomes_a_voter_may_be_elected():
    node = Node(4, voters=voter_set(1, 2, 3))
    node.follow(2, 1)
    source = Node(2)
    source.become_leader(1, 3)
    source.add(4)
    source.fetch_all(4, max_wait=0)
    node.begin(2, source.quorum.epoch)
    node.run_jobs()
    node.send_records(node.take(FETCH)[-1], source.quorum.log.read(0), source.quorum.high_watermark)
    node.run_jobs()
    assert node.quorum.is_voter
    node.advance(2_300)
    assert node.quorum.role is Role.PROSPECTIVE
    assert partition_of(source.fetch(4, 0, -1)[0]).error_code == ErrorCode.none
