"""Elections of many partitions: a turn examines and sends a bounded number, and what happens in between is not missed."""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.cluster.conftest import broker
from yak.cluster.controller import EXAMINED_PER_ELECTION, LeaderElections
from yak.cluster.election_counts import ElectionCounts
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import parse_isr
from yak.cluster.records import BrokerState
from yak.ports.metadata_store import StoreOutcome

CALL_MAX = 3
PARTITIONS = 3 * CALL_MAX + 1
OFFSET = 50


def image_of(*brokers: BrokerInfo, led: int = PARTITIONS, partitions: int = PARTITIONS) -> Image:
    """The last `led` partitions are led by node 1, and the others by node 2."""
    infos = tuple(
        PartitionInfo(index, (1, 2, 3), parse_isr("1@11,2@12,3@13"), (), 2 if index < partitions - led else 1, 4, 7)
        for index in range(partitions)
    )
    topic = TopicInfo("t", uuid.UUID(int=1), infos)
    return Image(brokers={each.node_id: each for each in brokers}, topics={"t": topic}, offset=OFFSET)


LOST = (broker(1, BrokerState.FENCED), broker(2), broker(3))


class Session:
    """Takes the calls of the elections, and what they write to the log."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.calls: list[SimpleNamespace] = []
        self.said: list[tuple[str, dict[str, object]]] = []

    def send(self, script, arguments, on_reply):
        assert script == "elect"
        self.calls.append(SimpleNamespace(partitions=arguments["partitions"], on_reply=on_reply))

    def say(self, _level, event, **fields):
        self.said.append((event, fields))

    def elected(self) -> list[tuple[int, int]]:
        return [(each["partition"], each["leader"]) for call in self.calls for each in call.partitions]

    def answer(self, now_ms: int, code: str = "OK", *, each: str = "OK") -> None:
        for call in self.calls:
            call.on_reply(StoreOutcome(code, OFFSET, "", {"codes": [each] * len(call.partitions)}), now_ms)
        self.calls.clear()


def make(image: Image) -> tuple[LeaderElections, Session]:
    session = Session(image)
    elections = LeaderElections(session, ElectionCounts(), lambda *_: None, elections_a_call=CALL_MAX)  # type: ignore[arg-type]
    return elections, session


def pass_turns(elections: LeaderElections, now_ms: int = 0) -> int:
    turns = 0
    while elections.due_ms is not None:
        now_ms = elections.due_ms
        elections.on_time(now_ms)
        turns += 1
    return turns


def test_election_turn_sends_one_bounded_call_and_the_last_call_ends_the_round():
    elections, session = make(image_of(*LOST))
    elections.check(0)
    assert [len(call.partitions) for call in session.calls] == [CALL_MAX]
    session.answer(1)
    assert session.said == []
    assert not elections.is_settled()
    pass_turns(elections)
    assert [len(call.partitions) for call in session.calls] == [CALL_MAX, CALL_MAX, 1]
    session.answer(9)
    assert session.said == [("leaders-elected", {"count": PARTITIONS, "took_ms": 9})]
    assert elections.is_settled()


def test_election_turn_examines_a_bounded_number_of_partitions_that_need_no_election():
    count = 4 * EXAMINED_PER_ELECTION * CALL_MAX
    elections, session = make(image_of(*LOST, led=1, partitions=count))
    elections.check(0)
    assert session.calls == []
    assert pass_turns(elections) == 4
    assert session.elected() == [(count - 1, 2)]


def test_fenced_broker_is_replaced_also_when_its_fencing_is_seen_between_two_turns():
    elections, session = make(image_of(*LOST))
    elections.check(0)
    session.image = replace(image_of(*LOST[:1], broker(2, BrokerState.FENCED), broker(3)), offset=OFFSET + 1)
    elections.check(1)
    pass_turns(elections)
    session.answer(5)
    elections.check(6)
    pass_turns(elections)
    assert session.elected() == [(index, 3) for index in range(PARTITIONS)]


def test_another_election_follows_one_that_was_refused_because_a_broker_had_changed():
    elections, session = make(image_of(*LOST))
    elections.check(0)
    session.image = replace(image_of(*LOST[:1], broker(2, BrokerState.FENCED), broker(3)), offset=OFFSET + 1)
    pass_turns(elections)
    session.answer(5, each="INELIGIBLE_REPLICA")
    elections.check(6)
    pass_turns(elections)
    assert session.elected() == [(index, 3) for index in range(PARTITIONS)]


def test_refused_election_is_not_sent_again_before_a_broker_changes():
    elections, session = make(image_of(*LOST))
    elections.check(0)
    pass_turns(elections)
    session.answer(5, each="INELIGIBLE_REPLICA")
    elections.check_again()
    elections.check(6)
    pass_turns(elections)
    assert session.calls == []
    session.image = replace(image_of(*LOST), offset=OFFSET + 1)
    elections.check(7)
    pass_turns(elections)
    assert session.elected() == [(index, 2) for index in range(PARTITIONS)]


@pytest.mark.parametrize("how", ["store lost", "call refused", "held"])
def test_rest_of_the_partitions_is_examined_again_after_the_elections_stopped(how):
    elections, session = make(image_of(*LOST))
    elections.check(0)
    if how == "store lost":
        session.calls.clear()
        elections.restart()
    elif how == "call refused":
        session.answer(1, "OOM")
    else:
        elections.hold()
        session.answer(1)
        elections.release()
    assert elections.due_ms is None
    elections.check(1_000)
    pass_turns(elections)
    assert session.elected() == [(index, 2) for index in range(PARTITIONS)]


def test_preferred_elections_follow_the_needed_ones_in_bounded_turns():
    elections, session = make(image_of(broker(1), broker(2), broker(3), led=0))
    elections.recheck(0, rebalance=True)
    pass_turns(elections)
    assert max(len(call.partitions) for call in session.calls) == CALL_MAX
    assert session.elected() == [(index, 1) for index in range(PARTITIONS)]
