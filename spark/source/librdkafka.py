"""`client=librdkafka`: reads a range of offsets with confluent-kafka, record by record, into the same batches.

It is for clusters that require client features which the columnar reader lacks. librdkafka requires a group id, but
nothing joins the group and nothing is committed.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from yak.client.connection import base_config
from yak.client.errors import from_kafka, is_transient, kafka_exceptions, reason
from yak.spark.columnar.schema import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    DataLoss,
    NotReadable,
    OffsetRange,
    ReadSettings,
    arrow_schema,
)

POLL_S = 0.2
CHUNK = 10_000
_TYPES = {0: NO_TIMESTAMP, 1: CREATE_TIME, 2: LOG_APPEND_TIME}


def read(wanted: OffsetRange, settings: ReadSettings) -> Iterator[Any]:
    """As `yak.spark.columnar.read.read`; `settings.client` holds librdkafka's own settings."""
    if wanted.end <= wanted.start:
        return
    from confluent_kafka import Consumer, TopicPartition

    config = base_config(settings.bootstrap) | {
        "group.id": "yak-spark",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": settings.isolation,
        "fetch.queue.backoff.ms": 1,
        "allow.auto.create.topics": False,
        **settings.client,
    }
    try:
        consumer: Any = Consumer(config)
    except kafka_exceptions() as error:
        raise NotReadable("librdkafka refuses its settings", why=str(error)) from None
    try:
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
        yield from _Reading(consumer, wanted, settings).batches()
    finally:
        consumer.close()


class _Reading:
    """A range being read: `next_offset` is the next offset, `rows` are the buffered rows."""

    def __init__(self, consumer: Any, wanted: OffsetRange, settings: ReadSettings) -> None:
        self.consumer = consumer
        self.wanted = wanted
        self.settings = settings
        self.next_offset = wanted.start
        self.rows: list[Any] = []
        self._deadline = 0.0

    def batches(self) -> Iterator[Any]:
        self._moved()
        while self.next_offset < self.wanted.end:
            messages = self.consumer.consume(min(self.settings.batch_rows, CHUNK), POLL_S)
            self._take(messages)
            if len(self.rows) >= self.settings.batch_rows:
                yield self._batch()
            if not messages and time.monotonic() > self._deadline:
                raise NotReadable(
                    f"no record of {self.wanted.topic}-{self.wanted.partition} came",
                    why=f"nothing after offset {self.next_offset} in {self.settings.timeout_ms} ms",
                    try_=("yak doctor",),
                )
        if self.rows:
            yield self._batch()

    def _take(self, messages: Sequence[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is not None:
                self._take_error(message, error)
                continue
            self._moved()
            if message.offset() >= self.wanted.end:
                self.next_offset = self.wanted.end
                return
            self.rows.append(message)
            self.next_offset = message.offset() + 1

    def _take_error(self, message: Any, error: Any) -> None:
        name = error.name()
        if name == "_PARTITION_EOF":
            self.next_offset = max(self.next_offset, message.offset())
            if self.next_offset < self.wanted.end:
                self._reached_the_end_early()
        elif name in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
            self._gone(reason(error))
        elif name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"):
            if self.settings.fail_on_data_loss:
                raise self._loss(reason(error), None)
            self.next_offset = self.wanted.end
        elif not is_transient(error):
            failure = from_kafka(error, f"{self.wanted.topic}-{self.wanted.partition} could not be read")
            raise NotReadable(failure.message, why=failure.why, try_=failure.try_)

    def _reached_the_end_early(self) -> None:
        """The log ends before the range: it was truncated (unclean leader election), or the topic was recreated."""
        from confluent_kafka import TopicPartition

        # For read_committed, a request gives the last stable offset; the high watermark is in the fetch responses.
        wanted = TopicPartition(self.wanted.topic, self.wanted.partition)
        high = max(self._watermarks()[1], self.consumer.get_watermark_offsets(wanted, cached=True)[1])
        if high >= self.wanted.end:
            return  # a follower or an old leader answered, or a transaction is open; more records follow
        if self.settings.fail_on_data_loss:
            raise self._loss(f"the log ends at offset {high}, before {self.wanted.end}", None)
        self.next_offset = self.wanted.end

    def _gone(self, why: str) -> None:
        from confluent_kafka import TopicPartition

        low, high = self._watermarks()
        if self.settings.fail_on_data_loss:
            raise self._loss(f"the log has the offsets {low} to {high} now ({why})", low)
        self.next_offset = max(low, self.next_offset) if self.next_offset <= high else self.wanted.end
        self._moved()
        if self.next_offset < self.wanted.end:
            self.consumer.assign([TopicPartition(self.wanted.topic, self.wanted.partition, self.next_offset)])

    def _watermarks(self) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        try:
            low, high = self.consumer.get_watermark_offsets(
                TopicPartition(self.wanted.topic, self.wanted.partition), timeout=self.settings.timeout_ms / 1000
            )
        except kafka_exceptions() as error:
            raise NotReadable(
                f"the offsets of {self.wanted.topic}-{self.wanted.partition} could not be read", why=str(error)
            ) from None
        return int(low), int(high)

    def _loss(self, why: str, earliest: int | None) -> DataLoss:
        return DataLoss(why, self.wanted.topic, self.wanted.partition, self.next_offset, earliest)

    def _moved(self) -> None:
        self._deadline = time.monotonic() + self.settings.timeout_ms / 1000

    def _batch(self) -> Any:
        rows, self.rows = self.rows, []
        times = [message.timestamp() for message in rows]
        columns = [
            pa.array([message.key() for message in rows], pa.binary()),
            pa.array([message.value() for message in rows], pa.binary()),
            pa.array([self.wanted.topic] * len(rows), pa.string()),
            pa.array([self.wanted.partition] * len(rows), pa.int32()),
            pa.array([message.offset() for message in rows], pa.int64()),
            pa.array([1000 * ms if kind else None for kind, ms in times], pa.timestamp("us", tz="UTC")),
            pa.array([_TYPES[kind] for kind, _ms in times], pa.int32()),
        ]
        schema = arrow_schema(self.settings.include_headers)
        if self.settings.include_headers:
            columns.append(pa.array([_headers(message.headers()) for message in rows], schema.field("headers").type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _headers(found: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    return None if not found else [{"key": key, "value": value} for key, value in found]
