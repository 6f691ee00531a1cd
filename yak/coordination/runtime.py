"""The coordinator runtime: state machines that live in the partitions of an internal topic (Kafka's CoordinatorRuntime).

A broker coordinates a partition's keys once it has read the partition (`loader`), until it no longer leads it. A request
is decided on the state in memory; its records are appended, then replayed. The answer is sent when they are committed. A
broker that loses the partition drops the state, and the next leader reads the log.

The runtime does not know what it coordinates, groups or transactions: a `Shard` holds the state of one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.coordination.loader import CoordinatorLoader, Shard
from yak.core.context import Context
from yak.core.placement import partition_of
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.ids import Offset, ProducerId
from yak.replication.partition import Partition

Then: TypeAlias = Callable[[ErrorCode], None]
"""Called once: with NONE when the records are committed, else with the error that the client gets."""
KeyedRecord: TypeAlias = tuple[bytes, bytes | None]
"""A key and its value; a value of None is a tombstone."""
Producer: TypeAlias = tuple[ProducerId, int]
"""A producer's id and epoch: its transaction gets the records."""


S = TypeVar("S", bound=Shard)


@dataclass(slots=True, eq=False)
class CoordinatedPartition(Generic[S]):
    """A partition that this broker coordinates. Its state is complete once `loader` is None."""

    partition: Partition
    shard: S
    started_ms: int
    loader: CoordinatorLoader | None = None

    @property
    def is_loading(self) -> bool:
        """Whether the partition is still being read."""
        return self.loader is not None


class StateFactory(Protocol[S]):
    """Makes the state of partitions, and follows their loads and losses."""

    def make_shard(self) -> S:
        """An empty state for a partition that is about to be loaded."""

    def loaded(self, coordinated: CoordinatedPartition[S], records: int) -> None:
        """The whole partition was read, `records` of them. Its last records may not be committed yet."""

    def resigned(self, coordinated: CoordinatedPartition[S]) -> None:
        """Another broker may coordinate the partition now: waiting requests get NOT_COORDINATOR."""


