"""Reads committed records of one partition from its leader."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from yak.errors import ErrorCode, ProtocolViolation
from yak.ids import Offset, TopicPartition, by_topic
from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import WalkedRecord, walk_records
from yak.protocol.versions import FETCH
from yak.server.http.bodies import PARSED_AT_ONCE_BYTES_MAX
from yak.server.http.broker_client import CLIENT_ID
from yak.server.http.context import Context
from yak.server.http.problems import Problem, check_error
from yak.server.http.topic_partitions import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    LIST_OFFSETS_VERSION,
    MOVING,
    RetryBudget,
    check_partition,
    find_topic,
    leader_of,
    no_leader,
    offsets_request,
    partition_text,
)

FETCH_VERSION: Final = 12
"""The last version that names topics."""


class Read(NamedTuple):
    """The result of one fetch; `next_offset` is after everything scanned, including holes and control batches."""

    records: list[WalkedRecord]
    next_offset: int


def walk_from(
    data: bytes,
    offset: int,
    *,
    records_max: int,
    bytes_max: int,
    decompressed_bytes_max: int,
    aborted: Mapping[int, Sequence[int]] | None = None,
) -> Read:
    """The records from `offset` on in fetched data, within limits; the first record may exceed them.

    `aborted` has the first offsets of each producer's aborted transactions: their records are left out.
    Raises Problem 422 `batch-unreadable` when a batch is corrupt or too large decompressed, and no record precedes it.
    """
    records: list[WalkedRecord] = []
    position, size_bytes = offset, 0
    transaction_starts: dict[int, int] = {}
    """The offset behind each producer's last marker."""
    for place, header in iterate_headers(data):
        producer_id = header.producer_id
        if header.is_control:
            transaction_starts[producer_id] = header.next_offset
        if header.next_offset <= position:
            continue
        firsts = aborted.get(producer_id, ()) if aborted and header.is_transactional else ()
        start = transaction_starts.get(producer_id, 0)
        if header.is_control or any(start <= first <= header.last_offset for first in firsts):
            position = header.next_offset
            continue
        try:
            batch = memoryview(data)[place : place + header.size_bytes]
            for record in walk_records(batch, decompressed_bytes_max, with_headers=True):
                if record.offset < position:
                    continue
                size_bytes += record_bytes(record)
                if records and (len(records) >= records_max or size_bytes > bytes_max):
                    return Read(records, position)
                records.append(record)
                position = record.offset + 1
        except ProtocolViolation as error:
            if records:
                return Read(records, position)
            raise Problem(
                422,
                "batch-unreadable",
                f"the batch of offsets {header.base_offset} to {header.last_offset}: {error}",
                f"continue at offset {header.next_offset}, or read it with a Kafka client",
                more={"next_offset": header.next_offset},
            ) from None
        position = header.next_offset
        if len(records) >= records_max:
            break
    return Read(records, position)


def record_bytes(record: WalkedRecord) -> int:
    """The size of a record for the byte limit: key, value and headers."""
    size = len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers)


def is_quick(data: bytes) -> bool:
    """Whether decoding the records does not block the loop: larger or compressed data is decoded in a thread."""
    return len(data) <= PARSED_AT_ONCE_BYTES_MAX and not any(header.codec for _, header in iterate_headers(data))


def fetch_request(
    offsets: Mapping[TopicPartition, Offset], *, bytes_max: int, wait_ms: int, isolation_level: int = 0
) -> Mapping[str, object]:
    """The fields of a Fetch request from these offsets on, by kio's names."""

    def fields(place: TopicPartition) -> dict[str, int]:
        return {
            "partition": place.partition,
            "current_leader_epoch": -1,
            "fetch_offset": offsets[place],
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": bytes_max,
        }

    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": 1,
        "max_bytes": bytes_max,
        "isolation_level": isolation_level,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": list(map(fields, of))} for name, of in by_topic(offsets).items()],
    }


async def fetch(
    context: Context, place: TopicPartition, offset: int, *, bytes_max: int, wait_ms: int, isolation_level: int
) -> Any:
    """The leader's records from `offset` on, as kio's partition of a Fetch response. Retries while leadership moves.

    Raises Problem: 404, 416 `offset-out-of-range` with the available offsets, 503, 504.
    """
    fields = fetch_request({place: offset}, bytes_max=bytes_max, wait_ms=wait_ms, isolation_level=isolation_level)
    answer = await _ask(context, place, FETCH, fields, FETCH_VERSION, 10 + wait_ms / 1000)
    if answer.error_code is ErrorCode.offset_out_of_range:
        raise await _out_of_range(context, place, offset)
    check_error(answer, partition_text(place))
    return answer


async def list_offset(context: Context, place: TopicPartition, which: int, isolation_level: int = 0) -> int:
    """EARLIEST: the log start offset. LATEST: the high watermark; with isolation level 1 the last stable offset.

    Raises Problem.
    """
    fields = offsets_request([place], which, isolation_level)
    answer = await _ask(context, place, LIST_OFFSETS, fields, LIST_OFFSETS_VERSION, 10)
    check_error(answer, partition_text(place))
    return int(answer.offset)


async def _ask(
    context: Context, place: TopicPartition, api_key: int, fields: Mapping[str, object], version: int, timeout_s: float
) -> Any:
    """The partition in the leader's response. Retries during a leadership change, then returns the error."""
    budget = RetryBudget(context)
    while True:
        check_partition(find_topic(context, place.topic), place.partition)
        leader = leader_of(context.broker.image, place)
        try:
            if leader is None:
                raise no_leader(place)
            answer = await context.broker_client.ask(
                api_key, fields, node_id=leader, version=version, timeout_s=timeout_s
            )
        except Problem as problem:
            if problem.status == 503 and await budget.again():
                continue
            raise
        topics = answer.responses if api_key == FETCH else answer.topics
        if not topics:
            raise _throttled(answer.throttle_time, place)
        found = topics[0].partitions[0]
        if found.error_code not in MOVING or not await budget.again():
            return found


def _throttled(throttle_time: dt.timedelta, place: TopicPartition) -> Problem:
    """The leader, another broker, limits this one as a client: the answer is empty (KIP-219)."""
    return Problem(
        503,
        "too-busy",
        f"a quota of client id {CLIENT_ID} or of its user limits reads from {partition_text(place)}",
        f"retry in {throttle_time.total_seconds():g} s, or ask the partition's leader",
    )


async def _out_of_range(context: Context, place: TopicPartition, offset: int) -> Problem:
    start = await list_offset(context, place, EARLIEST)
    end = await list_offset(context, place, LATEST)
    return Problem(
        416,
        "offset-out-of-range",
        f"{partition_text(place)} has offsets {start} to {end - 1}, not {offset}"
        if end > start
        else f"{partition_text(place)} is empty at offset {end}; {offset} is out of range",
        f"use an offset from {start} to {end}, earliest or latest",
        more={"log_start_offset": start, "high_watermark": end},
    )


@contextmanager
def held(context: Context, bytes_count: int) -> Iterator[None]:
    """Count bytes of records as held while they are rendered. Raises Problem 503 `too-busy` above the limit."""
    if context.body_bytes_held + bytes_count > context.limits.body_in_flight_bytes_max:
        raise Problem(503, "too-busy", "this broker serves too many large reads", "retry in a moment")
    context.body_bytes_held += bytes_count
    try:
        yield
    finally:
        context.body_bytes_held -= bytes_count
