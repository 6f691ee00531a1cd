"""The failover benchmark: kill the leader that is also the controller, repeatedly and under load.

One topic has a partition for each broker, each with another preferred leader. Before every kill each broker leads its
own partition again, so the controller always leads one, and is the broker that is killed. The notes of the writer and
the reader then give each partition's pauses. At the end every acknowledged record is read back.
"""

import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.bench.histogram import Histogram
from yak.client.leadership import elect_preferred_leaders
from yak.client.metadata import Partition
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.local.bench.fleet import Fleet
from yak.local.bench.ledger_load import (
    HANGING,
    LedgerLoad,
    LoadProcess,
    Notes,
    PartitionNotes,
    longest_pause,
    longest_pause_within,
    read_back,
    worst,
)
from yak.local.demo.delivery import Delivery, deliveries
from yak.sim.history_checker.history import Final, History, Outcome, Poll, Send, run
from yak.view.partition_state import is_whole

Mode = Literal["kill", "pause"]
PARTITIONS, REPLICAS = 3, 3
SETTLE_SECONDS = 1.0
"""Steady load before each kill, and between the first write after it and the restart."""


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """The settings of a run."""

    kills: int = 10
    mode: Mode = "kill"
    rate: float = 1000.0
    size_bytes: int = 100


@dataclass(slots=True)
class Kill:
    """One kill of a broker. Times are CLOCK_MONOTONIC; the measured fields are filled in after the load."""

    number: int
    node_id: int
    was_controller: bool
    led: tuple[int, ...]
    """The partitions that the broker led."""
    killed_s: float
    back_s: float = 0.0
    """When the broker was started (or resumed) again."""
    whole_s: float = 0.0
    """When every ISR was complete again."""
    next_s: float = 0.0
    """When the next kill came, or the load ended."""
    writes_s: float | None = None
    """The longest write pause of a partition that the broker led; None: it did not end, or the broker led none."""
    reads_s: float | None = None
    other_writes_s: float | None = None
    """The longest write pause of the partitions that the broker only followed."""
    return_s: float | None = None
    """The longest write pause of any partition during the broker's return."""

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "node": self.node_id,
            "was_controller": self.was_controller,
            "partitions_led": list(self.led),
            "writes_ms": _ms(self.writes_s),
            "reads_ms": _ms(self.reads_s),
            "other_writes_ms": _ms(self.other_writes_s),
            "return_ms": _ms(self.return_s),
            "isr_whole_after_ms": _ms(self.whole_s - self.back_s),
        }


