"""The parent process of `yak serve --cores`: starts the brokers, starts one again that ended, restarts one by one, ends.

SIGTERM, SIGINT   stop all brokers; a second signal stops them at once
SIGHUP            each broker reads its certificates and users again; a closed terminal stops them
SIGUSR2           restart the brokers one by one, also those that were given up
killed            the kernel sends each broker SIGTERM (prctl(2), PR_SET_PDEATHSIG)

A broker that ends is started again: at once, then after 1, 2, 4 ... seconds, and after 10 ends in a row it is given up.
A start that fails, as for want of memory, counts as an end.
One that ends before it was ever ready ends the machine, with its exit code: its error is in the log.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from yak.local.spawn import foreign_environment, is_frozen
from yak.server import log, service_manager
from yak.server.reload import Terminal

ENDS_MAX: Final = 10
"""Ends in a row before a broker is given up; with the pauses these take more than three minutes."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 60.0
LASTED_SECONDS: Final = 60.0
"""A broker that was ready for so long begins to count its ends again."""
STOP_SECONDS_MAX: Final = 65.0
"""A little longer than a broker takes at most to stop by itself."""
_STARTING_POLL_SECONDS: Final = 0.05
_IDLE_POLL_SECONDS: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGCHLD)


class State(Enum):
    """What a broker of the machine does."""

    STARTING = auto()
    READY = auto()
    STOPPING = auto()
    WAITING = auto()
    GIVEN_UP = auto()
    STOPPED = auto()


@dataclass(slots=True)
class Core:
    """One broker of the machine. Times in seconds of the supervisor's clock."""

    index: int
    node_id: int
    state: State = State.STOPPED
    child: "subprocess.Popen[bytes] | None" = None
    ends: int = 0
    """Ends in a row that the supervisor did not ask for."""
    due: float = 0.0
    """WAITING: when it is started. STOPPING: when it is killed. READY: since when."""
    must_reload: bool = False
    """STARTING: whether it gets SIGHUP when it is ready."""


