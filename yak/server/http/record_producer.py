"""Produces records: chooses the partition of each, sends batches to the leaders, and retries when leadership moves.

A record goes to the named partition, the key's, or one for all records without a key. Keys are hashed like in Java's
producers and librdkafka's `murmur2_random`. Records without a key share one partition of their topic, a different one
for each request. Like with Kafka's sticky partitioner, a request's records make one batch.

A retry duplicates nothing: a request borrows a producer id and uses it in a new epoch, with sequences from 0, so that
the old and the new leader recognise a batch that they have (KIP-98; the client raises the epoch by itself as in
KIP-360). While the metadata store is unavailable and no id can be had, a batch with an unknown outcome is not retried.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from yak.acls.bindings import Operation, ResourceType
from yak.cluster.image import Image, TopicInfo
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition
from yak.protocol.murmur2 import partition_for_key
from yak.protocol.record_batch import HEADER_BYTES
from yak.protocol.record_writer import Headers, build_batch
from yak.protocol.versions import INIT_PRODUCER_ID, PRODUCE
from yak.server.http.authentication import CALLER
from yak.server.http.context import Context
from yak.server.http.problems import Problem, kafka_problem
from yak.server.http.record_json import Row
from yak.server.http.rights import denied, is_allowed, refusal
from yak.server.http.topic_partitions import (
    RetryBudget,
    by_leader,
    find_or_create_topic,
    leader_of,
    max_message_bytes,
    no_leader,
    partition_text,
)

PLACED_AT_ONCE_MAX: Final = 1000
"""More records than this are parsed and placed in a thread."""
_HINT: Final = "GET /docs lists the fields of a record"
PRODUCE_VERSION: Final = 12
"""The last version that names topics."""
ACKS_ALL: Final = -1
_NO_PARTITION: Final = -1
_WRITE_TOPIC: Final = Operation.WRITE, ResourceType.TOPIC
_REQUEST_MS: Final = 10_000
_PRODUCE_SECONDS: Final = 12.0
_ID_SECONDS: Final = 2.0
_EPOCH_MAX: Final = 2**15 - 1
_IDS_MAX: Final = 1024
_NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
    }
)
"""Always worth a retry."""
_MAYBE_WRITTEN: Final = frozenset(
    {ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas_after_append, ErrorCode.request_timed_out}
)
"""Worth a retry when a producer id makes it safe."""


@dataclass(slots=True)
class PartitionQueue:
    """The records for one partition, in order, and how many of them are written."""

    place: TopicPartition
    records: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    headers: dict[int, Headers] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    """The position of each record in the request."""
    size_bytes_max: list[int] = field(default_factory=list)
    batch_bytes_max: int = 0
    written: int = 0
    """How many records are written; the rest failed with `problem`."""
    base_offsets: list[tuple[int, int]] = field(default_factory=list)
    """(first record, its offset) of each written batch; offset -1 with acks=0."""
    problem: Problem | None = None
    is_unknown: bool = False
    """Whether the failed batch may have been written."""

    def add(self, row: int, key: bytes | None, value: bytes | None, headers: Headers, size_bytes_max: int) -> None:
        """Add one record."""
        if headers:
            self.headers[len(self.records)] = headers
        self.records.append((key, value))
        self.rows.append(row)
        self.size_bytes_max.append(size_bytes_max)

    def headers_between(self, first: int, end: int) -> dict[int, Headers] | None:
        """The headers of a range of records, by position in a batch of that range."""
        if not self.headers:
            return None
        return {at - first: self.headers[at] for at in range(first, end) if at in self.headers}

    def next_batch_end(self) -> int:
        """The end of the next batch, within the topic's limit; a record that is too large gets a batch of its own."""
        end, total = self.written, HEADER_BYTES
        for size in self.size_bytes_max[self.written :]:
            total += size
            if total > self.batch_bytes_max and end > self.written:
                break
            end += 1
        return end

    @property
    def is_done(self) -> bool:
        """Whether the queue failed or is written."""
        return self.problem is not None or self.written == len(self.records)

    def offsets(self) -> list[int | None]:
        """The offsets of the written records, in order; None with acks=0."""
        found: list[int | None] = []
        for (first, offset), (end, _) in itertools.pairwise([*self.base_offsets, (self.written, -1)]):
            found += [None] * (end - first) if offset < 0 else range(offset, offset + end - first)
        return found


