"""A demo as a scenario: steps on a cluster of its own, a reporter, the history of its records, and one result."""

import shlex
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from yak.client.admin import Admin
from yak.errors import WaitTimeout, YakError
from yak.ids import NodeId
from yak.local.chaos.recorder import Recorder
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.demo.load import record_id
from yak.local.failover import Failover, tenths
from yak.local.status import ClusterStatus

MIN_ISR: Final = 2
REQUEST_SECONDS: Final = 5.0
FINISH_SECONDS: Final = 60.0
"""How long a client may take for its last acknowledgements."""
_TOPIC_SECONDS: Final = 15.0

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a demo. `data_dir` None is a new temporary directory, deleted at the end unless `keep`."""

    load_seconds: float
    brokers: int = 3
    keep: bool = False
    data_dir: str | None = None
    session_timeout_ms: int = 6_000
    """Of the consumers of `groups`."""


class Reporter:
    """Displays a scenario; the base displays nothing."""

    def step(self, number: int, steps: int, title: str) -> None:
        """A step begins."""

    def say(self, text: str) -> None:
        """A remark on the step."""

    def table(self, rows: Sequence[Row], is_good: Sequence[bool]) -> None:
        """The present state, and which of its rows are as they should be."""

    def timeline(self, failover: Failover) -> None:
        """The timeline after a kill."""

    def progress(self, text: str, state: object = None) -> None:
        """The counts of the running load, several times a second; `state` has more, for a scenario's own display."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a demo: `promise` and the table `rows` for people, `fields` for JSON."""

    holds: bool
    promise: str
    rows: Sequence[Row]
    notes: Sequence[str]
    next_commands: Sequence[tuple[str, str]]
    """Commands to type next, and what they do."""
    fields: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.holds, **self.fields}


class Part(Protocol):
    """A thread or process beside the cluster."""

    def start(self) -> None:
        """Start it."""

    def abandon(self) -> None:
        """Stop it at once, whatever is in flight."""


