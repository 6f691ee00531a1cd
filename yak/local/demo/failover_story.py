"""The failover demo: under load, the broker that is leader and controller is killed.

The steps report through a `FailoverNarrator`; this file prints nothing itself.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from yak.client.admin import Admin
from yak.client.leadership import carry_out, plan_moves
from yak.client.replica_offsets import read_cluster, read_metadata
from yak.client.replication import PartitionReplicas
from yak.errors import NothingInTime, YakError
from yak.ids import NodeId
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.demo.ledger import Verdict, compare, totals
from yak.local.demo.load import CsvFile, LoadClient, Processes, ServerMetrics, content_of
from yak.local.demo.readback import read_back
from yak.local.demo.sources import write_file_list
from yak.local.demo.stage import stage
from yak.local.demo.story import CSV_ROWS_PER_SECOND, FINISH_SECONDS, READ_SECONDS, wait_until_all_store
from yak.local.failover import Failover, end_and_watch
from yak.local.failover_timeline import tenths
from yak.local.status import BrokerStatus
from yak.local.supervise import LogFollower

STEPS: Final = 7
REPLICAS_MAX: Final = 4
MIN_ISR: Final = 2
OFFICE_SECONDS: Final = 5.0
"""How long a broker with the leader role may take to become controller in place of a follower that was first."""
RECOVERY_SECONDS: Final = 30.0
AFTER_SECONDS: Final = 1.0
"""Load without the broker, and load at the end."""
_POLL_SECONDS: Final = 0.02
_REQUEST_SECONDS: Final = 5.0


class FailoverNarrator(Protocol):
    """Displays the demo."""

    def step(self, number: int, title: str) -> None:
        """A step begins."""

    def say(self, text: str) -> None:
        """A remark on the step."""

    def loading(self, acknowledged: int) -> None:
        """The load goes on."""

    def replicas(self, partitions: Sequence[PartitionReplicas]) -> None:
        """The state of each replica."""

    def timeline(self, failover: Failover) -> None:
        """The timeline after the kill."""


@dataclass(frozen=True, slots=True)
class FailoverDemoSettings:
    """The settings. `data_dir` None is a new temporary directory, deleted at the end unless `keep`."""

    load_seconds: float
    brokers: int = 3
    keep: bool = False
    data_dir: str | None = None

    @property
    def replication_factor(self) -> int:
        """A replica on each broker, up to four."""
        return min(self.brokers, REPLICAS_MAX)


@dataclass(slots=True)
class FailoverTimes:
    """Measured times in milliseconds; None where unknown."""

    start_ms: float = 0.0
    longest_pause_ms: float | None = None
    """The longest pause of any client around the kill."""
    restart_ms: float = 0.0
    in_sync_again_ms: float = 0.0
    """From the restarted broker's first answer to its being in every ISR."""
    handed_back_ms: float = 0.0
    hand_back_pause_ms: float | None = None
    read_back_ms: float = 0.0
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class FailoverDemoResult:
    """The result of the demo."""

    settings: FailoverDemoSettings
    verdicts: tuple[Verdict, ...]
    clients: dict[str, str]
    failover: Failover
    new_leader: NodeId
    truncated: int
    times: FailoverTimes
    bootstrap: str
    data_dir: str

    @property
    def holds(self) -> bool:
        """Whether every acknowledged record of every topic was read back, once and in order."""
        return bool(self.verdicts) and all(verdict.holds for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The JSON result."""
        return {
            "ok": self.holds,
            **totals(self.verdicts),
            "brokers": self.settings.brokers,
            "replication_factor": self.settings.replication_factor,
            "min_insync_replicas": MIN_ISR,
            "killed_node": self.failover.node_id,
            "killed_pid": self.failover.pid,
            "was_controller": self.failover.was_controller,
            "new_leader": self.new_leader,
            "timeline": self.failover.timeline.as_json(),
            "records_truncated": self.truncated,
            "times": {name: tenths(value) for name, value in asdict(self.times).items()},
            "topics": [
                {**asdict(verdict), "client": self.clients[verdict.topic], "ok": verdict.holds}
                for verdict in self.verdicts
            ],
            "data_dir": self.data_dir if self.settings.keep else None,
            "bootstrap": self.bootstrap if self.settings.keep else None,
        }


def run(settings: FailoverDemoSettings, narrator: FailoverNarrator) -> FailoverDemoResult:
    """Run the whole demo. Raises YakError when a part cannot start, a client fails or the cluster does not recover."""
    with stage(settings.data_dir, keep=settings.keep) as (cluster, work):
        story = _Story(settings, narrator, cluster, work)
        try:
            return story.tell()
        except BaseException:
            for client in story.clients:
                client.abandon()
            raise


@dataclass(slots=True)
class _Story:
    """The steps, in order; each prepares the next ones."""

    settings: FailoverDemoSettings
    narrator: FailoverNarrator
    cluster: LocalCluster
    work: str
    times: FailoverTimes = field(default_factory=FailoverTimes)
    bootstrap: str = ""
    clients: list[LoadClient] = field(default_factory=list)
    load_began: float = 0.0
    truncated: int = 0

    def tell(self) -> FailoverDemoResult:
        """Run all steps."""
        began = time.monotonic()
        victim = self._start()
        self._send(victim)
        failover, new_leader = self._kill(victim)
        self._bring_back(victim)
        self._hand_back(victim)
        verdicts = self._compare()
        self.times.total_ms = (time.monotonic() - began) * 1000.0
        names = {client.topic: client.name for client in self.clients}
        return FailoverDemoResult(
            self.settings,
            verdicts,
            names,
            failover,
            new_leader,
            self.truncated,
            self.times,
            self.bootstrap,
            self.cluster.data_dir,
        )

    # ----------------------------------------------------------------------------------------------------- steps

    def _start(self) -> NodeId:
        """Start everything; return the controller, which will lead all partitions and be killed."""
        say = self.narrator.say
        self.narrator.step(1, f"Start Redis and {self.settings.brokers} brokers")
        up = self.cluster.up(UpSettings(port=0, brokers=self.settings.brokers, leaders=1))
        self.times.start_ms = up.took_ms
        self.bootstrap = up.status.bootstrap
        leader = next(broker.node_id for broker in up.status.brokers if broker.role == "leader")
        controller = self._controller(leader)
        for broker in up.status.brokers:
            say(_broker_line(broker, is_controller=broker.node_id == controller))
        say(f"ready in {up.took_ms:.0f} ms, Redis included")
        return controller

    def _send(self, victim: NodeId) -> None:
        factor, say = self.settings.replication_factor, self.narrator.say
        self.narrator.step(2, f"Send real data to topics with {factor} replicas, all led by broker {victim}")
        self.clients = self._make_clients()
        admin = Admin(self.bootstrap)
        others = [node for node in sorted(admin.metadata().brokers) if node != victim]
        replicas = [victim, *others][:factor]
        configs = {"min.insync.replicas": str(MIN_ISR), "unclean.leader.election.enable": "false"}
        for client in self.clients:
            admin.create_topic(client.topic, assignment=[replicas], configs=configs)
        for client in self.clients:
            say(f"{client.topic:<15} {client.what}")
            say(f"{'':<15} by {client.name}")
        say(f"acks=all, idempotent, min.insync.replicas={MIN_ISR}: an acknowledged message is on")
        say("every replica in sync, and on two at least. After a lost connection they")
        say("look for the new leader every 5 to 20 ms (librdkafka's own waits: 100 ms)")
        self.load_began = time.monotonic()
        for client in self.clients:
            client.start()
        self._load_for(self.settings.load_seconds * 0.35)
        stored = wait_until_all_store(self.bootstrap, self.clients)
        self.narrator.step(3, f"Look at the replicas ({stored} messages so far)")
        self.narrator.replicas(self._replicas())
        say("HW, high watermark: what all in sync have. END n: the log end on broker n")

    def _kill(self, victim: NodeId) -> tuple[Failover, NodeId]:
        def killed(failover: Failover) -> None:
            self.narrator.say(f"process {failover.pid} is gone, with every client sending")

        self.narrator.step(4, f"Kill broker {victim}, leader of everything and controller: kill -9")
        failover = end_and_watch(self.cluster, victim, on_ended=killed)
        killed_at = failover.began_s

        def first_acks() -> list[float]:
            found = [client.first_ack_after(failover.ended_s) for client in self.clients]
            return [at for at in found if at is not None]

        self._wait("writes are acknowledged again", lambda: bool(first_acks()))
        failover.timeline.first_ack_ms = (min(first_acks()) - killed_at) * 1000.0
        self._load_for(AFTER_SECONDS)
        pauses = [at for client in self.clients if (at := client.longest_pause(killed_at, time.monotonic()))]
        self.times.longest_pause_ms = max(pauses) * 1000.0 if pauses else None
        self.narrator.timeline(failover)
        if self.times.longest_pause_ms is not None:
            self.narrator.say(f"the client that waited longest stood still for {self.times.longest_pause_ms:.0f} ms")
        found = self._replicas()
        self.narrator.replicas(found)
        leaders = sorted({each.leader for each in found})
        if -1 in leaders or victim in leaders:
            raise YakError("demo-no-failover", "not every partition has a new leader", why=f"leaders are {leaders}")
        return failover, leaders[0]

    def _bring_back(self, victim: NodeId) -> None:
        say = self.narrator.say
        self.narrator.step(5, f"Start broker {victim} again, on its old data")
        logs = LogFollower({"log": self.cluster.log_path(f"node-{victim}")})
        began = time.monotonic()
        again = self.cluster.restart(victim)
        answers = time.monotonic()
        self.times.restart_ms = (answers - began) * 1000.0
        say(f"ready in {self.times.restart_ms:.0f} ms (pid {again.pid}), as a follower")
        self._wait(f"broker {victim} is in sync again", lambda: all(victim in each.isr for each in self._states()))
        self.times.in_sync_again_ms = (time.monotonic() - answers) * 1000.0
        lines = [line for _, line in logs.new_lines()]
        self.truncated = sum(truncated_records(line) for line in lines)
        say(
            f"cut off {self.truncated} message{'s'[: self.truncated != 1]} that no other replica had, none acknowledged"
            if self.truncated
            else "it had nothing that the new leader does not have: nothing was cut off"
        )
        say(f"copied what it missed, and is back in every ISR after {self.times.in_sync_again_ms:.0f} ms")

    def _hand_back(self, victim: NodeId) -> None:
        self.narrator.step(6, f"Hand the leaderships back to broker {victim}, with the clients still writing")
        began = time.monotonic()
        admin = Admin(self.bootstrap)
        failed = carry_out(admin, plan_moves(self._states(), to=victim).moves, timeout_s=_REQUEST_SECONDS)
        if failed:
            raise YakError("demo-no-failover", "leaderships were not handed back", why="; ".join(failed.values()))
        self.times.handed_back_ms = (time.monotonic() - began) * 1000.0
        left = self.settings.load_seconds - (time.monotonic() - self.load_began)
        self._load_for(max(left, AFTER_SECONDS))
        pauses = [at for client in self.clients if (at := client.longest_pause(began, began + AFTER_SECONDS))]
        self.times.hand_back_pause_ms = max(pauses) * 1000.0 if pauses else None
        self.narrator.say(f"done in {self.times.handed_back_ms:.0f} ms: yak failover --all does the same")
        if self.times.hand_back_pause_ms is not None:
            self.narrator.say(
                f"no client waited longer than {self.times.hand_back_pause_ms:.0f} ms for an acknowledgement"
            )
        self.narrator.replicas(self._replicas())

    def _compare(self) -> tuple[Verdict, ...]:
        self.narrator.step(7, "Read every message back and compare")
        acknowledged = {client.topic: client.finish(FINISH_SECONDS) for client in self.clients}
        began = time.monotonic()
        stored = read_back(self.bootstrap, tuple(acknowledged), content_of, timeout_seconds=READ_SECONDS)
        self.times.read_back_ms = (time.monotonic() - began) * 1000.0
        count = sum(map(len, stored.values()))
        self.narrator.say(f"{count} messages read in {self.times.read_back_ms:.0f} ms")
        return tuple(compare(topic, acknowledged[topic], stored[topic]) for topic in acknowledged)

    # --------------------------------------------------------------------------------------------------- helpers

    def _controller(self, leader: NodeId) -> NodeId:
        """The controller, after a broker with the leader role had time to replace a follower that was faster."""
        deadline = time.monotonic() + OFFICE_SECONDS
        while True:
            found = read_metadata(self.bootstrap, timeout_s=_REQUEST_SECONDS).controller_id
            if found == leader or (found > 0 and time.monotonic() > deadline):
                return found
            if time.monotonic() > deadline + OFFICE_SECONDS:
                raise NothingInTime("no-controller", "no broker took the controller's office")
            time.sleep(_POLL_SECONDS)

    def _make_clients(self) -> list[LoadClient]:
        path = os.path.join(self.work, "files.csv")
        rows = write_file_list(path, round(CSV_ROWS_PER_SECOND * self.settings.load_seconds))
        clients: list[LoadClient] = [
            ServerMetrics(self.bootstrap),
            CsvFile(self.bootstrap, path, rows, self.settings.load_seconds),
        ]
        if Processes.is_installed():
            clients.append(Processes(self.bootstrap))
        return clients

    def _load_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.narrator.loading(sum(client.acknowledged_count() for client in self.clients))
            time.sleep(min(0.1, left))

    def _replicas(self) -> tuple[PartitionReplicas, ...]:
        topics = {client.topic for client in self.clients}
        found = read_cluster(self.bootstrap, timeout_s=_REQUEST_SECONDS)
        return tuple(each for each in found.partitions if each.topic in topics)

    def _states(self) -> tuple[PartitionReplicas, ...]:
        """Leaders and ISRs without offsets, which takes a single request."""
        topics = {client.topic for client in self.clients}
        found = read_metadata(self.bootstrap, timeout_s=_REQUEST_SECONDS)
        return tuple(each for each in found.partitions if each.topic in topics)

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        """Wait for a condition under load. Raises NothingInTime."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while not done():
            if time.monotonic() > deadline:
                states = "; ".join(f"{each.name}: leader {each.leader}, ISR {each.isr}" for each in self._states())
                raise NothingInTime("demo-no-failover", f"not in {RECOVERY_SECONDS:.0f} s: {what}", why=states)
            self.narrator.loading(sum(client.acknowledged_count() for client in self.clients))
            time.sleep(_POLL_SECONDS)


def _broker_line(broker: BrokerStatus, *, is_controller: bool) -> str:
    office = ", controller" if is_controller else ""
    return f"{broker}{office}"


def truncated_records(line: str) -> int:
    """The number of records that a broker's log line reports as truncated; 0 for any other line."""
    words = line.split()
    if "log-truncated" not in words:
        return 0
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    return max(int(fields.get("from_offset", 0)) - int(fields.get("to_offset", 0)), 0)
