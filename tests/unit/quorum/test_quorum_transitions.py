"""The transitions of one node: elections, pre-votes, following, commits, reads, resignation."""

import errno
import uuid

import pytest

from tests.unit.quorum.conftest import Node, directory_id, log_bytes, partition_of, voter, voter_set
from yak.cluster.payload import IsrMember
from yak.core.events import DisksLost
from yak.errors import ErrorCode
from yak.metadata_store.checks import has_all_data
from yak.protocol.versions import FETCH
from yak.quorum.control_records import leader_change, voters_change
from yak.quorum.election_state import ElectionState
from yak.quorum.quorum import Role
from yak.quorum.transport import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, VOTE
from yak.quorum.voters import Voter, VoterSet


def register(node: Node, node_id: int = 1, boot_id: str = "", **more: object) -> list:
    return node.propose(
        "register",
        node_id=node_id,
        broker_epoch=0,
        boot_id=boot_id or f"b{node_id}",
        directories=f"d{node_id}",
        host="h",
        port=1,
        rack=None,
        role="any",
        lossy=False,
        secret="s",
        **more,
    )


# ------------------------------------------------------------------------------------------------------ elections


def test_only_voter_elects_itself_and_creates_the_cluster():
    node = Node(voters=voter_set(1)).start()
    assert node.quorum.is_ready_leader
    assert node.quorum.machine.state.cluster["cluster_id"] == "c"
    assert node.quorum.high_watermark == node.quorum.log.end_offset


def test_start_requests_pre_votes_in_the_present_epoch(node):
    node.quorum.start()
    node.advance(50)
    requests = node.take(VOTE)
    assert {request.address.node_id for request in requests} == {2, 3}
    assert all(request.partition["pre_vote"] for request in requests)
    assert all(request.partition["replica_epoch"] == 0 for request in requests)
    assert (node.quorum.role, node.quorum.epoch) == (Role.PROSPECTIVE, 0)


def test_majority_of_pre_votes_begins_a_new_epoch(node):
    node.quorum.start()
    node.advance(50)
    node.grant(node.take(VOTE)[0])
    assert (node.quorum.role, node.quorum.epoch) == (Role.CANDIDATE, 1)
    assert node.take(VOTE) == [], "the requests wait for the vote on disk"
    node.run_jobs()
    requests = node.take(VOTE)
    assert [request.partition["pre_vote"] for request in requests] == [False, False]
    assert ElectionState.read(node.disk, "/data/quorum-state") == ElectionState(1, 1, directory_id(1))
    node.grant(requests[1])
    assert node.quorum.role is Role.LEADER


def test_refused_pre_votes_leave_the_epoch_and_are_repeated(node):
    node.quorum.start()
    node.advance(50)
    for request in node.take(VOTE):
        node.grant(request, granted=False)
    node.advance(300)
    again = node.take(VOTE)
    assert len(again) >= 2
    assert node.quorum.epoch == 0


def test_voter_whose_log_names_replaced_voters_finds_the_leader_by_its_configuration():
    """It was down while it and the others were removed one by one; nobody that its log names runs any more."""
    before = Node(voters=voter_set(1, 2, 3))
    before.quorum.log.append(voters_change(voter_set(1, 2, 3), 1), 1, 1)
    before.quorum.flush()
    before.run_jobs()
    node = Node(voters=voter_set(1, 4, 5), disk=before.disk)
    node.quorum.start()
    node.advance(50)
    requests = {each.address.node_id: each for each in node.take(VOTE)}
    assert sorted(requests) == [2, 3, 4, 5]
    for node_id in (4, 5):
        node.grant(requests[node_id])
    assert node.quorum.role is Role.PROSPECTIVE, "they have no votes in its log"
    node.grant(requests[5], granted=False, epoch=9, leader=4)
    assert (node.quorum.role, node.quorum.leader_id, node.quorum.epoch) == (Role.FOLLOWER, 4, 9)