class Scenario(ABC):
    """The base of all demos. A step prepares the next ones; `run` runs them, and removes everything afterwards."""

    SUMMARY: ClassVar[str] = ""
    """What it shows, in one line."""
    TIMES: ClassVar[tuple[str, ...]] = ()
    """The measured times in the JSON result, in milliseconds; None for one that was not measured."""
    ERROR: ClassVar[str]
    """The code of the error when the scenario makes no progress."""
    PATIENCE_SECONDS: float = 30.0
    POLL_SECONDS: ClassVar[float] = 0.02

    def __init__(self, settings: Settings, reporter: Reporter) -> None:
        self.settings = settings
        self.reporter = reporter
        self.say = reporter.say
        self.cluster = LocalCluster(settings.data_dir or tempfile.mkdtemp(prefix="yak-demo-"))
        self.recorder = Recorder(record_id, began=0.0)
        self.times: dict[str, float | None] = dict.fromkeys(("start_ms", *self.TIMES, "total_ms"))
        self.parts: list[Part] = []
        self.bootstrap = ""
        self._work: tempfile.TemporaryDirectory[str] | None = None
        self.load_began = 0.0
        self._number = 0
        self._has_redis = True

    @abstractmethod
    def steps(self) -> Sequence[Callable[[], None]]:
        """The steps, in order. Each begins with `step`."""

    @abstractmethod
    def result(self) -> Result:
        """The result, after the last step."""

    def run(self) -> Result:
        """Run all steps. Raises YakError when a part cannot start, a client fails, or the cluster does not recover."""
        began, keeps = time.monotonic(), False
        try:
            try:
                for step in self.steps():
                    step()
            finally:
                for part in self.parts:
                    part.abandon()
                if self._work is not None:
                    self._work.cleanup()
            self.took("total_ms", began)
            result = self.result()
            keeps = self.settings.keep
            return result
        finally:
            self.clean_up(keeps=keeps)

    @property
    def work(self) -> str:
        if self._work is None:
            self._work = tempfile.TemporaryDirectory(prefix="yak-demo-work-", ignore_cleanup_errors=True)
        return self._work.name

    def clean_up(self, *, keeps: bool) -> None:
        """Stop the cluster, and delete it if its directory is temporary; unless `keeps`."""
        if keeps:
            return
        if self.settings.data_dir is None:
            self.cluster.discard()
        elif self.cluster.status().brokers:
            self.cluster.down()

    # --------------------------------------------------------------------------------------------- for the steps

    def step(self, title: str) -> None:
        self._number += 1
        self.reporter.step(self._number, len(self.steps()), title)

    def took(self, name: str, since: float, until: float | None = None) -> float:
        """Note a measured time, and return it in milliseconds."""
        found = self.times[name] = ((time.monotonic() if until is None else until) - since) * 1000.0
        return found

    def start(self, settings: UpSettings) -> ClusterStatus:
        count = settings.brokers or 1
        brokers = f"{count} brokers" if count > 1 else "a broker"
        self._has_redis = settings.metadata != "raft"
        self.step(f"Start Redis and {brokers}" if self._has_redis else f"Start {brokers}, and no Redis")
        up = self.cluster.up(settings)
        self.times["start_ms"] = up.took_ms
        self.bootstrap = up.status.bootstrap
        return up.status

    def say_ready(self, status: ClusterStatus, controller: NodeId | None = None) -> None:
        for broker in status.brokers:
            self.say(f"{broker}, controller" if broker.node_id == controller else str(broker))
        self.say(f"ready in {self.times['start_ms']:.0f} ms{self._redis_included}")

    def create_topic(self, name: str, *, min_isr: int = MIN_ISR, **placement: Any) -> None:
        """Create a topic; retry for a while, since the first controller may not be elected yet."""
        admin = Admin(self.bootstrap, timeout_ms=round(REQUEST_SECONDS * 1000))
        configs = {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": "false"}
        deadline = time.monotonic() + _TOPIC_SECONDS
        while True:
            try:
                return admin.create_topic(name, configs=configs, **placement)
            except YakError as error:
                if error.code == "topic-exists":
                    return None  # an earlier try got no answer
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def start_load(self, *parts: Part) -> None:
        self.parts += parts
        self.load_began = time.monotonic()
        for part in parts:
            part.start()

    def poll(self) -> None:
        """Called many times a second while the load goes on."""
        self.reporter.progress(f"{self.recorder.acknowledged} acknowledged")

    def poll_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self.poll()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(self.POLL_SECONDS, left))

    def poll_until(self, share: float, *, at_least: float = 0.0) -> None:
        """Let the load go on until this share of its time has passed."""
        left = self.load_began + self.settings.load_seconds * share - time.monotonic()
        self.poll_for(max(left, at_least))

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Wait for a condition while the load goes on. Raises WaitTimeout."""
        deadline = time.monotonic() + self.PATIENCE_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise WaitTimeout(self.ERROR, f"not in {self.PATIENCE_SECONDS:.0f} s: {what}", why=self.condition())
            self.poll_for(self.POLL_SECONDS)

    def condition(self) -> str:
        """The present state, for an error that says that it does not change."""
        return ""

    # -------------------------------------------------------------------------------------------- for the result

    def common_fields(self) -> dict[str, Any]:
        """The measured times, and where a remaining cluster is."""
        return {
            "times": {name: tenths(value) for name, value in self.times.items()},
            "data_dir": self.cluster.data_dir if self.settings.keep else None,
            "bootstrap": self.bootstrap if self.settings.keep else None,
        }

    @property
    def where(self) -> str:
        return shlex.quote(self.cluster.data_dir)

    @property
    def _redis_included(self) -> str:
        return ", Redis included" if self._has_redis else ""

    def start_note(self) -> str:
        start_ms, total_ms = self.times["start_ms"] or 0.0, self.times["total_ms"] or 0.0
        return f"start {start_ms:.0f} ms{self._redis_included}; the whole demo {total_ms / 1000.0:.1f} s"
