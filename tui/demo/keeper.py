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
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, BinaryIO, Final

from yak.client.admin import Admin
from yak.errors import YakError
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.demo.live_ledger import Counts
from yak.local.demo.order_flow import TOPICS, FlowTopic, OrderFlow, Pause
from yak.local.leftovers import end_processes_of
from yak.local.status import ClusterStatus

END: Final = b"end"
TELL_SECONDS: Final = 0.25
SETTLE_SECONDS: Final = 2.0
MIN_ISR: Final = 2
_REPLICAS: Final = 3
_LOOK_SECONDS: Final = 0.05
_PARENT_SECONDS: Final = 1.0
_TOPIC_TRIES_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """The demo's settings. `keep`: at the end only the clients stop, and the cluster stays."""

    data_dir: str
    brokers: int = 3
    keep: bool = False
    rate: float = 1.0
    """A factor on the usual load of 500 records per second."""


class _Ended(BaseException):
    """The screen is gone or ending: clean up."""


class Keeper:
    """One run of the demo, in the main thread."""

    def __init__(self, settings: KeeperSettings, stdin: int, stdout: BinaryIO) -> None:
        self._settings = settings
        self._stdin = stdin
        self._stdout = stdout
        self._telling = threading.Lock()
        self._cluster = LocalCluster(settings.data_dir)
        self._flow: OrderFlow | None = None
        self._ended = threading.Event()
        self._is_asked = False
        """Whether the screen requested the end, and still reads the reports."""
        self._is_cleaning = False

    def run(self) -> int:
        """Run until the standard input ends.

        Returns 0, or 1 if the cluster could not start, after reporting the error.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        parent = os.getppid()
        threading.Thread(target=self._listen, args=(parent,), name="screen-listener", daemon=True).start()
        code = 0
        try:
            code = self._story()
        except _Ended:
            pass
        finally:
            self._is_cleaning = True
            self._clean_up()
        return code

    def _story(self) -> int:
        """Everything before the cleanup; later signals are ignored."""
        code = 0
        try:
            self._start()
            self._keep_telling()
        except YakError as error:
            code = 1
            self._tell("error", code=error.code, message=error.message, why=error.why, try_=list(error.try_))
            self._ended.wait()
        self._is_cleaning = True
        return code

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
                self._is_asked = bool(data)
                break
        self._ended.set()
        os.kill(os.getpid(), signal.SIGTERM)  # interrupts a blocking start in the main thread

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._ended.set()
        if not self._is_cleaning:
            self._is_cleaning = True  # once only: the cleanup must not be interrupted
            raise _Ended

    # scenario

    def _start(self) -> None:
        settings = self._settings
        self._tell("step", words="starting Redis", done=0, of=settings.brokers)
        watcher = threading.Thread(target=self._watch_start, name="start-watcher", daemon=True)
        watcher.start()
        up = self._cluster.up(
            UpSettings(
                port=0, brokers=settings.brokers, leaders=1, ephemeral=not settings.keep, keep=settings.keep,
                supervised=not settings.keep,
            )
        )  # fmt: skip
        self._tell("step", words="making topics", done=settings.brokers, of=settings.brokers)
        status = up.status
        for topic in TOPICS:
            self._make_topic(status.bootstrap, topic)
        self._flow = OrderFlow(status.bootstrap, TOPICS, self._told_pause, rate=settings.rate)
        self._flow.start()
        self._tell(
            "ready",
            bootstrap=status.bootstrap,
            http={str(each.node_id): each.http_address for each in status.brokers if each.http_address},
            took_ms=round(up.took_ms),
        )

    def _watch_start(self) -> None:
        """Report which brokers are ready, from the state files of the start."""
        told = -1
        wanted = self._settings.brokers
        while told < wanted and not self._ended.is_set():
            try:
                status = self._cluster.status()
            except YakError:
                return  # the start itself reports the problem
            ready = _ready(status)
            if ready != told and status.redis_running:
                told = ready
                if ready < wanted:
                    self._tell("step", words=f"starting broker {ready + 1} of {wanted}", done=ready, of=wanted)
            time.sleep(_LOOK_SECONDS)

    def _make_topic(self, bootstrap: str, topic: FlowTopic) -> None:
        """Retry for a while: the first controller may not be elected yet."""
        admin = Admin(bootstrap, timeout_ms=5_000)
        configs = {"min.insync.replicas": str(MIN_ISR), "unclean.leader.election.enable": "false"}
        deadline = time.monotonic() + _TOPIC_TRIES_SECONDS
        while True:
            try:
                factor = min(_REPLICAS, self._settings.brokers)
                admin.create_topic(topic.name, partitions=topic.partitions, replication_factor=factor, configs=configs)
            except YakError as error:
                if error.code == "topic-exists":
                    return
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _keep_telling(self) -> None:
        assert self._flow is not None, "it was started"
        while not self._ended.wait(TELL_SECONDS):
            self._tell_counts("counts", self._flow.counts())

    # cleanup

    def _clean_up(self) -> None:
        """Count a last time if the screen waits for it, then stop and delete everything, unless the cluster is kept."""
        if self._flow is not None and self._is_asked:
            self._tell_counts("ended", self._flow.stop(SETTLE_SECONDS))
        if not self._settings.keep:
            self._cluster.discard()
        elif self._flow is None:
            self._cluster.down(keep=True)  # the start was incomplete
        if self._flow is None:
            end_processes_of(self._settings.data_dir)  # started just before the end, listed in no state file

    # reports

    def _told_pause(self, pause: Pause) -> None:
        self._tell("pause", **asdict(pause))

    def _tell_counts(self, kind: str, counts: Counts) -> None:
        assert self._flow is not None, "who counts was started"
        self._tell(kind, **asdict(counts), gone=sorted(self._flow.gone), last_error=self._flow.last_error)

    def _tell(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"kind": kind, "time_ms": round(time.time() * 1000), **fields}).encode() + b"\n"
        with self._telling:
            try:
                self._stdout.write(line)
                self._stdout.flush()
            except (OSError, ValueError):
                return  # the screen is gone, which the end of the input reports too


def _ready(status: ClusterStatus) -> int:
    return sum(each.state == "running" for each in status.brokers)