class RowDistribution:
    """Distributes the rows of one request to queues. Rows without a key go to partitions led by `prefer` first."""

    def __init__(self, context: Context, topics: Mapping[str, TopicInfo], prefer: NodeId | None = None) -> None:
        self._image: Image = context.broker.image
        self._topics = topics
        self._prefer = prefer
        self._limits = {name: max_message_bytes(context, topic) for name, topic in topics.items()}
        self._named_max = context.limits.failed_rows_named_max
        self._turn = next(context.parts.setdefault("sticky", itertools.count()))
        self._sticky: dict[str, int] = {}
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        self.faults: list[dict[str, Any]] = []
        self.failed = 0

    def put(self, rows: Sequence[Row]) -> None:
        """Place all rows. `failed` counts those that cannot be placed; `faults` names the first of them."""
        queues = self.queues
        for at, row in enumerate(rows):
            topic, partition, key, value, headers = row
            if topic not in self._topics:
                self._put_refused(at, row)
                continue
            count = len(self._topics[topic].partitions)
            if partition is None:
                partition = self._sticky_partition(topic) if key is None else partition_for_key(key, count)
            elif partition >= count:
                existing = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
                message = f"partition {partition} does not exist: topic {topic!r} has {existing}"
                self._fault(at, ErrorCode.unknown_topic_or_partition, message)
                continue
            size = row.size_bytes_max
            if HEADER_BYTES + size > self._limits[topic]:
                message = f"a record of {size} bytes, max.message.bytes={self._limits[topic]}"
                self._fault(at, ErrorCode.message_too_large, message)
                continue
            queue = queues.get((topic, partition))
            if queue is None:
                queue = PartitionQueue(TopicPartition(topic, partition), batch_bytes_max=self._limits[topic])
                queues[topic, partition] = queue
            queue.add(at, key, value, headers, size)

    def _put_refused(self, at: int, row: Row) -> None:
        """Put a record of a topic that the caller may not write into a queue, which `write` refuses.

        Nothing depends on the topic: the caller must not learn its partitions, nor whether it exists.
        """
        place = TopicPartition(row.topic, _NO_PARTITION if row.partition is None else row.partition)
        self.queues.setdefault(place, PartitionQueue(place)).add(at, row.key, row.value, row.headers, 0)

    def _fault(self, row: int, code: ErrorCode, message: str) -> None:
        self.failed += 1
        if len(self.faults) < self._named_max:
            problem = kafka_problem(code, f"record {row}", message)
            self.faults.append({"row": row, "error": problem.error, "message": message, "status": problem.status})

    def _sticky_partition(self, topic: str) -> int:
        found = self._sticky.get(topic)
        if found is None:
            partitions = [TopicPartition(topic, each.partition) for each in self._topics[topic].partitions]
            led = by_leader(self._image, partitions)
            preferred = [] if self._prefer is None else led.get(self._prefer, [])
            chosen = preferred or sorted(itertools.chain(*led.values())) or partitions
            found = self._sticky[topic] = chosen[self._turn % len(chosen)].partition
        return found


async def topics_of(context: Context, rows: Sequence[Row]) -> dict[str, TopicInfo]:
    """The topics that the rows name and the caller may write, created where producers may create them. Raises Problem.

    A request with too many new topics is refused before one of them is created: 413 `too-many-topics`.
    """
    broker, caller = context.broker, CALLER.get()
    named = dict.fromkeys(row.topic for row in rows)
    names = [name for name in named if is_allowed(broker, caller, *_WRITE_TOPIC, name)]
    new = len(set(names) - context.broker.image.topics.keys())
    if new > context.limits.new_topics_per_request_max:
        raise Problem(
            413,
            "too-many-topics",
            f"{new} topics of these records do not exist, and one request creates at most "
            f"{context.limits.new_topics_per_request_max}",
            "create the topics first, or send the records in several requests",
        )
    return {name: await find_or_create_topic(context, name) for name in names}


