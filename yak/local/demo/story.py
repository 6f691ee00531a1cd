"""The demo of one broker that is killed: start, load, kill, restart, finish, read back, compare.

The steps report through a `Narrator`; this file prints nothing itself.
"""

import os
import signal
import time
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from yak.errors import NothingInTime
from yak.ids import TopicPartition
from yak.local import processes
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.demo.ledger import Acknowledged, Verdict, compare, totals
from yak.local.demo.load import CsvFile, LoadClient, Processes, ServerMetrics, content_of
from yak.local.demo.readback import read_back
from yak.local.demo.sources import write_file_list
from yak.local.demo.stage import stage
from yak.local.seed import SeedTopic, make_topics

NODE: Final = 1
CSV_ROWS_PER_SECOND: Final = 500
BEGIN_SECONDS: Final = 20.0
FINISH_SECONDS: Final = 60.0
READ_SECONDS: Final = 30.0
STEPS: Final = 6


class Narrator(Protocol):
    """Displays the demo."""

    def step(self, number: int, title: str) -> None:
        """A step begins."""

    def say(self, text: str) -> None:
        """A remark on the step."""

    def loading(self, acknowledged: int) -> None:
        """The load goes on."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The settings. `data_dir` None is a new temporary directory, deleted at the end unless `keep`."""

    load_seconds: float
    kill: bool = True
    keep: bool = False
    data_dir: str | None = None


@dataclass(slots=True)
class DemoTimes:
    """Measured times in milliseconds; None where the step was left out or the time is unknown."""

    start_ms: float = 0.0
    restart_ms: float | None = None
    kill_to_first_ack_ms: float | None = None
    read_back_ms: float = 0.0
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo."""

    verdicts: tuple[Verdict, ...]
    clients: dict[str, str]
    times: DemoTimes
    bootstrap: str
    data_dir: str
    kept: bool
    killed_pid: int | None

    @property
    def holds(self) -> bool:
        """Whether every acknowledged record of every topic was read back, once and in order."""
        return bool(self.verdicts) and all(verdict.holds for verdict in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The JSON result."""
        return {
            "ok": self.holds,
            **totals(self.verdicts),
            "killed_pid": self.killed_pid,
            "times": asdict(self.times),
            "topics": [
                {**asdict(verdict), "client": self.clients[verdict.topic], "ok": verdict.holds}
                for verdict in self.verdicts
            ],
            "data_dir": self.data_dir if self.kept else None,
            "bootstrap": self.bootstrap if self.kept else None,
        }


def run(settings: DemoSettings, narrator: Narrator) -> DemoResult:
    """Run the whole demo. Raises YakError when a part cannot start or a client fails."""
    with stage(settings.data_dir, keep=settings.keep) as (cluster, work):
        return _tell(settings, narrator, cluster, work)


def _tell(settings: DemoSettings, narrator: Narrator, cluster: LocalCluster, work: str) -> DemoResult:
    began = time.monotonic()
    times = DemoTimes()
    narrator.step(1, "Start Redis and a broker")
    up = cluster.up(UpSettings(port=0))
    times.start_ms = up.took_ms
    broker = up.status.brokers[0]
    narrator.say(str(broker))
    narrator.say(f"metadata in {up.status.redis_url}")
    narrator.say(f"ready in {up.took_ms:.0f} ms, Redis included")

    narrator.step(2, "Send real data from clients that know nothing of each other")
    clients = _clients(settings, broker.address, work)
    make_topics(broker.address, tuple(SeedTopic(client.topic, 1) for client in clients), timeout_ms=10_000)
    for client in clients:
        narrator.say(f"{client.topic:<15} {client.what}")
        narrator.say(f"{'':<15} by {client.name}")
    load_began = time.monotonic()
    for client in clients:
        client.start()
    _wait(clients, load_began + settings.load_seconds * 0.4, narrator)
    stored = wait_until_all_store(broker.address, clients)
    killed_pid, killed_at = None, None
    if settings.kill:
        killed_pid, killed_at = _kill_and_restart(cluster, stored, times, narrator)
    else:
        narrator.step(3, "Kill the broker: left out (--no-kill)")
        narrator.step(4, "Start it again: left out")

    narrator.step(5, "Let the clients finish")
    # Even on a slow machine, part of the load comes after the restart.
    _wait(clients, max(load_began, time.monotonic() - settings.load_seconds * 0.7) + settings.load_seconds, narrator)
    acknowledged = {client.topic: client.finish(FINISH_SECONDS) for client in clients}
    narrator.say(f"{sum(map(len, acknowledged.values()))} messages acknowledged by the broker")
    if killed_at is not None:
        _tell_recovery(clients, killed_at, times, narrator)

    narrator.step(6, "Read every message back and compare")
    verdicts = _compare(broker.address, acknowledged, times)
    narrator.say(f"{sum(verdict.read for verdict in verdicts)} messages read in {times.read_back_ms:.0f} ms")
    times.total_ms = (time.monotonic() - began) * 1000.0
    names = {client.topic: client.name for client in clients}
    return DemoResult(verdicts, names, times, broker.address, cluster.data_dir, settings.keep, killed_pid)


