"""Ten thousand empty partitions: how long to make them, how long a start takes, and what memory and handles it needs.

    .venv/bin/python benchmarks/bench_many_partitions.py [PARTITIONS]

Prints one line a phase. The goals are a start in under 10 s and under 400 MB of memory, with bounded file handles.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from yak.local import ports, redis_child
from yak.local.broker_process import BrokerSpec, ReadyBroker, StartingBroker
from yak.local.processes import kill, stop

TOPIC_PARTITIONS = 500
START_MS_GOAL = 10_000
RSS_MB_GOAL = 400


def start(folder: Path, redis_url: str) -> ReadyBroker:
    """One broker on the folder's data."""
    spec = BrokerSpec(1, "127.0.0.1", 0, str(folder / "data"), redis_url)
    starting = StartingBroker(spec, log_path=str(folder / "log"), ready_file=str(folder / "ready"))
    return starting.wait_ready(120)


def say(what: str, broker: ReadyBroker, seconds: float) -> float:
    """One line of figures; gives the memory in MB."""
    process = psutil.Process(broker.process.pid)
    rss_mb = process.memory_info().rss / 1e6
    cpu = process.cpu_times()
    print(
        f"{what:<24} {seconds:7.2f} s   {rss_mb:6.0f} MB RSS   {process.num_fds():5d} handles"
        f"   {cpu.user + cpu.system:6.2f} s CPU"
    )
    return rss_mb


def create(broker: ReadyBroker, partitions: int) -> float:
    """Topics of 500 partitions each, one request a topic; gives the seconds."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    started = time.monotonic()
    for first in range(0, partitions, TOPIC_PARTITIONS):
        topic = NewTopic(f"many-{first}", min(TOPIC_PARTITIONS, partitions - first), 1)
        admin.create_topics([topic], request_timeout=60, operation_timeout=60)[topic.topic].result(90)
    return time.monotonic() - started


def main() -> int:
    """Create, stop, start, kill, start; 1 when a goal is missed."""
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="yak-many-") as name:
        folder = Path(name)
        redis = redis_child.start(str(folder / "redis"), ports.find_free("127.0.0.1"), str(folder / "redis.log"))
        broker = None
        try:
            broker = start(folder, redis.url)
            say("empty broker", broker, broker.start_ms / 1000)
            seconds = create(broker, partitions)
            say(f"{partitions} created", broker, seconds)
            begun = time.monotonic()
            assert stop(broker.process, patience_seconds=60)
            print(f"{'clean stop':<24} {time.monotonic() - begun:7.2f} s")
            broker = start(folder, redis.url)
            clean_ms, rss_mb = broker.start_ms, say("start after clean stop", broker, broker.start_ms / 1000)
            kill(broker.process)
            broker = start(folder, redis.url)
            killed_ms = broker.start_ms
            rss_mb = max(rss_mb, say("start after kill -9", broker, killed_ms / 1000))
        finally:
            if broker is not None:
                kill(broker.process)
            kill(redis.process)
    met = max(clean_ms, killed_ms) < START_MS_GOAL and rss_mb < RSS_MB_GOAL
    print(f"goals (start < {START_MS_GOAL / 1000:g} s, < {RSS_MB_GOAL} MB): {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
