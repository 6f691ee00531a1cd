"""One librdkafka consumer: the poll loop, inbox, positions, rebalances and transient errors of all readers.

`yak consume`, groups, the Python API, the UI, HTTP's consumer instances and Spark's librdkafka reader share it. Each
adds what it does with a record, and its own errors: methods here raise librdkafka's.
"""

import contextlib
import gc
import operator
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from yak.client.metadata import ClusterMetadata, read_metadata
from yak.errors import YakError
from yak.ids import LeaderEpoch, Offset, TopicPartition

NO_GROUP: Final = "yak-without-group"
"""librdkafka needs a group name even without a group; it is never sent to a broker."""
TIMESTAMP_TYPES: Final = {0: "NotAvailable", 1: "CreateTime", 2: "LogAppendTime"}
_SEEK_PAUSE_S: Final = 0.01

_TRANSIENT: Final = frozenset(
    {
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_TIMED_OUT",
        "_RESOLVE",
        "_WAIT_COORD",
        "REQUEST_TIMED_OUT",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    }
)
REBALANCED: Final = frozenset(
    {
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
        "STALE_MEMBER_EPOCH",
        "FENCED_MEMBER_EPOCH",
        "_ASSIGNMENT_LOST",
        "_MAX_POLL_EXCEEDED",
    }
)
"""The group rebalances: librdkafka rejoins by itself."""
UNKNOWN_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"})
OUT_OF_RANGE: Final = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})


def is_transient(error: Any, also: Collection[str] = ()) -> bool:
    """Whether a consumer recovers from librdkafka's error by itself, or a commit may be tried again.

    `also` are further names from which this caller's consumer recovers.
    """
    name = error.name()
    return bool(error.retriable()) or name in _TRANSIENT or name in also


def consumer_config(group: str | None, *, reset: str, read_committed: bool) -> dict[str, Any]:
    """The settings of every consumer: commits only on request, short waits after an empty fetch, no new topics."""
    return {
        "group.id": NO_GROUP if group is None else group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": reset,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "fetch.queue.backoff.ms": 10,
        "allow.auto.create.topics": False,
        "error_cb": _fail_without_threads,
    }


def _fail_without_threads(error: Any) -> None:
    """Raised by `poll`: without a thread for a broker, librdkafka waits silently. Other errors surface by themselves."""
    if error.name() == "_CRIT_SYS_RESOURCE":
        why = f"{error.str()}: this user, container or machine has too many"
        raise YakError("no-threads", "nothing can be read: a thread cannot be started", why=why, try_=("ulimit -u",))


@dataclass(slots=True)
class ConsumerRecord:
    """One record of a topic, as plain values. `timestamp_ms` is -1 without a timestamp."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int | None

    @classmethod
    def of(cls, message: Any) -> "ConsumerRecord":
        """From librdkafka's message."""
        kind, timestamp_ms = message.timestamp()
        return cls(
            message.topic(),
            message.partition(),
            message.offset(),
            timestamp_ms if kind else -1,
            TIMESTAMP_TYPES.get(kind, "NotAvailable"),
            message.key(),
            message.value(),
            headers_of(message),
            message.leader_epoch(),
        )


NOT_UTF8: Final = "\ufffd"
"""In place of the name of a header that is not UTF-8."""
_headers: Final = operator.methodcaller("headers")
"""Unlike a call that the interpreter has specialized, it raises what the binding leaves as an exception."""


def headers_of(message: Any) -> list[tuple[str, bytes | None]]:
    """The headers of librdkafka's message; a name that is not UTF-8 becomes `NOT_UTF8`, as Java's client replaces it.

    The binding raises SystemError for such a name, and the caller would lose the records behind it. Its second call returns
    the headers, with a null pointer in place of the name. Nothing may touch that pointer; the garbage collector skips it.
    """
    try:
        found: list[tuple[str, bytes | None]] | None = _headers(message)
    except SystemError:
        pairs: list[tuple[str, bytes | None]] = _headers(message)
        return [pair if len(parts := gc.get_referents(pair)) > 1 else (NOT_UTF8, parts[0]) for pair in pairs]
    return found or []


