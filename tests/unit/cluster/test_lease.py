"""The watch over the lease, and the heartbeats that feed it."""

from yak.cluster.heartbeat import Heartbeats
from yak.cluster.image import Image
from yak.cluster.lease import StandstillWatch
from yak.cluster.outputs import Call, Say
from yak.cluster.pause_detection import PauseDetector
from yak.cluster.store_session import StoreSession
from yak.seams.metadata_store import StoreOutcome


def test_a_value_stands_still_from_its_first_answer_to_the_last_question():
    watch = StandstillWatch(PauseDetector(1_000, 5_000))
    assert watch.still_for_ms() == 0
    watch.observe((1, 7), 0, 40)
    assert watch.still_for_ms() == 0
    watch.observe((1, 7), 500, 900)
    assert watch.still_for_ms() == 460
    watch.observe((1, 8), 1_000, 1_100)
    assert watch.still_for_ms() == 0
    watch.observe((2, 8), 1_500, 1_600)
    assert (watch.value, watch.still_for_ms()) == ((2, 8), 0)


def test_a_gap_between_answers_and_a_reconnect_start_the_timing_anew():
    watch = StandstillWatch(PauseDetector(1_000, 5_000))
    for now_ms in range(0, 5_000, 500):
        watch.observe((1, 7), now_ms, now_ms)
    assert watch.still_for_ms() == 4_500
    watch.observe((1, 7), 5_400, 5_501)
    assert watch.still_for_ms() == 0
    watch.observe((1, 7), 6_000, 6_000)
    assert watch.still_for_ms() == 499
    watch.restart()
    assert watch.still_for_ms() == 0


def test_a_store_that_is_always_slow_only_makes_the_timing_slower():
    watch = StandstillWatch(PauseDetector(1_000, 5_000))
    for now_ms in range(0, 6_001, 1_500):
        watch.observe((1, 7), now_ms, now_ms)
    assert watch.still_for_ms() == 3_000, "one gap begins anew, and of each of three more a second counts"
    watch.observe((1, 7), 30_000, 30_000)
    assert watch.still_for_ms() == 0, "a gap long after the others is an outage again"


class Beats:
    """A heart and the calls it makes."""

    def __init__(self):
        count = iter(range(1, 1_000))
        self.link = StoreSession(1, Image(), lambda: next(count))
        self.answers = []
        self.refusals = []
        self.heart = Heartbeats(
            self.link, 500, lambda a, now: self.answers.append((a, now)), lambda o, now: self.refusals.append(o.code)
        )

    def calls(self):
        return [output for output in self.link.take_outputs() if isinstance(output, Call)]

    def answer(self, call, now_ms, code="OK", **value):
        value = {"state": "ACTIVE", "controller_epoch": 1, "lease_n": 3} | value
        self.link.take_handler(call.nonce)(StoreOutcome(code, 1, "", value), now_ms)


def test_one_heartbeat_is_under_way_at_a_time_unless_there_is_something_to_say():
    beats = Beats()
    beats.heart.start(1_000)
    assert beats.heart.due_ms == 1_000
    beats.heart.on_time(1_000)
    [first] = beats.calls()
    assert beats.heart.due_ms == 1_500
    beats.heart.on_time(1_500)
    beats.heart.on_time(2_000)
    assert beats.calls() == []
    beats.heart.beat(2_100)
    [second] = beats.calls()
    beats.answer(first, 2_200, heartbeats={"1": 4, "2": 9})
    beats.answer(second, 2_250)
    (one, _), (two, answered_ms) = beats.answers
    assert (one.asked_ms, one.controller_epoch, one.renewals, one.counters) == (1_000, 1, 3, {1: 4, 2: 9})
    assert (two.asked_ms, two.counters, answered_ms) == (2_100, None, 2_250)
    beats.heart.on_time(2_500)
    assert len(beats.calls()) == 1


def test_a_refused_heartbeat_is_told_and_a_hastened_one_comes_sooner():
    beats = Beats()
    beats.heart.hasten(10)
    assert beats.heart.due_ms is None, "it has not started"
    beats.heart.start(1_000)
    beats.heart.on_time(1_000)
    beats.answer(beats.calls()[0], 1_001, code="STALE_BROKER_EPOCH")
    assert beats.refusals == ["STALE_BROKER_EPOCH"]
    beats.heart.hasten(1_050)
    beats.heart.hasten(9_000)
    assert beats.heart.due_ms == 1_050
    beats.heart.pause()
    assert beats.heart.due_ms is None


def test_a_slow_store_is_warned_of_once_in_a_while():
    beats = Beats()
    beats.heart.start(0)
    said = []
    for now_ms in range(0, 40_000, 2_000):
        beats.heart.beat(now_ms)
        [call] = beats.calls()
        beats.answer(call, now_ms + (300 if now_ms < 4_000 else 1_500))
        said += [(now_ms, out.event) for out in beats.link.take_outputs() if isinstance(out, Say)]
    assert said == [(4_000, "metadata-store-slow"), (34_000, "metadata-store-slow")]
