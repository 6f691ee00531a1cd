"""The supervisor of `yak ui --demo`, a child process: it starts cluster and clients, and removes everything at the end.

It reports in JSON lines on its standard output (`state.DemoState` reads them) and runs until its standard input closes,
because the screen ended or was killed; then it stops the brokers and deletes the data. A line `end` requests a last
count first. So a screen that ends by SIGKILL or a lost terminal leaves nothing behind. Only a kill -9 of both screen
and supervisor leaves brokers, which `yak down --data-dir DIR` stops.
"""

import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from types import FrameType
from typing import Any, BinaryIO, Final

from yak.errors import YakError
from yak.local.cluster import UpSettings
from yak.local.demo.delivery_statistics import Counts, Pause
from yak.local.demo.order_flow import TOPICS, OrderFlow
from yak.local.demo.scenario import Reporter, Result, Scenario, Settings
from yak.local.processes import end_processes_of
from yak.local.signal_event import SignalEvent

END: Final = b"end"
REPORT_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 5.0
_REPLICAS: Final = 3
_POLL_SECONDS: Final = 0.05
_PARENT_SECONDS: Final = 1.0


class JsonLines(Reporter):
    """Reports a scenario in JSON lines: a program reads them."""

    def __init__(self, stdout: BinaryIO) -> None:
        self._stdout = stdout
        self._lock = threading.Lock()

    def write(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"kind": kind, "time_ms": round(time.time() * 1000), **fields}).encode() + b"\n"
        with self._lock:
            try:
                self._stdout.write(line)
                self._stdout.flush()
            except (OSError, ValueError):
                return  # the screen is gone, which the end of the input reports too

    def step(self, number: int, steps: int, title: str) -> None:  # noqa: ARG002 - the screen shows the title only
        self.write("step", step=title)

    def say(self, text: str) -> None:
        self.write("step", step=text)


class _ScreenEnded(BaseException):
    """The screen is gone or ending: clean up."""


class Supervisor(Scenario):
    """One run of the demo, in the main thread: the load goes on until the screen ends."""

    ERROR = "demo-ended"

    def __init__(self, settings: Settings, stdin: int, stdout: BinaryIO) -> None:
        self._lines = JsonLines(stdout)
        super().__init__(settings, self._lines)
        self._stdin = stdin
        self._flow: OrderFlow | None = None
        self._ended = SignalEvent()
        self._is_end_requested = False
        """Whether the screen requested the end, and still reads the reports."""
        self._is_started = False
        """Whether a signal need not interrupt the start any more."""

    def supervise(self) -> int:
        """Run until the standard input ends.

        Returns 0, or 1 if the cluster could not start, after reporting the error.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        parent = os.getppid()
        threading.Thread(target=self._listen, args=(parent,), name="screen-listener", daemon=True).start()
        try:
            result = self.run()
        except YakError as error:
            self._lines.write("error", code=error.code, message=error.message, why=error.why, try_=list(error.try_))
            self._ended.wait()
            return 1
        except _ScreenEnded:
            return 0
        if self._is_end_requested:
            self._lines.write("ended", **result.fields)
        return 0

    # input from the screen

    def _listen(self, parent: int) -> None:
        """Wait for the end of the input, or of the parent: a process forked by the parent may keep the pipe open."""
        rest = b""
        while os.getppid() == parent:
            readable, _, _ = select.select([self._stdin], [], [], _PARENT_SECONDS)
            if not readable:
                continue
            data = os.read(self._stdin, 4096)
            rest += data
            if not data or END in rest.split(b"\n"):
                self._is_end_requested = bool(data)
                break
        self._ended.set()
        os.kill(os.getpid(), signal.SIGTERM)  # interrupts a blocking start in the main thread

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._ended.set()
        if not self._is_started:
            self._is_started = True  # once only: the cleanup must not be interrupted
            raise _ScreenEnded

    # scenario

    def steps(self) -> Sequence[Callable[[], None]]:
        return (self._start_cluster, self._create_topics, self._count)

    def _start_cluster(self) -> None:
        brokers, keep = self.settings.brokers, self.settings.keep
        self.step("starting Redis")
        threading.Thread(target=self._watch_start, name="start-watcher", daemon=True).start()
        up = self.cluster.up(
            UpSettings(port=0, brokers=brokers, leaders=1, ephemeral=not keep, keep=keep, supervised=not keep)
        )
        self.times["start_ms"] = up.took_ms
        self.bootstrap = up.status.bootstrap

    def _create_topics(self) -> None:
        self.step("making topics")
        factor = min(_REPLICAS, self.settings.brokers)
        for topic in TOPICS:
            self.create_topic(topic.name, partitions=topic.partitions, replication_factor=factor)
        self._flow = OrderFlow(self.bootstrap, self._on_pause)
        self._flow.start()

    def _count(self) -> None:
        assert self._flow is not None, "it was started"
        brokers = self.cluster.status().brokers
        http = {str(each.node_id): each.http_address for each in brokers if each.http_address}
        self._lines.write("ready", bootstrap=self.bootstrap, http=http)
        self._is_started = True
        while not self._ended.wait(REPORT_SECONDS):
            self._lines.write("counts", **self._fields(self._flow, self._flow.counts()))

    def result(self) -> Result:
        """The last count, after the rest was read, if the screen waits for it."""
        assert self._flow is not None, "it was started"
        found = self._flow.settle(SETTLE_SECONDS) if self._is_end_requested else self._flow.counts()
        promise = "every acknowledged record is there"
        return Result(found.wrong == 0, promise, [asdict(found)], [], [], self._fields(self._flow, found))

    def clean_up(self, *, keeps: bool) -> None:
        """Stop and delete everything, unless the cluster is kept."""
        self._is_started = True
        if not self.settings.keep:
            self.cluster.discard()
        elif not keeps:
            self.cluster.down(keep=True)  # the start was incomplete
        if self._flow is None:
            end_processes_of(self.cluster.data_dir)  # started just before the end, listed in no state file

    def _watch_start(self) -> None:
        """Report which brokers are ready, from the state files of the start."""
        reported, wanted = -1, self.settings.brokers
        while reported < wanted and not self._ended.is_set():
            try:
                status = self.cluster.status()
            except YakError:
                return  # the start itself reports the problem
            ready = sum(each.state == "running" for each in status.brokers)
            if ready != reported and status.redis_running:
                reported = ready
                if ready < wanted:
                    self.say(f"starting broker {ready + 1} of {wanted}")
            time.sleep(_POLL_SECONDS)

    def _on_pause(self, pause: Pause) -> None:
        self._lines.write("pause", **asdict(pause))

    @staticmethod
    def _fields(flow: OrderFlow, counts: Counts) -> dict[str, Any]:
        return {**asdict(counts), "gone": sorted(flow.gone), "last_error": flow.last_error}