def test_node_with_a_replaced_disk_does_not_stand_for_the_voter_of_the_old_disk():
    """Its configuration names no directory; its log, which it has fetched and not applied, names the old one."""
    before = Node(voters=voter_set(1, 2, 3, known=False))
    old = Voter(1, "h", 9001, uuid.UUID(int=7))
    before.quorum.log.append(voters_change(VoterSet.of([old, voter(2), voter(3)]), 1), 1, 1)
    before.quorum.flush()
    before.run_jobs()
    node = Node(voters=voter_set(1, 2, 3, known=False), disk=before.disk)
    node.quorum.start()
    node.advance(5000)
    assert node.take(VOTE) == []
    assert node.quorum.role is Role.UNATTACHED
    assert node.take(FETCH), "it asks for the leader as one that has no vote"


def test_late_vote_of_an_older_epoch_does_not_count(node):
    node.quorum.start()
    node.advance(50)
    node.grant(node.take(VOTE)[0])
    node.run_jobs()
    old = node.take(VOTE)
    node.vote(2, 5)
    node.run_jobs()
    node.grant(old[0], epoch=1)
    node.grant(old[1], epoch=1)
    assert node.quorum.role is not Role.LEADER
    assert node.quorum.epoch == 5


def test_pre_vote_does_not_count_as_a_vote(node):
    node.quorum.start()
    node.advance(50)
    first, second = node.take(VOTE)
    node.grant(first)
    node.run_jobs()
    node.grant(second)
    assert node.quorum.role is Role.CANDIDATE


def test_newer_epoch_in_a_vote_deposes_the_leader(node):
    node.become_leader(2, 3)
    waiting = register(node)
    node.vote(3, node.quorum.epoch + 1)
    assert node.quorum.leader is None
    assert waiting == [None]


# ------------------------------------------------------------------------------------------------------ votes


def test_vote_answer_waits_until_the_vote_is_durable(node):
    node.start()
    answers = node.vote(2, 1)
    assert answers == []
    node.run_jobs()
    assert partition_of(answers[0]).vote_granted
    assert ElectionState.read(node.disk, "/data/quorum-state") == ElectionState(1, 2, directory_id(2))


def test_second_candidate_of_an_epoch_gets_no_vote_also_after_a_restart(node):
    node.quorum.start()
    node.vote(2, 1)
    node.run_jobs()
    answers = node.vote(3, 1)
    node.run_jobs()
    assert not partition_of(answers[0]).vote_granted
    again = Node(disk=node.disk)
    again.quorum.start()
    refused, repeated = again.vote(3, 1), again.vote(2, 1)
    again.run_jobs()
    assert not partition_of(refused[0]).vote_granted
    assert partition_of(repeated[0]).vote_granted


def test_candidate_with_another_directory_is_another_candidate(node):
    node.quorum.start()
    node.vote(2, 1)
    node.run_jobs()
    answers = node.vote(2, 1, replica_directory_id=directory_id(77))
    node.run_jobs()
    assert not partition_of(answers[0]).vote_granted


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "granted"), [(1, 9, False), (2, 2, False), (2, 3, True), (3, 1, True)]
)
def test_vote_needs_a_log_that_is_as_new(node, last_epoch, last_offset, granted):
    node.follow(2, 2)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 2, 2))
    node.run_jobs()
    answers = node.vote(3, 7, last_offset_epoch=last_epoch, last_offset=last_offset)
    node.run_jobs()
    assert bool(partition_of(answers[0]).vote_granted) is granted


def test_vote_for_a_lost_directory_is_refused(node):
    node.quorum.start()
    answers = node.vote(2, 1, voter_directory_id=directory_id(55))
    node.run_jobs()
    assert partition_of(answers[0]).error_code == ErrorCode.invalid_voter_key
    assert not partition_of(answers[0]).vote_granted
    assert node.quorum.epoch == 0