@dataclass(slots=True)
class FailoverResult:
    """All kills, and the fate of the records."""

    settings: FailoverSettings
    kills: list[Kill] = field(default_factory=list)
    delivery: Delivery = field(default_factory=Delivery)
    seen_and_gone: int = 0
    """Records that the reader got and that are not in the log at the end."""
    failed: int = 0
    first_error: str = ""
    client: Mapping[str, object] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether no record that was acknowledged or read was lost, duplicated or moved."""
        return self.delivery.holds and self.seen_and_gone == 0

    def pauses_s(self, name: str) -> list[float]:
        """One measurement of all kills: `writes_s`, `reads_s`, `other_writes_s` or `return_s`."""
        return [value for kill in self.kills if (value := getattr(kill, name)) is not None]


def measure(kill: Kill, written: Notes, seen: Notes) -> None:
    """Fill in the pauses of each kind of partition."""
    writes = [each.times_s for each in written.partitions]
    reads = [each.times_s for each in seen.partitions]
    others = [number for number in range(len(writes)) if number not in kill.led]
    down = (kill.killed_s, kill.back_s)
    kill.writes_s = worst([longest_pause(writes[number], *down) for number in kill.led])
    kill.reads_s = worst([longest_pause(reads[number], *down) for number in kill.led])
    kill.other_writes_s = worst([longest_pause(writes[number], *down) for number in others])
    kill.return_s = worst([longest_pause_within(times, kill.back_s, kill.next_s) for times in writes])


def delivery_of(topic: str, written: Notes, stored: Notes) -> Delivery:
    """What became of the records that the writer noted; `stored` is the log at the end, in offset order."""
    history = History()
    for partition, (sent, found) in enumerate(zip(written.partitions, stored.partitions, strict=True)):
        name = f"{topic}-{partition}"
        for number, offset, acked_s in sorted(zip(sent.numbers, sent.offsets, sent.times_s, strict=True)):
            known = offset if offset >= 0 else None
            history.add(Send("writer", name, number, 0.0, acked_s, Outcome.OK, known))
        records = run(name, list(zip(found.offsets, found.numbers, strict=True)))
        history.add(Poll("reader", 0.0, 0.0, (records,)))
        history.add(Final("reader", {name: max(found.offsets, default=-1) + 1}))
    return Delivery.total(deliveries(history).values(), topic)


def gone(seen: Notes, stored: Notes) -> int:
    """The number of records that the reader got and that the final log does not have at the same offset."""
    return sum(
        len(positions(early) - positions(late)) for early, late in zip(seen.partitions, stored.partitions, strict=True)
    )


def positions(notes: PartitionNotes) -> set[tuple[int, int]]:
    """(offset, number) of every record."""
    return set(zip(notes.offsets, notes.numbers, strict=True))


def document(result: FailoverResult, machine: Mapping[str, object]) -> dict[str, Any]:
    """The JSON of a run. `latency_ms` holds the write pauses, so that `--assert 'p99<500ms'` can limit them."""
    settings, delivery = result.settings, result.delivery
    writes = pause_histogram(result.pauses_s("writes_s"))
    return {
        "benchmark": "failover",
        "mode": settings.mode,
        "kills": len(result.kills),
        "controllers_killed": sum(each.was_controller for each in result.kills),
        "rate": settings.rate,
        "size_bytes": settings.size_bytes,
        "partitions": PARTITIONS,
        "acknowledged": delivery.acknowledged,
        "lost": delivery.lost,
        "duplicated": delivery.duplicated,
        "reordered": delivery.out_of_order,
        "moved": delivery.moved,
        "seen_and_gone": result.seen_and_gone,
        "unconfirmed": delivery.unconfirmed,
        "holds": result.holds,
        "errors": result.failed,
        "first_error": result.first_error,
        "latency_ms": writes.summary_ms() if writes.count else None,
        "histogram": writes.buckets(),
        "pauses_ms": {name: summary(result.pauses_s(f"{name}_s")) for name in PAUSES},
        "per_kill": [each.as_json() for each in result.kills],
        "client": dict(result.client),
        "machine": dict(machine),
    }


PAUSES = {
    "writes": "writes to what it led",
    "reads": "reads of what it led",
    "other_writes": "writes to what it followed",
    "return": "writes while it came back",
}
"""The measurements of a kill, and their names for people."""


def summary(pauses_s: Sequence[float]) -> dict[str, float] | None:
    """Median, p99 (nearest rank) and maximum in milliseconds; None without pauses."""
    if not pauses_s:
        return None
    ordered = sorted(pauses_s)
    p99 = ordered[max(0, -(-len(ordered) * 99 // 100) - 1)]
    figures = {"p50": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
    return {name: round(value * 1000, 3) for name, value in figures.items()}


def pause_histogram(pauses_s: Sequence[float]) -> Histogram:
    """The pauses as a latency histogram."""
    found = Histogram()
    for pause in pauses_s:
        found.record(round(pause * 1e9))
    return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


TOPIC = "yak-bench-failover"
RECOVERY_SECONDS = 120.0
"""If partitions take no writes, or ISRs are incomplete, after this time, the run fails."""
ELECTION_SECONDS = 10.0
POLL_SECONDS = 0.02
REQUEST_MS = 3000


def run_failover(
    fleet: Fleet, settings: FailoverSettings, *, on_kill: Callable[[Kill], None] = lambda _kill: None
) -> FailoverResult:
    """Create the topic, run the load, end brokers, and compare. `on_kill` gets each kill when its node is back.

    Raises YakError (`bench-failover-stuck`: the cluster did not recover), or the fleet's errors.
    """
    topic = f"{TOPIC}-{uuid.uuid4().hex[:6]}"
    extra = HANGING if settings.mode == "pause" else {}
    load = LedgerLoad(fleet.bootstrap, topic, PARTITIONS, settings.rate, settings.size_bytes, extra)
    drill = _Drill(fleet, settings, load, on_kill)
    drill.make_topic()
    processes = [drill.writer, drill.reader]
    try:
        for process in processes:
            process.start()
        drill.wait_for_acks_after(time.monotonic())
        kills = [drill.one_kill(number) for number in range(1, settings.kills + 1)]
        time.sleep(SETTLE_SECONDS)
        ended_s = time.monotonic()
        written, seen = drill.writer.finish(), drill.reader.finish()
    finally:
        for process in processes:
            process.end()
    for kill, following in zip(kills, [*(each.killed_s for each in kills[1:]), ended_s], strict=True):
        kill.next_s = following
        measure(kill, written, seen)
    stored = read_back(load, drill.ends())
    result = FailoverResult(settings, kills, failed=written.failed + written.unanswered)
    result.first_error = written.first_error or (f"{written.unanswered} unanswered" if written.unanswered else "")
    result.delivery = delivery_of(topic, written, stored)
    result.seen_and_gone = gone(seen, stored)
    result.client = drill.client_settings()
    return result


class _Drill:
    """The steps of one run against one cluster."""

    def __init__(
        self, fleet: Fleet, settings: FailoverSettings, load: LedgerLoad, on_kill: Callable[[Kill], None]
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._load = load
        self._on_kill = on_kill
        self._admin = Admin(load.bootstrap, timeout_ms=REQUEST_MS)
        self.writer = LoadProcess("writer", load)
        self.reader = LoadProcess("reader", load)

    def make_topic(self) -> None:
        """Create a partition for each broker in turn, each with another preferred leader."""
        nodes = sorted(self._admin.metadata().brokers)
        if len(nodes) < REPLICAS:
            raise YakError("bench-brokers", f"{len(nodes)} brokers are not enough for replication factor {REPLICAS}")
        rows = [[nodes[(partition + at) % len(nodes)] for at in range(REPLICAS)] for partition in range(PARTITIONS)]
        configs = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
        self._admin.create_topic(self._load.topic, assignment=rows, configs=configs)
        self._wait("the new topic's ISRs are not whole", lambda: self._whole(self._partitions()))

    def one_kill(self, number: int) -> Kill:
        """Prepare, end a broker, wait for the failover, bring the broker back, wait for full ISRs."""
        self.prefer_leaders()
        self.wait_for_acks_after(time.monotonic())
        time.sleep(SETTLE_SECONDS)
        kill = self._choose(number)
        kill.killed_s = time.monotonic()
        self._end(kill.node_id)
        self.wait_for_acks_after(kill.killed_s, leaders_not=kill.node_id)
        time.sleep(SETTLE_SECONDS)
        kill.back_s = time.monotonic()
        if self._settings.mode == "pause":
            self._fleet.resume(kill.node_id)
        else:
            self._fleet.restart(kill.node_id)
        self._wait(f"node {kill.node_id} is not in every ISR again", lambda: self._whole(self._partitions()))
        kill.whole_s = time.monotonic()
        self._on_kill(kill)
        return kill

    def _end(self, node_id: int) -> None:
        if self._settings.mode == "pause":
            self._fleet.pause(node_id)
        else:
            self._fleet.kill(node_id)

    def _choose(self, number: int) -> Kill:
        """Choose the controller when it leads a partition; else the first partition's leader."""
        partitions = self._partitions()
        controller = self._fleet.controller()
        leaders = {each.leader for each in partitions}
        node_id = controller if controller in leaders and controller is not None else partitions[0].leader
        led = tuple(each.number for each in partitions if each.leader == node_id)
        return Kill(number, node_id, node_id == controller, led, 0.0)

    def prefer_leaders(self) -> None:
        """Elect every partition's preferred leader; after a timeout, go on without."""
        for _ in attempts(ELECTION_SECONDS, POLL_SECONDS):
            away = [each for each in self._partitions() if each.leader != each.replicas[0]]
            if not away:
                return
            names = [TopicPartition(self._load.topic, each.number) for each in away]
            try:
                elect_preferred_leaders(self._admin.metadata(), names, timeout_s=ELECTION_SECONDS)
            except YakError:
                time.sleep(0.2)

    def wait_for_acks_after(self, moment_s: float, *, leaders_not: int | None = None) -> None:
        """Wait until every partition has an acknowledgement after the moment, and none is led by that node.

        Raises YakError (`bench-failover-stuck`).
        """

        def done() -> bool:
            if leaders_not is not None and any(each.leader in (leaders_not, -1) for each in self._partitions()):
                return False
            recent_s = time.monotonic() - 0.5
            return all(at > max(moment_s, recent_s) for at in self.writer.last_ack_s)

        self._wait("some partition takes no writes", done)

    def ends(self) -> dict[int, int]:
        """The high watermark of every partition. Raises YakError when a leader does not answer in time."""
        names = [TopicPartition(self._load.topic, number) for number in range(self._load.partitions)]
        deadline_s = time.monotonic() + ELECTION_SECONDS
        while True:
            try:
                return {each.partition: end for each, (_, end) in self._admin.watermarks(names).items()}
            except YakError:
                # The admin client may have stale metadata, and a new leader does not know its high watermark at first.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)

    def client_settings(self) -> dict[str, object]:
        """The relevant librdkafka properties of both clients."""
        from yak.local.bench.ledger_load import READER, WRITER

        return {"writer": {**WRITER, **self._load.properties}, "reader": {**READER, **self._load.properties}}

    def _partitions(self) -> Sequence[Partition]:
        try:
            found = self._admin.metadata().topics.get(self._load.topic)
        except YakError:
            return ()
        return () if found is None else found.partitions

    def _whole(self, partitions: Sequence[Partition]) -> bool:
        return len(partitions) == self._load.partitions and all(map(is_whole, partitions))

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        for _ in attempts(RECOVERY_SECONDS, POLL_SECONDS):
            if done():
                return
        seen = "; ".join(f"{each.number}: leader {each.leader}, ISR {each.isr}" for each in self._partitions())
        raise YakError("bench-failover-stuck", f"{what} after {RECOVERY_SECONDS:.0f} s", why=seen)
