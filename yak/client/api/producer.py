"""The blocking producer: `send` gives a future, a thread of its own takes the delivery reports.

Idempotent with acks=all, so that a retry writes nothing twice. Keys choose partitions by murmur2 as in Java's clients
(Kafka: `Utils.murmur2`, `BuiltInPartitioner.partitionForKey`; librdkafka: `murmur2_random`), so that every client finds a
key in the same partition.
"""

import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from yak.client.api.delivery import Deliveries, Delivery
from yak.client.api.failures import closed, explaining, for_python, with_notes
from yak.client.api.serde import JSON, TEXT, Serde, to_bytes
from yak.client.api.settings import Bootstrap, check_config, find_bootstrap, handle_config
from yak.client.errors import from_exception, kafka_exceptions, names_no_partition
from yak.client.produce import Outgoing
from yak.errors import YakError

Acks: TypeAlias = Literal["all", 0, 1]
Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Headers: TypeAlias = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

SERVE_S = 0.1
"""How long one wait for delivery reports is; a report ends it at once."""
PROPAGATION_MS = 3000
"""How long a topic may be unknown before its records fail; librdkafka waits 30 s, and a wrong name looks like a hang."""
GRACE_S = 1.0
"""What a cancelled producer may still take to hand over what it was given."""


class Producer:
    """Sends records. Safe for several threads; best used as a context manager, which waits for the last acknowledgement.

    - `acks`: `"all"` waits for every replica in sync, 1 for the leader, 0 for nobody (no offsets are known then)
    - `compression`: of whole batches; consumers need not know
    - `linger_ms`: how long a record may wait for others, for larger batches (librdkafka's default is 5)
    - `delivery_timeout`: seconds after which a record that is not acknowledged has failed
    - `keys`, `values`: how they become bytes; text and JSON by default
    - `config`: librdkafka's settings by their names, for what is not here

    Raises Unreachable when no broker answers within 3 s, UsageError for settings that cannot be.
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
        stop = threading.Event()
        # The thread must not know this object, or one that was forgotten would live for ever.
        self._thread = threading.Thread(target=_serve, args=(self._handle, stop), name="yak-producer", daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _forgotten, self._handle, stop)
        self._stop = stop

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

        Records with equal keys go to one partition, in order; those without a key to any. `partition` overrules that.
        A value of None is a tombstone. Waits while the queue is full, for `delivery_timeout` at most.

        Raises UsageError for a record that cannot be sent, YakError (`queue-full`). What happens to a record later is
        in its future; `flush` raises the failures that nobody looked at.
        """
        record = self.encode(value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        deadline = time.monotonic() + self._delivery_timeout_s
        while (delivery := self.offer(topic, record)) is None:
            if time.monotonic() > deadline:
                raise queue_full(topic, self._delivery_timeout_s)
            self._handle.poll(SERVE_S)
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
        """A record as bytes. Raises UsageError (`not-encoded`)."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
        return Outgoing(
            value=to_bytes(self._serdes[1], "value", value),
            key=to_bytes(self._serdes[0], "key", key),
            headers=[(name, text.encode() if isinstance(text, str) else text) for name, text in pairs],
            partition=-1 if partition is None else partition,
            timestamp_ms=timestamp_ms or 0,
        )

    def offer(self, topic: str, record: Outgoing) -> Delivery | None:
        """Queue a record that `encode` made; None when the queue is full. Never waits."""
        if self._is_closed:
            raise closed("producer")
        delivery = Delivery()
        options: dict[str, Any] = {"on_delivery": partial(self._deliveries.settle, delivery, topic)}
        if record.headers:
            options["headers"] = record.headers
        if record.partition >= 0:
            options["partition"] = record.partition
        if record.timestamp_ms:
            options["timestamp"] = record.timestamp_ms
        try:
            self._handle.produce(topic, record.value, record.key, **options)
        except BufferError:
            return None
        except kafka_exceptions() as error:
            if not names_no_partition(error):
                raise for_python(from_exception(error, f'a record for topic "{topic}" was not sent')) from None
            # librdkafka knows the topic by now, and says at once what it would report later if it did not
            self._deliveries.settle(delivery, topic, error.args[0], None)
        return delivery

    def __len__(self) -> int:
        """How many records are not settled yet."""
        return 0 if self._is_closed else len(self._handle)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record is acknowledged or has failed; at most `timeout` seconds, else `delivery_timeout`.

        Raises SendFailed for records that failed since the last flush and whose futures nobody asked, YakError
        (`timed-out`) when some are still not settled.
        """
        left = self._settle(self._delivery_timeout_s + GRACE_S if timeout is None else timeout)
        failure = self._deliveries.unseen_failure()
        if failure is not None:
            raise failure
        if left:
            raise with_notes(
                YakError(
                    "timed-out",
                    f"{left} records are not settled yet; they may be in the log or not",
                    why="no acknowledgement in the time given",
                    try_=("flush() again with more time", "yak doctor"),
                )
            )

    def close(self, timeout: float | None = None) -> None:
        """Flush, then end. Does nothing the second time. Raises as `flush` does; closed it is in any case.

        Records that are not settled in `timeout` seconds are dropped, and fail.
        """
        if self._is_closed:
            return
        try:
            self.flush(timeout)
        finally:
            self.abandon(0.0)

    def abandon(self, grace_s: float = GRACE_S) -> None:
        """End within about `grace_s`: what is not acknowledged by then is dropped, and its futures fail."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._settle(grace_s):
            self._handle.purge()
            self._handle.flush(GRACE_S)
        self._stop.set()
        self._end.detach()
        self._thread.join()
        self._handle.close()

    def _settle(self, timeout_s: float) -> int:
        if self._stop.is_set():
            return 0
        deadline = time.monotonic() + timeout_s
        # In short waits, so that Ctrl+C is heard.
        while left := len(self._handle):
            wait_s = min(0.2, deadline - time.monotonic())
            if wait_s <= 0:
                return int(left)
            self._handle.flush(wait_s)
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:  # What went wrong in the block must not be hidden by what went wrong with its records.
            self.abandon(self._delivery_timeout_s)


def queue_full(topic: str, waited_s: float) -> YakError:
    """For a record that found no place in the queue."""
    error = YakError(
        "queue-full",
        f'a record for topic "{topic}" was not sent',
        why=f"the queue was full for {waited_s:g} s: records are made faster than brokers acknowledge them",
        try_=("yak doctor", 'config={"queue.buffering.max.messages": 500_000}'),
    )
    return with_notes(error)


def _serve(handle: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        handle.poll(SERVE_S)


def _forgotten(handle: Any, stop: threading.Event) -> None:
    left = len(handle)
    stop.set()
    if left:
        text = f"a producer was forgotten with {left} records that are not acknowledged; use it in a with block"
        warnings.warn(text, ResourceWarning, stacklevel=2)
