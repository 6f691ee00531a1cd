"""The Messages screen under load: a tail of 10,000 messages a second, and 100,000 rows scrolled and filtered.

    python benchmarks/bench_tui_tail.py --rate 10000 --seconds 20

Three brokers, the load and the screen share the machine. The screen draws into a headless terminal of 140x40. Loop
delay is what a timer of 5 ms is late by: how long a key would wait. The processor time is the screen's process,
librdkafka's threads included.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable

from textual.pilot import Pilot

from yak.client.admin import Admin
from yak.client.connection import base_config
from yak.client.offset_spec import START
from yak.local.bench.fleet import own_fleet
from yak.local.cluster import UpSettings
from yak.tui.app import YakApp
from yak.tui.messages.subscription import Choice, Seek, Subscription
from yak.tui.screens.messages import MessagesScreen
from yak.tui.settings import UiSettings
from yak.tui.source.live import LiveSource

TICK_S = 0.005
TAIL, ROWS = "bench-tail", "bench-rows"


def load(servers: str, topic: str, rate: float, count: int, value_bytes: int) -> None:
    """Send so many records of JSON, at a rate (0: as fast as they go)."""
    from confluent_kafka import Producer

    producer = Producer(base_config(servers) | {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    filling = "x" * max(0, value_bytes - 50)
    begin = time.monotonic()
    for number in range(count):
        value = json.dumps({"order": number, "total": number * 7 % 100, "text": filling})
        producer.produce(topic, value, key=f"u{number % 1000}")
        if number % 100 == 0:
            producer.poll(0)
            if rate:
                time.sleep(max(0.0, begin + number / rate - time.monotonic()))
    producer.flush()


class Probe:
    """How late a timer of the loop is, how much processor time was used, and what `sample` returns at each tick."""

    def __init__(self, sample: Callable[[], float | None] = lambda: None) -> None:
        self.late_ms: list[float] = []
        self.samples: list[float] = []
        self._sample = sample

    async def run(self, what: Awaitable[None]) -> None:
        self._begin_cpu, self._begin = time.process_time(), time.perf_counter()
        ticking = asyncio.create_task(self._tick())
        try:
            await what
        finally:
            ticking.cancel()
            self.wall_s = time.perf_counter() - self._begin
            self.cpu_s = time.process_time() - self._begin_cpu

    async def _tick(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.late_ms.append((time.perf_counter() - began - TICK_S) * 1000)
            seen = self._sample()
            if seen is not None:
                self.samples.append(seen)

    def summary(self) -> str:
        return (
            f"{self.cpu_s / self.wall_s:6.1%} of a core   loop late {percentiles(self.late_ms, 'ms')}"
            f"   in {self.wall_s:.2f} s"
        )


def percentiles(values: list[float], unit: str) -> str:
    cuts = statistics.quantiles(values or [0.0, 0.0], n=100) if len(values) != 1 else [values[0]] * 99
    return f"p50 {cuts[49]:.1f} p99 {cuts[98]:.1f} max {max(values, default=0.0):.1f} {unit}"


async def measure_tail(app: YakApp, pilot: Pilot[int], given: argparse.Namespace, servers: str) -> None:
    app.go("messages", Subscription((Choice(TAIL),), Seek()))
    await wait_for(pilot, lambda: phase(app) == "reading")
    idle = Probe()
    await idle.run(asyncio.sleep(3))
    print(f"idle:            {idle.summary()}")
    sender = multiprocessing.Process(
        target=load, args=(servers, TAIL, given.rate, int(given.rate * (given.seconds + 4)), given.value_bytes)
    )
    sender.start()
    await asyncio.sleep(3)
    reader = messages(app).reader
    assert reader is not None
    probe = Probe(lambda: reader.status.behind)
    read_before, stored_before = reader.status.read, reader.store.span()[1]
    await probe.run(asyncio.sleep(given.seconds))
    status = reader.status
    print(f"tail:            {probe.summary()}")
    print(
        f"                 {(status.read - read_before) / probe.wall_s:,.0f} read/s, "
        f"{(reader.store.span()[1] - stored_before) / probe.wall_s:,.0f} shown/s (1 of {status.every}), "
        f"behind {percentiles(probe.samples, 'records')}"
    )
    keys = Probe()
    await keys.run(press_all(pilot, ["k"] * 20 + ["j"] * 20))
    print(f"40 keys:         {keys.summary()}")
    sender.join()


async def measure_rows(app: YakApp, pilot: Pilot[int], given: argparse.Namespace) -> None:
    """100,000 rows: read, scrolled, filtered."""
    probe = Probe()
    app.go("messages", Subscription((Choice(ROWS),), Seek(START)))

    async def all_read() -> None:
        await wait_for(pilot, lambda: rows(app) == given.rows)

    await probe.run(all_read())
    print(f"read {given.rows:,}:    {probe.summary()}")
    for name, pressed in (
        ("G g 20 times", ["G", "g"] * 10),
        ("200 half pages", ["pagedown"] * 200),
        ("200 lines", ["k"] * 200),
    ):
        probe = Probe()
        await probe.run(press_all(pilot, pressed))
        print(f"{name + ':':<17}{probe.summary()}")
    for text in ("v:99", "v:.total > 90", "k:~u1.$ && v:.order < 50000", "", "v:nowhere"):
        probe = Probe()
        await probe.run(filtered(app, pilot, text))
        print(f"{'/' + text + ':':<30} {rows(app):>7,} rows  {probe.summary()}", flush=True)


async def filtered(app: YakApp, pilot: Pilot[int], text: str) -> None:
    reader = messages(app).reader
    assert reader is not None
    before = reader.store.test
    reader.set_filter(text)
    await wait_for(pilot, lambda: reader.store.test is not before)
    await wait_for(pilot, lambda: rows(app) == len(reader.store))


async def press_all(pilot: Pilot[int], pressed: list[str]) -> None:
    for key in pressed:
        await pilot.press(key)


async def wait_for(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


def messages(app: YakApp) -> MessagesScreen:
    screen = app.screen_below()
    assert isinstance(screen, MessagesScreen)
    return screen


def phase(app: YakApp) -> str:
    screen = app.screen_below()
    return screen.reader.status.phase if isinstance(screen, MessagesScreen) and screen.reader is not None else ""


def rows(app: YakApp) -> int:
    return messages(app).grid_in_use().row_count if phase(app) else 0


async def measure(given: argparse.Namespace, source: LiveSource, servers: str) -> None:
    app = YakApp(source, UiSettings())
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.pause(1.0)
        await measure_tail(app, pilot, given, servers)
        await measure_rows(app, pilot, given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rate", type=float, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--value-bytes", type=int, default=150)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rows", type=int, default=100_000, help="must fit the bounds, which are 100,000 and 64 MiB")
    given = parser.parse_args()
    with own_fleet(3, UpSettings(http_port=0)) as cluster:
        brokers = cluster.status().brokers
        servers = ",".join(broker.address for broker in brokers)
        admin = Admin(servers)
        for topic in (TAIL, ROWS):
            admin.create_topic(topic, partitions=given.partitions)
        time.sleep(1)
        load(servers, ROWS, 0, given.rows, given.value_bytes)
        http = {broker.node_id: broker.http_address for broker in brokers if broker.http_address}
        asyncio.run(measure(given, LiveSource(servers, http=http), servers))


if __name__ == "__main__":
    main()