def _clients(settings: DemoSettings, bootstrap: str, work: str) -> list[LoadClient]:
    path = os.path.join(work, "files.csv")
    rows = write_file_list(path, round(CSV_ROWS_PER_SECOND * settings.load_seconds))
    clients: list[LoadClient] = [
        ServerMetrics(bootstrap),
        CsvFile(bootstrap, path, rows, settings.load_seconds),
    ]
    if Processes.is_installed():
        clients.append(Processes(bootstrap))
    return clients


def _kill_and_restart(cluster: LocalCluster, stored: int, times: DemoTimes, narrator: Narrator) -> tuple[int, float]:
    status = cluster.status().brokers[0]
    pid = status.pid
    assert pid is not None, "the broker ran a moment ago"
    narrator.step(3, f"Kill the broker in the middle of it: kill -{int(signal.SIGKILL)} {pid}")
    killed_at = time.monotonic()
    process = cluster.kill(NODE)
    assert not processes.is_running(process)
    narrator.say(f"gone, with {stored} messages stored and every client still sending")
    narrator.step(4, "Start it again on the same data")
    restart_began = time.monotonic()
    again = cluster.restart(NODE)
    times.restart_ms = (time.monotonic() - restart_began) * 1000.0
    narrator.say(f"ready in {times.restart_ms:.0f} ms (pid {again.pid}); the clients go on by themselves")
    return pid, killed_at


def _tell_recovery(clients: list[LoadClient], killed_at: float, times: DemoTimes, narrator: Narrator) -> None:
    moments = [moment for client in clients if (moment := client.first_ack_after(killed_at)) is not None]
    if moments:
        times.kill_to_first_ack_ms = (min(moments) - killed_at) * 1000.0
        narrator.say(f"from the kill to the first acknowledgement after it: {times.kill_to_first_ack_ms:.0f} ms")


def _wait(clients: list[LoadClient], until: float, narrator: Narrator) -> None:
    while (left := until - time.monotonic()) > 0:
        narrator.loading(sum(client.acknowledged_count() for client in clients))
        time.sleep(min(0.1, left))


def wait_until_all_store(bootstrap: str, clients: list[LoadClient]) -> int:
    """Wait until each client has a stored record, so that the kill hits all of them; return the number of records.

    Raises NothingInTime when a client stores nothing.
    """
    from yak.client.admin import LATEST, Admin

    admin = Admin(bootstrap)
    partitions = {TopicPartition(client.topic, 0): LATEST for client in clients}
    deadline = time.monotonic() + BEGIN_SECONDS
    while True:
        ends = {place.topic: found.offset for place, found in admin.offsets(partitions).items()}
        silent = [topic for topic, end in ends.items() if end == 0]
        if not silent:
            return sum(ends.values())
        if time.monotonic() > deadline:
            raise NothingInTime(
                "demo-client",
                f"nothing was stored in {', '.join(silent)} in {BEGIN_SECONDS:.0f} s",
                why="the client that sends there did not begin",
            )
        time.sleep(0.05)


def _compare(bootstrap: str, acknowledged: dict[str, list[Acknowledged]], times: DemoTimes) -> tuple[Verdict, ...]:
    began = time.monotonic()
    stored = read_back(bootstrap, tuple(acknowledged), content_of, timeout_seconds=READ_SECONDS)
    times.read_back_ms = (time.monotonic() - began) * 1000.0
    return tuple(compare(topic, acknowledged[topic], stored[topic]) for topic in acknowledged)
