"""One librdkafka consumer and its inbox. Every method may block, so threads call them, one at a time for each consumer.

Other threads may call `interrupt` and `end_soon` at any time, and the read-only `assignment` (which never blocks) and
`committed`. confluent-kafka admits one thread at a time to a handle, in no particular order. So a read pauses between
two polls when a read-only call is waiting.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from yak.ids import LeaderEpoch, Offset, TopicPartition
from yak.server.http.consumers.bodies import Mark, Settings
from yak.server.http.consumers.failures import illegal_state, kafka_failure
from yak.server.http.problems import Problem

RECORDS_MAX: Final = 10_000
"""In one answer: records without key and value have no bytes."""
SLICE_S: Final = 0.2
"""The longest single poll; an interruption takes effect between two polls."""
QUIET_S: Final = 0.05
"""A read ends with the records it has when nothing more arrives for this long."""
_BATCH: Final = 200
_ASK_S: Final = 10.0
_SEEK_S: Final = 5.0
_TENDED_BYTES: Final = 64 * 1024
_TENDED_RECORDS: Final = 1_000
_EVENTS_PER_TENDING: Final = 10
_LOG_LINES_MAX: Final = 20
_ASIDE_S: Final = 0.02
"""Long enough for a waiting read-only call to get in between two polls: it tries every few milliseconds."""
_PASSING: Final = (
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT",
    "_RESOLVE",
    "_MAX_POLL_EXCEEDED",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_TOPIC",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
)
"""Errors that librdkafka recovers from, of `yak.client.errors.is_transient`, which a server does not import. Like Java's
consumer, it waits for a topic that does not exist yet."""
_BEGINNING: Final = -2
_END: Final = -1


class Fetched(NamedTuple):
    """A record as fetched."""

    partition: TopicPartition
    offset: Offset
    key: bytes | None
    value: bytes | None
    leader_epoch: LeaderEpoch | None

    @property
    def size_bytes(self) -> int:
        """The size that `max_bytes` and `fetch.min.bytes` count, like in the proxy."""
        return len(self.key or b"") + len(self.value or b"")


class Position(NamedTuple):
    """The next offset, and the leader epoch of the delivered record before it (KIP-320), if there is one."""

    offset: Offset
    leader_epoch: LeaderEpoch | None


class Inbox:
    """The records an instance buffers between librdkafka and its client, and the client's position in each partition.

    A position moves after a record when an answer delivered the record to the client, not when it was fetched. Records
    of an answer that the client did not wait for go to its next read. Used by one thread at a time.
    """

    def __init__(self) -> None:
        self.bytes_held = 0
        self._waiting: deque[Fetched] = deque()
        self._positions: dict[TopicPartition, Position] = {}
        self._committed: dict[TopicPartition, Offset] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: Fetched) -> None:
        """Add a fetched record."""
        self._waiting.append(record)
        self.bytes_held += record.size_bytes

    def take(self, bytes_max: int, count_max: int) -> list[Fetched]:
        """Remove records within these limits. The first one may exceed them, or it could never be read (KIP-74)."""
        taken: list[Fetched] = []
        taken_bytes = 0
        while self._waiting and len(taken) < count_max:
            size_bytes = self._waiting[0].size_bytes
            if taken and taken_bytes + size_bytes > bytes_max:
                break
            taken_bytes += size_bytes
            taken.append(self._waiting.popleft())
        self.bytes_held -= taken_bytes
        return taken

    def put_back(self, records: list[Fetched]) -> None:
        """Return records that were taken last and not delivered."""
        self._waiting.extendleft(reversed(records))
        self.bytes_held += sum(record.size_bytes for record in records)

    def given(self, records: Iterable[Fetched]) -> None:
        """The client received these records: move its positions."""
        for record in records:
            self._positions[record.partition] = Position(record.offset + 1, record.leader_epoch)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Continue at an offset; buffered records of the partition are dropped."""
        self._drop([partition])
        self._positions[partition] = Position(offset, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the records and offsets of revoked partitions."""
        gone = dict.fromkeys(partitions)
        self._drop(gone)
        for partition in gone:
            self._positions.pop(partition, None)
            self._committed.pop(partition, None)

    def forget_all(self) -> None:
        """Like `forget`, for all partitions."""
        self._waiting.clear()
        self.bytes_held = 0
        self._positions.clear()
        self._committed.clear()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = dict.fromkeys(partitions)
        self._waiting = deque(record for record in self._waiting if record.partition not in gone)
        self.bytes_held = sum(record.size_bytes for record in self._waiting)

    def uncommitted(self) -> dict[TopicPartition, Position]:
        """The positions that differ from the last commit."""
        return {
            partition: position
            for partition, position in self._positions.items()
            if self._committed.get(partition) != position.offset
        }

    def committed(self, offsets: dict[TopicPartition, Offset]) -> None:
        """These offsets are committed, or a commit of them is under way."""
        self._committed.update(offsets)


class KafkaConsumer:
    """A consumer, opened by `open`, ended by `close`. Methods raise Problem for errors from Kafka."""

    def __init__(self, settings: Settings) -> None:
        self.log_lines: deque[str] = deque(maxlen=_LOG_LINES_MAX)
        """librdkafka's log lines, for the broker's log."""
        self._settings = settings
        self._inbox = Inbox()
        self._handle: Any = None
        self._wire: Any = None
        self._connect: dict[str, Any] = {}
        """Bootstrap address, group and client id."""
        self._is_interrupted = False
        self._is_ending = False
        self._shares = False
        self._resting = False
        self._failure: Any = None
        self._stored: dict[TopicPartition, Offset] = {}
        self._ours: dict[TopicPartition, None] = {}
        self.is_looked_at = False
        """A read-only call is waiting for the handle."""

    def open(self, bootstrap: str, group: str, client_id: str, login: Mapping[str, str]) -> None:
        """Create the consumer; it connects by itself. `login` are librdkafka's settings of TLS and SASL."""
        from confluent_kafka import TopicPartition as Wire

        self._wire = Wire
        self._connect = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": client_id, **login}
        self._handle = make_handle(self._settings, self._connect, self.log_lines)

    def begin(self) -> None:
        """Reset the interruption before the next read."""
        self._is_interrupted = False

    def interrupt(self) -> None:
        """End the read in progress soon: its client disconnected."""
        self._is_interrupted = True

    def end_soon(self) -> None:
        """End the call in progress and all later ones soon, before `close`."""
        self._is_ending = True

    # -------------------------------------------------------------------------------- subscription and assignment

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics from the next poll on; replaces the previous subscription."""
        names = list(topics)
        if not names:
            self.unsubscribe()
            return
        with explained("the subscription failed"):
            self._handle.subscribe(names, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._shares = True

    def unsubscribe(self) -> None:
        """Leave the group, or drop the assignment; the consumer may subscribe again.

        librdkafka leaves in the background. Requests to the group meanwhile are refused as a former member's, and an
        assignment made meanwhile is dropped. So a member's handle is closed, which waits, and replaced by a new one.
        """
        self._store_given()
        with explained("unsubscribing failed"):
            if self._shares:
                self._handle.close()
                self._handle = make_handle(self._settings, self._connect, self.log_lines)
            else:
                self._handle.unassign()
        self._shares = False
        self._nothing_is_ours()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these directly, each from the group's committed offset; replaces the previous assignment."""
        wanted = dict.fromkeys(partitions)
        self._store_given()
        with explained("assigning the partitions failed"):
            self._handle.assign(self._wires(wanted))
        self._shares = False
        self._nothing_is_ours()
        self._ours = wanted

    def assignment(self) -> list[TopicPartition]:
        """The current partitions, sorted. Never blocks."""
        return sorted(self._ours)

    def _assigned(self, handle: Any, wires: list[Any]) -> None:
        handle.assign(wires)
        if self._resting:
            handle.pause(wires)
        self._ours = dict.fromkeys(TopicPartition(wire.topic, wire.partition) for wire in wires)

    def _revoked(self, _handle: Any, wires: list[Any]) -> None:
        # librdkafka commits the stored offsets once this returns.
        self._store_given()
        self._lost(_handle, wires)

    def _lost(self, _handle: Any, wires: list[Any]) -> None:
        gone = dict.fromkeys(TopicPartition(wire.topic, wire.partition) for wire in wires)
        self._ours = {each: None for each in self._ours if each not in gone}
        self._inbox.forget(gone)
        for each in gone:
            self._stored.pop(each, None)

    def _nothing_is_ours(self) -> None:
        self._ours = {}
        self._stored.clear()
        self._inbox.forget_all()
        self._resting = False

    def _wires(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        return [self._wire(*each) for each in partitions]

    # --------------------------------------------------------------------------------------------------- records

    def read(self, wait_s: float, bytes_max: int) -> list[Fetched]:
        """Fetch records, for `given` or `put_back`. With `auto.commit.enable`, positions from earlier reads are stored.

        Ends with `bytes_max`, or with `fetch.min.bytes`, or without that setting when nothing more arrives for
        `QUIET_S`; at the latest at the timeout, with the records so far.
        """
        self._store_given()
        self._wake()
        with explained("reading failed"):
            self._gather(time.monotonic() + wait_s, bytes_max)
        taken = self._inbox.take(bytes_max, RECORDS_MAX)
        if not taken and self._failure is not None:
            failure, self._failure = self._failure, None
            raise kafka_failure(failure, "reading failed")
        return taken

    def _gather(self, deadline: float, bytes_max: int) -> None:
        inbox, min_bytes = self._inbox, self._settings.min_bytes
        while not (self._is_interrupted or self._is_ending) and self._failure is None:
            while inbox.bytes_held < bytes_max and len(inbox) < RECORDS_MAX:
                # consume() with a timeout waits for a full batch; without one it takes the records already fetched.
                messages = self._handle.consume(_BATCH, 0)
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
            message = self._handle.poll(min(left, QUIET_S if may_end else SLICE_S))
            if message is None and may_end:
                return
            self._accept([message])
            if self.is_looked_at:
                time.sleep(_ASIDE_S)

    def _accept(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._inbox.put(
                    Fetched(
                        TopicPartition(message.topic(), message.partition()),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.leader_epoch(),
                    )
                )
            elif error.name() in _PASSING or error.retriable():
                self.log_lines.append(error.str())
            else:
                self._failure = error

    def put_back(self, records: list[Fetched]) -> None:
        """These records were read but not delivered: the next read returns them again."""
        self._inbox.put_back(records)

    def given(self, records: list[Fetched]) -> None:
        """The client received these records."""
        self._inbox.given(records)

    def tend(self) -> None:
        """Poll an idle consumer: librdkafka takes part in rebalances only while it is polled.

        Fetched records are buffered for the next read; with many buffered, fetching is paused until then.
        """
        with contextlib.suppress(Problem), explained(""):
            if not self._resting:
                while self._inbox.bytes_held < _TENDED_BYTES and len(self._inbox) < _TENDED_RECORDS:
                    messages = self._handle.consume(_BATCH, 0)
                    if not messages:
                        return
                    self._accept(messages)
                self._handle.pause(self._wires(self._ours))
                self._resting = True
            for _ in range(_EVENTS_PER_TENDING):
                message = self._handle.poll(0)
                if message is None:
                    break
                self._accept([message])

    def _wake(self) -> None:
        if self._resting:
            self._resting = False
            with explained("resuming the fetches failed"):
                self._handle.resume(self._wires(self._ours))

    # --------------------------------------------------------------------------------------------------- offsets

    def commit(self, marks: Mapping[TopicPartition, Mark] | None, *, waits: bool) -> None:
        """Commit these offsets, or all positions. Without `waits` the commit is asynchronous and may yet fail."""
        if marks is not None:
            offsets = {each: mark.offset for each, mark in marks.items()}
            wires = [self._wire(*each, mark.offset, mark.metadata) for each, mark in marks.items()]
        else:
            positions = self._inbox.uncommitted()
            offsets = {each: position.offset for each, position in positions.items()}
            wires = [
                self._wire(*each, offset, **({} if epoch is None else {"leader_epoch": epoch}))
                for each, (offset, epoch) in positions.items()
            ]
        if not wires:
            return
        with explained("committing the offsets failed"):
            answers = self._handle.commit(offsets=wires, asynchronous=not waits)
        if waits:
            refused = [wire for wire in answers if wire.error is not None]
            if refused:
                where = f"{refused[0].topic}-{refused[0].partition}"
                raise kafka_failure(refused[0].error, f"committing the offset of {where} failed")
        self._inbox.committed(offsets)

    def committed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Mark]:
        """The group's committed offsets of these partitions, or of the current ones, without those that have none."""
        wanted = self.assignment() if partitions is None else list(partitions)
        if not wanted:
            return {}
        with explained("the committed offsets are unavailable"):
            answers = self._handle.committed(self._wires(wanted), timeout=_ASK_S)
        for wire in answers:
            if wire.error is not None:
                raise kafka_failure(wire.error, f"the committed offset of {wire.topic}-{wire.partition} is unavailable")
        return {
            TopicPartition(wire.topic, wire.partition): Mark(wire.offset, wire.metadata or "")
            for wire in answers
            if wire.offset >= 0
        }

    def _store_given(self) -> None:
        """With `auto.commit.enable`: store the client's positions, which librdkafka commits periodically."""
        if not self._settings.auto_commit:
            return
        given = self._inbox.uncommitted()
        fresh = {each: found for each, found in given.items() if self._stored.get(each) != found.offset}
        wires = [self._wire(*each, found.offset) for each, found in fresh.items() if each in self._ours]
        if wires:
            # A partition revoked at this moment is read by another member, from the committed offset.
            with contextlib.suppress(Problem), explained(""):
                self._handle.store_offsets(offsets=wires)
                self._stored |= {each: found.offset for each, found in fresh.items()}

    # ------------------------------------------------------------------------------------------------- positions

    def seek(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Continue at these offsets; moves nothing unless all partitions are assigned to this consumer."""
        self._require_ours(offsets)
        self._wake()
        for each, offset in offsets.items():
            self._seek(each, offset)
            self._inbox.seek(each, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue at the first available records."""
        self.seek(self._offsets_at(dict.fromkeys(partitions, _BEGINNING)))

    def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue after the last readable records."""
        self.seek(self._offsets_at(dict.fromkeys(partitions, _END)))

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """The first offset at or after a time; the end if all records are older."""
        found = self._offsets_at(times_ms)
        beyond = {each: _END for each, offset in found.items() if offset < 0}
        return found | (self._offsets_at(beyond) if beyond else {})

    def _offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """ListOffsets accepts -1 and -2 as times: the end and the beginning, by the consumer's isolation level."""
        self._require_ours(times_ms)
        if not times_ms:
            return {}
        with explained("the offsets are unavailable"):
            answers = self._handle.offsets_for_times(
                [self._wire(*each, time_ms) for each, time_ms in times_ms.items()], timeout=_ASK_S
            )
        for wire in answers:
            if wire.error is not None:
                raise kafka_failure(wire.error, f"the offset of {wire.topic}-{wire.partition} is unavailable")
        return {TopicPartition(wire.topic, wire.partition): wire.offset for wire in answers}

    def _require_ours(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            if each not in self._ours:
                raise illegal_state(
                    f"{each} is not assigned to this instance",
                    "GET .../assignments lists the assigned partitions; a group assigns them within seconds",
                )

    def _seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Seek, with retries: librdkafka refuses it until it has the committed offset and fetches."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _SEEK_S
        while True:
            try:
                self._handle.seek(self._wire(*partition, offset))
                return
            except KafkaException as error:
                if error.args[0].name() != "_STATE" or time.monotonic() > deadline or self._is_ending:
                    raise kafka_failure(error.args[0], f"seeking {partition} to {offset} failed") from None
            time.sleep(0.01)

    def close(self) -> None:
        """Leave the group at once with a controlled close; with `auto.commit.enable`, commit the delivered records."""
        handle = self._handle
        if handle is None:
            return
        with contextlib.suppress(Problem), explained(""):
            self._store_given()
        with contextlib.suppress(Problem), explained(""):
            handle.close()
        self._nothing_is_ours()
        # The handle's callbacks refer to this object, and the broker does not collect cycles.
        self._handle = None


def make_handle(settings: Settings, connect: Mapping[str, Any], log_lines: deque[str]) -> Any:
    """A consumer; it connects by itself and logs to `log_lines`. Raises Problem."""
    from confluent_kafka import Consumer

    config = {**handle_config(settings), **connect, "error_cb": lambda error: log_lines.append(error.str())}
    with explained("the consumer could not be created"):
        return Consumer(config, logger=_Log(log_lines))


def handle_config(settings: Settings) -> dict[str, Any]:
    """librdkafka's configuration for an instance, with small queues: a broker may have many instances."""
    return {
        "group.protocol": "classic",
        "enable.auto.commit": settings.auto_commit,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error" if settings.offset_reset == "none" else settings.offset_reset,
        "isolation.level": settings.isolation,
        "allow.auto.create.topics": False,
        # A killed broker takes its instances along: the group must not wait 45 s for them.
        "session.timeout.ms": 10_000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "queued.min.messages": 1_000,
        "queued.max.messages.kbytes": 2_048,
        "message.max.bytes": 1_048_576,
        "fetch.max.bytes": 2_097_152,
        "fetch.wait.max.ms": 250,
        "fetch.queue.backoff.ms": 10,
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
