"""What a leader counts: ends of logs, read rounds, recent fetches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.quorum.conftest import directory_id, voter_set
from yak.ports.metadata_store import StoreRequest
from yak.quorum.leader_state import OBSERVER_SESSION_MS, ROUND_MASK, Follower, LeaderState, Read

THREE = voter_set(1, 2, 3)


def state(**ends: int) -> LeaderState:
    leader = LeaderState(1, 0, 0)
    for name, end in ends.items():
        node_id = int(name[1:])
        leader.follower(node_id, directory_id(node_id)).end_offset = end
    return leader


@pytest.mark.parametrize(
    ("ends", "own", "committed"),
    [({}, 9, -1), ({"n2": 5}, 9, 5), ({"n2": 5, "n3": 7}, 9, 7), ({"n2": 5, "n3": 7}, 6, 6), ({"n4": 9}, 9, -1)],
)
def test_committed_is_what_a_majority_of_the_voters_has(ends, own, committed):
    assert state(**ends).committed(THREE, 1, own) == committed


def test_leader_that_is_no_voter_does_not_count_itself():
    leader = state(n2=5, n3=7)
    assert leader.committed(voter_set(2, 3), 1, 9) == 5


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 20))
def test_committed_offset_is_on_a_majority_and_the_next_is_not(ends, own):
    voters = voter_set(*range(1, len(ends) + 2))
    leader = state(**{f"n{node_id}": end for node_id, end in enumerate(ends, 2)})
    committed = leader.committed(voters, 1, own)
    assert sum(end >= committed for end in [own, *ends]) >= voters.majority
    assert sum(end > committed for end in [own, *ends]) < voters.majority


def test_replica_with_another_directory_begins_again():
    leader = state(n2=5)
    assert leader.follower(2, directory_id(9)).end_offset == -1
    assert leader.committed(THREE, 1, 9) == -1


def test_round_is_confirmed_by_a_majority():
    leader = state(n2=0, n3=0)
    assert [leader.next_round(), leader.next_round()] == [1, 2]
    assert leader.confirmed_round(THREE, 1) == 0
    leader.followers[3].acknowledge_round(1, leader.round)
    assert leader.confirmed_round(THREE, 1) == 1
    assert leader.confirmed_round(voter_set(1), 1) == 2


@given(st.integers(1, 2**40), st.integers(0, 2**20))
def test_returned_bits_of_a_round_name_that_round(newest, behind):
    follower, round_ = Follower(None), max(1, newest - behind)
    follower.acknowledge_round(round_ & ROUND_MASK, newest)
    assert follower.acknowledged_round == (round_ if round_ & ROUND_MASK else 0)


def test_no_round_has_only_zeros_in_its_bits():
    leader = LeaderState(1, 0, 0, round=ROUND_MASK)
    assert leader.next_round() & ROUND_MASK == 1


def test_fetch_without_an_answer_before_it_confirms_nothing():
    follower = Follower(None)
    follower.acknowledge_round(0, 5)
    assert follower.acknowledged_round == 0


def test_reads_are_taken_in_order_once_confirmed_and_applied():
    leader = LeaderState(1, 0, 0)
    leader.reads = [Read(number, 10 * number, StoreRequest("verify"), lambda _outcome: None) for number in (1, 2, 3)]
    assert [read.round for read in leader.take_confirmed(2, 10)] == [1]
    assert [read.round for read in leader.take_confirmed(3, 100)] == [2, 3]
    assert leader.reads == []


def test_majority_since_counts_this_node():
    leader = state(n2=0, n3=0)
    leader.followers[2].last_fetch_ms = 50
    assert leader.has_majority_since(THREE, 1, 50)
    assert not leader.has_majority_since(THREE, 1, 51)
    assert not leader.has_majority_since(THREE, 4, 50)


def test_replica_with_another_directory_than_the_voter_is_no_part_of_a_majority():
    leader = LeaderState(1, 0, 0)
    leader.follower(2, directory_id(20)).last_fetch_ms = 50
    assert not leader.has_majority_since(THREE, 1, 50)
    leader.follower(3, directory_id(3)).last_fetch_ms = 50
    assert leader.has_majority_since(THREE, 1, 50)


def test_observer_is_described_for_five_minutes_after_its_last_fetch():
    leader = LeaderState(1, 0, 0)
    leader.follower(2, directory_id(2)).last_fetch_ms = 50
    leader.follower(4, directory_id(4)).last_fetch_ms = 50
    assert [node_id for node_id, _ in leader.observers(THREE, 50 + OBSERVER_SESSION_MS - 1)] == [4]
    assert leader.observers(THREE, 50 + OBSERVER_SESSION_MS) == []
    assert [node_id for node_id, _ in leader.observers(voter_set(1), 50)] == [2, 4]


def test_wake_answers_each_parked_fetch_once():
    leader, answered = state(n2=0, n3=0), []
    for node_id in (2, 3):
        leader.followers[node_id].delayed_fetch = lambda node_id=node_id: answered.append(node_id)
    leader.wake([3, 9])
    leader.wake()
    assert answered == [3, 2]
