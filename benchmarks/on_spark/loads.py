"""What is measured: a batch read, a stream that catches up, and the way of a record from producer to a query's result."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from on_spark.sessions import reader, stream_reader

PRODUCER = """
import sys, time
import confluent_kafka
bootstrap, topic, partitions, rate, seconds, size = sys.argv[1:3] + [int(each) for each in sys.argv[3:]]
producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
value, sent, began = b"x" * size, 0, time.monotonic()
while (passed := time.monotonic() - began) < seconds:
    while sent < passed * rate:
        producer.produce(topic, value, partition=sent % partitions)
        sent += 1
    producer.poll(0)
    time.sleep(0.002)
producer.flush(30)
"""
DURATIONS = ("triggerExecution", "latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets")


@dataclass(frozen=True)
class Rate:
    """Rows a second, and the CPU seconds a million rows took in each kind of process."""

    rows_per_s: float
    cpu_s_per_million: dict[str, float]


def cpu_by_kind(broker_pids: list[int]) -> dict[str, float]:
    """CPU seconds so far of the brokers, this process's JVM (with executors beside it) and its Python workers."""
    kinds = {"broker": 0.0, "jvm": 0.0, "python": 0.0}
    for pid in broker_pids:
        kinds["broker"] += sum(psutil.Process(pid).cpu_times()[:2])
    for each in psutil.Process(os.getpid()).children(recursive=True):
        try:
            times, name = each.cpu_times(), each.name()
        except psutil.Error:
            continue
        kind = "jvm" if "java" in name else "python" if "python" in name else None
        if kind is not None and each.pid not in broker_pids:
            kinds[kind] += sum(times)
    return kinds


def timed(rows: int, work: Callable[[], None], broker_pids: list[int]) -> Rate:
    """`work` handles so many rows."""
    before = cpu_by_kind(broker_pids)
    began = time.monotonic()
    work()
    took_s = time.monotonic() - began
    after = cpu_by_kind(broker_pids)
    return Rate(rows / took_s, {kind: (after[kind] - before[kind]) * 1e6 / rows for kind in after})


def batch_read(session: Any, format_: str, bootstrap: str, topic: str, rows: int, broker_pids: list[int]) -> Rate:
    """Every column of a whole topic to the sink that drops it."""
    frame = reader(session, format_, bootstrap, topic)
    return timed(rows, lambda: frame.write.format("noop").mode("overwrite").save(), broker_pids)


def batch_sum(session: Any, format_: str, bootstrap: str, topic: str, rows: int, broker_pids: list[int]) -> Rate:
    """An aggregate over a whole topic, whose result is checked."""
    frame = reader(session, format_, bootstrap, topic).selectExpr("count(*)", "sum(length(value))")

    def work() -> None:
        counted = frame.first()[0]
        if counted != rows:
            raise RuntimeError(f"{format_} read {counted} rows of {rows}")

    return timed(rows, work, broker_pids)


def stream_rate(
    session: Any, format_: str, bootstrap: str, topic: str, rows: int, folder: Path, per_trigger: int
) -> tuple[float, dict[str, int]]:
    """(rows a second over all batches after the first, ms a batch by what it did): a stream catches up with a full topic."""
    frame = stream_reader(session, format_, bootstrap, topic, maxOffsetsPerTrigger=str(per_trigger))
    writing = frame.writeStream.format("noop").option("checkpointLocation", str(folder))
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    if sum(each["numInputRows"] for each in batches) != rows:
        raise RuntimeError(f"{format_} streamed {sum(each['numInputRows'] for each in batches)} rows of {rows}")
    warm = batches[1:]
    seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in warm]
    durations = {name: round(statistics.mean(each["durationMs"].get(name, 0) for each in warm)) for name in DURATIONS}
    return sum(each["numInputRows"] for each in warm) / sum(seconds), durations


def latencies_ms(
    session: Any, format_: str, bootstrap: str, topic: str, partitions: int, rate: int, seconds: int, folder: Path
) -> tuple[np.ndarray, float]:
    """(milliseconds from each record's timestamp until its batch's result was here, records a second that came).

    The first half of the time is left out: it is Spark growing warm.
    """
    found: list[tuple[float, np.ndarray]] = []

    def take(batch: Any, _number: int) -> None:
        times = batch.select("timestamp").toArrow()["timestamp"].to_numpy()
        found.append((time.time(), times.astype("datetime64[ms]").astype(np.int64)))

    frame = stream_reader(session, format_, bootstrap, topic, startingOffsets="latest")
    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder)).start()
    arguments = [bootstrap, topic, str(partitions), str(rate), str(seconds), "100"]
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER, *arguments])
    began = time.time()
    try:
        producer.wait(seconds + 60)
        time.sleep(2)
    finally:
        producer.kill()
        query.stop()
    counted = [
        (done * 1000 - times[times > (began + seconds / 2) * 1000])
        for done, times in found
        if (times > (began + seconds / 2) * 1000).any()
    ]
    everything = np.concatenate(counted)
    return everything, len(everything) / (seconds / 2)
