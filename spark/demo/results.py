"""Reads the topics that Spark writes; the last result of each window counts, as for all update-mode results."""

import json
import threading
from datetime import datetime
from typing import Any

from yak.client.connection import IMPATIENT
from yak.spark.demo.pipeline import COUNTS, STATS
from yak.spark.demo.totals import Place


class Results:
    """A thread that reads both result topics from their beginning."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        import confluent_kafka

        self._lock = threading.Lock()
        self._counts: dict[Place, int] = {}
        self._stats: dict[Place, dict[str, object]] = {}
        self.records = 0
        """Results read so far, repeated ones included."""
        self._enough = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "yak-demo-results",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1_000,
                **IMPATIENT,
                "log_level": 0,
            }
        )
        places = [confluent_kafka.TopicPartition(t, p, 0) for t in (COUNTS, STATS) for p in range(partitions)]
        self._consumer.assign(places)
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def counts(self) -> dict[Place, int]:
        """The latest count of each metric and window."""
        with self._lock:
            return dict(self._counts)

    def stats(self) -> dict[Place, dict[str, object]]:
        """The latest row of each metric and window."""
        with self._lock:
            return dict(self._stats)

    def counted(self) -> tuple[int, int]:
        """The sum of records in the results of `counts` and of `stats`."""
        with self._lock:
            return sum(self._counts.values()), sum(int(str(row["count"])) for row in self._stats.values())

    def abandon(self) -> None:
        """Stop reading."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._consumer.close()

    def _run(self) -> None:
        while not self._enough.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self._take(message.topic(), message.value())

    def _take(self, topic: str | None, value: Any) -> None:
        row = json.loads(value)
        place = row["key"], round(datetime.fromisoformat(row["start"]).timestamp() * 1000)
        with self._lock:
            self.records += 1
            if topic == COUNTS:
                self._counts[place] = row["count"]
            else:
                self._stats[place] = row
