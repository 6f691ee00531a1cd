"""The supervisor of `yak serve --cores` with brokers that do what the test says, and a clock of its own."""

import errno
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from yak.local.cores import supervisor as supervising
from yak.local.cores.supervisor import ENDS_MAX, LASTED_SECONDS, STOP_SECONDS_MAX, State, Supervisor, spawn_bound


@dataclass
class FakeChild:
    """A broker that obeys SIGKILL, and SIGTERM unless it is stuck."""

    pid: int
    is_stuck: bool = False
    code: int | None = None
    is_ready: bool = False
    signals: list[int] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.code

    def send_signal(self, sig: int) -> None:
        self.signals.append(sig)
        if self.code is None and (sig == signal.SIGKILL or (sig == signal.SIGTERM and not self.is_stuck)):
            self.code = -9 if sig == signal.SIGKILL else 0

    def wait(self, timeout: float | None = None) -> int:
        if self.code is None:
            raise subprocess.TimeoutExpired("yak", timeout or 0.0)
        return self.code


class Machine:
    """A supervisor of `size` brokers; `now` moves by hand."""

    def __init__(self, size: int = 2) -> None:
        self.now = 0.0
        self.spawned: list[tuple[int, FakeChild]] = []
        self.readies = 0
        self.spawn_failure: Exception | None = None
        self.supervisor = Supervisor(
            list(range(10, 10 + size)),
            self._spawn,
            lambda index: self.child(index).is_ready,
            self._ready,
            lambda: self.now,
        )
        self.supervisor.start()

    def _spawn(self, index: int) -> FakeChild:
        if self.spawn_failure is not None:
            raise self.spawn_failure
        self.spawned.append((index, FakeChild(len(self.spawned))))
        return self.spawned[-1][1]

    def _ready(self) -> None:
        self.readies += 1

    def child(self, index: int) -> FakeChild:
        """The broker's newest process."""
        return next(child for at, child in reversed(self.spawned) if at == index)

    def states(self) -> list[State]:
        return [core.state for core in self.supervisor.cores]

    def step(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.supervisor.step()

    def all_ready(self) -> "Machine":
        for index in range(len(self.supervisor.cores)):
            self.child(index).is_ready = True
        self.step()
        return self

    def end(self, index: int, code: int = -9) -> None:
        self.child(index).code = code
        self.step()


def test_supervisor_reports_readiness_once_when_every_broker_is_ready():
    machine = Machine()
    machine.child(0).is_ready = True
    machine.step()
    assert machine.readies == 0
    machine.all_ready().step()
    assert machine.readies == 1


def test_broker_that_ends_before_the_machine_was_ready_ends_it_with_its_exit_code():
    machine = Machine()
    machine.end(1, 3)
    assert machine.child(0).signals == [signal.SIGTERM]
    machine.step()
    assert machine.supervisor.is_over
    assert machine.supervisor.exit_code == 3


def test_broker_that_ends_is_started_at_once_and_then_after_longer_pauses():
    machine = Machine().all_ready()
    pauses = []
    for _ in range(4):
        machine.end(0)
        pauses.append(machine.supervisor.cores[0].due - machine.now)
        machine.step(pauses[-1])
        assert machine.states()[0] is State.STARTING
    assert pauses == [0.0, 1.0, 2.0, 4.0]
    assert machine.states()[1] is State.READY


def test_broker_that_ends_too_often_is_abandoned_and_the_others_continue():
    machine = Machine().all_ready()
    for _ in range(ENDS_MAX):
        machine.end(0)
        machine.step(100.0)
    assert machine.states() == [State.GIVEN_UP, State.READY]
    assert not machine.supervisor.is_over
    machine.supervisor.stop()
    machine.step()
    assert machine.supervisor.is_over


def test_broker_that_lasted_counts_its_ends_from_the_start():
    machine = Machine().all_ready()
    for _ in range(ENDS_MAX + 2):
        machine.end(0)
        machine.step(60.0)
        machine.all_ready()
        machine.step(LASTED_SECONDS)
    assert machine.states() == [State.READY, State.READY]


def test_restart_one_by_one_stops_the_next_broker_when_the_last_one_is_ready():
    machine = Machine(3).all_ready()
    machine.supervisor.restart_one_by_one()
    seen = []
    for _ in range(20):
        machine.step()
        down = [index for index, state in enumerate(machine.states()) if state is not State.READY]
        assert len(down) <= 1
        seen += down
        for index in down:
            machine.child(index).is_ready = True
    assert list(dict.fromkeys(seen)) == [0, 1, 2]
    assert [index for index, _ in machine.spawned] == [0, 1, 2, 0, 1, 2]


def test_restart_one_by_one_starts_an_abandoned_broker():
    machine = Machine().all_ready()
    for _ in range(ENDS_MAX):
        machine.end(0)
        machine.step(100.0)
    machine.supervisor.restart_one_by_one()
    machine.step()
    assert machine.states()[0] is State.STARTING
    assert machine.supervisor.cores[0].ends == 0


def test_restart_one_by_one_stops_no_broker_that_serves_before_the_abandoned_one_is_ready():
    """With two brokers the shared port had no listener meanwhile."""
    machine = Machine().all_ready()
    for _ in range(ENDS_MAX):
        machine.end(1)
        machine.step(100.0)
    assert machine.states() == [State.READY, State.GIVEN_UP]
    machine.supervisor.restart_one_by_one()
    for _ in range(3):
        machine.step()
    assert machine.states() == [State.READY, State.STARTING]
    machine.child(1).is_ready = True
    for _ in range(3):
        machine.step()
    assert machine.states() == [State.STARTING, State.READY]


def test_broker_that_does_not_stop_is_killed_after_its_time():
    machine = Machine().all_ready()
    machine.child(0).is_stuck = True
    machine.supervisor.stop()
    machine.step(STOP_SECONDS_MAX - 1)
    assert machine.child(0).signals == [signal.SIGTERM]
    machine.step(1)
    machine.step()
    assert machine.child(0).signals == [signal.SIGTERM, signal.SIGKILL]
    assert machine.supervisor.is_over
    assert machine.supervisor.exit_code == 1


def test_stop_sends_a_broker_that_stops_for_a_restart_no_second_signal():
    machine = Machine().all_ready()
    machine.child(0).is_stuck = True
    machine.supervisor.restart_one_by_one()
    machine.supervisor.stop()
    assert [machine.child(index).signals for index in range(2)] == [[signal.SIGTERM], [signal.SIGTERM]]
    machine.supervisor.stop()
    assert machine.child(0).signals == [signal.SIGTERM, signal.SIGTERM]


def test_stop_after_a_failed_start_sends_brokers_that_stop_already_no_second_signal():
    machine = Machine()
    machine.child(0).is_stuck = True
    machine.end(1, 3)
    machine.supervisor.stop()
    assert machine.child(0).signals == [signal.SIGTERM]
    assert machine.supervisor.exit_code == 3


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (-15, 0), (6, 6), (-9, 1), (-11, 1)])
def test_stop_has_the_exit_code_of_a_broker_that_did_not_stop_in_order(code, expected):
    machine = Machine().all_ready()
    machine.child(0).is_stuck = True
    machine.supervisor.stop()
    machine.end(0, code)
    assert machine.supervisor.is_over
    assert machine.supervisor.exit_code == expected


