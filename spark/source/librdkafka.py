"""`client=librdkafka`: reads a range of offsets with confluent-kafka, record by record, into the same batches.

It is for clusters that require client features which the columnar reader lacks. librdkafka requires a group id, but
nothing joins the group and nothing is committed.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from yak.client.consume import PartitionReader, Window
from yak.client.consumer import OUT_OF_RANGE, UNKNOWN_TOPIC, headers_of, is_transient
from yak.client.errors import from_kafka, kafka_exceptions, reason
from yak.ids import TopicPartition
from yak.spark.columnar.columns import MS_MAX
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
    own = {
        "group.id": "yak-spark",
        "isolation.level": settings.isolation,
        "fetch.queue.backoff.ms": 1,
        **settings.client,
    }
    try:
        reader = _RangeReader(wanted, settings, own)
    except kafka_exceptions() as error:
        raise NotReadable("librdkafka refuses its settings", why=str(error)) from None
    try:
        yield from reader.batches()
    finally:
        reader.close()


class _RangeReader(PartitionReader):
    """A range being read; `rows` are the buffered messages."""

    def __init__(self, wanted: OffsetRange, settings: ReadSettings, own: dict[str, Any]) -> None:
        self.wanted = wanted
        self.settings = settings
        self.rows: list[Any] = []
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._deadline = 0.0
        super().__init__(settings.bootstrap, {self._partition: Window(wanted.start, wanted.end)}, extra=own)

    @property
    def next_offset(self) -> int:
        return self.positions[self._partition]

    def batches(self) -> Iterator[Any]:
        self._moved()
        while not self.is_done:
            messages = self.fetch(min(self.settings.batch_rows, CHUNK), POLL_S)
            self.rows += messages
            if messages:
                self._moved()
            if len(self.rows) >= self.settings.batch_rows:
                yield self._batch()
            if not (messages or self.is_done) and time.monotonic() > self._deadline:
                raise NotReadable(
                    f"no record of {self._partition} came",
                    why=f"nothing after offset {self.next_offset} in {self.settings.timeout_ms} ms",
                    try_=("yak doctor",),
                )
        if self.rows:
            yield self._batch()

    def take_error(self, error: Any, message: Any) -> None:
        """Check for lost data. Raises NotReadable, or DataLoss unless `failOnDataLoss` is off."""
        name = error.name()
        if name == "_PARTITION_EOF":
            super().take_error(error, message)
            if not self.is_done:
                self._reached_the_end_early()
        elif name in OUT_OF_RANGE:
            self._gone(reason(error))
        elif name in UNKNOWN_TOPIC or name == "_UNKNOWN_PARTITION":
            self._lost(reason(error), None)
            self.finish(self._partition)
        elif not is_transient(error):
            failure = from_kafka(error, f"{self._partition} could not be read")
            raise NotReadable(failure.message, why=failure.why, try_=failure.try_)

    def _reached_the_end_early(self) -> None:
        """The log ends before the range: it was truncated (unclean leader election), or the topic was recreated."""
        # For read_committed, a request gives the last stable offset; the high watermark is in the fetch responses.
        high = max(self._bounds()[1], self._handle.watermarks(self._partition, None)[1])
        if high >= self.wanted.end:
            return  # a follower or an old leader answered, or a transaction is open; more records follow
        self._lost(f"the log ends at offset {high}, before {self.wanted.end}", None)
        self.finish(self._partition)

    def _gone(self, why: str) -> None:
        low, high = self._bounds()
        self._lost(f"the log has the offsets {low} to {high} now ({why})", low)
        self._moved()
        if self.next_offset > high or low >= self.wanted.end:
            self.finish(self._partition)
        else:
            self.positions[self._partition] = max(low, self.next_offset)
            self._handle.assign({self._partition: self.next_offset})

    def _bounds(self) -> tuple[int, int]:
        try:
            return self._handle.watermarks(self._partition, self.settings.timeout_ms / 1000)
        except kafka_exceptions() as error:
            raise NotReadable(f"the offsets of {self._partition} could not be read", why=str(error)) from None

    def _lost(self, why: str, earliest: int | None) -> None:
        if self.settings.fail_on_data_loss:
            raise DataLoss(why, self.wanted.topic, self.wanted.partition, self.next_offset, earliest)

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
            pa.array(
                [1000 * max(-MS_MAX, min(ms, MS_MAX)) if kind else None for kind, ms in times],
                pa.timestamp("us", tz="UTC"),
            ),
            pa.array([_TYPES[kind] for kind, _ms in times], pa.int32()),
        ]
        schema = arrow_schema(self.settings.include_headers)
        if self.settings.include_headers:
            columns.append(pa.array([_headers(headers_of(message)) for message in rows], schema.field("headers").type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _headers(found: Sequence[tuple[str, bytes | None]]) -> list[dict[str, Any]] | None:
    return None if not found else [{"key": key, "value": value} for key, value in found]
