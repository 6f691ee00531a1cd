"""The watch over the controller's lease."""

from yak.cluster.controller_election import LeaseWatch
from yak.cluster.pause_detection import PauseDetector


def test_a_value_stands_still_from_its_first_answer_to_the_last_question():
    watch = LeaseWatch(PauseDetector(1_000, 5_000))
    assert watch.unchanged_for_ms() == 0
    watch.observe((1, 7), 0, 40)
    assert watch.unchanged_for_ms() == 0
    watch.observe((1, 7), 500, 900)
    assert watch.unchanged_for_ms() == 460
    watch.observe((1, 8), 1_000, 1_100)
    assert watch.unchanged_for_ms() == 0
    watch.observe((2, 8), 1_500, 1_600)
    assert (watch.value, watch.unchanged_for_ms()) == ((2, 8), 0)


def test_lease_watch_restarts_after_a_local_pause_and_a_reconnect():
    watch = LeaseWatch(PauseDetector(1_000, 5_000))
    for now_ms in range(0, 5_000, 500):
        watch.observe((1, 7), now_ms, now_ms)
    assert watch.unchanged_for_ms() == 4_500
    watch.observe((1, 7), 5_400, 5_501)
    assert watch.unchanged_for_ms() == 0
    watch.observe((1, 7), 6_000, 6_000)
    assert watch.unchanged_for_ms() == 499
    watch.restart()
    assert watch.unchanged_for_ms() == 0


def test_a_store_that_is_always_slow_only_makes_the_timing_slower():
    watch = LeaseWatch(PauseDetector(1_000, 5_000))
    for now_ms in range(0, 6_001, 1_500):
        watch.observe((1, 7), now_ms, now_ms)
    assert watch.unchanged_for_ms() == 3_000, "one gap begins anew, and of each of three more a second counts"
    watch.observe((1, 7), 30_000, 30_000)
    assert watch.unchanged_for_ms() == 0, "a gap long after the others is an outage again"