def refuse(failed: int, total: int, faults: list[dict[str, Any]]) -> Problem:
    """The problem for a request with invalid rows, of which nothing is written."""
    if total == 1:
        (fault,) = faults
        return Problem(fault.pop("status", 400), fault["error"], fault["message"], _HINT)
    for fault in faults:
        fault.pop("status", None)
    return Problem(
        400,
        "bad-records",
        f"{failed} of {total} records are invalid, so none was written; the first is record {faults[0]['row']}: "
        + faults[0]["message"],
        _HINT,
        more={"failed": failed, "records": faults},
    )


async def write(context: Context, queues: Sequence[PartitionQueue], acks: int) -> None:
    """Write all queues; each queue holds its result. Raises nothing except a cancellation."""
    if context.broker.authorization.is_active:
        _refuse_denied(context, queues)
        if all(queue.is_done for queue in queues):
            return
    ids = context.part(ProducerIds)
    producer = (-1, -1) if acks == 0 else await ids.borrow(context)
    await _Writing(context, queues, acks, producer).run()
    if producer[0] >= 0 and not any(queue.problem is not None for queue in queues):
        ids.release(producer)


def _refuse_denied(context: Context, queues: Sequence[PartitionQueue]) -> None:
    """Refuse the queues of topics that the caller may not write. The first topic is counted and logged, as for Produce.

    A request to another broker is refused as a whole for one topic, and one with acks=0 to this broker in silence.
    """
    broker, caller = context.broker, CALLER.get()
    problems: dict[str, Problem] = {}
    for topic in dict.fromkeys(queue.place.topic for queue in queues):
        access = (*_WRITE_TOPIC, topic)
        if is_allowed(broker, caller, *access):
            continue
        is_first = not problems
        problems[topic] = (
            denied(broker, context.shell.rate_limit, caller, "Produce", *access)
            if is_first
            else refusal(caller, *access)
        )
    for queue in queues:
        queue.problem = problems.get(queue.place.topic)


