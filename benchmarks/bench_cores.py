"""`yak serve --cores N` against one broker: requests, produce and consume, with clients that cost little.

    python benchmarks/bench_cores.py [--cores N] [--rounds R] [--seconds S] [--page docs/benchmarks.md]

Both sides get the same load from N client processes, in turns. A client sends prepared requests over one plain socket
and drops the answers, those of Fetch in the kernel (MSG_TRUNC). With 2 N cores or more every broker and every client has
a core of its own (sched_setaffinity, as taskset); with fewer they share all cores, and the page says so. `allowed` is the
ratio if all cores were busy and sharing cost nothing: processor time of brokers and clients for a unit, on one broker,
spread over the cores, against what one broker's core, or one client's, can do. `--page` writes the table into its
section of that page.
"""

import argparse
import multiprocessing
import os
import socket
import statistics
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from versus.page import put_section, wrapped
from versus.table import short
from versus.yak_broker import serving

from yak.client.admin import Admin
from yak.client.bench.result import machine, machine_line, usable_cores
from yak.local.bench.fleet import process_cpu_seconds
from yak.sim.wire import record_batch

TOPIC = b"bench"
PARTITIONS_A_BROKER = 4
WARM_UP_S = 0.5
BATCH_BYTES, RECORD_BYTES = 1_000_000, 1_000
_ERROR_AT = 4 + 4 + 2 + len(TOPIC) + 4 + 4
"""In an answer of one topic and one partition: behind the correlation id and the counts."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a client sends. `units` a request has, of which a second of the rate counts."""

    name: str
    unit: str
    units: int
    in_flight: int


