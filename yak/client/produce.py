"""Sends records and tracks the outcome of each: acknowledged, refused (not written), or unknown.

Idempotent with acks=all by default. Keys map to the same partitions as with Java clients (murmur2).
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from shlex import quote
from typing import Any, Final, Protocol

from yak.client.admin import Admin, creation_with_a_valid_name
from yak.client.connection import base_config
from yak.client.errors import from_exception, from_kafka, kafka_exceptions, name_of, reason, was_written
from yak.client.metadata import Topic, unknown_partition, unknown_topic
from yak.errors import YakError
from yak.ids import Offset

FEW = 10
"""Up to this many acknowledgements are stored individually; beyond, only each partition's first and last offset."""
FAILURES_MAX = 5
_DROPPED: Final = ("_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL")
SERVE_EVERY = 500
"""Records between two polls for delivery reports; a poll costs about as much as a send."""


@dataclass(slots=True)
class Outgoing:
    """One record to send. `partition` -1 lets the key choose, `timestamp_ms` 0 means now."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int = -1
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The position of one acknowledged record. The offset is -1 with acks=0."""

    number: int
    topic: str
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class Failed:
    """The error of one record."""

    number: int
    error: YakError
    reason: str


@dataclass(slots=True)
class Span:
    """The acknowledged records of one partition."""

    records: int = 0
    first_offset: Offset = -1
    last_offset: Offset = -1


class Observer(Protocol):
    """Called once for each record when its outcome is known, in the thread that calls the sender."""

    def acknowledged(self, number: int, latency_ns: int) -> None:
        """The record is written; `latency_ns` from `send` to the acknowledgement, including time in the queue."""

    def failed(self, failure: Failed) -> None:
        """The record is not written, or its outcome is unknown."""


class AckedPrefix:
    """The number of leading records that are all settled, in whatever order they settle."""

    def __init__(self) -> None:
        self.length = 0
        self._beyond: set[int] = set()

    def add(self, number: int) -> None:
        """Record `number` (from 0) is settled."""
        if number != self.length:
            self._beyond.add(number)
            return
        self.length += 1
        while self._beyond and self.length in self._beyond:
            self._beyond.remove(self.length)
            self.length += 1


@dataclass(slots=True)
class DeliveryCounts:
    """The delivery statistics of one run."""

    sent: int = 0
    acknowledged: int = 0
    few: list[Acknowledged] = field(default_factory=list)
    spans: dict[tuple[str, int], Span] = field(default_factory=dict)
    failed: int = 0
    failures: list[Failed] = field(default_factory=list)
    """The first few failures."""
    reasons: Counter[str] = field(default_factory=Counter)
    not_written: int = 0
    unknown: int = 0


def producer_settings(
    servers: str,
    *,
    acks: str = "all",
    compression: str = "none",
    batch_size_bytes: int | None = None,
    linger_ms: float | None = None,
    delivery_timeout_ms: int = 30_000,
    verbose: int = 0,
) -> dict[str, Any]:
    """The librdkafka settings of YAK's producers."""
    config = base_config(servers, verbose=verbose) | {
        "acks": acks,
        "enable.idempotence": acks == "all",
        "compression.type": compression,
        "partitioner": "murmur2_random",
        "message.timeout.ms": delivery_timeout_ms,
        "queue.buffering.max.messages": 500_000,
        "message.max.bytes": 1_000_000_000,
    }
    if batch_size_bytes is not None:
        config["batch.size"] = batch_size_bytes
    if linger_ms is not None:
        config["linger.ms"] = linger_ms
    return config


def open_producer(settings: dict[str, Any]) -> Any:
    """A librdkafka producer, which connects by itself. Raises UsageError."""
    from confluent_kafka import Producer

    try:
        return Producer(settings)
    except kafka_exceptions() as error:
        raise from_exception(error, "the producer's settings are refused") from None


def enqueue(producer: Any, topic: str, record: Outgoing, on_delivery: Callable[[Any, Any], None]) -> bool:
    """Give a record to librdkafka's queue: False when it is full. Raises librdkafka's errors."""
    options: dict[str, Any] = {"on_delivery": on_delivery}
    if record.headers:
        options["headers"] = record.headers
    if record.partition >= 0:
        options["partition"] = record.partition
    if record.timestamp_ms:
        options["timestamp"] = record.timestamp_ms
    try:
        producer.produce(topic, record.value, record.key, **options)
    except BufferError:
        return False
    return True