def test_vote_in_another_cluster_is_refused(node):
    node.quorum.start()
    partition = {
        "partition_index": 0,
        "replica_epoch": 1,
        "replica_id": 2,
        "replica_directory_id": directory_id(2),
        "voter_directory_id": None,
        "last_offset_epoch": -1,
        "last_offset": 0,
        "pre_vote": False,
    }
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    answers = node.handle(VOTE, {"cluster_id": "other", "voter_id": 1, "topics": topics})
    assert answers[0].error_code == ErrorCode.inconsistent_cluster_id


def test_follower_of_a_live_leader_grants_no_pre_vote(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0])
    answers = node.vote(3, 1, pre_vote=True)
    node.run_jobs()
    assert not partition_of(answers[0]).vote_granted
    assert (node.quorum.role, node.quorum.epoch) == (Role.FOLLOWER, 1)


def test_follower_whose_connection_broke_grants_a_pre_vote(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0])
    node.take(FETCH)[0].done(None)
    answers = node.vote(3, 1, pre_vote=True)
    node.run_jobs()
    assert partition_of(answers[0]).vote_granted
    assert ElectionState.read(node.disk, "/data/quorum-state").voted_id == -1


# ------------------------------------------------------------------------------------------------------ following


def test_follower_fetches_only_what_is_durable(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1), high_watermark=1)
    assert node.take(FETCH) == []
    node.run_jobs()
    fetch = node.take(FETCH)[0]
    assert (fetch.partition["fetch_offset"], fetch.partition["last_fetched_epoch"]) == (2, 1)


def test_follower_without_an_answer_requests_pre_votes(node):
    node.follow(2, 1)
    node.advance(2_300)
    assert node.quorum.role is Role.PROSPECTIVE
    assert (node.quorum.epoch, bool(node.take(VOTE))) == (1, True)
    assert [api_key for _address, api_key in node.forgotten] == [FETCH]


def test_two_lost_connections_in_a_row_begin_an_election_at_once(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0])
    for _ in range(2):
        node.take(FETCH)[0].done(None)
        node.advance(20)
    node.advance(50)
    assert node.quorum.role is Role.PROSPECTIVE


def test_diverging_answer_truncates_the_log(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1), high_watermark=1)
    node.run_jobs()
    node.take(FETCH)
    node.begin(3, 2)
    node.run_jobs()
    fetch = next(each for each in node.take(FETCH) if each.address.node_id == 3)
    node.send_records(fetch, diverging_epoch={"epoch": 1, "end_offset": 2})
    assert node.quorum.log.end_offset == 2
    assert node.take(FETCH) == []
    node.run_jobs()
    assert node.take(FETCH)[0].partition["fetch_offset"] == 2


def test_answer_of_a_fetch_before_the_role_changed_is_ignored(node):
    node.follow(2, 1)
    fetch = node.take(FETCH)[0]
    node.begin(3, 2)
    node.run_jobs()
    node.send_records(fetch, log_bytes(1, 1))
    assert node.quorum.log.end_offset == 0


def test_follower_applies_up_to_the_leaders_high_watermark(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1), high_watermark=2)
    assert (node.quorum.high_watermark, node.quorum.applied_offset) == (2, 2)


def test_observer_waits_for_its_flush_before_a_search_for_a_leader():
    node = Node(4)
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1))
    node.advance(2_300, jobs=False)
    assert node.quorum.role is Role.UNATTACHED
    assert node.take(FETCH) == [], "an unsynced record would be acknowledged"
    node.run_jobs()
    node.advance(25)
    assert node.take(FETCH)[0].partition["fetch_offset"] == 2


# ------------------------------------------------------------------------------------------------------ leading


def test_leader_commits_with_its_own_epochs_first_record_only(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1), high_watermark=1)
    node.run_jobs()
    node.advance(2_300)
    for _ in range(2):
        for request in node.take(VOTE):
            if request.address.node_id == 3:
                node.grant(request)
        node.run_jobs()
    assert node.quorum.role is Role.LEADER
    node.fetch(3, 3, 1, max_wait=0)
    assert node.quorum.high_watermark == 1, "records of epoch 1 are on a majority, and not committed"
    node.fetch(3, 4, 2, max_wait=0)
    assert node.quorum.high_watermark == 4


