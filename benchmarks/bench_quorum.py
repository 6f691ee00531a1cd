"""A metadata quorum of three brokers on this machine, against Redis. Run by hand:

    .venv/bin/python benchmarks/bench_quorum.py [--rounds N] [--part start|elections|topics|idle]

start      from the start of three processes (with Redis: of four) to the first record that three replicas acknowledge
elections  from kill -9 of the quorum's leader to the next leader, by the brokers' logs
topics     CreateTopics of one topic with three replicas, one after the other: median and p99 in ms
idle       processor time of all brokers in percent of a core, with 1,000 idle partitions on three replicas
"""

import argparse
import json
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from versus.brokers import free_port
from yak.client.bench.cpu import process_cpu_seconds

from yak.local.redis_server import EmbeddedRedis

ROOT = Path(__file__).resolve().parents[1]
YAK = str(ROOT / ".venv" / "bin" / "yak")
BROKERS = 3
_READY = b'"event": "ready"'
_ELECTED = re.compile(rb'"event": ?"quorum-leader-elected"')


class Cluster:
    """Three brokers as processes, with a quorum or with Redis."""

    def __init__(self, directory: Path, metadata: str) -> None:
        self.directory, self.metadata = directory, metadata
        self.ports = [free_port() for _ in range(BROKERS)]
        self._secret = directory / "secret"
        self._secret.write_text(secrets.token_hex(32))
        self.processes: list[subprocess.Popen[bytes]] = []
        self._redis: EmbeddedRedis | None = None

    @property
    def bootstrap(self) -> str:
        """All addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Start all processes side by side."""
        if self.metadata == "redis":
            self._redis = EmbeddedRedis(str(self.directory / "redis")).start()
        self.processes = [self.start_broker(node_id) for node_id in range(1, BROKERS + 1)]

    def start_broker(self, node_id: int) -> subprocess.Popen[bytes]:
        """Start one broker."""
        voters = ",".join(f"{number + 1}@127.0.0.1:{port}" for number, port in enumerate(self.ports))
        words = [YAK, "serve", "--node-id", str(node_id), "--port", str(self.ports[node_id - 1]), "--no-http"]
        words += ["--data-dir", str(self.directory / str(node_id)), "--log-format", "json"]
        words += ["-c", "offsets.topic.num.partitions=1"]
        if self.metadata == "raft":
            words += ["--metadata", "raft", "--voters", voters, "--cluster-secret-file", str(self._secret)]
        else:
            assert self._redis is not None
            words += ["--redis-url", self._redis.url]
        log = self.log(node_id).open("ab")
        return subprocess.Popen(words, stdout=log, stderr=log)

    def cpu_seconds(self) -> float:
        """Processor time of all brokers so far."""
        return sum(process_cpu_seconds(process.pid) for process in self.processes)

    def log(self, node_id: int) -> Path:
        """The log of one broker."""
        return self.directory / f"{node_id}.log"

    def wait_ready(self) -> None:
        """Wait until every broker is ready."""
        while not all(_READY in self.log(node_id).read_bytes() for node_id in range(1, BROKERS + 1)):
            time.sleep(0.01)

    def elected(self) -> list[tuple[datetime, int]]:
        """When each leader of the quorum was elected, and its node id, in order."""
        found = []
        for node_id in range(1, BROKERS + 1):
            for line in self.log(node_id).read_bytes().splitlines():
                if _ELECTED.search(line):
                    at = json.loads(line)["time"]
                    found.append((datetime.fromisoformat(at), node_id))
        return sorted(found)

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
            process.wait()
        if self._redis is not None:
            self._redis.kill()


