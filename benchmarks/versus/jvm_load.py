"""Kafka's own ProducerPerformance and ConsumerPerformance as a second load, by the Java client."""

import re
import subprocess
from pathlib import Path

from versus.brokers import Broker
from versus.kafka_jars import TOOL_JVM_FLAGS
from versus.loads import Measured

TOOL_SECONDS = 120
RATE = re.compile(r"([\d.]+) records/sec")


def run_tool(jars: Path, *arguments: str) -> str:
    """The standard output of one of Kafka's tools. Raises RuntimeError when it fails."""
    command = ["java", *TOOL_JVM_FLAGS, "-cp", f"{jars}/*", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def java_produce(broker: Broker, jars: Path, topic: str, size_bytes: int, records: int) -> Measured:
    """ProducerPerformance with acks=all, linger.ms=5 and 128 KiB batches; its own records/s, from its last line."""
    before = broker.cpu_seconds()
    out = run_tool(
        jars,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--throughput", "-1"),
        *("--num-records", str(records), "--record-size", str(size_bytes)),
        *("--command-property", "acks=all", "linger.ms=5", "batch.size=131072"),
    )
    rates = RATE.findall(out)
    if not rates:
        raise RuntimeError(f"ProducerPerformance printed no rate: {out[-300:]}")
    return Measured(float(rates[-1]), broker.cpu_seconds() - before, records * size_bytes / 1e9, client_limited=False)


def java_consume(broker: Broker, jars: Path, topic: str, size_bytes: int, records: int) -> Measured:
    """ConsumerPerformance; records a second of fetching, without the time to join its group."""
    before = broker.cpu_seconds()
    out = run_tool(
        jars,
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", str(records)),
        "--hide-header",
    )
    rows = [line for line in out.splitlines() if line.count(",") >= 9]
    if not rows:
        raise RuntimeError(f"ConsumerPerformance printed no result: {out[-300:]}")
    fields = [each.strip() for each in rows[-1].split(",")]
    if int(fields[4]) < records:
        raise RuntimeError(f"ConsumerPerformance read {fields[4]} of {records} records")
    return Measured(float(fields[9]), broker.cpu_seconds() - before, records * size_bytes / 1e9, client_limited=False)
