"""Topics with known records, and jobs that run to the end of them."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from yak.client.admin import Admin
from yak.spark.jobs import load
from yak.spark.jobs.frame import start

START_MS = (time.time_ns() // 1_000_000 // 3_600_000 - 2) * 3_600_000
"""A full hour, over two hours ago: retention leaves such records alone, and windows of minutes begin there."""


@dataclass(frozen=True)
class JobBench:
    """Writes records and runs jobs over them."""

    spark: Any
    bootstrap: str
    new_name: Callable[[], str]
    start_ms: int = START_MS

    def send(self, records: Sequence[tuple[str | None, object, float, int]], *, topic: str = "", parts: int = 2) -> str:
        """A topic, new unless named, with records of (key, value, seconds after the start, partition)."""
        from confluent_kafka import Producer

        admin = Admin(self.bootstrap)
        topic = topic or self.new_name()
        if topic not in admin.metadata().topics:
            admin.create_topic(topic, partitions=parts)
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        for key, value, at_s, partition in records:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, data, key, partition=partition, timestamp=self.start_ms + round(at_s * 1000))
            producer.poll(0)
        assert producer.flush(30) == 0
        return topic

    def finish(self, name: str, **options: Any) -> Any:
        """Run a job over what is there; gives the table it made in memory, if any."""
        job = load(name)
        chosen = job.options(**{"bootstrap": self.bootstrap, **options})
        chosen.check()
        started = start(job, self.spark, chosen)
        if started.query is not None:
            assert started.query.awaitTermination(300)
        return started.table

    def batch(self, name: str, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of a job that reads once, sorted."""
        return ordered(self.finish(name, to="latest", sink=f"memory:{self._table()}", **options))

    def stream(self, name: str, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of a job that follows its topic to the end of what is there, in small batches, sorted."""
        more = {"max_offsets_per_trigger": 40, **options}
        return ordered(self.finish(name, available_now=True, sink=f"memory:{self._table()}", **more))

    def read(self, topic: str, **options: str) -> list[Any]:
        """The records of a topic, in order of partition and offset."""
        frame = self.spark.read.format("yak").option("bootstrap", self.bootstrap).option("subscribe", topic)
        return list(frame.options(**options).load().orderBy("partition", "offset").collect())

    def _table(self) -> str:
        return self.new_name().replace("-", "_")


def ordered(frame: Any) -> list[tuple[Any, ...]]:
    """Rows as tuples, in an order that depends on nothing else."""
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.fixture
def bench(spark: Any, bootstrap: str, new_name: Callable[[], str]) -> JobBench:
    """Jobs in the shared session on the shared broker."""
    return JobBench(spark, bootstrap, new_name)
