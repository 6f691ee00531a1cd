"""Three brokers of each: the replicated loads once a round on both sides, and the kills."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from versus.loads import have_pages
from versus.prepared_load import run_prepared
from versus.rounds import MEDIAN_GOAL, P99_GOAL, cpu_figure
from versus.table import AT_MOST_KAFKA, Goal, Table, Turns

from yak.client.admin import Admin
from yak.client.bench.topics import fresh_topic
from yak.local.bench.failover import FailoverResult, FailoverSettings, run_failover, summary
from yak.local.bench.fleet import Fleet
from yak.local.bench.replication import ACK_RATE, CONFIGS, BulkLoad, measure_acks, measure_idle, measure_produce
from yak.local.demo.delivery import Delivery

RATE_GOAL = Goal(1.2, at_least=True)
FAILOVER_GOAL = Goal(1 / 5, at_least=False)
REPLICAS = 3
ADMIN_MS = 30_000


class Side(Fleet, Protocol):
    name: str

    def prepare(self) -> None:
        """What is done once before the first start."""

    def start(self) -> None:
        """Start all brokers and wait until they answer."""

    def stop(self) -> None:
        """End every process that was started, and remove the data."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """How much of what. `kills` are a round's, on each side."""

    rounds: int
    shapes: tuple[BulkLoad, ...]
    prepared: tuple[BulkLoad, ...]
    ack_s: float
    idle_partitions: int
    idle_s: float
    is_per_record: bool = False
    """As in `versus.rounds.Plan`."""


