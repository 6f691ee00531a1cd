"""The blocking producer: `send` returns a future; its own thread processes the delivery reports.

Idempotent with acks=all, so that a retry writes no duplicate. Keys choose partitions by murmur2 as in Java's clients
(Kafka: `Utils.murmur2`, `BuiltInPartitioner.partitionForKey`; librdkafka: `murmur2_random`), so that every client maps
a key to the same partition.
"""

import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from yak.client.api import forks
from yak.client.api.failures import (
    SendFailed,
    bad_argument,
    closed,
    explaining,
    for_python,
    is_whole_number,
    require_seconds,
    require_text,
    require_wait,
    send_failed,
)
from yak.client.api.message import JSON, TEXT, Sent, Serde, require_serdes, to_bytes
from yak.client.api.settings import Bootstrap, check_config, find_bootstrap, handle_config
from yak.client.errors import from_exception, kafka_exceptions, names_no_partition
from yak.client.produce import Outgoing, cause_of, enqueue, serve, settle
from yak.errors import YakError

FAILURES_MAX = 10_000
"""Limit of the failed sends that the next flush reports; older ones are dropped."""


class Delivery(Future[Sent]):
    """The outcome of one send: `result(timeout)` returns a `Sent` or raises `SendFailed`.

    A send cannot be undone: `cancel()` always returns False.
    """

    def __init__(self) -> None:
        super().__init__()
        self.was_checked = False
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Sent:
        """The position of the record. Raises SendFailed, or TimeoutError when it is unknown after `timeout` seconds."""
        self.exception(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error; None when the record is acknowledged. Raises TimeoutError."""
        error = super().exception(timeout)
        self.was_checked = True
        return error


class Deliveries:
    """Settles the futures of one producer from its delivery reports."""

    def __init__(self, *, has_offsets: bool) -> None:
        self._has_offsets = has_offsets
        self.pending: set[Delivery] = set()
        """Of the records that librdkafka accepted: those that are not settled."""
        self._fatal: Any = None
        self._failed: deque[Delivery] = deque(maxlen=FAILURES_MAX)

    def stop(self, fatal: Any) -> None:
        """The producer has a fatal error, a `KafkaError`: librdkafka drops its records."""
        self._fatal = self._fatal or fatal

    def settle(self, delivery: Delivery, topic: str, error: Any, message: Any) -> None:
        """Process librdkafka's delivery report of one record."""
        self._settle(delivery, topic, error, message)
        self.pending.discard(delivery)

    def _settle(self, delivery: Delivery, topic: str, error: Any, message: Any) -> None:
        if error is not None:
            delivery.set_exception(send_failed(error, topic, cause_of(error, self._fatal)))
            self._failed.append(delivery)
            return
        kind, timestamp_ms = message.timestamp()
        offset = message.offset() if self._has_offsets else None
        delivery.set_result(
            Sent(message.topic(), message.partition(), -1 if offset is None else offset, timestamp_ms if kind else -1)
        )

    def unseen_failure(self) -> SendFailed | None:
        """One error for all unchecked failed sends, which are then dropped; None when there are none."""
        unseen: list[Delivery] = []
        with suppress(IndexError):
            while True:  # not an iteration: other threads add failures and flush meanwhile
                delivery = self._failed.popleft()
                if not delivery.was_checked:
                    unseen.append(delivery)
        if not unseen:
            return None
        first = unseen[0].exception()
        assert isinstance(first, SendFailed)
        if len(unseen) == 1:
            return first
        failed = SendFailed(
            first.code,
            f"{len(unseen)} records were not acknowledged; the first: {first.message}",
            why=first.why,
            try_=first.try_,
        )
        failed.written = "no" if all(_written(each) == "no" for each in unseen) else "unknown"
        failed.kafka_code = first.kafka_code
        return failed


def _written(delivery: Delivery) -> str:
    error = delivery.exception()
    return error.written if isinstance(error, SendFailed) else "unknown"


Acks: TypeAlias = Literal["all", 0, 1]
Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Headers: TypeAlias = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

SERVE_S = 0.1
"""The longest single wait for delivery reports; a report ends it at once."""
PROPAGATION_MS = 3000
"""How long a topic may be unknown before its records fail; with librdkafka's 30 s a wrong name looks like a hang."""
GRACE_S = 1.0
"""How long a cancelled producer may still send its queued records."""


class Producer:
    """Sends records. Thread-safe; best used as a context manager, which waits for the last acknowledgement.

    - `acks`: `"all"` waits for every in-sync replica, 1 for the leader, 0 for no acknowledgement (no offsets then)
    - `compression`: of whole batches; consumers need no setting
    - `linger_ms`: how long a record may wait for others, for larger batches (librdkafka's default is 5)
    - `delivery_timeout`: seconds after which an unacknowledged record has failed
    - `keys`, `values`: the serdes of keys and values; text and JSON by default
    - `config`: other librdkafka settings, by their names

    Raises Unreachable when no broker answers within 3 s, UsageError for invalid settings.
    """

    def __init__(
        self,
        bootstrap: Bootstrap = None,
        *,
        acks: Acks = "all",
        compression: Compression = "none",
        linger_ms: float | None = None,
        delivery_timeout: float = 30.0,
        keys: Serde = TEXT,
        values: Serde = JSON,
        client_id: str = "yak",
        config: Mapping[str, Any] | None = None,
        _is_known: bool = False,
    ) -> None:
        self.bootstrap = find_bootstrap(bootstrap)
        require_serdes(keys, values)
        require_seconds("delivery_timeout", delivery_timeout)
        self._serdes = (keys, values)
        self._delivery_timeout_s = delivery_timeout
        settings: dict[str, Any] = {
            "acks": acks,
            "enable.idempotence": acks == "all",
            "compression.type": compression,
            "partitioner": "murmur2_random",
            "message.timeout.ms": int(delivery_timeout * 1000),
            "topic.metadata.propagation.max.ms": PROPAGATION_MS,
        }
        if linger_ms is not None:
            settings["linger.ms"] = linger_ms
        settings |= check_config(config)
        common = handle_config(self.bootstrap, client_id, settings, timeout_s=delivery_timeout, is_known=_is_known)
        with explaining("the producer's settings are refused"):
            from confluent_kafka import Producer as Handle

            self._handle: Any = Handle(common)
        self._deliveries = Deliveries(has_offsets=str(settings["acks"]) != "0")
        self._is_closed = False
        self._closing_thread: threading.Thread | None = None
        stop = threading.Event()
        # The thread must not reference this object, or a discarded producer would never be collected.
        self._thread = threading.Thread(
            target=_serve, args=(self._handle, self._deliveries, stop), name="yak-producer", daemon=True
        )
        self._thread.start()
        self._end = weakref.finalize(self, _forgotten, self._handle, stop)
        self._stop = stop
        forks.open_clients[self] = Producer._leave_to_parent

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Send one record; the future gives its topic, partition and offset.

        Records with equal keys go to one partition, in order; those without a key to any. `partition` overrides that. A
        value of None is a tombstone. `timestamp_ms` 0 is the present time, as in librdkafka. Waits while the queue is
        full, for `delivery_timeout` at most.

        Raises UsageError for a record that cannot be sent, YakError (`queue-full`). Later errors are in the future;
        `flush` raises the failures whose futures were not checked.
        """
        record = self.encode(value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        deadline = time.monotonic() + self._delivery_timeout_s
        while (delivery := self.offer(topic, record)) is None:
            if time.monotonic() > deadline:
                raise queue_full(topic, self._delivery_timeout_s)
            serve(self._handle.poll, SERVE_S, self._deliveries.stop)
        return delivery

    def encode(
        self,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Outgoing:
        """Encode a record. Raises UsageError (`not-encoded`, `usage`)."""
        for name, number in (("partition", partition), ("timestamp_ms", timestamp_ms)):
            if number is not None and not is_whole_number(number):
                raise bad_argument(
                    f"{name}={number!r} cannot be sent", "it is a whole number from 0 on", f"leave out {name}"
                )
        return Outgoing(
            value=to_bytes(self._serdes[1], "value", value),
            key=to_bytes(self._serdes[0], "key", key),
            headers=_encoded(headers),
            partition=-1 if partition is None else partition,
            timestamp_ms=timestamp_ms or 0,
        )

    def offer(self, topic: str, record: Outgoing) -> Delivery | None:
        """Queue an encoded record; None when the queue is full. Never waits."""
        # While it closes, callbacks of futures may send; records of other threads would keep the flush from its end.
        if self._is_closed or (
            self._closing_thread and threading.current_thread() not in (self._closing_thread, self._thread)
        ):
            raise closed("producer")
        delivery = Delivery()
        try:
            if not enqueue(self._handle, topic, record, partial(self._deliveries.settle, delivery, topic)):
                return None
        except kafka_exceptions() as error:
            if not names_no_partition(error):
                raise for_python(from_exception(error, f'a record for topic "{topic}" was not sent')) from None
            # librdkafka has the topic's metadata by now, and raises the error that it would otherwise report later.
            self._deliveries.settle(delivery, topic, error.args[0], None)
        self._deliveries.pending.add(delivery)
        if delivery.done():  # its report came before it was added
            self._deliveries.pending.discard(delivery)
        return delivery

    def __bool__(self) -> bool:
        """True, also when `len` is 0."""
        return True

    def __len__(self) -> int:
        """The number of records that are not settled yet, and for a moment of errors that librdkafka reports."""
        return 0 if self._is_closed else len(self._handle)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before is acknowledged or has failed; at most `timeout` seconds, else
        `delivery_timeout`.

        Raises SendFailed for records that failed since the last flush and whose futures were not checked, YakError
        (`timed-out`) when some records are still not settled, UsageError (`usage`) within a callback of a future.
        """
        self._require_outside_callback("flush")
        self._flush(self._settle_sent, timeout)

    def finish(self, timeout: float | None = None) -> None:
        """As `flush`, also for records that are sent meanwhile."""
        self._flush(self._settle, timeout)

    def _flush(self, settle_: Callable[[float], int], timeout: float | None) -> None:
        left = settle_(self._delivery_timeout_s + GRACE_S if timeout is None else require_wait(timeout))
        failure = self._deliveries.unseen_failure()
        if failure is not None:
            raise failure
        if left:
            raise YakError(
                "timed-out",
                f"{left} records are not settled yet; they may be in the log or not",
                why="no acknowledgement in the time given",
                try_=("flush() again with more time", "yak doctor"),
            )

    def close(self, timeout: float | None = None) -> None:
        """Flush, then end. A second call does nothing. Raises the errors of `flush`, but closes in any case.

        Other threads cannot send any more. Records that are not settled in `timeout` seconds are dropped, and fail.
        """
        if self._is_closed:
            return
        self._require_outside_callback("close")
        if timeout is not None:
            require_wait(timeout)
        self._closing_thread = threading.current_thread()
        try:
            self.finish(timeout)
        finally:
            self.abandon(0.0)

    def abandon(self, grace_s: float = GRACE_S) -> None:
        """End within about `grace_s`: records that are not acknowledged by then are dropped, and their futures fail."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._settle(grace_s):
            self._handle.purge()
            serve(self._handle.flush, GRACE_S, self._deliveries.stop)
        self._stop.set()
        self._end.detach()
        self._thread.join()
        self._handle.close()

    def _require_outside_callback(self, verb: str) -> None:
        if threading.current_thread() is self._thread:
            raise bad_argument(
                f"{verb}() within a callback of a future",
                "it would wait for the record whose callback this is",
                f"{verb}() in the thread that sends",
            )

    def _settle(self, timeout_s: float) -> int:
        if self._stop.is_set():
            return 0
        return settle(self._handle, timeout_s, self._deliveries.stop)

    def _settle_sent(self, timeout_s: float) -> int:
        """`_settle` for the records sent before, as Java's flush: other threads may go on sending."""
        deadline = time.monotonic() + timeout_s
        waiting = self._deliveries.pending.copy()
        while not self._stop.is_set() and (waiting := {each for each in waiting if not each.done()}):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return len(waiting)
            serve(self._handle.flush, min(SERVE_S, left_s), self._deliveries.stop)
        return 0

    def _leave_to_parent(self) -> Any:
        self._is_closed = True
        self._end.detach()
        return self._handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:  # The block's error must not be hidden by errors of its records.
            self.abandon(self._delivery_timeout_s)


def _encoded(headers: Headers | None) -> list[tuple[str, bytes | None]]:
    """The headers as librdkafka takes them; it would send the `repr` of a name that is no text. Raises UsageError."""
    if not headers:
        return []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    with explaining("the headers cannot be sent"):
        found = [(name, text.encode() if isinstance(text, str) else text) for name, text in pairs]
        for name, _ in found:
            if not isinstance(name, str):
                raise TypeError(f"a header's name is a str, not {type(name).__name__}")
            require_text(name)
    return found


def queue_full(topic: str, waited_s: float) -> YakError:
    """The error for a record that found the queue full."""
    return YakError(
        "queue-full",
        f'a record for topic "{topic}" was not sent',
        why=f"the queue was full for {waited_s:g} s: the program produces faster than brokers acknowledge",
        try_=("yak doctor", 'config={"queue.buffering.max.messages": 500_000}'),
    )


def _serve(handle: Any, deliveries: Deliveries, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            serve(handle.poll, SERVE_S, deliveries.stop)
        except Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a callback of a Delivery: others need this thread
            raised = type(error), error, error.__traceback__, threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs(raised))


def _forgotten(handle: Any, stop: threading.Event) -> None:
    left = len(handle)
    stop.set()
    if left:
        text = f"a producer was forgotten with {left} records that are not acknowledged; use it in a with block"
        warnings.warn(text, RuntimeWarning, stacklevel=2)  # a ResourceWarning is not shown by default
