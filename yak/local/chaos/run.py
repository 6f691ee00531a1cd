"""A chaos run: start, load, inject and repair faults, settle, read everything, check the history."""

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from yak.client.admin import Admin
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.local.chaos import liveness
from yak.local.chaos.clients import GROUP, Clients
from yak.local.chaos.cluster import ChaosCluster, ClusterSettings
from yak.local.chaos.liveness import LivenessReport, Violation, different_replicas, logged_bugs, reached
from yak.local.chaos.members import Library, librdkafka
from yak.local.chaos.nemesis import InjectedFault, Nemesis, Operator
from yak.local.chaos.readers import NO_END, read_everything
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.report import ChaosReport, store_alone_costs_nothing, unavailability
from yak.local.chaos.schedule import FaultKind, PlannedFault, plan
from yak.local.chaos.writers import BATCH_BYTES_MAX, writers_log
from yak.local.guardian import Guardian
from yak.local.quorum import BOTH, REDIS
from yak.sim.history_checker.history import History
from yak.sim.history_checker.report import check_history

TOPICS: Final[dict[str, dict[str, str]]] = {
    "chaos-safe": {"min.insync.replicas": "2"},
    "chaos-flushed": {"min.insync.replicas": "2", "flush.messages": "1"},
    "chaos-loose": {"min.insync.replicas": "1"},
    "chaos-copies": {"min.insync.replicas": "2"},
}
"""The topics of an own cluster. Acknowledged records must survive in each of them, since no disk loses data here.

Workers copy the first to the last in transactions.
"""
PARTITIONS: Final = 2
PARTITIONS_ALONE: Final = 4
"""For each of the two topics in an external cluster."""
_COMMON: Final = {"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": str(BATCH_BYTES_MAX)}
_TICK_SECONDS: Final = 0.05
_READ_SECONDS: Final = 120.0
_BYTES_A_RECORD: Final = 500
_DISK_BYTES: Final = 48 << 20
_ADMIN_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class ChaosSettings:
    """The settings of a run. `bootstrap` None: on its own cluster in its own folder."""

    seed: int
    duration_s: float
    faults: tuple[FaultKind, ...]
    brokers: int = 3
    bootstrap: str | None = None
    rate: float = 150.0
    data_dir: str | None = None
    keep: bool = False
    metadata: str = REDIS


class Watcher(Protocol):
    """Displays a run while it goes on."""

    def phase(self, name: str, seconds: float | None = None) -> None:
        """A new phase begins; `seconds` is its duration, if known."""

    def fault(self, found: InjectedFault) -> None:
        """A fault was injected or repaired."""

    def note(self, text: str) -> None:
        """A remark for the user."""

    def tick(self, recorder: Recorder, cluster: ChaosCluster | None, injected: Sequence[InjectedFault]) -> None:
        """Called many times a second."""