class _Writing:
    def __init__(
        self, context: Context, queues: Sequence[PartitionQueue], acks: int, producer: tuple[int, int]
    ) -> None:
        self._context = context
        self._queues = queues
        self._acks = acks
        self._producer = producer
        self._budget = RetryBudget(context)
        self._batches: dict[TopicPartition, tuple[int, bytes]] = {}
        """(end, batch) of each batch in flight; a retry sends the same bytes."""
        self._troubles: dict[TopicPartition, Problem] = {}
        """The retriable problems of this round."""

    async def run(self) -> None:
        while True:
            self._troubles.clear()
            by_leader = self._by_leader()
            if len(by_leader) == 1:
                ((leader, queues),) = by_leader.items()
                await self._send(leader, queues)
            else:
                async with trio.open_nursery() as nursery:
                    for leader, queues in by_leader.items():
                        nursery.start_soon(self._send, leader, queues)
            if all(queue.is_done for queue in self._queues):
                return
            if not self._troubles:
                self._budget.reset()
            elif not await self._budget.again():
                for queue in self._queues:
                    if not queue.is_done:
                        queue.problem = self._troubles.get(queue.place) or no_leader(queue.place)
                return

    def _by_leader(self) -> dict[NodeId, list[PartitionQueue]]:
        image = self._context.broker.image
        grouped: dict[NodeId, list[PartitionQueue]] = {}
        for queue in self._queues:
            if queue.is_done:
                continue
            leader = leader_of(image, queue.place)
            if leader is not None:
                grouped.setdefault(leader, []).append(queue)
            elif queue.place.topic not in image.topics:
                what = f"topic {queue.place.topic!r}"
                queue.problem = kafka_problem(
                    ErrorCode.unknown_topic_or_partition, what, "it was deleted during the request"
                )
            else:
                self._troubles[queue.place] = no_leader(queue.place)
        return grouped

    def _batch(self, queue: PartitionQueue) -> bytes:
        held = self._batches.get(queue.place)
        if held is not None:
            return held[1]
        first, end = queue.written, queue.next_batch_end()
        producer_id, epoch = self._producer
        batch = build_batch(
            queue.records[first:end],
            self._context.shell.clock.wall_ms(),
            headers=queue.headers_between(first, end),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=-1 if producer_id < 0 else first,
        )
        self._batches[queue.place] = (end, batch)
        return batch

    async def _send(self, leader: NodeId, queues: list[PartitionQueue]) -> None:
        topics: dict[str, list[dict[str, object]]] = {}
        for queue in queues:
            data = {"index": queue.place.partition, "records": self._batch(queue)}
            topics.setdefault(queue.place.topic, []).append(data)
        fields: Mapping[str, object] = {
            "acks": self._acks,
            "timeout": _REQUEST_MS,
            "topic_data": [{"name": name, "partition_data": data} for name, data in topics.items()],
        }
        broker_client = self._context.broker_client
        try:
            if self._acks == 0:
                await broker_client.send(PRODUCE, PRODUCE_VERSION, fields, leader)
                for queue in queues:
                    self._take(queue, -1)
                return
            answer = await broker_client.ask(
                PRODUCE, fields, node_id=leader, timeout_s=_PRODUCE_SECONDS, version=PRODUCE_VERSION
            )
        except Problem as problem:
            for queue in queues:
                if problem.status == 403:  # `not-allowed`: nothing was sent
                    queue.problem = problem
                else:
                    self._trouble(queue, problem, may_be_written=True)
            return
        found = {(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses}
        for queue in queues:
            self._settle(queue, found[queue.place.topic, queue.place.partition])

    def _settle(self, queue: PartitionQueue, answer: Any) -> None:
        code = answer.error_code
        if code is ErrorCode.none:
            self._take(queue, answer.base_offset)
            return
        problem = kafka_problem(code, partition_text(queue.place), _error_message(answer))
        # A leader that refuses gives a message; one that lost leadership while the batch was replicated gives none.
        is_refusal = code in _NOT_WRITTEN or (code is ErrorCode.not_leader_or_follower and bool(answer.error_message))
        if is_refusal or code in _MAYBE_WRITTEN:
            self._trouble(queue, problem, may_be_written=not is_refusal)
        else:
            queue.problem = problem

    def _take(self, queue: PartitionQueue, base_offset: int) -> None:
        end, _batch = self._batches.pop(queue.place)
        queue.base_offsets.append((queue.written, base_offset))
        queue.written = end
        queue.is_unknown = False

    def _trouble(self, queue: PartitionQueue, problem: Problem, *, may_be_written: bool) -> None:
        queue.is_unknown = queue.is_unknown or may_be_written
        if may_be_written and self._producer[0] < 0:
            queue.problem = problem
        else:
            self._troubles[queue.place] = problem


def _error_message(answer: Any) -> str | None:
    """The broker's message, or that of the first rejected record: a compacted topic requires keys."""
    errors = [each.batch_index_error_message for each in answer.record_errors if each.batch_index_error_message]
    found: str | None = errors[0] if errors else answer.error_message
    return found


class ProducerIds:
    """Unused producer ids, each with the last epoch in which it was used."""

    def __init__(self, _context: Context) -> None:
        self._free: list[tuple[int, int]] = []

    async def borrow(self, context: Context) -> tuple[int, int]:
        """A producer id with an epoch never used before; (-1, -1) when none is available."""
        if self._free:
            producer_id, epoch = self._free.pop()
            return producer_id, epoch + 1
        try:
            fields: Mapping[str, object] = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
            answer = await context.broker_client.ask(INIT_PRODUCER_ID, fields, timeout_s=_ID_SECONDS)
        except Problem:
            return -1, -1
        if answer.error_code is not ErrorCode.none:
            return -1, -1
        return answer.producer_id, answer.producer_epoch

    def release(self, producer: tuple[int, int]) -> None:
        """Return an id whose requests are all answered, for the next request."""
        if producer[1] < _EPOCH_MAX and len(self._free) < _IDS_MAX:
            self._free.append(producer)
