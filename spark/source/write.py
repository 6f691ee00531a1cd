"""The writers: each row becomes a record, through librdkafka's idempotent producer.

Delivery is at least once, as with Spark's own Kafka sink (`KafkaWriter.scala`): a task or batch that Spark runs again
after a failure writes its records again. A stream's records carry the query's and the batch's id in headers, so that a
reader can detect duplicates.

With `transactional`, a stream's delivery is exactly once for read_committed readers (`TaskTransaction`).
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType, TimestampNTZType, TimestampType

from yak.attempts import attempts
from yak.client.connection import base_config
from yak.client.consumer import ConsumerHandle, consumer_config
from yak.client.errors import from_exception, kafka_exceptions, reason
from yak.client.produce import ProducerTransaction, transaction_settings
from yak.errors import YakError
from yak.ids import TopicPartition
from yak.spark.source.client_settings import for_librdkafka
from yak.spark.source.errors import CHECKPOINT, SCHEMA, WRITE, SourceError, bad_option, in_one_line
from yak.spark.source.options import REFUSED_PRODUCER_SETTINGS, bootstrap_of, flag, kafka_settings, lowered
from yak.spark.source.schema import HEADERS

QUERY_HEADER = "yak.spark.query"
BATCH_HEADER = "yak.spark.batch"
_FLUSH_S = 0.5
_TOPIC_WAIT_S = 5.0
_TRANSACTION_WAIT_S = 60.0
"""How long a step of a transaction may take; a coordinator's election is over by then."""
_TYPES: dict[str, tuple[DataType, ...]] = {
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS,),
}


@dataclass(frozen=True)
class WriteOptions:
    """Where rows go. `topic` overrides a row's own; `keep_timestamps` makes `timestamp` the record's time."""

    bootstrap: str
    topic: str | None
    keep_timestamps: bool
    batch_headers: bool
    transactional: bool = False
    client_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass
class WriteResult(WriterCommitMessage):
    """The result of one task."""

    records: int


