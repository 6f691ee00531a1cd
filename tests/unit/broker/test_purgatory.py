"""The purgatory: a delayed operation is answered once, whether it completes early, late or not at all."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from yak.broker.call import Call, DelayedOperation, Later, Now, Outcome
from yak.broker.connections import Connection
from yak.broker.purgatory import COMPLETED_A_MS, Purgatory
from yak.core.timers import Timers


class Operation(DelayedOperation):
    """Says with what it was answered."""

    again = False
    is_ready = False

    def is_done(self) -> bool:
        return self.is_ready

    def answer(self) -> Outcome:
        if self.again:
            self.again = False
            return Later(self)
        return Now({"by": "completion"})

    def on_expiration(self) -> Outcome:
        return Now({"by": "time-out"})


class Bench:
    """A purgatory, and what it answered."""

    def __init__(self) -> None:
        self.context: Any = SimpleNamespace(clock=SimpleNamespace(now_ms=1_000), timers=Timers())
        self.context.within = self._within
        self.answers: list[str] = []
        self.purgatory = Purgatory(
            self.context,
            lambda connection, operation, action: action(connection, operation),
            lambda _call, outcome: self.answers.append(outcome.fields["by"]),  # type: ignore[union-attr]
        )

    def operation(self) -> Operation:
        return Operation(Call(Connection(1, "peer"), 1, 1, 1, None, 1_000), 500)

    def _within(self, key: object, wait_ms: int, action: Callable[[], None]) -> None:
        self.context.timers.arm_at_the_latest(key, self.context.clock.now_ms + wait_ms, action)

    def pass_to(self, now_ms: int) -> None:
        self.context.clock.now_ms = now_ms
        self.context.timers.run_due(now_ms)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_delayed_operation_times_out_once_at_its_time(bench: Bench) -> None:
    operation = bench.operation()
    bench.purgatory.add(operation)
    bench.pass_to(1_499)
    assert (bench.answers, len(bench.purgatory)) == ([], 1)
    bench.pass_to(1_500)
    bench.purgatory.complete(operation)
    assert (bench.answers, len(bench.purgatory)) == (["time-out"], 0)


def test_completed_operation_leaves_no_timer(bench: Bench) -> None:
    operation = bench.operation()
    bench.purgatory.add(operation)
    bench.purgatory.complete(operation)
    bench.purgatory.complete(operation)
    bench.pass_to(9_000)
    assert (bench.answers, len(bench.purgatory), len(bench.context.timers)) == (["completion"], 0, 0)


def test_operation_completed_before_its_handler_returned_it_is_answered_by_add(bench: Bench) -> None:
    operation = bench.operation()
    operation.is_ready = True
    bench.purgatory.complete(operation)
    assert bench.answers == []
    bench.purgatory.add(operation)
    assert bench.answers == ["completion"]


def test_operation_that_waits_again_has_its_whole_time(bench: Bench) -> None:
    operation = bench.operation()
    operation.again = True
    bench.purgatory.add(operation)
    bench.pass_to(1_400)
    bench.purgatory.complete(operation)
    assert (bench.answers, operation.finished) == ([], False)
    bench.pass_to(1_899)
    assert bench.answers == []
    bench.pass_to(1_900)
    assert bench.answers == ["time-out"]


def test_operations_that_one_event_completes_are_answered_some_in_each_millisecond(bench: Bench) -> None:
    operations = [bench.operation() for _ in range(2 * COMPLETED_A_MS + 1)]
    for operation in operations:
        bench.purgatory.add(operation)
    for operation in operations:
        bench.purgatory.complete_soon(operation)
    assert len(bench.answers) == COMPLETED_A_MS
    bench.purgatory.cancel(operations[-1])
    bench.pass_to(1_001)
    assert len(bench.answers) == 2 * COMPLETED_A_MS
    bench.pass_to(1_002)
    assert len(bench.answers) == 2 * COMPLETED_A_MS, "the connection of the last one was closed"
    assert len(bench.purgatory) == len(bench.context.timers) == 0
