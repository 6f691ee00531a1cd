"""Heartbeats: when they are sent, and which of them prove that this broker is still a member."""

import pytest

from yak.cluster.heartbeat import Heartbeats
from yak.cluster.image import Image
from yak.cluster.outputs import CallStore, Notice
from yak.cluster.store_session import StoreSession
from yak.ports.metadata_store import StoreOutcome


class HeartbeatRig:
    """Heartbeats and the calls that they make."""

    def __init__(self):
        count = iter(range(1, 1_000))
        self.session = StoreSession(1, Image(), lambda: next(count))
        self.answers = []
        self.refusals = []
        self.heartbeats = Heartbeats(
            self.session, 500, lambda a, now: self.answers.append((a, now)), lambda o, now: self.refusals.append(o.code)
        )

    def calls(self):
        return [output for output in self.session.take_outputs() if isinstance(output, CallStore)]

    def answer(self, call, now_ms, code="OK", **value):
        value = {"state": "ACTIVE", "controller_epoch": 1, "lease_n": 3} | value
        self.session.take_handler(call.nonce)(StoreOutcome(code, 1, "", value), now_ms)


@pytest.mark.parametrize(("state", "accepted_ms"), [("ACTIVE", 1_000), ("STOPPING", 1_000), ("FENCED", 0)])
def test_heartbeat_of_a_fenced_broker_is_not_accepted(state, accepted_ms):
    """It wants to know when that broker has caught up; another may have led meanwhile."""
    rig = HeartbeatRig()
    rig.heartbeats.start(1_000)
    rig.heartbeats.on_time(1_000)
    rig.answer(*rig.calls(), 1_004, state=state)
    assert rig.heartbeats.accepted_ms == accepted_ms
    assert [answer.sent_ms for answer, _now_ms in rig.answers] == [1_000]
    assert rig.refusals == []


def test_heartbeat_answered_before_the_unfencing_is_accepted_with_it():
    rig = HeartbeatRig()
    rig.heartbeats.start(1_000)
    rig.heartbeats.on_time(1_000)
    rig.answer(*rig.calls(), 1_004, state="FENCED")
    rig.heartbeats.on_unfenced(3)
    assert rig.heartbeats.accepted_ms == 1_000
    rig.heartbeats.on_time(1_500)
    rig.answer(*rig.calls(), 1_504, state="FENCED")
    rig.heartbeats.on_unfenced(3)  # as the image has it that we did not renew yet
    assert rig.heartbeats.accepted_ms == 1_000


def test_timer_sends_no_second_heartbeat_while_one_is_outstanding():
    rig = HeartbeatRig()
    rig.heartbeats.start(1_000)
    assert rig.heartbeats.due_ms == 1_000
    rig.heartbeats.on_time(1_000)
    [first] = rig.calls()
    assert rig.heartbeats.due_ms == 1_500
    rig.heartbeats.on_time(1_500)
    rig.heartbeats.on_time(2_000)
    assert rig.calls() == []
    rig.heartbeats.send(2_100)
    [second] = rig.calls()
    rig.answer(first, 2_200, heartbeats={"1": 4, "2": 9})
    rig.answer(second, 2_250)
    (one, _), (two, answered_ms) = rig.answers
    assert (one.sent_ms, one.controller_epoch, one.renewals, one.counters) == (1_000, 1, 3, {1: 4, 2: 9})
    assert (two.sent_ms, two.counters, answered_ms) == (2_100, None, 2_250)
    rig.heartbeats.on_time(2_500)
    assert len(rig.calls()) == 1


def test_refused_heartbeat_is_reported_and_hastened_heartbeat_is_sent_sooner():
    rig = HeartbeatRig()
    rig.heartbeats.send_by(10)
    assert rig.heartbeats.due_ms is None, "it has not started"
    rig.heartbeats.start(1_000)
    rig.heartbeats.on_time(1_000)
    rig.answer(rig.calls()[0], 1_001, code="STALE_BROKER_EPOCH")
    assert rig.refusals == ["STALE_BROKER_EPOCH"]
    rig.heartbeats.send_by(1_050)
    rig.heartbeats.send_by(9_000)
    assert rig.heartbeats.due_ms == 1_050
    rig.heartbeats.pause()
    assert rig.heartbeats.due_ms is None


def test_a_slow_store_is_warned_of_once_in_a_while():
    rig = HeartbeatRig()
    rig.heartbeats.start(0)
    said = []
    for now_ms in range(0, 40_000, 2_000):
        rig.heartbeats.send(now_ms)
        [call] = rig.calls()
        rig.answer(call, now_ms + (300 if now_ms < 4_000 else 1_500))
        said += [(now_ms, out.event) for out in rig.session.take_outputs() if isinstance(out, Notice)]
    assert said == [(4_000, "metadata-store-slow"), (34_000, "metadata-store-slow")]