def test_leader_counts_its_durable_end(node):
    node.become_leader(2, 3)
    waiting = register(node)
    end = node.quorum.log.end_offset
    node.fetch(2, end, node.quorum.epoch, max_wait=0)
    assert (waiting, node.quorum.high_watermark) == ([], end - 1)
    node.run_jobs()
    assert waiting[0].code == "OK"


def test_command_is_answered_after_its_commit(node):
    node.become_leader(2, 3)
    waiting = register(node)
    node.run_jobs()
    assert waiting == []
    node.fetch_all(3, max_wait=0)
    assert waiting[0].code == "OK"


def test_restore_from_a_brokers_copy_is_refused():
    node = Node(voters=voter_set(1))
    node.become_leader()
    (outcome,) = node.propose("seed_offer", node_id=1)
    assert outcome is not None
    assert (outcome.code, "restores nothing" in str(outcome.value["message"])) == ("BAD_REQUEST", True)


def test_read_waits_until_a_majority_returns_its_round(node):
    node.become_leader(2, 3)
    node.fetch_all(2)
    outcomes = node.propose("verify", node_id=9, broker_epoch=0)
    round_ = node.quorum.leader.round
    node.fetch_all(2, session_id=round_ - 1)
    assert outcomes == []
    node.fetch_all(2, session_id=round_)
    assert outcomes[0].code == "OK"


def test_fetch_that_was_sent_before_the_answer_confirms_no_read(node):
    """The fetch waited at a paused leader, behind a parked one whose connection its sender had given up."""
    node.become_leader(2, 3)
    parked = node.fetch_all(2)
    outcomes = node.propose("verify", node_id=9, broker_epoch=0)
    assert parked, "the read wakes the parked fetch"
    node.fetch_all(2)
    assert outcomes == []


def test_observers_confirm_no_read(node):
    node.become_leader(2, 3)
    outcomes = node.propose("verify", node_id=9, broker_epoch=0)
    for node_id in (7, 8):
        node.fetch_all(node_id, session_id=node.quorum.leader.round)
    assert outcomes == []


def test_leader_without_fetches_of_a_majority_resigns(node):
    node.become_leader(2, 3)
    waiting = node.propose("verify", node_id=9, broker_epoch=0)
    epoch = node.quorum.epoch
    node.advance(4_500)
    assert node.quorum.leader is None
    assert node.quorum.epoch == epoch
    assert waiting == [None]


def test_leader_with_fetches_of_a_majority_stays(node):
    node.become_leader(2, 3)
    for _ in range(10):
        node.advance(500)
        node.fetch_all(3, max_wait=0)
    assert node.quorum.role is Role.LEADER


def test_leader_begins_its_epoch_until_each_voter_fetches(node):
    node.become_leader(2)
    node.take(BEGIN_QUORUM_EPOCH)
    node.advance(600)
    assert {request.address.node_id for request in node.take(BEGIN_QUORUM_EPOCH)} == {3}


def test_stop_names_the_followers_by_their_log_ends(node):
    node.become_leader(2, 3)
    register(node)
    node.run_jobs()
    node.fetch_all(3, max_wait=0)
    node.quorum.stop()
    ends = node.take(END_QUORUM_EPOCH)
    assert {request.address.node_id for request in ends} == {2, 3}
    assert [each["candidate_id"] for each in ends[0].partition["preferred_candidates"]] == [3, 2]
    answers = node.vote(2, 9)
    node.run_jobs()
    assert not partition_of(answers[0]).vote_granted


def test_leader_without_room_for_a_record_names_the_followers(node):
    node.become_leader(2, 3)
    node.disk.fail_next("append", errno.ENOSPC)
    assert register(node) == [None]
    assert node.quorum.leader is None
    assert {request.address.node_id for request in node.take(END_QUORUM_EPOCH)} == {2, 3}