@dataclass(slots=True)
class ChaosRun:
    """One run: call `run`. The history is available afterwards."""

    settings: ChaosSettings
    watcher: Watcher
    is_cut_short: Callable[[], bool] = bool
    """Whether to end the load now; the later phases still run."""
    library: Callable[[], Library] = librdkafka
    """Makes a library for each transactional client."""
    recorder: Recorder = field(default_factory=Recorder)
    history: History = field(default_factory=History)
    _violations: list[Violation] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)

    def run(self) -> ChaosReport:
        """Run all phases. Raises YakError when there is nothing to check: no cluster, no topic."""
        if self.settings.bootstrap is not None:
            return self._elsewhere(self.settings.bootstrap)
        folder = Path(os.path.realpath(self.settings.data_dir or tempfile.mkdtemp(prefix="yak-chaos-")))
        with Guardian(str(folder)), self._cluster(folder) as cluster:
            report = self._with_cluster(cluster)
            if self.settings.keep or not report.holds or (report.is_void and not self.is_cut_short()):
                report.folder = str(folder)
                cluster.keep_data()
        if report.folder is None:
            cluster.discard()
        return report

    @contextlib.contextmanager
    def _cluster(self, folder: Path) -> Iterator[ChaosCluster]:
        """A cluster until the end of the `with` block. After an error its folder stays if a broker's log may say why."""
        disk_bytes = None
        if any(kind.name == "disk" for kind in self.settings.faults):
            disk_bytes = _DISK_BYTES + int(self.settings.duration_s * self.settings.rate * _BYTES_A_RECORD)
        settings = ClusterSettings(self.settings.brokers, disk_bytes=disk_bytes, metadata=self.settings.metadata)
        cluster, keeps = ChaosCluster(folder, settings), False
        try:
            yield cluster
            keeps = True
        except Exception:
            keeps = any(node.log() for node in cluster.nodes.values())
            raise
        finally:
            cluster.close()
            if not keeps:
                cluster.discard()

    # ----------------------------------------------------------------------------------------------- own cluster

    def _with_cluster(self, cluster: ChaosCluster) -> ChaosReport:
        store = {REDIS: "Redis", BOTH: "Redis and a metadata quorum"}.get(
            self.settings.metadata, "their metadata quorum"
        )
        self.watcher.phase(f"start {self.settings.brokers} brokers and {store}")
        cluster.start()
        kinds = self.settings.faults
        if any(kind.name == "disk" for kind in kinds):
            self._note(f"disks are filled by {cluster.disks}")
            if not cluster.can_fill:
                kinds = tuple(kind for kind in kinds if kind.name != "disk")
                self._note("disk: skipped, no disk can be filled here")
        partitions = self._make_topics(cluster.bootstrap, TOPICS, PARTITIONS)
        clients = self._clients(cluster.bootstrap, partitions, writers_log(cluster.folder / "writers.log"))
        nemesis = Nemesis(cluster, clients, self.recorder, Operator(cluster.redis_url))
        planned = plan(self.settings.seed, kinds, tuple(cluster.nodes), self.settings.duration_s)
        self._load(nemesis, planned)

        self.watcher.phase("settle: all faults ended")
        nemesis.repair_all()
        settled = LivenessReport(lambda: self._poll(nemesis))
        if liveness.all_serve(settled, cluster, nemesis):
            liveness.all_take_writes(settled, partitions, self.recorder)
            liveness.all_in_sync(settled, cluster.bootstrap, tuple(TOPICS))
        self._finish(clients, settled, cluster.bootstrap, partitions)

        self.watcher.phase("compare the replicas")
        found = reached(cluster)  # the stop elects leaders and shrinks each ISR, which is no activity of the run
        self._notes += [f"at the end {late}" for late in cluster.stop()]
        different, compared = different_replicas(cluster, partitions) if not settled.violations else ([], 0)
        self._violations += [*settled.violations, *different, *logged_bugs(cluster)]
        self._notes += nemesis.ended_by_themselves
        if nemesis.operator is not None:
            self._notes += [f"the metadata store was restored {how}" for how in nemesis.operator.restores]
        report = self._report(nemesis.injected, settled)
        report.compared_bytes, report.reached = compared, found
        return report

    # ----------------------------------------------------------------------------------------------- external cluster

    def _elsewhere(self, bootstrap: str) -> ChaosReport:
        topic = f"yak-chaos-{self.settings.seed}-{os.getpid()}-{int(time.time())}"
        topics: dict[str, dict[str, str]] = {topic: {}, f"{topic}-copies": {}}
        self.watcher.phase(f"make topics {' and '.join(topics)}")
        partitions = self._make_topics(bootstrap, topics, PARTITIONS_ALONE)
        try:
            clients = self._clients(bootstrap, partitions)
            nemesis = Nemesis(None, clients, self.recorder)
            self._load(nemesis, plan(self.settings.seed, self.settings.faults, (), self.settings.duration_s))
            self.watcher.phase("settle")
            settled = LivenessReport(lambda: self._poll(nemesis))
            liveness.all_take_writes(settled, partitions, self.recorder)
            self._finish(clients, settled, bootstrap, partitions)
            self._violations += settled.violations
            report = self._report(nemesis.injected, settled)
        finally:
            if not self.settings.keep:
                for name in topics:
                    with contextlib.suppress(YakError):
                        Admin(bootstrap, timeout_ms=_ADMIN_MS).delete_topic(name)
        if self.settings.keep:
            self._note(f"topics {' and '.join(topics)} were kept")
        return report

    # ---------------------------------------------------------------------------------------------------- steps

    def _make_topics(self, bootstrap: str, topics: dict[str, dict[str, str]], count: int) -> list[TopicPartition]:
        admin = Admin(bootstrap, timeout_ms=_ADMIN_MS)
        for name, configs in topics.items():
            admin.create_topic(name, partitions=count, configs={**_COMMON, **configs})
        return [TopicPartition(name, number) for name in topics for number in range(count)]

    def _clients(
        self, bootstrap: str, partitions: Sequence[TopicPartition], log: logging.Logger | None = None
    ) -> Clients:
        self.recorder = Recorder()
        group = f"{GROUP}-{self.settings.seed}-{os.getpid()}"
        return Clients(
            bootstrap, partitions, self.recorder, rate=self.settings.rate, seed=self.settings.seed, group=group,
            source=partitions[0].topic, target=partitions[-1].topic, log=log,
            library=self.library,
        )  # fmt: skip

    def _load(self, nemesis: Nemesis, planned: Sequence[PlannedFault]) -> None:
        """Clients write and read for the duration, while the planned faults are injected."""
        self.watcher.phase("load and faults", self.settings.duration_s)
        nemesis.clients.start()
        began = time.monotonic()
        agenda: list[tuple[float, Callable[[], InjectedFault]]] = []
        for fault in planned:
            agenda.append((fault.at_s, lambda fault=fault: self._strike(nemesis, fault, agenda)))  # type: ignore[misc]
        while (now := time.monotonic() - began) < self.settings.duration_s and not self.is_cut_short():
            agenda.sort(key=lambda item: item[0])
            while agenda and agenda[0][0] <= now:
                _, do = agenda.pop(0)
                self.watcher.fault(do())
                agenda.sort(key=lambda item: item[0])
            self._poll(nemesis)
            time.sleep(_TICK_SECONDS)

    def _poll(self, nemesis: Nemesis) -> None:
        nemesis.check()
        self.watcher.tick(self.recorder, nemesis.cluster, nemesis.injected)

    def _strike(
        self, nemesis: Nemesis, fault: PlannedFault, agenda: list[tuple[float, Callable[[], InjectedFault]]]
    ) -> InjectedFault:
        found = nemesis.strike(fault)

        def repair() -> InjectedFault:
            nemesis.repair(found)
            return found

        agenda.append((fault.end_s, repair))
        return found

    def _finish(
        self, clients: Clients, settled: LivenessReport, bootstrap: str, partitions: Sequence[TopicPartition]
    ) -> None:
        """Stop the writes, let the group catch up, and read everything once more."""
        self.watcher.phase("the last acknowledgements")
        unanswered = clients.stop_writing()
        if unanswered:
            self._note(f"{unanswered} sends were never answered")
        self.watcher.phase("the groups catch up, and everything is read from the first record to the last")
        source = [each for each in partitions if each.topic == partitions[0].topic]

        def wait(name: str, group: str, ends: Sequence[TopicPartition]) -> None:
            if not settled.violations:
                liveness.group_caught_up(settled, name, bootstrap, group, ends)

        wait("workers caught up", clients.worker_group, source)
        clients.stop_processing()
        wait("group caught up", clients.group, partitions)
        clients.stop_reading()
        left = read_everything(bootstrap, partitions, self.recorder, _READ_SECONDS)
        self._violations += [
            Violation(
                "L3", f"{name} could not be read" + (f" to its end {end}" if end != NO_END else ": no broker serves it")
            )
            for name, end in left.items()
        ]

    def _report(self, injected: Sequence[InjectedFault], settled: LivenessReport) -> ChaosReport:
        self.watcher.phase("check the history")
        self.history = self.recorder.history()
        found = check_history(self.history)
        rows, quiet = unavailability(self.history, injected)
        kinds = [each.planned.kind for each in injected]
        self._violations += store_alone_costs_nothing(found, kinds)
        self._violations += [Violation("I6", f"out of range: {why}") for why in self.recorder.out_of_range[:20]]
        self._notes += [f"{name}: {error}" for name, error in self.recorder.last_errors.items()]
        if hung_calls := self.recorder.hung_calls:
            self._notes.append(
                f"send_offsets_to_transaction did not return in time {hung_calls} times: known of librdkafka (its issue 5511)"
            )
        faults = tuple(kind.name for kind in self.settings.faults)
        settings = self.settings
        brokers = 0 if settings.bootstrap is not None else settings.brokers
        report = ChaosReport(settings.seed, settings.duration_s, brokers, faults, found)
        report.injected, report.unavailability, report.quiet_s = tuple(injected), rows, quiet
        report.violations, report.took_s, report.notes = tuple(self._violations), settled.took_s, tuple(self._notes)
        return report

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self.watcher.note(text)
