"""Reads that the other parts have not: compressed batches, files that are not in the page cache, a link with a delay."""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from versus.brokers import Broker
from versus.link import Link
from versus.loads import Measured, Topics, bulk_consume, bulk_produce
from versus.table import AT_LEAST_KAFKA, AT_MOST_KAFKA, Table, Turns

from yak.local.bench.replication import BulkLoad
from yak.local.spawn import yak_argv

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How much of what. `cells` are read compressed and cold."""

    rounds: int
    cells: list[BulkLoad]
    link_cells: list[BulkLoad]
    link_seconds: float
    """How long the clients behind the link read at most."""
    round_trips_ms: tuple[int, ...] = (1, 20)


class ReadRounds:
    """Two running brokers that listen at the near end of the link, measured side by side. Without a link, no such rows."""

    def __init__(self, sides: Sequence[Broker], plan: ReadPlan, link: Link | None, say: Callable[[str], None]) -> None:
        self._plan, self._link, self._say = plan, link, say
        self._topics = {side.name: Topics(side) for side in sides}
        self._alternate = Turns(sides).take
        self.table = Table([side.name for side in sides])

    def run(self) -> None:
        """All rounds, and one before them whose figures are dropped. Raises RuntimeError or YakError when a load fails."""
        for number in range(self._plan.rounds + 1):
            for cell in self._plan.cells:
                self._alternate(partial(self._lz4, cell))
                self._alternate(partial(self._cold, cell))
            for cell in self._plan.link_cells if self._link else ():
                self._alternate(partial(self._across, self._link, cell))
            if number == 0:
                self.table.clear()
            self._say(f"round {number} of {self._plan.rounds}")

    def _lz4(self, cell: BulkLoad, broker: Broker) -> None:
        def body(topic: str) -> None:
            bulk_produce(broker, topic, cell, compression="lz4")
            self._add(f"consume lz4, {cell.name}", broker, bulk_consume(broker, topic, cell))

        self._topics[broker.name].use(cell.partitions, body)

    def _cold(self, cell: BulkLoad, broker: Broker) -> None:
        if not os.access(DROP_CACHES, os.W_OK):
            return

        def body(topic: str) -> None:
            bulk_produce(broker, topic, cell)
            os.sync()
            DROP_CACHES.write_text("1")
            # a warm-up would read a part of the files
            self._add(f"consume from disk, {cell.name}", broker, bulk_consume(broker, topic, cell, warm_up_s=0))

        self._topics[broker.name].use(cell.partitions, body)

    def _across(self, link: Link, cell: BulkLoad, broker: Broker) -> None:
        def body(topic: str) -> None:
            bulk_produce(broker, topic, cell)
            for round_trip_ms in self._plan.round_trips_ms:
                link.set_round_trip(round_trip_ms)
                measured = self._consume_behind(link, cell, broker, topic)
                self._add(f"consume, round trip {round_trip_ms} ms, {cell.name}", broker, measured)

        self._topics[broker.name].use(cell.partitions, body)

    def _consume_behind(self, link: Link, cell: BulkLoad, broker: Broker, topic: str) -> Measured:
        """`yak bench consume` in the link's namespace. Raises RuntimeError with what it printed."""
        before_s = broker.cpu_seconds()
        options = [f"--clients={cell.clients}", f"--duration={self._plan.link_seconds}s", "--warm-up=0s", "-o", "json"]
        command = yak_argv("bench", "consume", "-b", broker.bootstrap, "-t", topic, *options)
        done = subprocess.run(link.inside(*command), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found = json.loads(done.stdout)
        return Measured(found["records_per_s"], broker.cpu_seconds() - before_s, found["bytes"] / 1e9, False)

    def _add(self, name: str, broker: Broker, measured: Measured) -> None:
        limited = measured.client_limited
        self.table.add(name, "records/s", AT_LEAST_KAFKA, broker.name, measured.per_s, client_limited=limited)
        self.table.add(f"{name}: broker CPU", "s/GB", AT_MOST_KAFKA, broker.name, measured.cpu_s_per_gb)


def read_cells(scale: float) -> tuple[list[BulkLoad], list[BulkLoad]]:
    """Records of 1 KB in 8 partitions, by 1 and 20 clients: (on this machine, across a link)."""
    near = [BulkLoad(1000, 8, int(800_000 * scale), clients) for clients in (1, 20)]
    return near, [replace(each, records=int(400_000 * scale)) for each in near]