def test_failed_disk_under_an_append_ends_the_node(node):
    """Part of the write may be in the file: entries behind it would be lost at a restart, though others count on them."""
    node.become_leader(2, 3)
    node.disk.fail_next("append", errno.EIO)
    assert register(node) == [None]
    assert any(isinstance(effect, DisksLost) for effect in node.effects)


def test_failed_disk_under_fetched_records_ends_the_node(node):
    node.follow(2, 1)
    node.disk.fail_next("append", errno.EIO)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1))
    assert any(isinstance(effect, DisksLost) for effect in node.effects)


def test_preferred_candidate_of_a_resigning_leader_elects_at_once(node):
    node.follow(2, 1)
    node.end(2, 1, 1, 3)
    node.advance(5)
    assert node.quorum.role is Role.PROSPECTIVE


def test_request_before_the_leader_is_ready_waits(node):
    node.quorum.start()
    while node.quorum.role is not Role.LEADER:
        for request in node.take(VOTE):
            node.grant(request)
        node.advance(1)
    waiting = node.propose("verify", node_id=9, broker_epoch=0)
    assert waiting == []
    node.commit(2, 3)
    node.fetch_all(2, session_id=node.quorum.leader.round)
    assert waiting[0].code == "OK"


def test_heartbeat_that_is_a_command_counts_among_the_soft_facts():
    node = Node(voters=voter_set(1)).start()

    def call(script: str, **more: object) -> dict:
        outcomes = node.propose(script, node_id=1, broker_epoch=2, controller_epoch=1, **more)
        node.run_jobs()
        assert outcomes[0].code == "OK", outcomes
        return outcomes[0].value

    register(node)
    node.run_jobs()
    call("heartbeat", persisted=0)
    call("acquire_lease", claimed_epoch=0, claimed_renewals=0)
    call("unfence", target_id=1, target_epoch=2)
    command_renewals = call("heartbeat", persisted=2)["lease_n"]
    assert node.quorum.machine.state.brokers[1]["acted_epoch"] == 2, "that heartbeat was a command"
    call("alloc_pid")
    assert node.quorum.machine.state.cluster["lease_n"] == command_renewals
    assert call("heartbeat", persisted=2)["lease_n"] == command_renewals + 1


def test_metadata_on_the_disk_of_an_incarnation_count_until_a_later_one_reports_its_own():
    node = Node(voters=voter_set(1)).start()
    register(node)
    node.run_jobs()
    node.propose("heartbeat", node_id=1, broker_epoch=2, controller_epoch=0, persisted=7)
    node.run_jobs()
    for boot_id, persisted, is_lossy in (("same disk", 7, False), ("older disk", 6, True)):
        outcomes = register(node, boot_id=boot_id, persisted=persisted)
        node.run_jobs()
        assert outcomes[0].value["lossy"] is is_lossy, boot_id


def test_restarted_leader_knows_what_a_broker_had_on_its_disk_though_no_request_followed_the_report():
    """All machines lose power in a quiet time, and one disk its end: the new log of a topic must not count as in sync."""
    node = Node(voters=voter_set(1)).start()
    register(node)
    node.run_jobs()
    node.propose("heartbeat", node_id=1, broker_epoch=2, controller_epoch=0, persisted=7)
    node.run_jobs()
    node.advance(1_000)
    end_offset = node.quorum.log.end_offset
    node.advance(3_000)
    assert node.quorum.log.end_offset == end_offset, "a quiet quorum appends nothing"
    again = Node(voters=voter_set(1), disk=node.disk).start()
    outcomes = register(again, boot_id="older disk", persisted=6)
    again.run_jobs()
    assert outcomes[0].value["lossy"]
    assert not has_all_data(again.quorum.machine.state, IsrMember(1, 2)), "its log could lead after a clean election"


