"""Clients that speak in frames and record acknowledged and consumed records.

A consumer reads from the start to the high watermark, again and again; producers are in `yak.sim.producer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kio.schema.errors import ErrorCode

from yak.protocol.record_batch import compute_crc, iterate_headers
from yak.protocol.record_walk import walk_records
from yak.sim.compacted_records import COMPACTED, value_in
from yak.sim.request_fields import Fields, fetch_fields, list_offsets_fields
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

FETCH, LIST_OFFSETS = 1, 2
RETRY_US = 120_000
"""The clients' retry backoff."""


class Sender(Protocol):
    """A client's way to send requests."""

    world: World
    rng: SeededRandom

    def send(self, api_key: int, version: int, fields: Fields, done: Callable[[Any | None], None]) -> None:
        """Send one request; `done` gets the response body, or None if there will be none."""


class Stoppable:
    """A client that goes on until it is stopped."""

    _is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True


class ReadListener(Protocol):
    """A consumer's reports: to the `Deliveries`, or to a recorder before them."""

    def log_begins(self, topic: str, partition: int, log_start_offset: int) -> None:
        """The broker reported this log start offset."""

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        """The consumer read this record."""

    def position_lost(self, topic: str, partition: int, position: int, log_start_offset: int) -> int:
        """The consumer's position is out of range. Returns its new position."""

    def damaged(self, topic: str, partition: int, offset: int) -> None:
        """The batch at this offset has a wrong checksum or is not the next one; the consumer rejects it."""


class SimConsumer:
    """Reads one partition from its position on, by long polling, and reports every record."""

    def __init__(
        self,
        channel: Sender,
        deliveries: ReadListener,
        topic: str,
        partition: int,
        *,
        wait_ms: int = 300,
        pause_us: int = 2_000,
        bytes_min: int = 1,
        read_committed: bool = False,
    ) -> None:
        self.channel = channel
        self._read_committed = read_committed
        self._bytes_min = bytes_min
        self._deliveries = deliveries
        self._topic = topic
        self._partition = partition
        self._wait_ms = wait_ms
        self.pause_us = pause_us
        """The longest pause between a response and the next fetch."""
        self.position = 0
        self.is_stopped = False

    def start(self) -> None:
        self._fetch()

    def _fetch(self) -> None:
        if self.is_stopped:
            return
        rng = self.channel.rng
        fields = fetch_fields(
            self._topic,
            self.position,
            partition=self._partition,
            max_wait_ms=rng.between(0, self._wait_ms),
            max_bytes=rng.between(self._bytes_min, 4096),
        )
        self.channel.send(FETCH, 12, fields | {"isolation_level": int(self._read_committed)}, self._on_fetched)

    def _on_fetched(self, answer: Any | None) -> None:
        if answer is None or answer.error_code != ErrorCode.none:
            self._pause()
            return
        result = answer.responses[0].partitions[0]
        if result.error_code == ErrorCode.offset_out_of_range:
            self.channel.send(LIST_OFFSETS, 6, list_offsets_fields(self._topic, self._partition), self._on_start)
            return
        if result.error_code != ErrorCode.none:
            self._pause()
            return
        before, self.position = (
            self.position,
            take_records(self._deliveries, self._topic, self._partition, self.position, result),
        )
        if result.records and self.position == before:
            self._pause()
            return
        self.channel.world.after(self.channel.rng.between(0, self.pause_us), self._fetch)

    def _pause(self) -> None:
        self.channel.world.after(RETRY_US, self._fetch)

    def _on_start(self, answer: Any | None) -> None:
        result = None if answer is None else answer.topics[0].partitions[0]
        if result is not None and result.error_code == ErrorCode.none:
            self.position = self._deliveries.position_lost(self._topic, self._partition, self.position, result.offset)
        self._pause()


def take_records(deliveries: ReadListener, topic: str, partition: int, position: int, result: Any) -> int:
    """Report the records of one partition's response to a fetch from `position`; returns the next position."""
    deliveries.log_begins(topic, partition, result.log_start_offset)
    records = bytes(result.records or b"")
    aborted = sorted((each.first_offset, each.producer_id) for each in result.aborted_transactions or ())
    hidden: set[int] = set()
    """Producers whose aborted transaction is being passed (Kafka's CompletedFetch)."""
    for place, header in iterate_headers(records):
        follows = position <= header.last_offset and (header.base_offset <= position or topic in COMPACTED)
        if not follows or compute_crc(records, place, header.size_bytes) != header.crc:
            deliveries.damaged(topic, partition, header.base_offset)
            break
        while aborted and aborted[0][0] <= header.last_offset:
            hidden.add(aborted.pop(0)[1])
        if header.is_control:
            hidden.discard(header.producer_id)
        if header.is_control or (header.is_transactional and header.producer_id in hidden):
            position = header.next_offset
            continue
        for record in walk_records(records[place : place + header.size_bytes], with_headers=True):
            if record.offset >= position:
                deliveries.read(topic, partition, record.offset, value_in(record), result.high_watermark)
        position = max(position, header.next_offset)
    return position