class Supervisor:
    """The brokers of one machine as a state machine: `step` after each signal and every second.

    `spawn` starts broker I; `is_ready` says whether it answers clients; `on_ready` is called once, when all do.
    """

    def __init__(
        self,
        node_ids: Sequence[int],
        spawn: "Callable[[int], subprocess.Popen[bytes]]",
        is_ready: Callable[[int], bool],
        on_ready: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cores = [Core(index, node_id) for index, node_id in enumerate(node_ids)]
        self.exit_code = 0
        self._spawn, self._is_ready, self._on_ready, self._now = spawn, is_ready, on_ready, now
        self._was_ready = False
        self._stops = self._is_second_stop = False
        self._to_restart: list[Core] = []

    def start(self) -> None:
        """Start all brokers; the first that cannot be started ends the machine."""
        for core in self.cores:
            if not self._stops:
                self._start(core)

    @property
    def is_over(self) -> bool:
        return all(core.state in (State.STOPPED, State.GIVEN_UP) for core in self.cores)

    def step(self) -> None:
        """Notice what happened since the last step, and do what is due."""
        for core in self.cores:
            self._check(core)
        if not self._was_ready and all(core.state is State.READY for core in self.cores):
            self._was_ready = True
            try:
                self._on_ready()
            except Exception as error:  # noqa: BLE001 - the brokers answer clients without the report
                log.write("error", "ready-report-failed", error=error)
        self._restart_next()

    def stop(self) -> None:
        """Stop all brokers in parallel; the second call ends each broker at once."""
        self._stop_all(is_forced=self._is_second_stop)
        self._is_second_stop = True

    def restart_one_by_one(self) -> None:
        """Restart each broker, the next one when the last one answers clients again; first those that do not serve."""
        if self._stops or self._to_restart or not self._was_ready:
            log.write("warning", "restart-refused", {"why": "a start, a restart or the stop is under way"})
            return
        log.write("info", "restart-requested", {"brokers": len(self.cores)})
        self._to_restart = sorted(self.cores, key=lambda core: core.state is State.READY)
        self._begin_restart(self._to_restart[0])

    def reload(self) -> None:
        """Send SIGHUP to each broker, to one that starts when it is ready: it may have read the old files already."""
        for core in self.cores:
            core.must_reload = core.state is State.STARTING
            if core.state is State.READY:
                self._reload(core)

    def end(self) -> None:
        """Stop the brokers that run, and wait until they have left their ports and locks: the end after a bug here."""
        running = [(core, core.child) for core in self.cores if core.child is not None]
        for core, child in running:
            if core.state is not State.STOPPING:
                child.send_signal(signal.SIGTERM)
        deadline = self._now() + STOP_SECONDS_MAX
        for _, child in running:
            try:
                child.wait(max(0.0, deadline - self._now()))
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                child.wait()

    def _start(self, core: Core) -> None:
        try:
            core.child = self._spawn(core.index)
        except (OSError, subprocess.SubprocessError) as error:  # no memory, no process id, a full process table
            self._ended(core, "core-start-failed", 1, {"error": str(error)})
            return
        core.state, core.must_reload = State.STARTING, False
        log.write("info", "core-started", {"core": core.index, "node_id": core.node_id, "pid": core.child.pid})

    def _reload(self, core: Core) -> None:
        assert core.child is not None
        core.child.send_signal(signal.SIGHUP)
        core.must_reload = False

    def _stop_all(self, *, is_forced: bool) -> None:
        """A broker takes a second SIGTERM as a forced stop: one that stops already gets it only with `is_forced`."""
        self._stops = True
        self._to_restart.clear()
        for core in self.cores:
            if core.child is None:
                core.state = State.STOPPED
            elif is_forced or core.state is not State.STOPPING:
                self._stop(core)

    def _stop(self, core: Core) -> None:
        assert core.child is not None
        core.child.send_signal(signal.SIGTERM)
        if core.state is not State.STOPPING:
            core.state, core.due = State.STOPPING, self._now() + STOP_SECONDS_MAX

    def _check(self, core: Core) -> None:
        code = None if core.child is None else core.child.poll()
        if code is not None:
            core.child = None
            self._ended(core, "core-ended", code, {"exit_code": code})
        elif core.state is State.STARTING and self._is_ready(core.index):
            core.state, core.due = State.READY, self._now()
            if core.must_reload:
                self._reload(core)
        elif core.state is State.WAITING and self._now() >= core.due:
            self._start(core)
        elif core.state is State.STOPPING and self._now() >= core.due:
            log.write("error", "core-killed", {"core": core.index, "node_id": core.node_id})
            core.due = self._now() + STOP_SECONDS_MAX
            assert core.child is not None
            core.child.send_signal(signal.SIGKILL)

    def _ended(self, core: Core, event: str, code: int, why: dict[str, object]) -> None:
        fields: dict[str, object] = {"core": core.index, "node_id": core.node_id, **why}
        if core.state is State.STOPPING:
            core.state = State.STOPPED
            if self._stops:
                # a broker that starts has no handler of SIGTERM yet, and its end by it is in order
                in_order = code in (0, -signal.SIGTERM)
                self.exit_code = self.exit_code or (0 if in_order else code if code > 0 else 1)
            return
        if not self._was_ready:
            log.write("error", event, fields)
            core.state = State.STOPPED
            self.exit_code = code if code > 0 else 1
            self._stop_all(is_forced=False)
            return
        lasted = core.state is State.READY and self._now() - core.due >= LASTED_SECONDS
        core.ends = 1 if lasted else core.ends + 1
        if core.ends >= ENDS_MAX:
            log.write("error", "core-given-up", {**fields, "ends": core.ends})
            core.state = State.GIVEN_UP
            if self.is_over:
                self.exit_code = 1
            return
        pause = 0.0 if core.ends == 1 else min(PAUSE_SECONDS * 2 ** (core.ends - 2), PAUSE_SECONDS_MAX)
        log.write("error", event, {**fields, "restart_s": pause})
        core.state, core.due = State.WAITING, self._now() + pause

    def _begin_restart(self, core: Core) -> None:
        if core.child is None:
            core.state = State.STOPPED
        else:
            self._stop(core)

    def _restart_next(self) -> None:
        """Start the broker that was stopped for a restart; once it is ready, stop the next one."""
        if not self._to_restart:
            return
        core = self._to_restart[0]
        if core.state is State.STOPPED:
            core.ends = 0
            self._start(core)
        elif core.state is State.READY:
            self._to_restart.pop(0)
            if self._to_restart:
                self._begin_restart(self._to_restart[0])
            else:
                log.write("info", "restart-completed", {"brokers": len(self.cores)})
        elif core.state is State.GIVEN_UP:
            self._to_restart.clear()
            log.write("error", "restart-aborted", {"core": core.index, "node_id": core.node_id})


def spawn_bound(argv: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a program that the kernel sends SIGTERM when this process ends, however it ends. It ignores SIGHUP at first.

    It has a session of its own, so that a Ctrl+C reaches it only through this process; its output is this process's.
    """
    environment = foreign_environment()
    environment.pop(service_manager.ADDRESS, None)  # this process reports that all are ready
    if is_frozen():
        environment["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
    parent, prctl = os.getpid(), ctypes.CDLL(None, use_errno=True).prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by exec; ends a broker without a handler
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)

    return subprocess.Popen(  # noqa: S603 - the argument list is ours, and no shell reads it
        list(argv),
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        preexec_fn=bind,  # noqa: PLW1509
    )


def supervise(supervisor: Supervisor) -> int:
    """Run the brokers until all have ended; returns the exit code."""
    terminal = Terminal()
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    wakeups = select.poll()  # select() refuses descriptors of 1,024 and more
    wakeups.register(woken, select.POLLIN)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    for each in _HANDLED:
        signal.signal(each, lambda *_: None)
    try:
        supervisor.start()
        while not supervisor.is_over:
            is_starting = any(core.state in (State.STARTING, State.WAITING) for core in supervisor.cores)
            seconds = _STARTING_POLL_SECONDS if is_starting else _IDLE_POLL_SECONDS
            wakeups.poll(seconds * 1000)
            with contextlib.suppress(BlockingIOError):
                for number in woken.recv(64):
                    _take(supervisor, number, terminal)
            supervisor.step()
    finally:
        supervisor.end()
        signal.set_wakeup_fd(-1)
        woken.close()
        wakes.close()
    return supervisor.exit_code


def _take(supervisor: Supervisor, number: int, terminal: Terminal) -> None:
    if number == signal.SIGHUP and not terminal.is_gone:
        supervisor.reload()
    elif number == signal.SIGUSR2:
        supervisor.restart_one_by_one()
    elif number != signal.SIGCHLD:
        log.write("info", "stopping", {"signal": signal.Signals(number).name})
        supervisor.stop()
