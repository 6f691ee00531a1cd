"""One librdkafka consumer and its inbox. Every method may block, so threads call them, one at a time for each consumer.

Other threads may set `is_interrupted` and `is_ending` at any time, and call the read-only `assignment` (which never
blocks) and `committed`. confluent-kafka admits one thread at a time to a handle, in no particular order. So a read pauses between
two polls when a read-only call is waiting.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from yak.client.consumer import (
    UNKNOWN_TOPIC,
    Callbacks,
    ConsumerHandle,
    Inbox,
    consumer_config,
    is_transient,
    refusal_in,
    source_of,
)
from yak.ids import LeaderEpoch, Offset, TopicPartition
from yak.server.http.consumers.bodies import Mark, Settings
from yak.server.http.consumers.failures import illegal_state, kafka_failure
from yak.server.http.context import CONSUMER_SESSION_MS
from yak.server.http.problems import Problem
from yak.server.http.topic_partitions import LATEST

RECORDS_MAX: Final = 10_000
"""In one answer: records without key and value have no bytes."""
SLICE_S: Final = 0.2
"""The longest single poll; an interruption takes effect between two polls."""
QUIET_S: Final = 0.05
"""A read ends with the records it has when nothing more arrives for this long."""
_BATCH: Final = 200
_REQUEST_TIMEOUT_S: Final = 10.0
_SEEK_TIMEOUT_S: Final = 5.0
LOGIN_PATIENCE_S: Final = 3.0
"""How long the brokers refuse a login before a read fails. librdkafka repeats the error only every 30 s."""
_LOGIN_CHECK_S: Final = 1.0
_TENDED_BYTES: Final = 64 * 1024
_TENDED_RECORDS: Final = 1_000
_EVENTS_PER_TENDING: Final = 10
_LOG_LINES_MAX: Final = 20
_READERS_PAUSE_S: Final = 0.02
"""Long enough for a waiting read-only call to get in between two polls: it tries every few milliseconds."""
_TRANSIENT: Final = UNKNOWN_TOPIC | {"_MAX_POLL_EXCEEDED"}
"""More transient errors: like Java's consumer, an instance waits for a topic that does not exist yet."""


class Fetched(NamedTuple):
    """A record as fetched."""

    topic_partition: TopicPartition
    offset: Offset
    key: bytes | None
    value: bytes | None
    leader_epoch: LeaderEpoch | None

    @property
    def size_bytes(self) -> int:
        """The size that `max_bytes` and `fetch.min.bytes` count, like in the proxy."""
        return len(self.key or b"") + len(self.value or b"")


