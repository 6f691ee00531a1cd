"""Archive a topic under load and read it back while driver, executor and broker are killed: lost, doubled, out of order.

.venv/bin/python benchmarks/spark_kills.py                     10 kills of each
.venv/bin/python benchmarks/spark_kills.py --only driver --kills 3 --rate 250

Each kind has a cluster of three brokers, a topic with three replicas and a producer of numbered records (acks=all). The
archive job runs as `yak spark run` starts it (for the executors on a standalone Spark of a master and two workers, else
in one process); what dies is killed with SIGKILL at a moment that the seed decides. At the end the producer's
acknowledgements are compared with the archive, and with what the replay job (whose driver is killed too) brings back
into a second topic. Prints one JSON object a kind; ends with 4 when a record is missing, twice, or out of order.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
from on_spark.standalone import standalone

from yak.client.admin import Admin
from yak.local.cluster import LocalCluster, UpSettings

PARTITIONS = 4
EXECUTORS = 2
KEYS = 64
TOPIC, COPY = "events", "events-again"
MASTERS = {"driver": "local[2]", "broker": "local[2,4]", "executor": "standalone"}
PATIENCE_S = 600.0
"""For two batches, or all that is left, on a machine that has other things to do."""


class Producer:
    """Numbered records, key by key, at a steady rate; knows what was acknowledged and where."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        import confluent_kafka

        self.acknowledged: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self.failed = 0
        self._rate = rate
        self._enough = threading.Event()
        self._client = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._enough.is_set():
            while number < (time.monotonic() - began) * self._rate:
                self._client.produce(TOPIC, b"%d" % number, b"k%d" % (number % KEYS), on_delivery=self._note)
                number += 1
            self._client.poll(0.01)

    def _note(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.acknowledged[message.partition(), message.offset()] = (message.key(), message.value())

    def finish(self) -> None:
        self._enough.set()
        self._thread.join()
        assert self._client.flush(120) == 0, "records were not acknowledged within two minutes"


@dataclass
class Job:
    arguments: list[str]
    work: str
    log: Path
    child: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-P", "-m", "yak.spark.jobs", *self.arguments],
                env={**os.environ, "XDG_STATE_HOME": self.work},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """With Java and the workers: a machine that dies takes all of it."""
        assert self.child is not None
        doomed = [psutil.Process(self.child.pid), *psutil.Process(self.child.pid).children(recursive=True)]
        for process in doomed:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.child.wait()
        psutil.wait_procs(doomed[1:], timeout=10)

    def said(self) -> str:
        """The ends of its own output and of Spark's logs."""
        logs = [self.log, *Path(self.work, "yak", "spark").glob("*/spark.log")]
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}" for path in logs if path.exists())

    def end(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.kill()


@dataclass
class Trial:
    """One kind of kill, from the start of a cluster to the comparison."""

    kind: str
    kills: int
    rate: int
    rng: random.Random
    work: str
    cluster: LocalCluster = field(init=False)
    bootstrap: str = ""
    master: str = ""

    def run(self) -> dict[str, Any]:
        with contextlib.ExitStack() as stack:
            if self.kind == "executor":
                folder = Path(self.work, "spark")
                folder.mkdir()
                self.master = stack.enter_context(standalone(folder, workers=EXECUTORS))
            else:
                self.master = MASTERS[self.kind]
            return self._run()

    def _run(self) -> dict[str, Any]:
        self.cluster = LocalCluster(f"{self.work}/cluster")
        archive = None
        try:
            up = self.cluster.up(UpSettings(port=0, brokers=3, leaders=3))
            self.bootstrap = up.status.bootstrap
            admin = Admin(self.bootstrap)
            for topic in (TOPIC, COPY):
                admin.create_topic(
                    topic, partitions=PARTITIONS, replication_factor=3, configs={"min.insync.replicas": "2"}
                )
            producer = Producer(self.bootstrap, self.rate)
            archive = self._job("archive", "--into", f"{self.work}/archive", "--trigger", "500ms")
            archive.start()
            self._wait("the first batch", lambda: self._version() >= 1, archive)
            for number in range(self.kills):
                self._kill(archive)
                said = f"{self.kind} {number + 1}/{self.kills}: {len(producer.acknowledged)} records, change {self._version()}"
                print(said, file=sys.stderr, flush=True)
            producer.finish()
            archive.end()
            replay_kills = self._finish(producer)
            return self._compare(producer) | {
                "kind": self.kind,
                "kills": self.kills,
                "driver_starts": archive.starts,
                "replay_kills": replay_kills,
                "changes": self._version(),
            }
        finally:
            if archive is not None:
                archive.end()
            self.cluster.discard()

    def _job(self, name: str, *arguments: str) -> Job:
        shared = ["-t", TOPIC, "-b", self.bootstrap, "--master", self.master, "--driver-memory", "1g"]
        if self.kind == "executor":
            shared += ["--conf", "spark.executor.memory=900m"]
        return Job([name, *shared, *arguments], self.work, Path(self.work, f"{name}.log"))

    def _version(self) -> int:
        names = [path.name for path in Path(self.work, "archive", "_spark_metadata").glob("[0-9]*")]
        return max((int(name.partition(".")[0]) + 1 for name in names), default=0)

    def _wait(self, what: str, is_so: Callable[[], bool], job: Job) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} took more than {PATIENCE_S:.0f} s\n{job.said()}")
            if job.child is not None and job.child.poll() is not None:
                # A broker that is down for longer than the query's patience ends the query: the operator starts it again.
                print(f"  the job ended with {job.child.returncode}, and is started again", file=sys.stderr, flush=True)
                job.start()
            time.sleep(0.05)

    def _kill(self, job: Job) -> None:
        """One kill, at a moment of the seed's choice within a batch's length or two; then wait for two more changes."""
        time.sleep(self.rng.uniform(0.0, 1.5))
        before = self._version()
        if self.kind == "driver":
            job.kill()
            job.start()
        elif self.kind == "executor":
            self._wait("both executors", lambda: len(executors()) == EXECUTORS, job)
            self.rng.choice(executors()).kill()
        else:
            node = self.rng.choice([each.node_id for each in self.cluster.status().brokers])
            self.cluster.kill(node)
            time.sleep(self.rng.uniform(0.0, 1.0))
            self.cluster.restart(node)
        self._wait("two more changes", lambda: self._version() >= before + 2, job)

    def _finish(self, producer: Producer) -> int:
        """Archive the rest, then replay all, killing that driver between and within its chunks."""
        rest = self._job("archive", "--into", f"{self.work}/archive", "--available-now")
        rest.start()
        assert rest.child is not None
        try:
            assert rest.child.wait(PATIENCE_S) == 0, rest.said()
        finally:
            rest.end()
        chunk = str(max(1, len(producer.acknowledged) // 6))
        options = ("--archive", f"{self.work}/archive", "--into", COPY, "--checkpoint-dir", f"{self.work}/replay")
        replay = self._job("replay", *options, "--chunk-rows", chunk)
        kills = min(2, self.kills) if self.kind == "driver" else 0
        try:
            for number in range(kills):
                replay.start()
                self._wait("a chunk", lambda at=number: self._replay_step() > 2 * at + 1, replay)  # type: ignore[misc]
                time.sleep(self.rng.uniform(0.0, 0.5))
                replay.kill()
            replay.start()
            assert replay.child is not None
            assert replay.child.wait(PATIENCE_S) == 0, replay.said()
        finally:
            replay.end()
        return kills

    def _replay_step(self) -> int:
        names = [path.name for path in Path(self.work, "replay").glob("yak-replay.json.*")]
        return max((int(name.rpartition(".")[2]) for name in names), default=0)

    def _compare(self, producer: Producer) -> dict[str, Any]:
        archived = list(archived_records(Path(self.work, "archive")))
        archived_at = Counter(at for at, _ in archived)
        sent = producer.acknowledged
        copied = topic_records(self.bootstrap, COPY)
        values = Counter(value for _, value in copied)
        return {
            "acknowledged": len(sent),
            "not_acknowledged": producer.failed,
            "archived": len(archived),
            "archive_lost": sum(at not in archived_at for at in sent),
            "archive_doubled": sum(count - 1 for count in archived_at.values()),
            "archive_changed": sum(place in sent and sent[place] != record for place, record in archived),
            "archive_out_of_order": unordered(Path(self.work, "archive")),
            "replayed": len(copied),
            "replay_lost": sum(value not in values for _, value in sent.values()),
            "replay_doubled": sum(count - 1 for count in values.values()),
            "replay_out_of_order": by_key_unordered(copied),
        }


def executors() -> list[psutil.Process]:
    """The executors of the standalone cluster: its workers, our children, have started them."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def committed(folder: Path) -> list[Path]:
    """The files that the batches in Spark's `_spark_metadata` name: after its first line, each is a JSON object a line."""
    paths = set()
    for log in folder.glob("_spark_metadata/[0-9]*"):
        paths |= {unquote(urlsplit(json.loads(line)["path"]).path) for line in log.read_text().splitlines()[1:]}
    return sorted(map(Path, paths))


def archived_records(folder: Path) -> Any:
    """((partition, offset), (key, value)) of every record in the archive's committed files."""
    import pyarrow.parquet as pq

    for path in committed(folder):
        table = pq.ParquetFile(path).read(["partition", "offset", "key", "value"]).to_pydict()
        rows = zip(table["partition"], table["offset"], table["key"], table["value"], strict=True)
        for partition, offset, key, value in rows:
            yield (partition, offset), (key, value)


def unordered(folder: Path) -> int:
    """Records that stand in their file behind one of their partition with a higher offset."""
    import pyarrow.parquet as pq

    wrong = 0
    for path in committed(folder):
        table = pq.ParquetFile(path).read(["partition", "offset"]).to_pydict()
        last: dict[int, int] = {}
        for partition, offset in zip(table["partition"], table["offset"], strict=True):
            wrong += offset < last.get(partition, -1)
            last[partition] = offset
    return wrong


def topic_records(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """(key, value) of a topic, each partition in its order."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "log_level": 0})
    partitions = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    left = sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions)
    consumer.assign(partitions)
    found: dict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
    while left > 0:
        for message in consumer.consume(10_000, 5.0):
            assert message.error() is None, message.error()
            found[message.partition()].append((message.key(), message.value()))
            left -= 1
    consumer.close()
    return [record for number in sorted(found) for record in found[number]]


def by_key_unordered(records: list[tuple[bytes, bytes]]) -> int:
    last: dict[bytes, int] = {}
    wrong = 0
    for key, value in records:
        wrong += int(value) < last.get(key, -1)
        last[key] = int(value)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", choices=list(MASTERS), action="append")
    parser.add_argument("--rate", type=int, default=500, help="records a second")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended also then
    is_well = True
    for kind in given.only or MASTERS:
        with tempfile.TemporaryDirectory(prefix="yak-spark-kills-", ignore_cleanup_errors=True) as work:
            found = Trial(kind, given.kills, given.rate, random.Random(f"{given.seed} {kind}"), work).run()
        print(json.dumps(found), flush=True)
        wrong = [name for name in found if name.endswith(("_lost", "_doubled", "_changed", "_out_of_order"))]
        is_well = is_well and not any(found[name] for name in wrong) and not found["not_acknowledged"]
    return 0 if is_well else 4


if __name__ == "__main__":
    sys.exit(main())
