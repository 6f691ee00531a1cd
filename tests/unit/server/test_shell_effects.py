"""What a core asks of its shell beside answers: a timer, jobs in threads, calls of the store."""

import errno
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import pytest
import trio

from tests.unit.plans import Calls
from tests.unit.server.shell_rig import ScriptedCore, ask, running
from yak.commands.help import EXIT_CODES
from yak.core.events import (
    CallStore,
    DisksLost,
    DropJob,
    Effect,
    Event,
    JobDone,
    Ready,
    RunJob,
    StoreReplied,
    TimerDue,
    WallClockMoved,
)
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.server.clock import Clock
from yak.server.latencies import Histogram
from yak.server.shell import Shell, keep_store_running
from yak.sim.disk import SimDisk


async def test_the_timer_comes_when_it_is_due_and_earlier_when_that_changes():
    async with running() as broker:
        now_ms = broker.shell.clock.now_ms()
        broker.core.due_ms = now_ms + 60_000
        stream = await broker.connect()
        await ask(stream, b"rearm me")
        assert not broker.core.of(TimerDue)
        broker.core.due_ms = broker.shell.clock.now_ms() + 30
        await ask(stream, b"rearm me")
        await broker.until(lambda: len(broker.core.of(TimerDue)) == 1)
        await trio.sleep(0.05)
        assert len(broker.core.of(TimerDue)) == 1


async def test_core_gets_a_wall_clock_jump_before_the_next_frame():
    frames_before: list[list[bytes]] = []

    def on_event(event: Event) -> list[Effect]:
        if isinstance(event, WallClockMoved):
            frames_before.append([data for turn in broker.core.turns for data in turn])
        return []

    async with running(core=ScriptedCore(on_event=on_event)) as broker:
        moved_ns = 0
        broker.shell.clock = Clock(lambda: time.time_ns() + moved_ns)
        stream = await broker.connect()
        await ask(stream, b"the first")
        assert not frames_before
        moved_ns = 3_600_000_000_000
        await ask(stream, b"the second")
        assert frames_before == [[b"the first"]]
        [moved] = broker.core.of(WallClockMoved)
        assert isinstance(moved, WallClockMoved)
        assert abs(moved.ahead_ms - 3_600_000) < 100


async def test_process_whose_last_log_directory_failed_ends_with_its_exit_code():
    codes: list[int] = []

    class Ended(BaseException):
        pass

    def end_process(code: int) -> NoReturn:
        codes.append(code)
        raise Ended

    async with trio.open_nursery() as nursery:
        shell = Shell(ScriptedCore(), nursery, disk=SimDisk(), end_process=end_process)
        with pytest.raises(Ended):
            shell.carry_out([DisksLost("/data", "[Errno 5] Input/output error")])
    assert codes == [7]
    assert 7 in {code for code, _meaning in EXIT_CODES}


async def test_jobs_run_in_threads_and_a_stuck_one_does_not_stop_others():
    release = threading.Event()
    main_thread = threading.current_thread().name

    def fail() -> object:
        raise OSError(errno.EIO, "Input/output error")

    async with running() as broker:

        def on_ready(event: Event) -> list[Effect]:
            if isinstance(event, JobDone):
                return []
            stuck: list[Effect] = [RunJob(number, "flush", Calls(release.wait)) for number in range(8)]
            return [
                *stuck,
                RunJob(100, "read", Calls(lambda: threading.current_thread().name)),
                RunJob(101, "read", Calls(fail)),
            ]

        broker.core.on_event = on_ready
        broker.shell.post(TimerDue())
        await broker.until(lambda: len(broker.core.of(JobDone)) == 2)
        done = {event.job_id: event for event in broker.core.of(JobDone) if isinstance(event, JobDone)}
        assert done[100].result != main_thread
        assert isinstance(done[101].error, OSError)
        release.set()
        await broker.until(lambda: len(broker.core.of(JobDone)) == 10)
        assert not broker.shell.jobs._running


async def test_dropped_job_that_has_not_begun_ends_without_running():
    release, ran = threading.Event(), list[int]()
    async with running() as broker:
        jobs: list[Effect] = [
            RunJob(1, "delete", Calls(release.wait)),
            RunJob(2, "delete", Calls(lambda: ran.append(2))),
            RunJob(3, "delete", Calls(lambda: ran.append(3))),
            DropJob(2, "delete"),
        ]
        broker.core.on_event = lambda event: jobs if isinstance(event, TimerDue) else []
        broker.shell.post(TimerDue())
        await broker.until(lambda: broker.core.of(JobDone) == [JobDone(2, None, None)])
        release.set()
        await broker.until(lambda: len(broker.core.of(JobDone)) == 3)
        assert ran == [3]


async def test_jobs_past_their_deadline_are_named_and_replaced(monkeypatch, caplog):
    monkeypatch.setitem(__import__("yak.server.jobs", fromlist=["DEADLINE_MS"]).DEADLINE_MS, "delete", 30)
    release = threading.Event()
    async with running() as broker:
        jobs: list[Effect] = [RunJob(1, "delete", Calls(release.wait)), RunJob(2, "delete", Calls(lambda: 2))]
        broker.core.on_event = lambda event: jobs if isinstance(event, TimerDue) else []
        broker.shell.post(TimerDue())
        await broker.until(lambda: [e.job_id for e in broker.core.of(JobDone) if isinstance(e, JobDone)] == [2])
        assert "job-stuck" in caplog.text
        release.set()
        await broker.until(lambda: len(broker.core.of(JobDone)) == 2)


async def test_store_calls_and_ready_reach_their_handlers():
    class Echo:
        def __init__(self) -> None:
            self.round_trips = Histogram()
            self.calls: list[tuple[int, StoreRequest]] = []
            self.tails: list[int] = []

        def submit(self, nonce: int, request: StoreRequest) -> None:
            self.calls.append((nonce, request))

        def tail(self, after: int) -> None:
            self.tails.append(after)

        async def run(self, post: Callable[[Event], None]) -> None:
            post(StoreReplied(7, StoreOutcome("OK")))
            await trio.sleep_forever()

    core = ScriptedCore()
    store = Echo()
    ready = trio.Event()

    async def on_ready() -> None:
        ready.set()

    def react(event: Event) -> list[Effect]:
        return [CallStore(1, StoreRequest("heartbeat")), Ready()] if isinstance(event, StoreReplied) else []

    core.on_event = react
    async with trio.open_nursery() as nursery:
        shell = Shell(core, nursery, disk=SimDisk(), store=store, on_ready=on_ready)
        nursery.start_soon(keep_store_running, store, shell.post)
        with trio.fail_after(5):
            await ready.wait()
        assert store.calls == [(1, StoreRequest("heartbeat"))]
        nursery.cancel_scope.cancel()
