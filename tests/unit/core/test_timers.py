"""Timers: one a key, run in order of due time, against a plain model."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from yak.core.timers import Timers


def test_armed_again_moves_the_timer():
    timers, ran = Timers(), []
    timers.arm("a", 10, lambda: ran.append("early"))
    timers.arm("a", 20, lambda: ran.append("late"))
    timers.run_due(15)
    assert (ran, timers.next_due()) == ([], 20)
    timers.run_due(20)
    assert (ran, timers.next_due()) == (["late"], None)


def test_at_the_latest_keeps_the_earlier_timer():
    timers, ran = Timers(), []
    timers.arm("a", 10, lambda: ran.append("first"))
    timers.arm_at_the_latest("a", 20, lambda: ran.append("second"))
    assert timers.next_due() == 10
    timers.arm_at_the_latest("a", 5, lambda: ran.append("third"))
    timers.run_due(20)
    assert ran == ["third"]


def test_a_timer_armed_by_another_waits_for_the_next_call():
    timers, ran = Timers(), []

    def again() -> None:
        ran.append(1)
        timers.arm("a", 0, again)

    timers.arm("a", 0, again)
    timers.run_due(10)
    assert (ran, timers.next_due()) == ([1], 0)


def test_a_timer_disarmed_by_another_of_its_time_does_not_run():
    timers, ran = Timers(), []
    timers.arm("a", 5, lambda: timers.disarm("b"))
    timers.arm("b", 5, lambda: ran.append("b"))
    timers.run_due(5)
    assert (ran, len(timers)) == ([], 0)


def test_timers_behind_one_that_ends_the_round_run_in_the_next_call():
    timers, ran = Timers(), []

    def slice_of_work() -> None:
        ran.append("slice")
        timers.end_round()

    timers.arm("a", 1, slice_of_work)
    timers.arm("b", 1, lambda: ran.append("b"))
    timers.arm("c", 2, lambda: ran.append("c"))
    timers.run_due(5)
    assert (ran, timers.next_due()) == (["slice"], 1)
    timers.disarm("b")
    timers.run_due(5)
    assert (ran, timers.next_due()) == (["slice", "c"], None)


def test_moved_timers_do_not_pile_up():
    timers = Timers()
    for due_ms in range(100_000):
        timers.arm("a", due_ms, lambda: None)
    assert len(timers._heap) < 100


class TimersAgainstAModel(RuleBasedStateMachine):
    """A dict of key to (due time, order), of which the due ones run by time and then order."""

    def __init__(self) -> None:
        super().__init__()
        self.timers, self.ran = Timers(), []
        self.model: dict[int, tuple[int, int]] = {}
        self.orders = 0

    @rule(key=st.integers(0, 5), due_ms=st.integers(0, 30))
    def arm(self, key: int, due_ms: int) -> None:
        if key not in self.model or self.model[key][0] != due_ms:
            self.orders += 1
            self.model[key] = (due_ms, self.orders)
        self.timers.arm(key, due_ms, lambda: self.ran.append(key))

    @rule(key=st.integers(0, 5))
    def disarm(self, key: int) -> None:
        self.model.pop(key, None)
        self.timers.disarm(key)

    @rule(now_ms=st.integers(0, 30))
    def run_due(self, now_ms: int) -> None:
        due = sorted((when, key) for key, when in self.model.items() if when[0] <= now_ms)
        self.timers.run_due(now_ms)
        assert self.ran == [key for _when, key in due]
        self.ran.clear()
        for _when, key in due:
            del self.model[key]

    @invariant()
    def next_due_is_the_earliest(self) -> None:
        assert self.timers.next_due() == min((due for due, _order in self.model.values()), default=None)
        assert len(self.timers) == len(self.model)


TestTimersAgainstAModel = TimersAgainstAModel.TestCase