class KafkaConsumer:
    """A consumer, opened by `open`, ended by `close`. Methods raise Problem for errors from Kafka."""

    def __init__(self, settings: Settings) -> None:
        self.log_lines: deque[str] = deque(maxlen=_LOG_LINES_MAX)
        """librdkafka's log lines, for the broker's log."""
        self._settings = settings
        self.inbox: Inbox[Fetched] = Inbox(lambda record: record.size_bytes)
        """Takes the records of a read that were delivered (`given`), and those that were not (`put_back`)."""
        self._handle: ConsumerHandle[Fetched] | None = None
        self._connect: Mapping[str, str] = {}
        self.is_interrupted = False
        """The client of the read in progress disconnected: it ends soon."""
        self.is_ending = False
        """The call in progress and all later ones end soon, before `close`."""
        self._subscribed: tuple[str, ...] = ()
        self._is_paused = False
        self._failure: Any = None
        self._refused_login: tuple[Any, float] | None = None
        """librdkafka's error, and when it came first, on the monotonic clock."""
        self._assignment: dict[TopicPartition, None] = {}
        self.has_readers = False
        """A read-only call is waiting for the handle."""

    def open(self, connect: Mapping[str, str]) -> None:
        """Create the consumer; it connects by itself. `connect` are librdkafka's settings for group and connection."""
        self._connect = connect
        self._handle = self._new_handle()

    def _new_handle(self) -> ConsumerHandle[Fetched]:
        config = {**handle_config(self._settings), **self._connect, "error_cb": self._note_error}
        with explained("the consumer could not be created"):
            return ConsumerHandle(config, inbox=self.inbox, logger=_Log(self.log_lines))

    def _note_error(self, error: Any) -> None:
        self.log_lines.append(error.str())
        if error.name() == "_AUTHENTICATION" and self._refused_login is None:
            self._refused_login = error, time.monotonic()

    @property
    def _open(self) -> ConsumerHandle[Fetched]:
        assert self._handle is not None, "the consumer is not open"
        return self._handle

    # -------------------------------------------------------------------------------- subscription and assignment

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics from the next poll on; replaces the previous subscription."""
        names = tuple(topics)
        if not names:
            self.unsubscribe()
            return
        with explained("the subscription failed"):
            self._open.subscribe(names, Callbacks(self._assigned, self._revoked, self._lost))
        self._subscribed = names

    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment; the consumer may subscribe again.

        librdkafka leaves in the background. Requests to the group meanwhile are refused as a former member's, and an
        assignment made meanwhile is dropped. So a member's handle is closed, which waits, and replaced by a new one.
        """
        self._store_given()
        with explained("unsubscribing failed"):
            if self._subscribed:
                # replaced first: a read-only call that waited for the closed handle finds the new one
                left, self._handle = self._open, self._new_handle()
                left.close()
            else:
                self._open.consumer.unassign()
        self._subscribed = ()
        self._forget_assignment()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these directly, each from the group's committed offset; replaces the previous assignment."""
        wanted = dict.fromkeys(partitions)
        self._store_given()
        with explained("assigning the partitions failed"):
            self._open.assign(wanted)
        self._subscribed = ()
        self._forget_assignment()
        self._assignment = wanted

    def assignment(self) -> list[TopicPartition]:
        """The current partitions, sorted. Never blocks."""
        return sorted(self._assignment)

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        if self._is_paused:
            self.inbox.pause(partitions)
        self._assignment = dict.fromkeys(partitions)

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        # librdkafka commits the stored offsets once this returns.
        self._store_given()
        self._lost(partitions)

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self._assignment = {each: None for each in self._assignment if each not in partitions}

    def _forget_assignment(self) -> None:
        self._assignment = {}
        self.inbox.forget_all()
        self._is_paused = False

    # --------------------------------------------------------------------------------------------------- records

    def read(self, wait_s: float, bytes_max: int) -> list[Fetched]:
        """Fetch records, for the inbox's `given` or `put_back`. With `auto.commit.enable`, positions from earlier reads
        are stored.

        Ends with `bytes_max`, or with `fetch.min.bytes`, or without that setting when nothing more arrives for
        `QUIET_S`; at the latest at the timeout, with the records so far.
        """
        self._store_given()
        if self._has_enough(bytes_max):
            self.tend()  # or the group could not rebalance while a client reads little at a time
        if not self._has_enough(bytes_max):
            self._wake()
            with explained("reading failed"):
                self._gather(time.monotonic() + wait_s, bytes_max)
        taken = self.inbox.draw(bytes_max, RECORDS_MAX)
        if not taken and (failure := self._failure or self._login_failure()) is not None:
            self._failure = None
            raise kafka_failure(failure, "reading failed")
        return taken

    def _login_failure(self) -> Any:
        """The error of a login that the brokers refuse for some seconds. None where one of them accepts it.

        A broker that stops during a login causes the same error, and librdkafka does not report a login that succeeds.
        """
        from confluent_kafka import KafkaException

        topics = [*self._subscribed, *(each.topic for each in self._assignment)]
        if not topics or self._refused_login is None or time.monotonic() - self._refused_login[1] < LOGIN_PATIENCE_S:
            return None
        try:
            self._open.consumer.list_topics(topics[0], timeout=_LOGIN_CHECK_S)
        except KafkaException:
            return self._refused_login[0]
        self._refused_login = None
        return None

    def _has_enough(self, bytes_max: int) -> bool:
        return self.inbox.bytes_held >= bytes_max or len(self.inbox) >= RECORDS_MAX

    def _gather(self, deadline: float, bytes_max: int) -> None:
        inbox, min_bytes = self.inbox, self._settings.min_bytes
        while not (self.is_interrupted or self.is_ending) and self._failure is None:
            while not self._has_enough(bytes_max):
                # consume() with a timeout waits for a full batch; without one it takes the records already fetched.
                messages = self._open.consumer.consume(_BATCH, 0)
                if not messages:
                    break
                self._accept(messages)
            else:
                return
            if min_bytes is not None and len(inbox) and inbox.bytes_held >= min_bytes:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            may_end = min_bytes is None and len(inbox) > 0
            message = self._open.consumer.poll(min(left, QUIET_S if may_end else SLICE_S))
            if message is None and may_end:
                return
            self._accept([message])
            if self.has_readers:
                time.sleep(_READERS_PAUSE_S)

    def _accept(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.inbox.put(
                    Fetched(
                        source_of(message), message.offset(), message.key(), message.value(), message.leader_epoch()
                    )
                )
            elif error.name() == "_PARTITION_EOF":
                self._open.note_end(message)
            elif is_transient(error, _TRANSIENT):
                self.log_lines.append(error.str())
            else:
                self._open.note_error(message)
                self._failure = error

    def tend(self) -> None:
        """Poll an idle consumer: librdkafka takes part in rebalances only while it is polled.

        Fetched records are buffered for the next read; with many buffered, fetching is paused until then.
        """
        with contextlib.suppress(Problem), explained(""):
            if not self._is_paused:
                while self.inbox.bytes_held < _TENDED_BYTES and len(self.inbox) < _TENDED_RECORDS:
                    messages = self._open.consumer.consume(_BATCH, 0)
                    if not messages:
                        return
                    self._accept(messages)
                self._open.pause(self._assignment)
                self._is_paused = True
            for _ in range(_EVENTS_PER_TENDING):
                message = self._open.consumer.poll(0)
                if message is None:
                    break
                self._accept([message])

    def _wake(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.inbox.resume(self.inbox.paused)
            with explained("resuming the fetches failed"):
                self._open.resume(self._assignment)

    # --------------------------------------------------------------------------------------------------- offsets

    def commit(self, marks: Mapping[TopicPartition, Mark] | None, *, waits: bool) -> None:
        """Commit these offsets, or all positions.

        Without `waits` the commit is asynchronous and may yet fail, so that the next commit repeats its positions.
        """
        if marks is not None:
            offsets = {each: mark.offset for each, mark in marks.items()}
            metadata = {each: mark.metadata for each, mark in marks.items()}
        else:
            offsets, metadata = self.inbox.uncommitted(), None
        if not offsets:
            return
        with explained("committing the offsets failed"):
            answers = self._open.commit(offsets, metadata, waits=waits)
        if (refused := refusal_in(answers)) is not None:
            raise kafka_failure(refused[1], f"committing the offset of {refused[0]} failed")
        if waits:
            self.inbox.committed(offsets)
        else:
            self.inbox.forget_committed(offsets)

    def committed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Mark]:
        """The group's committed offsets of these partitions, or of the current ones, without those that have none."""
        wanted = self.assignment() if partitions is None else list(partitions)
        if not wanted:
            return {}
        with explained("the committed offsets are unavailable"):
            handle = self._open
            try:
                answers = handle.committed(wanted, _REQUEST_TIMEOUT_S)
            except RuntimeError:  # `unsubscribe` closed it while this call waited for it
                if self._open is handle:
                    raise
                answers = self._open.committed(wanted, _REQUEST_TIMEOUT_S)
        if (refused := refusal_in(answers)) is not None:
            raise kafka_failure(refused[1], f"the committed offset of {refused[0]} is unavailable")
        return {each: Mark(found.offset, found.metadata or "") for each, found in answers.items() if found.offset >= 0}

    def _store_given(self) -> None:
        """With `auto.commit.enable`: store the client's positions, which librdkafka commits periodically."""
        if not self._settings.auto_commit:
            return
        # A partition revoked at this moment is read by another member, from the committed offset.
        with contextlib.suppress(Problem), explained(""):
            self._open.store_given(lambda: self._assignment)

    # ------------------------------------------------------------------------------------------------- positions

    def seek(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Continue at these offsets; moves nothing unless all partitions are assigned to this consumer."""
        self._require_assigned(offsets)
        self._wake()
        for each, offset in offsets.items():
            with explained(f"seeking {each} to {offset} failed"):
                self._open.seek(each, offset, _SEEK_TIMEOUT_S, lambda: not self.is_ending)
            self.inbox.seek(each, offset)

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """The first offset at or after a time, EARLIEST or LATEST; the end if all records are older."""
        found = self._offsets_at(times_ms)
        beyond = {each: LATEST for each, offset in found.items() if offset < 0}
        return found | (self._offsets_at(beyond) if beyond else {})

    def _offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """ListOffsets accepts -1 and -2 as times: the end and the beginning, by the consumer's isolation level."""
        self._require_assigned(times_ms)
        if not times_ms:
            return {}
        with explained("the offsets are unavailable"):
            answers = self._open.offsets_at(times_ms, _REQUEST_TIMEOUT_S)
        if (refused := refusal_in(answers)) is not None:
            raise kafka_failure(refused[1], f"the offset of {refused[0]} is unavailable")
        return {each: found.offset for each, found in answers.items()}

    def _require_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            if each not in self._assignment:
                raise illegal_state(
                    f"{each} is not assigned to this instance",
                    "GET .../assignments lists the assigned partitions; a group assigns them within seconds",
                )

    def close(self) -> None:
        """Leave the group at once with a controlled close; with `auto.commit.enable`, commit the delivered records."""
        handle = self._handle
        if handle is None:
            return
        with contextlib.suppress(Problem), explained(""):
            self._store_given()
        with contextlib.suppress(Problem), explained(""):
            handle.close()
        self._forget_assignment()
        # The handle's callbacks refer to this object, and the broker does not collect cycles.
        self._handle = None


def handle_config(settings: Settings) -> dict[str, Any]:
    """librdkafka's configuration for an instance, with small queues: a broker may have many instances."""
    reset = "error" if settings.offset_reset == "none" else settings.offset_reset
    return consumer_config(None, reset=reset, read_committed=settings.isolation == "read_committed") | {
        "group.protocol": "classic",
        "enable.auto.commit": settings.auto_commit,
        "session.timeout.ms": CONSUMER_SESSION_MS,
        "enable.partition.eof": True,  # without a record, it alone tells the position after a reset
        "topic.metadata.refresh.interval.ms": 30_000,
        "queued.min.messages": 1_000,
        "queued.max.messages.kbytes": 2_048,
        "message.max.bytes": 1_048_576,
        "fetch.max.bytes": 2_097_152,
        "fetch.wait.max.ms": 250,
        "fetch.error.backoff.ms": 100,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.connection.setup.timeout.ms": 3_000,
        "socket.timeout.ms": 15_000,
    }


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise librdkafka's errors as Problem."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise kafka_failure(error.args[0], what) from None


class _Log:
    """Receives librdkafka's log, which would otherwise go to stderr, while the consumer is polled."""

    def __init__(self, lines: deque[str]) -> None:
        self._lines = lines

    def log(self, _level: int, form: str, *args: object) -> None:
        """One line, with the arguments of `logging.Logger.log`."""
        self._lines.append(form % args)