def test_times_of_a_leader_whose_clock_is_behind_continue_and_advance():
    """They stood still: a broker fenced on suspicion then counted for as long as one fenced just now."""
    node = Node(voters=voter_set(1))
    node.clock.now_ms += 3_600_000
    node.start()
    again = Node(voters=voter_set(1), disk=node.disk).start()
    log = again.quorum.machine.state.log
    assert log[-1].timestamp_ms == node.clock.now_ms
    for node_id in (1, 2):
        again.clock.now_ms += 10_000
        register(again, node_id)
        again.run_jobs()
    assert [each.timestamp_ms - node.clock.now_ms for each in log[-2:]] == [10_000, 20_000]


def test_restarted_node_votes_no_second_time_as_a_candidate(node):
    node.quorum.start()
    node.advance(50)
    node.grant(node.take(VOTE)[0])
    node.run_jobs()
    again = Node(disk=node.disk)
    again.quorum.start()
    answers = again.vote(2, 1)
    again.run_jobs()
    assert not partition_of(answers[0]).vote_granted


def test_voters_of_an_uncommitted_record_are_in_force_and_leave_with_a_truncation(node):
    node.follow(2, 1)
    records = log_bytes(1)
    node.send_records(node.take(FETCH)[0], records, high_watermark=1)
    node.run_jobs()
    other = Node(2, disk=None)
    other.quorum.log.append(leader_change(2, voter_set(1, 2, 3), (), 1), 1, 1)
    other.quorum.log.append(voters_change(voter_set(1, 2, 3, 4), 1), 1, 1)
    node.send_records(node.take(FETCH)[0], other.quorum.log.read(1), high_watermark=1)
    node.run_jobs()
    assert node.quorum.voters.node_ids == (1, 2, 3, 4)
    node.take(FETCH)
    node.begin(3, 2)
    node.run_jobs()
    fetch = next(each for each in node.take(FETCH) if each.address.node_id == 3)
    node.send_records(fetch, diverging_epoch={"epoch": 1, "end_offset": 1})
    assert node.quorum.voters.node_ids == (1, 2, 3)


def test_voter_whose_removal_is_not_committed_stands_for_election(node):
    """It may be the only one with the record of its removal, and then no other voter can be elected."""
    node.follow(2, 1)
    other = Node(2, disk=None)
    other.quorum.log.append(leader_change(2, voter_set(1, 2, 3), (), 1), 1, 1)
    other.quorum.log.append(voters_change(voter_set(2, 3), 1), 1, 1)
    node.send_records(node.take(FETCH)[0], other.quorum.log.read(0), high_watermark=1)
    node.run_jobs()
    assert not node.quorum.is_voter
    node.take(VOTE)
    node.advance(2_300)
    assert node.quorum.role is Role.PROSPECTIVE
    assert {each.address.node_id for each in node.take(VOTE)} == {2, 3}


def test_voter_whose_removal_is_committed_is_an_observer(node):
    node.follow(2, 1)
    other = Node(2, disk=None)
    other.quorum.log.append(leader_change(2, voter_set(1, 2, 3), (), 1), 1, 1)
    other.quorum.log.append(voters_change(voter_set(2, 3), 1), 1, 1)
    node.send_records(node.take(FETCH)[0], other.quorum.log.read(0), high_watermark=2)
    node.run_jobs()
    node.advance(2_300)
    assert node.quorum.role is Role.UNATTACHED
    assert node.take(VOTE) == []


def test_records_with_a_gap_are_refused(node):
    node.follow(2, 1)
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1, start=1))
    assert node.quorum.log.end_offset == 0
    node.collect()
    assert "quorum-records-refused" in node.notices


def test_records_that_are_refused_again_and_again_are_logged_once_until_a_fetch_is_good(node):
    """A voter whose disk is full would fill it with its log, too: ten lines a second."""
    node.follow(2, 1)
    for _ in range(20):
        node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1, start=1))
        node.advance(200)
    assert node.notices.count("quorum-records-refused") == 1
    node.send_records(node.take(FETCH)[0], b"")
    node.send_records(node.take(FETCH)[0], log_bytes(1, 1, 1, start=1))
    node.collect()
    assert node.notices.count("quorum-records-refused") == 2
