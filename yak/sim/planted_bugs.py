"""Simulated bugs of the broker's own code: an unexpected exception at a random place, and the check of its effect.

The rule (`yak.fail_stop`): a bug in the service of a single request ends only that request's connection; any other bug
stops the broker. A bug without either effect was swallowed, and the broker went on with half-changed state.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from yak.core import events
from yak.errors import FailStop
from yak.ids import JobId
from yak.sim.deliveries import Violation
from yak.sim.disk import Death, Tear
from yak.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.sim.node import SimNode

Costs = Literal["a connection", "the broker", "either"]
Wrap: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
EVENTS: Final = (
    events.TurnEnd,
    events.TimerDue,
    events.JobDone,
    events.StoreReplied,
    events.RecordsTailed,
    events.PeerAnswered,
    events.PeerConnected,
    events.PeerLost,
)
"""Events that serve no request: a bug in one of them stops the broker."""
STATE_JOBS: Final = ("flush", "checkpoint", "image", "truncate")
CALLS_BEFORE: Final = (1, 5, 40)
"""The bug is raised after at most so many calls of its place."""


class PlantedBug(Exception):
    """An exception that no code of the broker expects."""


@dataclass(slots=True, eq=False)
class _Plan:
    """One bug: its place, its allowed effect, and how many calls of its place come before it."""

    target: str
    costs: Costs
    wait: int
    error: PlantedBug | None = None


@dataclass(frozen=True, slots=True)
class _BrokenPlan:
    """A job's plan with a bug."""

    run: Callable[..., Any]


