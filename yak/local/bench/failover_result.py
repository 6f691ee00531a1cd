"""The result of a failover benchmark: each kill's pauses, and the fate of the records. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from yak.client.bench.histogram import Histogram
from yak.local.bench.ledger_load import Notes, PartitionNotes
from yak.local.bench.pauses import longest_pause, longest_pause_within, worst
from yak.local.demo.delivery import Delivery, deliveries
from yak.sim.history_checker.history import Final, History, Outcome, Poll, Send, run

Mode = Literal["kill", "pause"]


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """The settings. `settle_s`: steady load before each kill, and between the first write after it and the restart."""

    kills: int = 10
    mode: Mode = "kill"
    rate: float = 1000.0
    size_bytes: int = 100
    settle_s: float = 1.0
    partitions: int = 3
    replication_factor: int = 3


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
        """The JSON form, in milliseconds."""
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
    verdict: Delivery = field(default_factory=Delivery)
    seen_and_gone: int = 0
    """Records that the reader got and that are not in the log at the end."""
    failed: int = 0
    first_error: str = ""
    client: Mapping[str, object] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether no record that was acknowledged or read was lost, duplicated or moved."""
        return self.verdict.holds and self.seen_and_gone == 0

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
        len(places(early) - places(late)) for early, late in zip(seen.partitions, stored.partitions, strict=True)
    )


def places(notes: PartitionNotes) -> set[tuple[int, int]]:
    """(offset, number) of every record."""
    return set(zip(notes.offsets, notes.numbers, strict=True))


def document(result: FailoverResult, machine: Mapping[str, object]) -> dict[str, Any]:
    """The JSON of a run. `latency_ms` holds the write pauses, so that `--assert 'p99<500ms'` can limit them."""
    settings, verdict = result.settings, result.verdict
    writes = pause_histogram(result.pauses_s("writes_s"))
    return {
        "benchmark": "failover",
        "mode": settings.mode,
        "kills": len(result.kills),
        "controllers_killed": sum(each.was_controller for each in result.kills),
        "rate": settings.rate,
        "size_bytes": settings.size_bytes,
        "partitions": settings.partitions,
        "acknowledged": verdict.acknowledged,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "reordered": verdict.out_of_order,
        "moved": verdict.moved,
        "seen_and_gone": result.seen_and_gone,
        "unconfirmed": verdict.unconfirmed,
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


def add_results(first: FailoverResult, more: FailoverResult) -> FailoverResult:
    """Merge two runs into one result."""
    return replace(
        first,
        kills=[*first.kills, *more.kills],
        verdict=Delivery.total((first.verdict, more.verdict), first.verdict.topic),
        seen_and_gone=first.seen_and_gone + more.seen_and_gone,
        failed=first.failed + more.failed,
        first_error=first.first_error or more.first_error,
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
