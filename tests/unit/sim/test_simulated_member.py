"""What a simulated member of a group makes of the answer to its commit."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from kio.schema.errors import ErrorCode

from yak.sim.group_member import GroupMember
from yak.sim.history_checker.history import Outcome
from yak.sim.seeded_random import SeededRandom

ONE, TWO = ("t", 0), ("t", 1)


@pytest.fixture
def member():
    member = GroupMember(Mock(group_id="g"), 0, SeededRandom("x"), None)
    member._link = Mock()
    member._own = {place: SimpleNamespace(consumer=SimpleNamespace(position=7), committed=-1) for place in (ONE, TWO)}
    member._has_all = True
    return member


def answer(**codes):
    partitions = [SimpleNamespace(partition_index=int(name[1:]), error_code=code) for name, code in codes.items()]
    return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])


def commit(member, what):
    member._commit_own(lambda: None)
    _api_key, _body, done = member._link.send.call_args.args
    done(what)
    return member._group.history.committed.call_args.args[2]


def test_a_partition_that_the_coordinator_does_not_know_yet_is_committed_again(member):
    said = answer(p0=ErrorCode.none, p1=ErrorCode.unknown_topic_or_partition)
    assert commit(member, said) is Outcome.INFO
    assert (member.committed(ONE), member.committed(TWO)) == (7, -1)
    assert not member._is_committing
    assert commit(member, answer(p1=ErrorCode.none)) is Outcome.OK
    assert member.committed(TWO) == 7


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (None, Outcome.INFO),
        (answer(p0=ErrorCode.illegal_generation, p1=ErrorCode.illegal_generation), Outcome.FAIL),
        (answer(p0=ErrorCode.not_coordinator, p1=ErrorCode.not_coordinator), Outcome.INFO),
    ],
    ids=["no answer", "refused", "elsewhere"],
)
def test_unconfirmed_commit_does_not_count_as_committed(member, said, outcome):
    assert commit(member, said) is outcome
    assert (member.committed(ONE), member.committed(TWO)) == (-1, -1)


@pytest.mark.parametrize(("generation", "is_sent"), [(3, False), (4, True)], ids=["the same", "the next"])
def test_a_commit_of_the_generation_before_is_sent_once_another_was_joined(member, generation, is_sent):
    member.member_id, member.generation = "m", 3
    member._own = {ONE: Mock(consumer=SimpleNamespace(position=7))}
    member._give_up([ONE])
    member.generation = generation
    member._commit_late()
    member._commit_late()
    assert member._link.send.call_count == is_sent
    if is_sent:
        _process, _group, of_generation, offsets = member._group.history.commits.call_args.args
        assert (of_generation, offsets) == (3, {ONE: 7})