def test_reload_reaches_a_broker_that_starts_only_once_it_is_ready():
    machine = Machine()
    machine.child(0).is_ready = True
    machine.step()
    machine.supervisor.reload()
    assert [machine.child(index).signals for index in range(2)] == [[signal.SIGHUP], []]
    machine.all_ready()
    machine.step()
    assert [machine.child(index).signals for index in range(2)] == [[signal.SIGHUP], [signal.SIGHUP]]


def test_reload_is_not_repeated_for_a_broker_that_is_started_again():
    machine = Machine()
    machine.all_ready()
    machine.end(0)
    machine.step()
    machine.supervisor.reload()
    machine.end(0)
    machine.step(1.0)
    machine.all_ready()
    assert machine.child(0).signals == []


def test_reload_reaches_no_broker_that_stops():
    machine = Machine().all_ready()
    machine.child(0).is_stuck = True
    machine.supervisor.restart_one_by_one()
    machine.supervisor.reload()
    assert [machine.child(index).signals for index in range(2)] == [[signal.SIGTERM], [signal.SIGHUP]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="--cores needs Linux")
def test_bound_process_ignores_hangups_until_it_handles_them():
    program = (
        "import signal\n"
        "signal.raise_signal(signal.SIGHUP)\n"
        "signal.signal(signal.SIGHUP, lambda *_: exit(7))\n"
        "signal.raise_signal(signal.SIGHUP)\n"
    )
    assert spawn_bound([sys.executable, "-c", program]).wait(30) == 7


FORK_FAILURES = [
    BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    PermissionError(errno.EACCES, os.strerror(errno.EACCES), "core-0.ready"),
    subprocess.SubprocessError("Exception occurred in preexec_fn."),
]


@pytest.mark.parametrize("failure", FORK_FAILURES, ids=lambda failure: type(failure).__name__)
def test_spawn_that_fails_counts_as_an_end_and_is_repeated_after_the_pause(failure, caplog):
    machine = Machine().all_ready()
    machine.spawn_failure = failure
    machine.end(0)
    machine.step()
    assert machine.states() == [State.WAITING, State.READY]
    assert machine.child(1).signals == []
    assert machine.supervisor.cores[0].due == 1.0
    assert "core-start-failed" in caplog.messages
    machine.spawn_failure = None
    machine.step(1.0)
    assert machine.states() == [State.STARTING, State.READY]