def place_of(wire: Any) -> TopicPartition:
    """The partition of librdkafka's TopicPartition."""
    return TopicPartition(wire.topic, wire.partition)


def source_of(message: Any) -> TopicPartition:
    """The partition of librdkafka's message."""
    return TopicPartition(message.topic(), message.partition())


class Record(Protocol):
    """What an inbox needs to know of a record."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Its partition."""

    @property
    def offset(self) -> Offset:
        """Its offset."""

    @property
    def leader_epoch(self) -> LeaderEpoch | None:
        """The epoch of the leader that appended it."""


R = TypeVar("R", bound=Record)


class Inbox(Generic[R]):
    """Buffered records between librdkafka and the caller, the paused partitions, and the caller's positions.

    A position is the offset of the next record for the caller. It moves when the caller received a record, not when the
    record was fetched: so a cancelled call leaves its records here, and commits nothing. The lock is held only for
    single steps, since an event loop takes records while a thread adds them.
    """

    def __init__(self, size_of: Callable[[R], int] = lambda _: 0) -> None:
        self.bytes_held = 0
        self._size_of = size_of
        self._lock = threading.Lock()
        self._waiting: deque[R] = deque()
        self._paused: dict[TopicPartition, None] = {}
        self._positions: dict[TopicPartition, tuple[Offset, LeaderEpoch | None]] = {}
        self._ends: dict[TopicPartition, Offset] = {}
        """Log ends that librdkafka has reached, of partitions without a position."""
        self._committed: dict[TopicPartition, Offset] = {}
        self._stored: dict[TopicPartition, Offset] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: R) -> None:
        """Add a fetched record. One before the position is the next for the caller: the position was reset to it."""
        with self._lock:
            found = self._positions.get(record.topic_partition)
            if found is not None and record.offset < found[0]:
                self._positions[record.topic_partition] = (record.offset, None)
            self._waiting.append(record)
            self.bytes_held += self._size_of(record)

    def take(self, count: int) -> list[R]:
        """At most `count` records of partitions that are not paused; moves the positions past them."""
        with self._lock:
            if self._paused:
                taken = self._unpaused(count)
            else:
                taken = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
            self.bytes_held -= sum(map(self._size_of, taken))
            self._move(taken)
            return taken

    def _unpaused(self, count: int) -> list[R]:
        taken: list[R] = []
        left: deque[R] = deque()
        for record in self._waiting:
            if len(taken) < count and record.topic_partition not in self._paused:
                taken.append(record)
            else:
                left.append(record)
        self._waiting = left
        return taken

    def draw(self, bytes_max: int, count_max: int) -> list[R]:
        """Remove records within these limits, for `given` or `put_back`.

        The first one may exceed them, or it could never be read (KIP-74).
        """
        taken: list[R] = []
        taken_bytes = 0
        with self._lock:
            while self._waiting and len(taken) < count_max:
                size_bytes = self._size_of(self._waiting[0])
                if taken and taken_bytes + size_bytes > bytes_max:
                    break
                taken_bytes += size_bytes
                taken.append(self._waiting.popleft())
            self.bytes_held -= taken_bytes
        return taken

    def put_back(self, records: list[R]) -> None:
        """Return records that were drawn last and not delivered."""
        with self._lock:
            self._waiting.extendleft(reversed(records))
            self.bytes_held += sum(map(self._size_of, records))

    def given(self, records: Iterable[R]) -> None:
        """The caller received these records: move its positions."""
        with self._lock:
            self._move(records)

    def _move(self, records: Iterable[R]) -> None:
        for record in records:
            self._positions[record.topic_partition] = (record.offset + 1, record.leader_epoch)

    def has_some(self) -> bool:
        """Whether `take` would return a record."""
        with self._lock:
            return any(each.topic_partition not in self._paused for each in self._waiting)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`; buffered ones stay."""
        with self._lock:
            self._paused.update(dict.fromkeys(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        with self._lock:
            for each in partitions:
                self._paused.pop(each, None)

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        with self._lock:
            return list(self._paused)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Continue at an offset; buffered records of the partition are dropped."""
        with self._lock:
            self._drop([partition])
            self._positions[partition] = (offset, None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop records, positions and committed offsets of partitions that are no longer assigned."""
        with self._lock:
            gone = list(partitions)
            self._drop(gone)
            for each in gone:
                for table in (self._positions, self._ends, self._committed, self._stored, self._paused):
                    table.pop(each, None)

    def forget_all(self) -> None:
        """Like `forget`, for all partitions."""
        with self._lock:
            self._waiting.clear()
            self.bytes_held = 0
            for table in (self._positions, self._ends, self._committed, self._stored, self._paused):
                table.clear()

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._waiting = deque(each for each in self._waiting if each.topic_partition not in partitions)
        self.bytes_held = sum(map(self._size_of, self._waiting))

    def reached_end(self, partition: TopicPartition, offset: Offset, log_start_offset: Offset) -> None:
        """librdkafka waits at this offset for the next record: a position outside the log was reset to it."""
        with self._lock:
            found = self._positions.get(partition)
            if any(each.topic_partition == partition for each in self._waiting):
                return
            if found is None:
                self._ends[partition] = offset
            elif found[0] > offset or found[0] < log_start_offset:
                self._positions[partition] = (offset, None)

    def position(self, partition: TopicPartition) -> Offset | None:
        """The offset of the next record for the caller; None before the first record, seek or end of the log."""
        with self._lock:
            found = self._positions.get(partition)
            return self._ends.get(partition) if found is None else found[0]

    def fetched_to(self, partition: TopicPartition) -> Offset | None:
        """The offset after the last buffered record, else the position; None when neither is known."""
        with self._lock:
            buffered = [each.offset + 1 for each in self._waiting if each.topic_partition == partition]
        return buffered[-1] if buffered else self.position(partition)

    def epoch_before(self, partition: TopicPartition, offset: Offset) -> LeaderEpoch | None:
        """The leader epoch of the record before an offset, if that record was the last one received."""
        with self._lock:
            found = self._positions.get(partition)
            return found[1] if found is not None and found[0] == offset else None

    def uncommitted(self) -> dict[TopicPartition, Offset]:
        """The positions that differ from the last commit."""
        return self._beyond(self._committed)

    def unstored(self) -> dict[TopicPartition, Offset]:
        """The positions that librdkafka does not have: those that differ from `stored`, or else from the last commit."""
        return self._beyond({**self._committed, **self._stored})

    def _beyond(self, known: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        with self._lock:
            return {each: offset for each, (offset, _) in self._positions.items() if known.get(each) != offset}

    def committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """These offsets are committed."""
        with self._lock:
            self._committed.update(offsets)

    def forget_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """What is committed of these is unknown: `uncommitted` has their positions."""
        with self._lock:
            for each in partitions:
                self._committed.pop(each, None)

    def stored(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """librdkafka has these offsets for its next periodic commit: what is committed of the partitions is unknown."""
        with self._lock:
            self._stored.update(offsets)
            for each in offsets:
                self._committed.pop(each, None)

    def superseded(self, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """Those of these offsets for whose partition another one is stored."""
        with self._lock:
            return {each: offset for each, offset in offsets.items() if self._stored.get(each, offset) != offset}


OnRebalance: TypeAlias = Callable[[list[TopicPartition]], None]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The caller's functions. Without `on_lost`, lost partitions are passed to `on_revoked` (as in Java)."""

    on_assigned: OnRebalance | None = None
    on_revoked: OnRebalance | None = None
    on_lost: OnRebalance | None = None


class Rebalancing:
    """Passes librdkafka's rebalances to the caller's functions, inside `poll` and `close`.

    They run before the rebalance takes effect: offsets of revoked partitions can still be committed, and assigned
    partitions start where the function seeks to. Raises nothing into librdkafka; `raise_pending` raises the error of a
    caller's function.
    """

    def __init__(self, inbox: Inbox[Any], callbacks: Callbacks, *, is_cooperative: bool) -> None:
        self._inbox = inbox
        self.callbacks = callbacks
        """Replaced by a new subscription, also within one of them."""
        self._is_cooperative = is_cooperative
        self._raised: BaseException | None = None
        self.is_in_callback = False
        """Whether a function of the caller runs: librdkafka cannot close a consumer within its rebalance."""
        self.arriving: dict[TopicPartition, Offset | None] = {}
        """While `on_assigned` runs: the new partitions, and their start offsets after a `seek`. One that the function
        removes is not read."""

    def assigned(self, handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are assigned. With an eager protocol they are the whole assignment."""
        self.arriving = {place_of(wire): None for wire in wires}
        self._call(self.callbacks.on_assigned, list(self.arriving))
        chosen = [wire for wire in wires if place_of(wire) in self.arriving]
        for wire in chosen:
            start = self.arriving[place_of(wire)]
            if start is not None:
                wire.offset = start
        self.arriving = {}
        with _as_paused_here(handle, chosen, self._inbox):
            if self._is_cooperative:
                handle.incremental_assign(chosen)
            else:
                handle.assign(chosen)

    def revoked(self, _handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are revoked when this returns; the binding unassigns them then."""
        gone = [place_of(wire) for wire in wires]
        if gone:
            self._call(self.callbacks.on_revoked, gone)
        self._inbox.forget(gone)

    def lost(self, _handle: Any, wires: Sequence[Any]) -> None:
        """These partitions are lost: the session timed out and the group reassigned them. A commit would be refused."""
        gone = [place_of(wire) for wire in wires]
        self._inbox.forget(gone)
        if gone:
            self._call(self.callbacks.on_lost or self.callbacks.on_revoked, gone)

    def _call(self, function: OnRebalance | None, partitions: list[TopicPartition]) -> None:
        if function is None:
            return
        self.is_in_callback = True
        try:
            function(partitions)
        except BaseException as error:  # noqa: BLE001 - librdkafka must not see it; raise_pending raises it
            if self._raised is None:
                self._raised = error
        finally:
            self.is_in_callback = False

    def raise_pending(self) -> None:
        """Raise the error of a caller's function, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised


@contextlib.contextmanager
def _as_paused_here(handle: Any, wires: Sequence[Any], inbox: Inbox[Any]) -> Iterator[None]:
    """Assign these partitions within. Afterwards those are paused that the inbox has as paused.

    librdkafka keeps a partition paused when it is revoked, and would not read it when it comes back; the inbox forgets
    it then, as Java's consumer does (SubscriptionState).
    """
    paused = inbox.paused
    quiet = [wire for wire in wires if place_of(wire) in paused]
    if len(quiet) < len(wires):
        handle.resume([wire for wire in wires if place_of(wire) not in paused])
    yield
    if quiet:
        handle.pause(quiet)


class Answer(NamedTuple):
    """librdkafka's answer about one partition. A negative offset is none."""

    offset: Offset
    metadata: str | None
    error: Any


def refusal_in(answers: Mapping[TopicPartition, Answer]) -> tuple[TopicPartition, Any] | None:
    """The first partition with an error, and the error."""
    return next(((each, answer.error) for each, answer in answers.items() if answer.error is not None), None)


class ConsumerHandle(Generic[R]):
    """A librdkafka consumer with its inbox and its rebalances. Raises KafkaException.

    With `auto_commit`, librdkafka commits the offsets periodically that `store_given` stored.
    """

    def __init__(
        self,
        config: dict[str, Any],
        *,
        is_cooperative: bool = False,
        inbox: Inbox[R] | None = None,
        **options: Any,
    ) -> None:
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as Wire

        self._make: Callable[[], Any] = partial(Consumer, config, **options)
        self.consumer: Any = self._make()
        self._is_closing = False
        self._wire: Any = Wire
        self._is_cooperative = is_cooperative
        self.inbox: Inbox[R] = Inbox() if inbox is None else inbox
        self.rebalancing = Rebalancing(self.inbox, Callbacks(), is_cooperative=is_cooperative)
        self._stopped: set[TopicPartition] = set()

    def wires(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        """librdkafka's form of partitions."""
        return [self._wire(*each) for each in partitions]

    def wires_at(self, offsets: Mapping[TopicPartition, Offset | None]) -> list[Any]:
        """librdkafka's form of partitions with offsets; None leaves the offset to librdkafka."""
        return [self._wire(*each, *(() if offset is None else (offset,))) for each, offset in offsets.items()]

    def subscribe(self, topics: Iterable[str], callbacks: Callbacks) -> None:
        """Read topics as a member of the group; `rebalancing.raise_pending` raises what a callback raised."""
        calls = self.rebalancing
        self.consumer.subscribe(list(topics), on_assign=calls.assigned, on_revoke=calls.revoked, on_lost=calls.lost)
        calls.callbacks = callbacks

    def poll(self, wait_s: float, count: int) -> Iterator[Any]:
        """librdkafka's messages and events: waits for the first one, and then takes those that are there."""
        first = self.consumer.poll(wait_s)
        if first is None:
            return
        yield first  # before consume(), which may run a rebalance that revokes its partition
        if count > 1:
            # consume() with a timeout waits for a full batch.
            yield from self.consumer.consume(count - 1, 0)

    def assign(self, starts: Mapping[TopicPartition, Offset | None]) -> None:
        """Read these partitions without a group's assignment; replaces the previous assignment.

        None is the group's committed offset.
        """
        self._stopped.clear()
        wires = self.wires_at(starts)
        with _as_paused_here(self.consumer, wires, self.inbox):
            self.consumer.assign(wires)

    def end_subscription(self) -> None:
        """Leave the group, and go on with a new consumer of librdkafka, without an assignment.

        One that had a group's assignment could refuse the next one (_STATE, after a cooperative protocol), or read it from
        the start that the group's had: it requests that again after an outdated response (rd_kafka_toppar_offset_retry).
        """
        self.close()
        self._is_closing = False
        self.inbox.forget_all()
        self.consumer = self._make()

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return [place_of(wire) for wire in self.consumer.assignment()]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions until `resume`; prefetched records are fetched again."""
        self.consumer.pause(self.wires(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume fetching after `pause`."""
        self.consumer.resume(self.wires(partitions))

    def note_end(self, message: Any) -> None:
        """Note that a partition has no further record now, which librdkafka reports with `enable.partition.eof`."""
        partition = source_of(message)
        self.inbox.reached_end(partition, message.offset(), self.watermarks(partition, None)[0])

    def note_error(self, message: Any) -> None:
        """Note a message with an error: without `auto.offset.reset`, librdkafka stops a partition that is out of range."""
        if message.error().name() in OUT_OF_RANGE:
            self._stopped.add(source_of(message))

    def seek(self, partition: TopicPartition, offset: Offset, timeout_s: float, may_wait: Callable[[], bool]) -> None:
        """Seek, with retries: librdkafka refuses it until it fetches, which is after it got the committed offset."""
        from confluent_kafka import KafkaException

        is_stopped = partition in self._stopped and not self.rebalancing.is_in_callback
        if is_stopped and partition in self.assignment():
            self._start_again(partition, offset)
            return
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.consumer.seek(self._wire(*partition, offset))
                return
            except KafkaException as error:
                if error.args[0].name() != "_STATE" or time.monotonic() > deadline or not may_wait():
                    raise
            time.sleep(_SEEK_PAUSE_S)

    def _start_again(self, partition: TopicPartition, offset: Offset) -> None:
        """Assign a stopped partition again, at this offset: librdkafka refuses to seek in it (_STATE)."""
        if self._is_cooperative:
            self.consumer.incremental_unassign(self.wires([partition]))
            self.consumer.incremental_assign(self.wires_at({partition: offset}))
        else:  # librdkafka changes an eager assignment only as a whole
            starts = {each: self.inbox.fetched_to(each) for each in self.assignment()}
            self.consumer.assign(self.wires_at({**starts, partition: offset}))
        self._stopped.discard(partition)

    def commit(
        self, offsets: Mapping[TopicPartition, Offset], metadata: Mapping[TopicPartition, str | None] | None = None, *,
        waits: bool = True,
    ) -> dict[TopicPartition, Answer]:  # fmt: skip
        """Commit offsets; without `waits` the commit is asynchronous, may yet fail, and has no answers.

        Without metadata, an offset gets the leader epoch of the record before it, so that a truncated log is detected
        (KIP-320).
        """
        self._supersede_stored(offsets)
        wires = []
        for each, offset in offsets.items():
            epoch = self.inbox.epoch_before(each, offset) if metadata is None else None
            more = {} if epoch is None else {"leader_epoch": epoch}
            wires.append(self._wire(*each, offset, *(() if metadata is None else (metadata[each],)), **more))
        found = self.consumer.commit(offsets=wires, asynchronous=not waits)
        return _answers(found) if waits else {}

    def _supersede_stored(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """The periodic commit, and that of `close`, would undo the coming one with offsets stored before it."""
        from confluent_kafka import KafkaException

        if later := self.inbox.superseded(offsets):
            with contextlib.suppress(KafkaException):  # no longer assigned: nothing of it is committed periodically
                self.consumer.store_offsets(offsets=self.wires_at(later))
            self.inbox.stored(later)

    def metadata(self, timeout_s: float) -> ClusterMetadata:
        """The cluster's topics. In a rebalance callback, the binding would forget the poll that runs it: it aborts the
        process at the poll's next callback. Raises YakError."""
        with self._asker(apart=self.rebalancing.is_in_callback) as asker:
            return read_metadata(asker, timeout_s=timeout_s)

    def committed(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, Answer]:
        """The group's committed offsets. A consumer that closes would get no answer in a rebalance callback: librdkafka
        waits for the coordinator of a group that it is leaving."""
        with self._asker(apart=self._is_closing) as asker:
            return _answers(asker.committed(self.wires(partitions), timeout=timeout_s))

    @contextlib.contextmanager
    def _asker(self, *, apart: bool) -> Iterator[Any]:
        """This consumer of librdkafka, or another one."""
        asker = self._make() if apart else self.consumer
        try:
            yield asker
        finally:
            if asker is not self.consumer:
                asker.close()

    def offsets_at(self, times_ms: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, Answer]:
        """The first offset at or after a time (ListOffsets): -1 is the end and -2 the beginning, as times."""
        return _answers(self.consumer.offsets_for_times(self.wires_at(times_ms), timeout=timeout_s))

    def watermarks(self, partition: TopicPartition, timeout_s: float | None) -> tuple[Offset, Offset]:
        """The log start offset and the end; without a timeout those of the last fetch, negative when unknown."""
        how: dict[str, Any] = {"cached": True} if timeout_s is None else {"timeout": timeout_s}
        low, high = self.consumer.get_watermark_offsets(self._wire(*partition), **how) or (-1, -1)
        return int(low), int(high)

    def store_given(self, ours: Callable[[], Collection[TopicPartition]]) -> None:
        """Store the caller's positions in assigned partitions, which librdkafka commits periodically."""
        found = self.inbox.unstored()
        if not found:
            return
        assigned = ours()
        offsets = {each: offset for each, offset in found.items() if each in assigned}
        if offsets:
            self.consumer.store_offsets(offsets=self.wires_at(offsets))
            self.inbox.stored(found)

    def close(self) -> None:
        """Leave the group; nothing is committed but stored offsets."""
        self._is_closing = True
        self.consumer.close()


def _answers(wires: Iterable[Any]) -> dict[TopicPartition, Answer]:
    return {place_of(wire): Answer(wire.offset, wire.metadata, wire.error) for wire in wires}