def serve(call: Callable[[float], Any], wait_s: float, on_fatal: Callable[[Any], None]) -> None:
    """Call `poll` or `flush` of a producer. `on_fatal` gets a fatal error as a `KafkaError`.

    librdkafka reports a fatal error once, by an exception of whichever call runs then. It drops the queued records, so
    that each of them has its delivery report, and refuses later ones.
    """
    raised_types: tuple[type[Exception], ...] = (SystemError, *kafka_exceptions())
    try:
        call(wait_s)
    except raised_types as error:
        # confluent-kafka calls the delivery callback with a fatal error pending, which Python reports in this way
        raised = error.__cause__ if isinstance(error, SystemError) else error
        cause: Any = raised.args[0] if isinstance(raised, kafka_exceptions()) and raised.args else None
        if not hasattr(cause, "fatal") or not cause.fatal():
            raise
        on_fatal(cause)


def settle(producer: Any, timeout_s: float, on_fatal: Callable[[Any], None]) -> int:
    """Wait until no record is queued or in flight, in short steps for Ctrl+C; return how many are left in the end."""
    deadline = time.monotonic() + timeout_s
    while left := len(producer):
        wait_s = min(0.2, deadline - time.monotonic())
        if wait_s <= 0:
            return int(left)
        serve(producer.flush, wait_s, on_fatal)
    return 0


def cause_of(error: Any, fatal: Any) -> Any:
    """Why a delivery failed: the producer's fatal error for a record that librdkafka dropped because of that."""
    return fatal if fatal is not None and name_of(error) in _DROPPED else error


class RecordSender:
    """A producer whose `send` waits when the queue is full, and whose `finish` waits for the last acknowledgement.

    `producer` is an open one (`open_producer`), used only here.
    """

    def __init__(self, topic: str, producer: Any, *, acks: str = "all", observer: Observer | None = None) -> None:
        self._producer = producer
        self.topic = topic
        self.counts = DeliveryCounts()
        self.prefix = AckedPrefix()
        self.fatal: Any = None
        """The `KafkaError` after which the producer sends no record."""
        self._acks = acks
        self._observer = observer

    @property
    def waiting(self) -> int:
        """Records that are sent and not settled."""
        return len(self._producer)

    def send(self, record: Outgoing, number: int | None = None) -> None:
        """Queue a record; `number` is its position in the input (default: the number of records sent before).

        A record that cannot be queued counts as failed. Raises KeyboardInterrupt while it waits.
        """
        while not self.try_send(record, number):
            self.serve(0.1)

    def try_send(self, record: Outgoing, number: int | None = None) -> bool:
        """As `send`, without waiting: False when the queue is full, without any effect."""
        position = self.counts.sent if number is None else number
        self.counts.sent += 1  # before it is: a Ctrl+C in between would leave more records acknowledged than sent
        try:
            if not enqueue(self._producer, self.topic, record, partial(self._delivered, position)):
                self.counts.sent -= 1
                return False
        except kafka_exceptions() as error:
            failure, why = from_exception(error, "a record was not sent"), str(error)
            if hasattr(error.args[0], "name") and name_of(error.args[0]) == "_FATAL":
                self.serve()
            if self.fatal is not None:
                failure, why = from_kafka(self.fatal, failure.message), reason(self.fatal)
            self._failed(position, failure, "no", why)
            return True
        if self.counts.sent % SERVE_EVERY == 0:
            self.serve()
        return True

    def settle_rejected(self, number: int) -> None:
        """Settle an input record that is not sent, so that the acknowledged prefix can grow past it."""
        self.prefix.add(number)

    def serve(self, wait_s: float = 0.0) -> None:
        """Process delivery reports for at most this long."""
        serve(self._producer.poll, wait_s, self._stopped)

    def finish(self, timeout_s: float) -> int:
        """Wait until all records are settled; return the number of unsettled ones on a timeout (their outcome is
        unknown)."""
        return settle(self._producer, timeout_s, self._stopped)

    def give_up(self) -> None:
        """Drop queued records; records in flight count as unknown."""
        self._producer.purge()
        serve(self._producer.flush, 0.5, self._stopped)

    def _stopped(self, fatal: Any) -> None:
        self.fatal = self.fatal or fatal

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            cause = cause_of(error, self.fatal)
            self._failed(number, from_kafka(cause, "a record was not acknowledged"), was_written(error), reason(cause))
            return
        counts, topic, part, offset = self.counts, message.topic(), message.partition(), message.offset()
        offset = -1 if offset is None or self._acks == "0" else offset
        counts.acknowledged += 1
        self.prefix.add(number)
        if self._observer is not None:
            self._observer.acknowledged(number, round((message.latency() or 0.0) * 1e9))
        if len(counts.few) < FEW:
            counts.few.append(Acknowledged(number, topic, part, offset))
        span = counts.spans.get((topic, part))
        if span is None:
            span = counts.spans[topic, part] = Span(first_offset=offset)
        span.records += 1
        span.first_offset = min(span.first_offset, offset)
        span.last_offset = max(span.last_offset, offset)

    def _failed(self, number: int, error: YakError, written: str, why: str) -> None:
        counts = self.counts
        counts.failed += 1
        counts.reasons[why] += 1
        if written == "no":
            counts.not_written += 1
        else:
            counts.unknown += 1
        failure = Failed(number, error, why)
        if self._observer is not None:
            self._observer.failed(failure)
        if len(counts.failures) < FAILURES_MAX:
            counts.failures.append(failure)