LOADS = (
    Load("produce 1 KB in batches of 1 MB", "record", BATCH_BYTES // RECORD_BYTES, 5),
    Load("consume 1 KB in answers of 1 MB", "record", BATCH_BYTES // RECORD_BYTES, 2),
    Load("one-record requests, pipelined", "request", 1, 64),
)
"""In this order: the second reads what the first wrote."""
PRODUCE, CONSUME, REQUESTS = LOADS


def produce_frame(partition: int, batch: bytes) -> bytes:
    body = struct.pack(">hhiih", -1, -1, 30_000, 1, len(TOPIC)) + TOPIC + struct.pack(">iii", 1, partition, len(batch))
    return frame(0, 8, body + batch)


def fetch_frame(partition: int) -> bytes:
    """A Fetch v4 request for the beginning of a partition."""
    body = struct.pack(">iiiibih", -1, 500, 1, 2 * BATCH_BYTES, 0, 1, len(TOPIC)) + TOPIC
    return frame(1, 4, body + struct.pack(">iiqi", 1, partition, 0, BATCH_BYTES))


def frame(api_key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih5s", api_key, version, 0, 5, b"bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def frames_of(load: Load, partitions: list[int]) -> list[bytes]:
    if load is CONSUME:
        return [fetch_frame(each) for each in partitions]
    values = [bytes(RECORD_BYTES if load is PRODUCE else 100)] * load.units
    batch = record_batch(values, time.time_ns() // 1_000_000)
    return [produce_frame(each, batch) for each in partitions]


class Client:
    """One connection with so many requests in flight; `answered` counts the answers."""

    def __init__(self, address: tuple[str, int], load: Load, partitions: list[int]) -> None:
        self.answered = 0
        self._load, self._frames = load, frames_of(load, partitions)
        self._socket = socket.create_connection(address, timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = 0
        self._received = b""

    def begin(self) -> None:
        self._send(self._load.in_flight)

    def turn(self) -> None:
        """Take the answers that are there, at least one, and send as many requests."""
        done = self._drop_answer() if self._load is CONSUME else self._take_answers()
        self.answered += done
        self._send(done)

    def _send(self, count: int) -> None:
        pieces = [self._frames[(self._sent + each) % len(self._frames)] for each in range(count)]
        self._sent += count
        self._socket.sendall(b"".join(pieces))

    def _drop_answer(self) -> int:
        left = int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")
        if left < BATCH_BYTES // 2:
            raise RuntimeError(f"a Fetch was answered with {left} bytes: {self._socket.recv(left)!r}")
        while left:  # with MSG_TRUNC a TCP socket drops the bytes and copies none (tcp(7))
            left -= self._socket.recv_into(_NOWHERE, min(left, len(_NOWHERE)), socket.MSG_TRUNC)
        return 1

    def _take_answers(self) -> int:
        data = self._received + self._socket.recv(65536)
        at = done = 0
        while len(data) - at >= 4 and len(data) - at >= (size := 4 + int.from_bytes(data[at : at + 4], "big")):
            (error,) = struct.unpack_from(">h", data, at + 4 + _ERROR_AT)
            if error:
                raise RuntimeError(f"a Produce was refused with error code {error}")
            at += size
            done += 1
        self._received = data[at:]
        return done


_NOWHERE = bytearray(2 * BATCH_BYTES)


def run_client(
    address: tuple[str, int],
    load: Load,
    partitions: list[int],
    seconds: float,
    core: int | None,
    results: "multiprocessing.SimpleQueue[tuple[float, float]]",
) -> None:
    """One client process: its answers a second, and its processor time for one."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    client = Client(address, load, partitions)
    client.begin()
    until = time.monotonic() + WARM_UP_S
    while time.monotonic() < until:
        client.turn()
    before, began, cpu = client.answered, time.monotonic(), time.process_time()
    until = began + seconds
    while time.monotonic() < until:
        client.turn()
    count = client.answered - before
    results.put((count / (time.monotonic() - began), (time.process_time() - cpu) / max(count, 1)))


@dataclass(slots=True)
class Machine:
    """The brokers of one side, with their addresses by node id."""

    processes: list[psutil.Process]
    bootstrap: str

    def cpu_seconds(self) -> float:
        return sum(process_cpu_seconds(each.pid) for each in self.processes)

    def pin(self) -> None:
        """Give each broker a core of its own, with all its threads."""
        for core, process in enumerate(self.processes):
            for task in os.listdir(f"/proc/{process.pid}/task"):
                os.sched_setaffinity(int(task), {core})

    def leaders(self) -> dict[tuple[str, int], list[int]]:
        metadata = Admin(self.bootstrap).metadata()
        led: dict[tuple[str, int], list[int]] = {}
        for each in metadata.topics[TOPIC.decode()].partitions:
            broker = metadata.brokers[each.leader]
            led.setdefault((broker.host, broker.port), []).append(each.number)
        return led


@dataclass(frozen=True, slots=True)
class Measured:
    """One load on one side: units a second, and processor seconds of brokers and of clients for one."""

    per_s: float
    broker_s: float
    client_s: float


def measure(machine_: Machine, load: Load, clients: int, seconds: float, first_core: int | None) -> Measured:
    """Run the clients of one load, each at one broker, spread over the brokers."""
    led = list(machine_.leaders().items())
    results: multiprocessing.SimpleQueue[tuple[float, float]] = multiprocessing.SimpleQueue()
    processes = []
    for number in range(clients):
        address, partitions = led[number % len(led)]
        mine = partitions[number // len(led) :: max(1, clients // len(led))]
        core = None if first_core is None else first_core + number
        process = multiprocessing.Process(target=run_client, args=(address, load, mine, seconds, core, results))
        process.start()
        processes.append(process)
    time.sleep(WARM_UP_S)
    cpu, began = machine_.cpu_seconds(), time.monotonic()
    time.sleep(max(0.1, seconds - 0.3))
    used_a_second = (machine_.cpu_seconds() - cpu) / (time.monotonic() - began)
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a client of {load.name} ended with {process.exitcode}")
    found = [results.get() for _ in processes]
    rate = sum(per_s for per_s, _ in found)
    client_s = sum(per_s * cost for per_s, cost in found) / rate
    return Measured(rate * load.units, used_a_second / rate / load.units, client_s / load.units)


def allowed(one: Measured, cores: int, brokers: int) -> float:
    """The ratio of rates if `cores` cores were busy with brokers and clients, and nothing else cost anything.

    One broker has one core at most. With `brokers` of them the rate is bounded by their cores, and by all cores.
    """
    alone = min(1 / one.broker_s, cores / (one.broker_s + one.client_s))
    together = min(brokers / one.broker_s, cores / (one.broker_s + one.client_s))
    return together / alone


def table(figures: dict[tuple[str, int], list[Measured]], brokers: int, cores: int) -> list[str]:
    rows = [
        f"| load | unit | one broker | {brokers} brokers | ratio | allowed | broker CPU, us | client CPU, us |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for load in LOADS:
        one, many = (_median(figures[load.name, count]) for count in (1, brokers))
        rows.append(
            f"| {load.name} | {load.unit}s/s | {short(one.per_s)} | {short(many.per_s)} | {many.per_s / one.per_s:.2f} | "
            f"{allowed(one, cores, brokers):.2f} | {one.broker_s * 1e6:.3g}, {many.broker_s * 1e6:.3g} | "
            f"{one.client_s * 1e6:.3g}, {many.client_s * 1e6:.3g} |"
        )
    return rows


def _median(samples: list[Measured]) -> Measured:
    return Measured(
        *(statistics.median(getattr(each, name) for each in samples) for name in ("per_s", "broker_s", "client_s"))
    )


def compare(brokers: int, rounds: int, seconds: float) -> dict[tuple[str, int], list[Measured]]:
    first_core = brokers if usable_cores() >= 2 * brokers else None
    figures: dict[tuple[str, int], list[Measured]] = {}
    for number in range(rounds):
        for count in (1, brokers) if number % 2 == 0 else (brokers, 1):
            with (
                tempfile.TemporaryDirectory(prefix="yak-bench-") as folder,
                serving(Path(folder) / "m", "--cores", str(count), "--port", "0") as (address, process),
            ):
                found = Machine(process.children() if count > 1 else [process], address)
                if first_core is not None:
                    found.pin()
                admin = Admin(found.bootstrap, timeout_ms=30_000)
                admin.create_topic(TOPIC.decode(), partitions=PARTITIONS_A_BROKER * brokers)
                time.sleep(1.0)
                for load in LOADS:
                    measured = measure(found, load, brokers, seconds, first_core)
                    figures.setdefault((load.name, count), []).append(measured)
                    print(
                        f"round {number + 1}, {count} broker(s), {load.name}: {measured.per_s:,.0f} {load.unit}s/s",
                        flush=True,
                    )
    return figures


def section(rows: list[str], brokers: int, rounds: int) -> str:
    """The page's section, with what the machine allows."""
    cores = usable_cores()
    has_own = cores >= 2 * brokers
    pins = (
        "Each broker and each client had a core of its own."
        if has_own
        else f"Brokers and clients shared {cores} cores: nothing could be pinned apart, and `allowed` is the most that such "
        "a machine can show."
    )
    measured = (
        f'Measured {time.strftime("%Y-%m-%d")} by `make bench-cores ARGS="--cores {brokers}"` on '
        f"{machine_line(machine())}. {rounds} rounds, medians. {pins}"
    )
    return wrapped("\n".join([measured, "", *rows]))


def main() -> None:
    """Measure and print, and with `--page` write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=2, help="brokers of the machine")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    given = parser.parse_args()
    figures = compare(given.cores, given.rounds, given.seconds)
    text = section(table(figures, given.cores, usable_cores()), given.cores, given.rounds)
    print(f"\n{text}")
    if given.page is not None:
        given.page.write_text(put_section(given.page.read_text("utf-8"), "cores", text), "utf-8")


if __name__ == "__main__":
    main()