@contextmanager
def cluster(metadata: str) -> Iterator[Cluster]:
    """A cluster in a temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="yak-quorum-"))
    made = Cluster(directory, metadata)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(directory, ignore_errors=True)


def start_ms(metadata: str) -> float:
    """From the start of the processes to the first record that all replicas acknowledge."""
    with cluster(metadata) as made:
        began = time.perf_counter()
        made.start()
        settings = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "log_level": 0, "linger.ms": 0}
        admin = AdminClient({"bootstrap.servers": made.bootstrap, **settings})
        while True:
            try:
                admin.create_topics([NewTopic("first", 1, BROKERS)], request_timeout=1)["first"].result(1)
                break
            except Exception as error:
                if "TOPIC_ALREADY_EXISTS" in str(error):  # an earlier try got no answer in time
                    break
                time.sleep(0.005)
        acknowledged: list[object] = []
        producer = Producer({"bootstrap.servers": made.bootstrap, "acks": "all", **settings})
        producer.produce("first", b"x", on_delivery=lambda error, _message: acknowledged.append(error))
        producer.flush(10)
        assert acknowledged == [None], acknowledged
        return (time.perf_counter() - began) * 1e3


def election_ms(rounds: int) -> list[float]:
    """Kill the quorum's leader again and again, and start it again."""
    found = []
    with cluster("raft") as made:
        made.start()
        made.wait_ready()
        time.sleep(1)
        for _ in range(rounds):
            _at, leader = made.elected()[-1]
            count = len(made.elected())
            killed = time.time()
            made.processes[leader - 1].send_signal(signal.SIGKILL)
            made.processes[leader - 1].wait()
            while len(made.elected()) == count:
                time.sleep(0.002)
            found.append((made.elected()[-1][0].timestamp() - killed) * 1e3)
            starts = made.log(leader).read_bytes().count(_READY)
            made.processes[leader - 1] = made.start_broker(leader)
            while made.log(leader).read_bytes().count(_READY) == starts:
                time.sleep(0.01)
            time.sleep(0.5)
    return found


def topics_ms(metadata: str, count: int) -> list[float]:
    """The times of CreateTopics, one after the other."""
    with cluster(metadata) as made:
        made.start()
        made.wait_ready()
        time.sleep(1)
        admin = AdminClient({"bootstrap.servers": made.bootstrap, "log_level": 0})
        found = []
        for number in range(count):
            began = time.perf_counter()
            admin.create_topics([NewTopic(f"t{number}", 1, BROKERS)])[f"t{number}"].result(10)
            found.append((time.perf_counter() - began) * 1e3)
        return found


def idle_percent(metadata: str, seconds: float) -> float:
    """Processor time of all brokers with 1,000 idle partitions, in percent of a core."""
    with cluster(metadata) as made:
        made.start()
        made.wait_ready()
        time.sleep(1)
        admin = AdminClient({"bootstrap.servers": made.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("many", 1_000, BROKERS)])["many"].result(60)
        time.sleep(10)
        before = made.cpu_seconds()
        time.sleep(seconds)
        return (made.cpu_seconds() - before) / seconds * 100


def main() -> None:
    """Print one row for each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--part", choices=("start", "elections", "topics", "idle"))
    arguments = parser.parse_args()
    stores = ("raft", "redis")
    if arguments.part in (None, "start"):
        times: dict[str, list[float]] = {store: [] for store in stores}
        for _ in range(arguments.rounds):
            for store in stores:
                times[store].append(start_ms(store))
        for store in stores:
            print(f"start      {store:5}  median {statistics.median(times[store]):5.0f} ms", flush=True)
    if arguments.part in (None, "elections"):
        times_ms = sorted(election_ms(arguments.rounds))
        p99 = times_ms[min(len(times_ms) - 1, round(len(times_ms) * 0.99))]
        print(f"elections  raft   median {statistics.median(times_ms):5.0f} ms  p99 {p99:5.0f} ms", flush=True)
    if arguments.part in (None, "topics"):
        for store in (*stores, *stores):
            each = sorted(topics_ms(store, 200))
            print(
                f"topics     {store:5}  median {statistics.median(each):5.1f} ms  p99 {each[197]:5.1f} ms", flush=True
            )
    if arguments.part in (None, "idle"):
        for store in stores:
            print(f"idle       {store:5}  {idle_percent(store, 20):5.2f} % of a core", flush=True)


if __name__ == "__main__":
    sys.exit(main())