def require_target(admin: Admin, topic: str, partition: int | None = None) -> Topic:
    """The topic to write to. Raises YakError (`unknown-topic`), UsageError (`unknown-partition`)."""
    metadata = admin.metadata()
    if topic not in metadata.topics:
        error = unknown_topic(topic, metadata.topics)
        create = creation_with_a_valid_name(topic, f"yak topics create {quote(topic)}")
        error.try_ = (*error.try_, create)
        raise error
    found = metadata.topics[topic]
    if partition is not None and partition >= len(found.partitions):
        more = f"yak topics alter {topic} -p {partition + 1}"
        raise unknown_partition(topic, partition, len(found.partitions), more)
    return found


TIMEOUT_MS: Final = 900_000
"""Kafka's largest transaction.timeout.ms: the coordinator aborts the transaction of a producer that is gone by then."""
_FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


def transaction_settings(transactional_id: str | None) -> dict[str, Any]:
    """The settings of a producer with this id, or with a random one, for `producer_settings`."""
    return {
        "transactional.id": transactional_id or f"yak-produce-{uuid.uuid4()}",
        "transaction.timeout.ms": TIMEOUT_MS,
    }


class ProducerTransaction:
    """The only transaction of an open producer, from its beginning on. Every method waits for at most `timeout_s`.

    The beginning aborts an earlier transaction of the same transactional id, and fences its producer. Raises YakError.
    """

    def __init__(self, producer: Any, *, timeout_s: float) -> None:
        self._producer, self._timeout_s = producer, timeout_s
        self._call(producer.init_transactions, "the transaction did not begin")
        producer.begin_transaction()

    def commit(self) -> None:
        """Commit. Raises YakError: `transaction-aborted`, or another with an unknown outcome."""
        try:
            self._call(self._producer.commit_transaction, "the transaction may be committed or not")
        except YakError as error:
            if not getattr(error, "must_abort", False):
                raise
            self.abort()
            raise YakError("transaction-aborted", "the transaction was aborted", why=error.why) from None

    def abort(self) -> None:
        """Abort. Raises YakError when the coordinator did not say so: then it aborts at the transaction's timeout."""
        self._producer.purge()
        self._call(self._producer.abort_transaction, "the transaction ends when it times out")

    def _call(self, call: Any, what: str) -> None:
        """Call a method of librdkafka, which goes on where it was after a transient error."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                call(max(0.1, deadline - time.monotonic()))
                return
            except kafka_exceptions() as error:
                cause = error.args[0] if error.args else None
                if getattr(cause, "retriable", bool)() and time.monotonic() < deadline:
                    continue
                if getattr(cause, "name", str)() in _FENCED:
                    raise _fenced(what) from None
                failure: Any = from_exception(error, what)
                failure.must_abort = getattr(cause, "txn_requires_abort", bool)()
                raise failure from None


def _fenced(what: str) -> YakError:
    why = "a newer producer has the same transactional id, or the transaction took longer than its timeout"
    return YakError("producer-fenced", what, why=why, try_=("yak transactions describe ID",))
