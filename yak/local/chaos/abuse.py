"""`yak chaos abuse`: attack a broker, one attack after the other, while a healthy producer and consumer go on.

The healthy client is `yak bench e2e` with one client: each record is timed from the producer's call to the consumer.
The guarantee bounds the 99th percentile, and requires that each record arrives.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from yak.client.admin import Admin
from yak.client.bench.clients import run_benchmark
from yak.client.bench.histogram import Histogram
from yak.client.bench.load import Load
from yak.client.bench.result import Result
from yak.client.bench.topics import ensure_topic
from yak.client.reach import split_address
from yak.config.listeners import is_loopback
from yak.errors import UsageError, YakError
from yak.local.chaos.attacks import Attack, Target
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.guardian import Guardian
from yak.local.spawn import yak_argv, yak_environment

TOPIC: Final = "yak-abuse"
HEALTHY_TOPIC: Final = "yak-abuse-healthy"
PACKED_TOPIC: Final = "yak-abuse-packed"
PARTITIONS: Final = 1
_HEALTHY_RATE: Final = 200.0
_ATTACK_BEGINS_SECONDS: Final = 1.0
"""Approximate time from the start of the attacker's process to its first request; the healthy client warms up
meanwhile."""
_ATTACKER_ENDS_SECONDS: Final = 15.0
_QUIET: Final = "none"


@dataclass(frozen=True, slots=True)
class AbuseSettings:
    """The target, the attacks and the seconds of each; the guarantee is p99 at most `p99_ms_max`.

    `bootstrap` None: a temporary broker of its own.
    """

    attacks: tuple[Attack, ...]
    seconds: float
    p99_ms_max: float
    bootstrap: str | None = None
    http: str = ""
    is_remote: bool = False
    """The broker may be on another machine."""


@dataclass(frozen=True, slots=True)
class AbuseRow:
    """One attack and the healthy client's measurements.

    Latencies in ms; the broker's resident memory in bytes, None when unknown.
    """

    attack: str
    words: str
    rounds: int
    records: int
    errors: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    rss_before_bytes: int | None
    rss_after_bytes: int | None
    holds: bool
    reason: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class AbuseRun:
    """All attacks in order. `note` gets a line as each attack begins."""

    def __init__(self, settings: AbuseSettings, note: Callable[[str], None], is_ended: Callable[[], bool]) -> None:
        self._settings = settings
        self._note = note
        self._is_ended = is_ended
        self._pid: int | None = None

    def run(self) -> list[AbuseRow]:
        """The rows; the first one is without an attack. Raises YakError when a broker does not start or cannot be
        reached."""
        rows = []
        for attack in (None, *self._settings.attacks):
            if self._is_ended():
                break
            self._note(_QUIET if attack is None else f"{attack.name}: {attack.description}")
            rows.append(self._run_one(attack))
        return rows

    def _run_one(self, attack: Attack | None) -> AbuseRow:
        """Run one attack, on a new broker unless a target is given."""
        settings = self._settings
        if settings.bootstrap is not None:
            return self._attack(attack, prepared(settings.bootstrap, settings.http))
        folder = os.path.realpath(tempfile.mkdtemp(prefix="yak-abuse-"))
        cluster = LocalCluster(folder)
        with Guardian(folder):
            try:
                cluster.up(UpSettings(port=0, http_port=0, brokers=1))
                broker = cluster.status().brokers[0]
                self._pid = broker.pid
                http = (broker.http_address or "").removeprefix("http://")
                return self._attack(attack, prepared(broker.address, http))
            finally:
                cluster.discard()

    def _attack(self, attack: Attack | None, target: Target) -> AbuseRow:
        name, what = (_QUIET, "no attack") if attack is None else (attack.name, attack.description)
        before = rss_bytes(self._pid)
        attacker = None if attack is None else start_attacker(attack.name, target, self._settings)
        try:
            result = self._measure(target)
            failure = ""
        except YakError as error:
            result, failure = None, str(error)
        finally:
            rounds = 0 if attacker is None else _end(attacker)
        return row_of(name, what, result, failure, rounds, (before, rss_bytes(self._pid)), self._settings.p99_ms_max)

    def _measure(self, target: Target) -> Result:
        load = Load(
            "e2e",
            target.bootstrap,
            HEALTHY_TOPIC,
            duration_s=self._settings.seconds,
            rate=_HEALTHY_RATE,
            linger_ms=0.0,
            warm_up_s=_ATTACK_BEGINS_SECONDS,
        )
        return run_benchmark(load)


def prepared(bootstrap: str, http: str) -> Target:
    """Create the topics of the attacks and of the healthy client. Raises YakError."""
    admin = Admin(bootstrap)
    ensure_topic(admin, TOPIC, PARTITIONS)
    ensure_topic(admin, HEALTHY_TOPIC, PARTITIONS)
    ensure_topic(admin, PACKED_TOPIC, PARTITIONS)
    admin.alter_configs("topic", PACKED_TOPIC, {"compression.type": "lz4"})
    return Target(bootstrap, http, TOPIC, PACKED_TOPIC)


def row_of(
    name: str,
    what: str,
    result: Result | None,
    failure: str,
    rounds: int,
    rss: tuple[int | None, int | None],
    p99_ms_max: float,
) -> AbuseRow:
    """One row, with the result of its check."""
    found = result if result is not None and result.records else None
    latency, records, errors = (Histogram(), 0, 1) if found is None else (found.latency, found.records, found.errors)
    p50_ms, p99_ms, max_ms = (round(latency.percentile(percent) / 1e6, 2) for percent in (50, 99, 100))
    reason = ""
    if found is None:
        reason = failure or "no record came back"
    elif errors:
        reason = found.first_error
    elif name != _QUIET and not rounds:
        reason = "the attacker made no request, or did not end in time"
    elif p99_ms > p99_ms_max:
        reason = f"p99 is {p99_ms:g} ms, promised are {p99_ms_max:g}"
    return AbuseRow(
        name, what, rounds, records, errors, p50_ms, p99_ms, max_ms, *rss, holds=not reason, reason=reason
    )  # fmt: skip


def start_attacker(name: str, target: Target, settings: AbuseSettings) -> subprocess.Popen[bytes]:
    """Start the process of one attack."""
    seconds = settings.seconds + _ATTACK_BEGINS_SECONDS
    arguments = ["chaos", "attack", name, "--bootstrap", target.bootstrap, "--duration", f"{seconds:g}s"]
    arguments += ["--topics", f"{target.topic},{target.packed_topic}"]
    arguments += ["--http", target.http] if target.http else []
    arguments += ["--remote"] if settings.is_remote else []
    return subprocess.Popen(  # noqa: S603 - the argument list is ours, and no shell reads it
        yak_argv(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=yak_environment()
    )


def _end(attacker: subprocess.Popen[bytes]) -> int:
    try:
        printed, _ = attacker.communicate(timeout=_ATTACKER_ENDS_SECONDS)
        return int(json.loads(printed)["rounds"])
    except subprocess.TimeoutExpired:
        attacker.kill()
        attacker.communicate()
        return 0
    except (ValueError, KeyError):
        return 0


def rss_bytes(pid: int | None) -> int | None:
    """Resident memory of a process; None when there is no such process."""
    import psutil

    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def refuse_remote(*addresses: str) -> None:
    """Raise UsageError (`abuse-remote`) for an address outside this machine. Empty addresses are skipped."""
    for address in addresses:
        for each in filter(None, address.split(",")):
            host, _port = split_address(each)
            if not is_loopback(host):
                raise UsageError(
                    "abuse-remote",
                    f"{each} is not an address of this machine",
                    why="an attack may make the broker unusable for its clients",
                    try_=("yak chaos abuse", "yak chaos abuse --bootstrap localhost:9092"),
                )
