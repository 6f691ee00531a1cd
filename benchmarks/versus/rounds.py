"""The rounds: every figure of both brokers once a round, the brokers taking turns in going first."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from versus.brokers import Broker, start_and_wait
from versus.jvm_load import java_consume, java_produce
from versus.loads import Cell, Topics, ack_latency, bulk_consume, bulk_produce, pipelined
from versus.table import AT_LEAST_KAFKA, AT_MOST_KAFKA, Goal, Table

START_GOAL = Goal(1 / 5, at_least=False)
MEMORY_GOAL = Goal(1 / 6, at_least=False)
MEDIAN_GOAL = Goal(0.7, at_least=False)
P99_GOAL = Goal(0.5, at_least=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what."""

    rounds: int
    cells: list[Cell]
    requests: int
    latency_s: float
    java_records: dict[int, int]
    """Records of ProducerPerformance by size in bytes; empty: no Java load."""


class Rounds:
    """Two running brokers, measured side by side."""

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
        self._turn = 0
        self.table = Table()
        self.skipped: list[str] = []

    def run(self) -> None:
        """All rounds, then the memory. Raises RuntimeError when a load fails."""
        self._warm_up()
        for number in range(1, self._plan.rounds + 1):
            started = time.monotonic()
            self._starts()
            self._alternate(self._latency)
            self._alternate(self._pipelined)
            for cell in self._plan.cells:
                self._alternate(partial(self._bulk, cell))
            for size_bytes in self._plan.java_records:
                self._alternate(partial(self._java, size_bytes))
            self._say(f"round {number} of {self._plan.rounds}: {time.monotonic() - started:.0f} s")
        for side in self._sides:
            self.table.add("memory after the run, broker", "MB", MEMORY_GOAL, side.name, side.rss_bytes() / 1e6)
            self.table.add("memory after the run, with Redis", "MB", None, side.name, side.all_rss_bytes() / 1e6)

    def _warm_up(self) -> None:
        """Every path once, for nothing: a JVM compiles what it has seen often."""
        measured, self.table = self.table, Table()
        self._alternate(self._pipelined)
        self._alternate(self._latency)
        for cell in self._plan.cells[:: max(1, len(self._plan.cells) // 4)]:
            self._alternate(partial(self._bulk, cell))
        self.table = measured

    def _alternate(self, body: Callable[[Broker], None]) -> None:
        self._turn += 1
        for side in self._sides if self._turn % 2 else self._sides[::-1]:
            body(side)

    def _starts(self) -> None:
        def start_one(running: Broker) -> None:
            broker = self._fresh[running.name]()
            broker.prepare()
            try:
                took = start_and_wait(broker)
            finally:
                broker.stop()
            self.table.add("start to first acknowledged record", "s", START_GOAL, running.name, took)

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
            self.table.add(f"{name}: broker CPU", "us/record", None, side, cpu_us)

        self._topics[broker.name].use(1, body)

    def _pipelined(self, broker: Broker) -> None:
        def body(topic: str) -> None:
            measured = pipelined(broker, topic, self._plan.requests)
            name, side = "one-record requests, pipelined", broker.name
            limited = measured.client_limited
            self.table.add(name, "requests/s", AT_LEAST_KAFKA, side, measured.per_s, client_limited=limited)
            cpu_us = measured.cpu_s / self._plan.requests * 1e6
            self.table.add(f"{name}: broker CPU", "us/request", None, side, cpu_us)

        self._topics[broker.name].use(1, body)

    def _bulk(self, cell: Cell, broker: Broker) -> None:
        def body(topic: str) -> None:
            for verb, run in (("produce", bulk_produce), ("consume", bulk_consume)):
                measured = run(broker, topic, cell)
                name, side, limited = f"{verb} {cell.name}", broker.name, measured.client_limited
                self.table.add(name, "records/s", AT_LEAST_KAFKA, side, measured.per_s, client_limited=limited)
                self.table.add(f"{name}: broker CPU", "s/GB", AT_MOST_KAFKA, side, measured.cpu_s_per_gb)

        self._topics[broker.name].use(cell.partitions, body)

    def _java(self, size_bytes: int, broker: Broker) -> None:
        records = self._plan.java_records[size_bytes]
        size = "100 B" if size_bytes == 100 else "1 KB"

        def body(topic: str) -> None:
            measured = java_produce(broker, self._jars, topic, size_bytes, records)
            name = f"ProducerPerformance {size}, 8 partitions"
            self.table.add(name, "records/s", AT_LEAST_KAFKA, broker.name, measured.per_s)
            self.table.add(f"{name}: broker CPU", "s/GB", AT_MOST_KAFKA, broker.name, measured.cpu_s_per_gb)
            measured = java_consume(broker, self._jars, topic, size_bytes, records)
            name = f"ConsumerPerformance {size}, 8 partitions"
            self.table.add(name, "records/s", AT_LEAST_KAFKA, broker.name, measured.per_s)
            self.table.add(f"{name}: broker CPU", "s/GB", AT_MOST_KAFKA, broker.name, measured.cpu_s_per_gb)

        self._topics[broker.name].use(8, body)
