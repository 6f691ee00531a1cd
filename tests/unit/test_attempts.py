"""Attempts: at least one, pauses in between, and one more look after the last pause."""

import pytest

from yak import attempts as tested
from yak.attempts import attempts


class Clock:
    """Time that only sleeping moves on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(tested, "time", made)
    return made


def test_the_first_attempt_needs_no_time(clock):
    assert [clock.now_s for _ in attempts(0.0, 1.0)] == [0.0]


def test_a_pause_is_between_two_attempts_and_the_last_one_is_after_the_timeout(clock):
    assert [clock.now_s for _ in attempts(2.5, 1.0)] == [0.0, 1.0, 2.0, 3.0]


def test_a_slow_attempt_is_the_last_one(clock):
    begun = []
    for _ in attempts(2.0, 1.0):
        begun.append(clock.now_s)
        clock.sleep(5.0)
    assert begun == [0.0]