def write_options(options: Mapping[str, str], overwrite: bool) -> WriteOptions:
    """The options of a write. Raises SourceError."""
    given = lowered(options)
    if overwrite:
        raise SourceError(
            WRITE, "a topic cannot be overwritten", why="a log is only appended to", try_=('.mode("append")',)
        )
    topic = given.get("topic", "").strip() or None
    if "topic" in given and topic is None:
        raise bad_option("topic", given["topic"], "it names no topic")
    transactional = flag(given, "transactional", False)
    if transactional and topic is None:
        raise bad_option(
            "transactional", "true", "a transactional write goes to one topic", '.option("topic", "orders")'
        )
    settings = kafka_settings(given, REFUSED_PRODUCER_SETTINGS)
    return WriteOptions(
        bootstrap=bootstrap_of(given),
        topic=topic,
        keep_timestamps=flag(given, "keepTimestamps", False),
        batch_headers=flag(given, "batchHeaders", True),
        transactional=transactional,
        client_settings=settings,
    )


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Check the columns: `value`; optional `key`, `headers`, `topic`, `partition`. Raises SourceError."""
    types = {each.name: each.dataType for each in schema.fields}
    if "value" not in types:
        raise SourceError(
            SCHEMA,
            'there is no column "value" to write',
            why=f"the columns are {', '.join(types) or 'none'}",
            try_=('df.selectExpr("to_json(struct(*)) AS value")',),
        )
    if options.topic is None and "topic" not in types:
        raise SourceError(
            SCHEMA,
            "no topic is named",
            why='there is neither option nor column "topic"',
            try_=('.option("topic", "orders")',),
        )
    for name, wanted in _TYPES.items():
        if name in types and not any(types[name].simpleString() == each.simpleString() for each in wanted):
            raise SourceError(
                SCHEMA,
                f'column "{name}" cannot be written',
                why=f"it is {types[name].simpleString()}, not {' or '.join(each.simpleString() for each in wanted)}",
                try_=(f'df.withColumn("{name}", df["{name}"].cast("{wanted[0].simpleString()}"))',),
            )
    if options.keep_timestamps and not isinstance(types.get("timestamp"), TimestampType | TimestampNTZType):
        raise SourceError(
            SCHEMA,
            "keepTimestamps needs a column timestamp",
            why="there is none of type timestamp",
            try_=("leave it out",),
        )


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("yak")`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        if options.transactional:
            raise bad_option("transactional", "true", "only a stream's batches have ids, by which a repeat is known")
        self.options = options
        check_schema(schema, options)
        require_topic(options)

    def write(self, iterator: Iterator[Any]) -> WriteResult:
        """Write one task's rows, on an executor. Raises SourceError when a record was refused."""
        return produce(iterator, self.options, [])


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("yak")`; Spark makes it twice per batch on the driver, so it sends no requests."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        check_schema(schema, options)

    def write(self, iterator: Iterator[Any]) -> WriteResult:
        """Write one task's rows of one batch."""
        task = StreamTask.current()
        headers = task.headers() if self.options.batch_headers else []
        if not self.options.transactional:
            return produce(iterator, self.options, headers)
        rows = (each for each in iterator if each.num_rows)
        first = next(rows, None)
        if first is None:
            return WriteResult(0)
        with in_one_line():
            return TaskTransaction(self.options, task).write(itertools.chain((first,), rows), headers)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Do nothing: the records are already in the log."""

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """Do nothing: appended records cannot be removed. Spark runs the batch again, which writes them again.

        A transactional task skips what it has committed.
        """


@dataclass(frozen=True)
class StreamTask:
    """A task of one batch of a query. The query's id is in its checkpoint, so a restart keeps it."""

    query: str
    batch: str
    number: int

    @classmethod
    def current(cls) -> "StreamTask":
        """The task that runs in this Python worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "write is called in a task"
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        return cls(query, context.getLocalProperty("streaming.sql.batchId") or "", context.partitionId())

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers that name query and batch."""
        return [(QUERY_HEADER, self.query.encode()), (BATCH_HEADER, self.batch.encode())]


def require_topic(options: WriteOptions) -> None:
    """Check on the driver that the topic exists; a broker with auto-creation creates it now. Raises SourceError."""
    if options.topic is None:
        return
    from confluent_kafka import KafkaError, Producer

    from yak.client.connection import check_reachable, is_plain

    settings = for_librdkafka(options.client_settings)
    with in_one_line():
        if is_plain(settings):
            check_reachable(options.bootstrap, 10_000)
    try:
        producer = Producer(base_config(options.bootstrap) | settings)
        for _ in attempts(_TOPIC_WAIT_S, 0.1):
            found = producer.list_topics(options.topic, timeout=10.0).topics[options.topic].error
            if found is None:
                return
    except kafka_exceptions() as error:
        failure = from_exception(error, f"topic {options.topic} could not be looked up")
        raise SourceError(WRITE, failure.message, why=failure.why) from None
    code = "unknown-topic" if found.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else WRITE
    raise SourceError(
        code,
        f'topic "{options.topic}" cannot be written to',
        why=reason(found),
        try_=(f"yak topics create {options.topic}",),
    )


def produce(batches: Iterator[Any], options: WriteOptions, headers: list[tuple[str, bytes]]) -> WriteResult:
    """Write all rows and wait until the brokers acknowledged them. Raises SourceError with the first error."""
    sending = _sending(options)
    try:
        return _deliver(sending, batches, options, headers)
    except BaseException:
        _SENDING.clear()  # the next task must not send records that are still in this producer's queue
        sending.producer.purge()
        raise


def _deliver(
    sending: "_Sending", batches: Iterator[Any], options: WriteOptions, headers: list[tuple[str, bytes]]
) -> WriteResult:
    records = sum(_send(sending, batch, options, headers) for batch in batches)
    while sending.producer.flush(_FLUSH_S):
        sending.check()
    sending.check()
    return WriteResult(records)


class TaskTransaction:
    """The transaction of one task, with its transactional id: a function of query and task.

    The transaction commits the number of the next batch as an offset of a group, so a task that runs again knows
    whether its records are committed. Its producer fences the earlier run's, before it reads that offset.
    """

    def __init__(self, options: WriteOptions, task: StreamTask) -> None:
        assert options.topic is not None, "write_options asks for it"
        self._options, self._topic = options, options.topic
        self._batch = int(task.batch)
        self._id = f"yak-spark-{task.query}-{task.number}"

    def write(self, batches: Iterator[Any], headers: list[tuple[str, bytes]]) -> WriteResult:
        """Write and commit the rows, unless an earlier run of the task has. Raises YakError."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Wire

        sending = _connect(self._options, transaction_settings(self._id))
        transaction = ProducerTransaction(sending.producer, timeout_s=_TRANSACTION_WAIT_S)
        offsets = self._offsets()
        try:
            earlier = self._committed(offsets)
            if earlier is not None:
                return self._skip(batches, earlier)
            written = _deliver(sending, batches, self._options, headers)
            next_batch = Wire(self._topic, 0, self._batch + 1, metadata=str(written.records))
            group = offsets.consumer.consumer_group_metadata()
            sending.producer.send_offsets_to_transaction([next_batch], group, _TRANSACTION_WAIT_S)
        except BaseException as error:
            with contextlib.suppress(YakError):
                transaction.abort()
            # confluent-kafka calls the delivery callback with a fatal error pending, which Python reports in this way.
            cause = error.__cause__ if isinstance(error, SystemError) else error
            if isinstance(cause, KafkaException):
                raise from_exception(cause, f"batch {self._batch} was not written") from None
            raise
        finally:
            offsets.close()
        transaction.commit()
        return written

    def _offsets(self) -> ConsumerHandle[Any]:
        settings = base_config(self._options.bootstrap) | for_librdkafka(self._options.client_settings)
        return ConsumerHandle(settings | consumer_config(self._id, reset="error", read_committed=True))

    def _committed(self, offsets: ConsumerHandle[Any]) -> int | None:
        """How many records an earlier run committed; None if none did. Raises SourceError."""
        [found] = offsets.committed([TopicPartition(self._topic, 0)], _TRANSACTION_WAIT_S).values()
        if found.error is not None:
            raise SourceError(WRITE, f"the last batch of {self._id} could not be read", why=reason(found.error))
        if found.offset > self._batch + 1:
            raise SourceError(
                CHECKPOINT,
                f"batch {self._batch} was written before",
                why=f"batch {found.offset - 1} of the query is committed: the checkpoint is older than the topic",
                try_=("a new checkpoint folder, and startingOffsets",),
            )
        return int(found.metadata or 0) if found.offset == self._batch + 1 else None

    def _skip(self, batches: Iterator[Any], earlier: int) -> WriteResult:
        rows = sum(each.num_rows for each in batches)
        if rows != earlier:
            raise SourceError(
                WRITE,
                f"batch {self._batch} has changed since it was written",
                why=f"a task committed {earlier} rows of it, and has {rows} now",
                try_=("the number of tasks and the settings of the run before",),
            )
        return WriteResult(rows)


class _Sending:
    """A producer and its records' errors."""

    def __init__(self, producer: Any, refused: list[Any]) -> None:
        self.producer = producer
        self.refused = refused

    def check(self) -> None:
        """Raise SourceError when a record was refused."""
        if not self.refused:
            return
        error = self.refused[0]
        is_topic = error.name() in ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION")
        raise SourceError(
            WRITE,
            f"a record was not taken ({len(self.refused)} so far)",
            why=reason(error),
            try_=("yak topics create TOPIC",) if is_topic else ("yak doctor",),
        )


_SENDING: dict[tuple[Any, ...], _Sending] = {}
"""The producer of this worker process. Spark runs its tasks one after another, and connecting takes milliseconds."""


def _sending(options: WriteOptions) -> _Sending:
    key = (options.bootstrap, *sorted(options.client_settings.items()))
    found = _SENDING.get(key)
    if found is None:
        _SENDING.clear()
        found = _SENDING[key] = _connect(options)
    return found


def _connect(options: WriteOptions, transaction: Mapping[str, Any] | None = None) -> _Sending:
    from confluent_kafka import Producer

    refused: list[Any] = []
    config = base_config(options.bootstrap) | {
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "partitioner": "murmur2_random",  # as Java's producer and Spark's Kafka sink: a key keeps its partition
        "queue.buffering.max.messages": 500_000,
        "topic.metadata.propagation.max.ms": int(_TOPIC_WAIT_S * 1000),
        "delivery.report.only.error": True,
        "on_delivery": lambda error, _message: refused.append(error) if error is not None else None,
        **(transaction or {}),
        **for_librdkafka(options.client_settings),
    }
    if config["enable.idempotence"] is True and str(config["acks"]) not in ("all", "-1"):
        config["enable.idempotence"] = False  # as Kafka's own producer does when only acks is set
    try:
        return _Sending(Producer(config), refused)
    except kafka_exceptions() as error:
        failure = from_exception(error, "the producer's settings are refused")
        raise SourceError(WRITE, failure.message, why=failure.why) from None


def _send(sending: _Sending, batch: Any, options: WriteOptions, headers: list[tuple[str, bytes]]) -> int:
    names = batch.schema.names
    rows: int = batch.num_rows

    def column(name: str) -> Any:
        return batch.column(names.index(name)).to_pylist() if name in names else itertools.repeat(None, rows)

    topics = itertools.repeat(options.topic, rows) if options.topic is not None else column("topic")
    times = _milliseconds(batch.column(names.index("timestamp"))) if options.keep_timestamps else None
    zipped = zip(
        topics,
        column("key"),
        column("value"),
        column("partition"),
        times or itertools.repeat(None, rows),
        column("headers"),
        strict=True,
    )
    send = sending.producer.produce
    for topic, key, value, partition, timestamp, own in zipped:
        more: dict[str, Any] = {"headers": headers} if headers else {}
        if partition is not None:
            more["partition"] = partition
        if timestamp is not None:
            more["timestamp"] = timestamp
        if own:
            if any(each is None or each["key"] is None for each in own):
                raise SourceError(WRITE, f"a header of a row for {topic} has no key", why="Kafka has no such headers")
            more["headers"] = headers + [(each["key"], each["value"]) for each in own]
        while True:
            try:
                send(topic, value, key, **more)
                break
            except BufferError:
                sending.producer.poll(0.05)
                sending.check()
            except kafka_exceptions() as error:
                raise _refusal(topic, error) from None
    sending.producer.poll(0)
    sending.check()
    return rows


def _refusal(topic: str | None, error: Exception) -> SourceError:
    if topic is None:
        return SourceError(
            WRITE,
            "a row's topic is null",
            why="each record needs one",
            try_=('.option("topic", "orders") for all rows',),
        )
    failure = from_exception(error, f"a record for {topic} was refused")
    return SourceError(WRITE, failure.message, why=failure.why, try_=failure.try_)


def _milliseconds(column: Any) -> list[int | None]:
    import pyarrow as pa

    found: list[int | None] = (
        column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    )
    return found