def test_spawn_that_keeps_failing_ends_the_rolling_restart_and_the_others_continue():
    machine = Machine().all_ready()
    machine.supervisor.restart_one_by_one()
    machine.spawn_failure = FORK_FAILURES[0]
    for _ in range(ENDS_MAX + 1):
        machine.step(100.0)
    assert machine.states() == [State.GIVEN_UP, State.READY]
    assert machine.child(1).signals == []


def test_spawn_that_fails_at_the_start_stops_the_brokers_that_were_started():
    started: list[FakeChild] = []

    def spawn(index: int) -> FakeChild:
        if index == 1:
            raise FORK_FAILURES[0]
        started.append(FakeChild(index))
        return started[-1]

    supervisor = Supervisor([10, 11, 12], spawn, lambda _: True)
    supervisor.start()
    supervisor.step()
    assert [child.signals for child in started] == [[signal.SIGTERM]]
    assert supervisor.is_over
    assert supervisor.exit_code == 1


def test_readiness_report_that_fails_is_logged_and_the_brokers_continue(caplog):
    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    children = [FakeChild(index) for index in range(2)]
    supervisor = Supervisor([10, 11], lambda index: children[index], lambda _: True, fail)
    supervisor.start()
    supervisor.step()
    supervisor.step()
    assert [core.state for core in supervisor.cores] == [State.READY, State.READY]
    assert caplog.messages.count("ready-report-failed") == 1


def test_end_waits_for_the_brokers_and_kills_those_that_do_not_stop():
    machine = Machine(3).all_ready()
    machine.child(1).is_stuck = True
    machine.supervisor.restart_one_by_one()
    machine.supervisor.end()
    assert [machine.child(index).code for index in range(3)] == [0, -9, 0]
    assert machine.child(0).signals == [signal.SIGTERM]
    assert machine.child(1).signals == [signal.SIGTERM, signal.SIGKILL]


class AnyOrder(RuleBasedStateMachine):
    """Any order of ends, readiness, restarts, time and a stop: no broker runs twice, and a stop ends all."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(3)
        self.stopped = False

    @rule(index=st.integers(0, 2), code=st.sampled_from([-9, 0, 1, 6]))
    def ends(self, index: int, code: int) -> None:
        self.machine.end(index, code)

    @rule(index=st.integers(0, 2))
    def becomes_ready(self, index: int) -> None:
        self.machine.child(index).is_ready = True
        self.machine.step()

    @rule()
    def everything_is_ready(self) -> None:
        self.machine.all_ready()

    @rule(seconds=st.sampled_from([0.1, 1.0, 70.0]))
    def time_passes(self, seconds: float) -> None:
        self.machine.step(seconds)

    @rule(failure=st.sampled_from([None, *FORK_FAILURES]))
    def spawns_fail_or_work(self, failure: Exception | None) -> None:
        self.machine.spawn_failure = failure

    @rule()
    def restart(self) -> None:
        self.machine.supervisor.restart_one_by_one()

    @precondition(lambda self: not self.stopped)
    @rule()
    def stop(self) -> None:
        self.stopped = True
        self.machine.supervisor.stop()

    @invariant()
    def no_broker_runs_twice(self) -> None:
        running = [index for index, child in self.machine.spawned if child.code is None]
        assert len(running) == len(set(running))

    @invariant()
    def what_runs_has_a_child(self) -> None:
        for core in self.machine.supervisor.cores:
            has_child = core.state in (State.STARTING, State.READY, State.STOPPING)
            assert (core.child is not None) == has_child

    def teardown(self) -> None:
        self.machine.supervisor.stop()
        self.machine.step()
        assert self.machine.supervisor.is_over
        spawned = len(self.machine.spawned)
        self.machine.step(100.0)
        assert len(self.machine.spawned) == spawned


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=30)


def test_machine_of_a_process_with_1024_inherited_files_is_supervised(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limits[1] < 2048:
        pytest.skip("a process may have fewer files here")
    handlers = {each: signal.getsignal(each) for each in supervising._HANDLED}
    pair = socket.socketpair()
    high: list[socket.socket] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(2048, limits[0]), limits[1]))
        high += [socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 1024)) for end in pair]
        monkeypatch.setattr(supervising.socket, "socketpair", lambda: high)
        child = FakeChild(1, code=3)
        assert supervising.supervise(Supervisor([10], lambda _: child, lambda _: False)) == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for end in (*pair, *high):
            end.close()
