"""The rounds: every figure of both brokers once a round, the brokers taking turns in going first."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from versus.brokers import Broker, start_and_wait
from versus.jvm_load import java_consume, java_produce
from versus.loads import Measured, Topics, ack_latency, bulk_consume, bulk_produce, pipelined
from versus.table import AT_LEAST_KAFKA, AT_MOST_KAFKA, Goal, Table, Turns

from yak.local.bench.replication import BulkLoad

START_GOAL = Goal(1 / 5, at_least=False)
MEMORY_GOAL = Goal(1 / 6, at_least=False)
MEDIAN_GOAL = Goal(0.7, at_least=False)
P99_GOAL = Goal(0.5, at_least=False)


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    cells: list[BulkLoad]
    requests: int
    latency_s: float
    java_records: dict[int, int]
    """Records of ProducerPerformance by size in bytes; empty: no Java load."""
    is_per_record: bool = False
    """Processor time in microseconds a record, in the place of seconds a gigabyte."""
    seconds_max: float = math.inf
    """No round begins that would end later than this, if it takes as long as the one before."""


class Rounds:
    def __init__(
        self,
        sides: list[Broker],
        fresh: dict[str, Callable[[], Broker]],
        jars: Path,
        plan: Plan,
        say: Callable[[str], None],
    ) -> None:
        self._sides = sides
        self._fresh = fresh
        self._jars = jars
        self._plan = plan
        self._say = say
        self._topics = {side.name: Topics(side) for side in sides}
        self._alternate = Turns(sides).take
        self.table = Table([side.name for side in sides])
        self.skipped: list[str] = []

    def run(self) -> None:
        """All rounds, then the memory. Raises RuntimeError when a load fails."""
        self._warm_up()
        began = time.monotonic()
        took = 0.0
        for number in range(1, self._plan.rounds + 1):
            started = time.monotonic()
            if started + took > began + self._plan.seconds_max:
                break
            self._starts()
            self._alternate(self._latency)
            self._alternate(self._pipelined)
            for cell in self._plan.cells:
                self._alternate(partial(self._bulk, cell))
            for size_bytes in self._plan.java_records:
                self._alternate(partial(self._java, size_bytes))
            took = time.monotonic() - started
            self._say(f"round {number} of {self._plan.rounds}: {took:.0f} s")
        for side in self._sides:
            self.table.add("memory after the run, broker", "MB", MEMORY_GOAL, side.name, side.rss_bytes() / 1e6)
            self.table.add("memory after the run, with Redis", "MB", None, side.name, side.all_rss_bytes() / 1e6)

    def _warm_up(self) -> None:
        """Every path once, for nothing: a JVM compiles what it has seen often."""
        measured, self.table = self.table, Table([side.name for side in self._sides])
        self._alternate(self._pipelined)
        self._alternate(self._latency)
        for cell in self._plan.cells[:: max(1, len(self._plan.cells) // 4)]:
            self._alternate(partial(self._bulk, cell))
        self.table = measured

    def _starts(self) -> None:
        def start_one(running: Broker) -> None:
            broker = self._fresh[running.name]()
            broker.prepare()
            try:
                took, used = start_and_wait(broker), broker.cpu_seconds()
            finally:
                broker.stop()
            self.table.add("start to first acknowledged record", "s", START_GOAL, running.name, took)
            self.table.add("start: broker CPU", "s", AT_MOST_KAFKA, running.name, used)

        self._alternate(start_one)

    def _latency(self, broker: Broker) -> None:
        def body(topic: str) -> None:
            measured = ack_latency(broker, topic, self._plan.latency_s)
            assert measured.result is not None
            latency = measured.result.latency
            side, name = broker.name, "ack at 1 000 records/s, linger 0"
            self.table.add(f"{name}: median", "ms", MEDIAN_GOAL, side, latency.percentile(50) / 1e6)
            self.table.add(f"{name}: p99", "ms", P99_GOAL, side, latency.percentile(99) / 1e6)
            cpu_us = measured.cpu_s / measured.result.records * 1e6
            self.table.add(f"{name}: broker CPU", "us/record", AT_MOST_KAFKA, side, cpu_us)

        self._topics[broker.name].use(1, body)

    def _pipelined(self, broker: Broker) -> None:
        def body(topic: str) -> None:
            measured = pipelined(broker, topic, self._plan.requests)
            name, side = "one-record requests, pipelined", broker.name
            limited = measured.client_limited
            self.table.add(name, "requests/s", AT_LEAST_KAFKA, side, measured.per_s, client_limited=limited)
            cpu_us = measured.cpu_s / self._plan.requests * 1e6
            self.table.add(f"{name}: broker CPU", "us/request", AT_MOST_KAFKA, side, cpu_us)

        self._topics[broker.name].use(1, body)

    def _bulk(self, cell: BulkLoad, broker: Broker) -> None:
        def body(topic: str) -> None:
            for verb, run in (("produce", bulk_produce), ("consume", bulk_consume)):
                self._add(f"{verb} {cell.name}", broker.name, run(broker, topic, cell), cell.size_bytes)

        self._topics[broker.name].use(cell.partitions, body)

    def _java(self, size_bytes: int, broker: Broker) -> None:
        records = self._plan.java_records[size_bytes]
        size = "100 B" if size_bytes == 100 else "1 KB"

        def body(topic: str) -> None:
            measured = java_produce(broker, self._jars, topic, size_bytes, records)
            self._add(f"ProducerPerformance {size}, 8 partitions", broker.name, measured, size_bytes)
            measured = java_consume(broker, self._jars, topic, size_bytes, records)
            self._add(f"ConsumerPerformance {size}, 8 partitions", broker.name, measured, size_bytes)

        self._topics[broker.name].use(8, body)

    def _add(self, name: str, side: str, measured: Measured, size_bytes: int) -> None:
        limited = measured.client_limited
        self.table.add(name, "records/s", AT_LEAST_KAFKA, side, measured.per_s, client_limited=limited)
        unit, used = cpu_figure(measured.cpu_s_per_gb, size_bytes, is_per_record=self._plan.is_per_record)
        self.table.add(f"{name}: broker CPU", unit, AT_MOST_KAFKA, side, used)


def cpu_figure(cpu_s_per_gb: float, size_bytes: int, *, is_per_record: bool) -> tuple[str, float]:
    """(unit, processor time): seconds for a gigabyte (10^9 bytes) of values, or microseconds for a record."""
    return ("us/record", cpu_s_per_gb * size_bytes / 1000) if is_per_record else ("s/GB", cpu_s_per_gb)