class PlantedBugs:
    """The pending bug of one broker, or the one that was just raised."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._waiting: _Plan | None = None
        self._struck: _Plan | None = None
        self.is_stepping = False

    @property
    def is_planted(self) -> bool:
        return self._waiting is not None

    # --------------------------------------------------------------------------------------------------- planting

    def plant(self, rng: SeededRandom) -> bool:
        """Make a later call of some place raise.

        Returns False if a bug is pending, or the disk will end the process.
        """
        node = self._node
        broker = node.broker
        if broker is None or self._waiting is not None or isinstance(node.disk.writing, Death):
            return False
        targets: dict[str, tuple[Costs, Callable[[Broker, Wrap, SeededRandom], None]]] = {
            "a handler": ("a connection", self._in_handler),
            "a delayed operation": ("a connection", lambda broker, wrap, _rng: _put(broker.purgatory, "_give", wrap)),
            "a timer": ("the broker", lambda broker, wrap, _rng: _put(broker.timers, "run_due", wrap)),
            "an event": ("the broker", self._in_event),
            "a job": ("the broker", self._in_job),
            "a write": ("the broker", self._in_write),
            "an effect": ("either", self._in_effect),
        }
        target = rng.choice(tuple(targets))
        costs, put = targets[target]
        plan = self._waiting = _Plan(target, costs, rng.below(rng.choice(CALLS_BEFORE)))
        is_after = rng.chance(50)

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            def broken(*arguments: Any, **named: Any) -> Any:
                if not is_after:
                    self.strike(plan)
                result = function(*arguments, **named)
                if is_after:
                    self.strike(plan)
                return result

            return broken

        put(broker, wrap, rng)
        node.world.say(f"node {node.node_id}: a bug waits in {target}, after {plan.wait} calls")
        return True

    def withdraw(self) -> None:
        self._waiting = None
        if isinstance(self._node.disk.writing, _Write):
            self._node.disk.end_inside(None)

    def _in_handler(self, broker: Broker, wrap: Wrap, rng: SeededRandom) -> None:  # noqa: ARG002
        broker._api_handlers = _Handlers(broker._api_handlers, wrap)  # type: ignore[assignment]  # noqa: SLF001

    def _in_event(self, broker: Broker, wrap: Wrap, rng: SeededRandom) -> None:
        kind, handlers = rng.choice(EVENTS), broker._handlers  # noqa: SLF001
        handlers[kind] = wrap(handlers[kind])

    def _in_job(self, broker: Broker, wrap: Wrap, rng: SeededRandom) -> None:  # noqa: ARG002
        """In the job's thread."""
        run = broker.jobs.run

        def run_broken(kind: events.JobKind, plan: events.Plan, on_done: Any) -> JobId:
            return run(kind, _BrokenPlan(wrap(plan.run)) if kind in STATE_JOBS else plan, on_done)

        broker.jobs.run = run_broken  # type: ignore[method-assign]

    def _in_write(self, broker: Broker, wrap: Wrap, rng: SeededRandom) -> None:  # noqa: ARG002
        """After the bytes are in the file: in an append of a leader, a follower or a coordinator."""
        assert self._waiting is not None
        self._node.disk.writing = _Write(self, self._waiting)

    def _in_effect(self, broker: Broker, wrap: Wrap, rng: SeededRandom) -> None:
        """In the middle of any step."""
        _put(broker, rng.choice(("emit", "advanced")), wrap)

    def strike(self, plan: _Plan) -> None:
        """Count one call of the place; raises PlantedBug when it is the bug's turn."""
        if plan is not self._waiting:
            return
        plan.wait -= 1
        if plan.wait < 0:
            self.withdraw()
            self._struck = plan
            plan.error = PlantedBug(plan.target)
            raise plan.error

    # ------------------------------------------------------------------------------------------------------ the rule

    def stopped(self, failure: FailStop) -> None:
        """The broker stopped. Raises the cause, unless it is a bug that may stop the broker."""
        plan = self._plan_of(failure.__cause__)
        if plan is None:
            raise failure.__cause__ or AssertionError(failure.what)
        if plan.costs == "a connection":
            raise Violation(f"a bug in {plan.target}, which serves one request, stopped the broker") from failure

    def request_failed(self, notice: events.Notice) -> None:
        """One request failed. Raises the cause, unless that bug may fail a request and its connection has ended."""
        plan = self._plan_of(notice.error)
        if plan is None:
            raise notice.error or AssertionError(notice.event)
        self._node.counts["requests failed by a bug"] += 1
        if plan.costs == "the broker":
            raise Violation(f"a bug in {plan.target}, where replicated state changes, did not stop the broker")
        broker, peer = self._node.broker, notice.fields["peer"]
        assert broker is not None
        if any(each.is_open and each.peer == peer for each in broker.connections.values()):
            raise Violation(f"a bug in {plan.target} did not end the connection that it served")

    def check_noticed(self, event: events.Event) -> None:
        """A step ended, and the broker runs. Raises Violation if a bug in it, or in its job, was swallowed."""
        plan = self._struck
        if plan is not None and (
            plan.target != "a job" or (type(event) is events.JobDone and event.error is plan.error)
        ):
            raise Violation(f"a bug in {plan.target} was swallowed")

    def process_ended(self) -> None:
        self.withdraw()
        self._struck = None

    def _plan_of(self, error: BaseException | None) -> _Plan | None:
        """The bug behind this error, which counts as noticed now; None if the error was not planted."""
        plan = self._struck
        if plan is None or error is None or plan.error is not error:
            return None
        self._struck = None
        return plan


def _put(owner: Any, name: str, wrap: Wrap) -> None:
    setattr(owner, name, wrap(getattr(owner, name)))


class _Handlers:
    """The table of handlers, each wrapped with the bug."""

    def __init__(self, table: Any, wrap: Wrap) -> None:
        self._table, self._wrap = table, wrap

    def get(self, key: tuple[int, int]) -> Any:
        handle = self._table.get(key)
        return None if handle is None else self._wrap(handle)


class _Write(AbstractContextManager["Tear | None"]):
    """Entered for each write to the disk, as `yak.sim.disk.Death` is."""

    def __init__(self, bugs: PlantedBugs, plan: _Plan) -> None:
        self._bugs, self._plan = bugs, plan

    def __enter__(self) -> Tear | None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._bugs.is_stepping:
            self._bugs.strike(self._plan)
