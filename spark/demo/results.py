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
        self._rows: dict[str, dict[Place, dict[str, Any]]] = {COUNTS: {}, STATS: {}}
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
            return {place: row["count"] for place, row in self._rows[COUNTS].items()}

    def stats(self) -> dict[Place, dict[str, object]]:
        """The latest row of each metric and window."""
        with self._lock:
            return dict(self._rows[STATS])

    def counted(self) -> tuple[int, int]:
        """The sum of records in the results of `counts` and of `stats`."""
        with self._lock:
            first, second = (sum(row["count"] for row in self._rows[topic].values()) for topic in (COUNTS, STATS))
            return first, second

    def abandon(self) -> None:
        """Stop reading."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._consumer.close()

    def _run(self) -> None:
        while not self._enough.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is not None:
                    continue
                row = json.loads(message.value() or b"")
                window_ms = round(datetime.fromisoformat(row["start"]).timestamp() * 1000)
                with self._lock:
                    self.records += 1
                    self._rows[str(message.topic())][row["key"], window_ms] = row