class ReplicationRounds:
    """Rates, CPU and acknowledgements with three replicas."""

    def __init__(self, sides: list[Side], plan: ClusterPlan, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        self._turns = Turns(sides)
        self._admins = {side.name: Admin(side.bootstrap, timeout_ms=ADMIN_MS) for side in sides}
        self._made = 0
        self._names = [side.name for side in sides]
        self.table = Table(self._names)

    def run(self) -> None:
        """A round for nothing, then all rounds, then the idle partitions. Raises YakError when a load fails."""
        self._one_round()
        self.table = Table(self._names)
        for number in range(1, self._plan.rounds + 1):
            started_s = time.monotonic()
            self._one_round()
            self._say(f"replication, round {number} of {self._plan.rounds}: {time.monotonic() - started_s:.0f} s")
        if self._plan.idle_partitions:
            self._turns.take(self._idle)

    def _one_round(self) -> None:
        self._turns.take(self._acks)
        for shape in self._plan.shapes:
            self._turns.take(partial(self._produce, shape))
        for shape in self._plan.prepared:
            self._turns.take(partial(self._prepared, shape))

    def _topic(self) -> str:
        self._made += 1
        return f"bench-three-{self._made}"

    def _acks(self, side: Side) -> None:
        os.sync()
        measured = measure_acks(side, self._admins[side.name], self._topic(), self._plan.ack_s)
        latency = measured.result.latency
        name = f"ack at {ACK_RATE:.0f} records/s, linger 0"
        self.table.add(f"{name}: median", "ms", MEDIAN_GOAL, side.name, latency.percentile(50) / 1e6)
        self.table.add(f"{name}: p99", "ms", P99_GOAL, side.name, latency.percentile(99) / 1e6)
        cpu_us = measured.cpu_total_s / measured.result.records * 1e6
        self.table.add(f"{name}: CPU of all brokers", "us/record", AT_MOST_KAFKA, side.name, cpu_us)

    def _produce(self, shape: BulkLoad, side: Side) -> None:
        os.sync()
        have_pages(REPLICAS * shape.records * shape.size_bytes)
        measured = measure_produce(side, self._admins[side.name], self._topic(), shape)
        name, limited = f"produce {shape.name}", measured.client_limited
        self.table.add(name, "records/s", RATE_GOAL, side.name, measured.per_s, client_limited=limited)
        unit, used = cpu_figure(measured.cpu_s_per_gb, shape.size_bytes, is_per_record=self._plan.is_per_record)
        self.table.add(f"{name}: CPU of all brokers", unit, AT_MOST_KAFKA, side.name, used)
        clients_s = sum(each.cpu_s for each in measured.result.clients)
        self.table.add(f"{name}: CPU of the clients", "s/GB", None, side.name, clients_s / measured.gigabytes)

    def _prepared(self, shape: BulkLoad, side: Side) -> None:
        os.sync()
        admin, topic = self._admins[side.name], self._topic()
        with fresh_topic(admin, topic, shape.partitions, replication_factor=REPLICAS, configs=CONFIGS):
            have_pages(REPLICAS * shape.records * shape.size_bytes)
            found = run_prepared(side.bootstrap, topic, shape.size_bytes, shape.records, side.cpu_seconds)
        name = f"prepared batches, {shape.load}"
        self.table.add(name, "records/s", RATE_GOAL, side.name, found.per_s)
        self.table.add(f"{name}: CPU of all brokers", "s/GB", AT_MOST_KAFKA, side.name, found.cpu_s_per_gb)

    def _idle(self, side: Side) -> None:
        count = self._plan.idle_partitions
        found = measure_idle(side, self._admins[side.name], self._topic(), count, self._plan.idle_s)
        nodes = [used for of, used in found.items() if of.startswith("node")]
        name = f"{count} idle partitions"
        self.table.add(f"{name}: busiest broker", "% of a core", None, side.name, max(nodes) * 100)
        self.table.add(f"{name}: all processes", "% of a core", None, side.name, sum(found.values()) * 100)


def add_results(first: FailoverResult, more: FailoverResult) -> FailoverResult:
    """Merge two runs into one result."""
    return replace(
        first,
        kills=[*first.kills, *more.kills],
        delivery=Delivery.total((first.delivery, more.delivery), first.delivery.topic),
        seen_and_gone=first.seen_and_gone + more.seen_and_gone,
        failed=first.failed + more.failed,
        first_error=first.first_error or more.first_error,
    )


class FailoverRounds:
    """`kill -9` of the controller that is also a leader."""

    def __init__(self, sides: list[Side], rounds: int, kills: int, say: Callable[[str], None]) -> None:
        self._rounds = rounds
        self._kills = kills
        self._say = say
        self._names = [side.name for side in sides]
        self._turns = Turns(sides)
        self.results: dict[str, FailoverResult] = {}

    def run(self) -> None:
        """All rounds. Raises YakError when a cluster does not recover."""
        for number in range(1, self._rounds + 1):
            started_s = time.monotonic()
            self._turns.take(self._kill)
            self._say(f"failover, round {number} of {self._rounds}: {time.monotonic() - started_s:.0f} s")

    def _kill(self, side: Side) -> None:
        os.sync()
        found = run_failover(side, FailoverSettings(kills=self._kills))
        before = self.results.get(side.name)
        self.results[side.name] = found if before is None else add_results(before, found)

    def table(self) -> Table:
        """Every kill is a sample of its pauses; p99 and maximum are over all kills."""
        table = Table(self._names)
        for side, result in self.results.items():
            for name, label, goal in PAUSES:
                pauses_s = result.pauses_s(name)
                for pause in pauses_s:
                    table.add(f"{label}: median", "ms", goal, side, pause * 1000)
                figures = summary(pauses_s)
                if figures is not None:
                    table.add(f"{label}: p99", "ms", goal, side, figures["p99"])
                    table.add(f"{label}: longest", "ms", None, side, figures["max"])
        return table

    def notes(self) -> list[str]:
        return [delivery_line(side, result) for side, result in self.results.items()]


PAUSES = (
    ("writes_s", "writes to what the killed broker led", FAILOVER_GOAL),
    ("reads_s", "reads of what the killed broker led", FAILOVER_GOAL),
    ("other_writes_s", "writes to what it followed", None),
    ("return_s", "writes while it came back", None),
)


def delivery_line(side: str, result: FailoverResult) -> str:
    delivery = result.delivery
    controllers = sum(kill.was_controller for kill in result.kills)
    return (
        f"{side}: {len(result.kills)} kills, {controllers} of them of the controller; {delivery.acknowledged} records "
        f"acknowledged, {delivery.lost} lost, {delivery.duplicated} duplicated, {delivery.out_of_order} reordered, "
        f"{delivery.moved} moved, {result.seen_and_gone} read and gone, {result.failed} failed"
    )
