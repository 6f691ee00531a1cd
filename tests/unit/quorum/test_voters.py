"""Sets of voters: their text, their record, majorities, and directories."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.quorum.conftest import directory_id, voter, voter_set
from yak.errors import UsageError
from yak.quorum.voters import Voter, VoterSet

voters = st.builds(
    Voter,
    st.integers(0, 2**31 - 1),
    st.text("abc.-", min_size=1, max_size=20),
    st.integers(1, 2**16 - 1),
    st.one_of(st.none(), st.uuids().filter(lambda each: each.int != 0)),
)
voter_sets = st.lists(voters, min_size=1, max_size=5, unique_by=lambda each: each.node_id).map(VoterSet.of)


@given(voter_sets)
def test_record_of_voters_round_trips(voters):
    assert VoterSet.decode(voters.encode()) == voters


@given(voter_sets)
def test_two_majorities_always_share_a_voter(voters):
    assert 2 * voters.majority > len(voters.voters)
    assert 2 * (voters.majority - 1) <= len(voters.voters)


def test_text_with_hosts_and_ipv6_parses():
    parsed = VoterSet.parse("2@host:9092, 1@[::1]:9093")
    assert parsed.voters == (Voter(1, "::1", 9093), Voter(2, "host", 9092))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1@host",
        "host:1",
        "x@host:1",
        "1@host:0",
        "1@host:70000",
        "1@a:1,1@b:2",
        "1@a:" + "9" * 5_000,
        "9" * 5_000 + "@a:1",
    ],
)
def test_text_that_names_no_voters_is_refused(text):
    with pytest.raises(UsageError):
        VoterSet.parse(text)


def test_voter_with_another_directory_is_another_replica():
    assert voter_set(1, 2).has(1, directory_id(1))
    assert not voter_set(1, 2).has(1, directory_id(2))
    assert not voter_set(1, 2).has(3, directory_id(3))


def test_voter_without_a_directory_id_is_any_replica_of_its_node():
    assert voter_set(1, known=False).has(1, uuid.UUID(int=5))


def test_with_voter_replaces_the_one_of_its_node_id():
    moved = Voter(2, "other", 1, directory_id(9))
    assert voter_set(1, 2, 3).with_voter(moved).get(2) == moved
    assert voter_set(1, 2).with_voter(voter(0)).node_ids == (0, 1, 2)
    assert voter_set(1, 2, 3).without(2).node_ids == (1, 3)