class CoordinatorRuntime(Generic[S]):
    """Loads, appends to and resigns from the partitions of one topic."""

    def __init__(
        self, context: Context, topic: str, partitions: CoordinatorPartitions, factory: StateFactory[S], codec: int = 0
    ) -> None:
        """`codec`, Kafka's number, compresses the batches that it appends."""
        self._context = context
        self.topic, self._codec = topic, codec
        self._partitions = partitions
        self._factory = factory
        self.coordinated: dict[int, CoordinatedPartition[S]] = {}
        self.awaiting_topic: dict[object, Callable[[], None]] = {}
        """How to finish each request that waits until the image has the topic."""

    # ------------------------------------------------------------------------------------------- which partitions

    def topics_changed(self, names: Iterable[str]) -> None:
        """Finish the requests that wait for the topic, if it is among these."""
        if self.awaiting_topic and self.topic in names:
            for finish in list(self.awaiting_topic.values()):
                finish()

    def partition_changed(self, partition: Partition) -> None:
        """Load or resign: the leadership, log or existence of a partition, perhaps of the topic, may have changed."""
        topic, index = partition.topic_partition
        if topic != self.topic:
            return
        present = self.coordinated.get(index)
        may_coordinate = self._partitions.may_coordinate(partition)
        if present is not None and (not may_coordinate or present.partition is not partition):
            self._resign(index, present)
            present = None
        if may_coordinate and present is None:
            self._load(index, partition)

    def _load(self, index: int, partition: Partition) -> None:
        coordinated = CoordinatedPartition(partition, self._factory.make_shard(), self._context.clock.now_ms)
        self.coordinated[index] = coordinated

        def loaded(records: int) -> None:
            coordinated.loader = None
            self._factory.loaded(coordinated, records)

        coordinated.loader = CoordinatorLoader(self._context, self._partitions, partition, coordinated.shard, loaded)
        coordinated.loader.resume()

    def _resign(self, index: int, coordinated: CoordinatedPartition[S]) -> None:
        del self.coordinated[index]
        if coordinated.loader is not None:
            coordinated.loader.stop()
        self._factory.resigned(coordinated)

    def stop(self) -> None:
        """Resign from every partition."""
        for index, coordinated in list(self.coordinated.items()):
            self._resign(index, coordinated)

    def is_loading(self) -> bool:
        """Whether a partition is still being read."""
        return any(coordinated.is_loading for coordinated in self.coordinated.values())

    def is_coordinated(self, coordinated: CoordinatedPartition[S]) -> bool:
        """Whether this broker has not resigned from it."""
        return self.coordinated.get(coordinated.partition.topic_partition.partition) is coordinated

    def loaded_partitions(self) -> list[CoordinatedPartition[S]]:
        """The partitions whose state is complete."""
        return [coordinated for coordinated in self.coordinated.values() if not coordinated.is_loading]

    def find(self, key: str) -> CoordinatedPartition[S]:
        """The partition of a key. Raises PeerError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        topic = self._context.image.topics.get(self.topic)
        if topic is None:
            raise PeerError(ErrorCode.not_coordinator)
        coordinated = self.coordinated.get(partition_of(key, len(topic.partitions)))
        if coordinated is None or not self._partitions.may_coordinate(coordinated.partition):
            raise PeerError(ErrorCode.not_coordinator)
        if coordinated.is_loading:
            raise PeerError(ErrorCode.coordinator_load_in_progress)
        return coordinated

    # ------------------------------------------------------------------------------------------------------ records

    @changes_state
    def append(
        self,
        coordinated: CoordinatedPartition[S],
        records: Sequence[KeyedRecord],
        replay: Callable[[Offset], None],
        then: Then,
        producer: Producer | None = None,
    ) -> None:
        """Append records, `replay` them into memory with the log end offset behind them, and call `then`.

        With a `producer` they are part of its transaction. If nothing could be written, `then` gets the error and
        `replay` is not called.
        """
        partition = coordinated.partition
        if not self.is_coordinated(coordinated):
            then(ErrorCode.not_coordinator)
            return
        try:
            appended = self._partitions.append(partition, records, producer, self._codec)
        except PeerError as error:
            then(as_coordinator(error.error_code))
            return
        replay(appended.end_offset)
        self._partitions.when_acknowledged(appended, lambda code: then(as_coordinator(code)))

    def when_committed(
        self, coordinated: CoordinatedPartition[S], end_offset: Offset, then: Then, until_ms: int | None = None
    ) -> None:
        """Call `then` when all records below an offset are committed; not after `until_ms`."""
        partition = coordinated.partition
        self._partitions.when_committed(partition, end_offset, lambda code: then(as_coordinator(code)), until_ms)


def for_one_batch(records: Iterable[KeyedRecord], partition: Partition) -> list[KeyedRecord]:
    """The records as a list, for one batch of the partition's log.

    Raises PeerError as soon as they are too large for it. Each record of an offset has the group's id: those of a request
    of 200 KB could take 300 MB.
    """
    if partition.log is None:
        raise PeerError(ErrorCode.kafka_storage_error, "the log directory of this partition is offline")
    max_bytes = partition.log.config.max_message_bytes
    taken, size_bytes = list[KeyedRecord](), 0
    for record in records:
        size_bytes += len(record[0]) + len(record[1] or b"")
        if size_bytes > max_bytes:
            raise PeerError(ErrorCode.message_too_large, f"the records exceed max.message.bytes={max_bytes}")
        taken.append(record)
    return taken


TOMBSTONES_AT_ONCE: Final = 1_000
_BATCH_HEADER_BYTES: Final = 61
_TOMBSTONE_BYTES: Final = 32
"""At most, without the key."""
T = TypeVar("T")


def tombstone_batches(tombstones: Iterable[tuple[T, bytes]], partition: Partition) -> Iterator[list[T]]:
    """The items of (item, key of its tombstone) in lists, the tombstones of each of which fit one batch of the log.

    TransactionStateManager.removeExpiredTransactionalIds: a key may have 32,000 bytes and more.
    """
    max_bytes = 0 if partition.log is None else partition.log.config.max_message_bytes - _BATCH_HEADER_BYTES
    some: list[T] = []
    some_bytes = 0
    for item, key in tombstones:
        size_bytes = len(key) + _TOMBSTONE_BYTES
        if some and (some_bytes + size_bytes > max_bytes or len(some) == TOMBSTONES_AT_ONCE):
            yield some
            some, some_bytes = [], 0
        some.append(item)
        some_bytes += size_bytes
    if some:
        yield some


_NOT_AVAILABLE: Final = (
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.unknown_topic_or_partition,
)
_NOT_COORDINATOR: Final = (ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error)
_UNKNOWN: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_fetch_size)


def as_coordinator(error_code: ErrorCode) -> ErrorCode:
    """The error that a client gets for a failed write (CoordinatorOperationExceptionHelper.java)."""
    if error_code in _NOT_AVAILABLE:
        return ErrorCode.coordinator_not_available
    if error_code in _NOT_COORDINATOR:
        return ErrorCode.not_coordinator
    return ErrorCode.unknown_server_error if error_code in _UNKNOWN else error_code
