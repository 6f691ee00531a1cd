"""Topics that are deleted and created again under one name, and their clients.

A topic's records must never appear in the next topic of its name. Acknowledged records stay until the topic is deleted,
unless power was lost.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from yak.protocol.record_batch import iterate_headers
from yak.protocol.record_walk import walk_records
from yak.sim.clients import FETCH, RETRY_US, Sender, Stoppable
from yak.sim.cluster_admin import CREATE_TOPICS, DELETE_TOPICS, MADE
from yak.sim.deliveries import Deliveries, Violation
from yak.sim.producer import PRODUCE
from yak.sim.request_fields import create_fields, fetch_fields, produce_fields
from yak.sim.routing import Channel
from yak.sim.wire import record_batch

_GONE = (ErrorCode.none, ErrorCode.unknown_topic_or_partition)


class TopicChurn:
    """Creates a topic, writes to it, reads it back and deletes it, `rounds` times."""

    def __init__(
        self, channel: Sender, deliveries: Deliveries, name: str, rounds: int, losses: Callable[[], int]
    ) -> None:
        self.channel = channel
        self.is_done = rounds <= 0
        self._deliveries = deliveries
        self._name = name
        self._rounds = rounds
        self._losses = losses
        """The number of power losses so far: each may take unflushed records."""
        self._losses_seen = 0
        self._round = 0
        self._to_write = 0
        self._acked: dict[int, bytes] = {}
        self._unanswered: set[bytes] = set()
        """Values that the network may still bring, after their topic was deleted."""
        self._found: dict[int, bytes] = {}

    def start(self) -> None:
        if not self.is_done:
            self._create()

    def _again(self, action: Callable[[], None]) -> None:
        self.channel.world.after(RETRY_US, action)

    def _create(self) -> None:
        def on_answer(answer: Any | None) -> None:
            if answer is None or answer.topics[0].error_code not in MADE:
                self._again(self._create)
                return
            self._round += 1
            self._acked = {}
            self._losses_seen = self._losses()
            self._to_write = self.channel.rng.between(0, 6)
            self._write()

        self.channel.send(CREATE_TOPICS, 5, create_fields(self._name, {"segment.bytes": "2048"}), on_answer)

    def _write(self) -> None:
        if self._to_write <= 0:
            self._found = {}
            self._read(0)
            return
        self._to_write -= 1
        value = f"{self._round}:{self._to_write}".encode()

        def on_answer(answer: Any | None) -> None:
            if answer is None:
                self._unanswered.add(value)
            result = None if answer is None else answer.responses[0].partition_responses[0]
            if result is not None and result.error_code == ErrorCode.none:
                self._acked[result.base_offset] = value
                self._deliveries.count("acknowledged in short-lived topics")
            self.channel.world.after(self.channel.rng.between(0, 30_000), self._write)

        records = record_batch([value], self.channel.world.now_ms)
        self.channel.send(PRODUCE, 9, produce_fields(self._name, records), on_answer)

    def _read(self, position: int) -> None:
        def on_answer(answer: Any | None) -> None:
            result = None if answer is None else answer.responses[0].partitions[0]
            if result is not None and result.error_code == ErrorCode.kafka_storage_error and not self._acked:
                # the log could not be created: the partition stays offline until the topic is deleted
                self._delete()
                return
            if result is not None and result.error_code == ErrorCode.offset_out_of_range and self._has_losses():
                self._found = {}
                self._again(lambda: self._read(0))
                return
            if result is None or result.error_code != ErrorCode.none:
                self._again(lambda: self._read(position))
                return
            records = bytes(result.records or b"")
            for place, header in iterate_headers(records):
                for record in walk_records(records[place : place + header.size_bytes]):
                    self._found[record.offset] = record.value or b""
            following = max(self._found, default=-1) + 1
            if following < result.high_watermark:
                self._again(lambda: self._read(following))
                return
            self._compare(self._found)
            self._delete()

        self.channel.send(FETCH, 12, fetch_fields(self._name, position), on_answer)

    def _compare(self, found: dict[int, bytes]) -> None:
        for offset, value in found.items():
            if not value.startswith(f"{self._round}:".encode()) and value not in self._unanswered:
                raise Violation(f"{self._name}@{offset}: {value!r} is of a deleted topic, this is round {self._round}")
        if self._has_losses():
            return
        for offset, value in self._acked.items():
            if found.get(offset) != value:
                raise Violation(f"{self._name}@{offset}: {value!r} was acknowledged, {found.get(offset)!r} is there")

    def _has_losses(self) -> bool:
        """Whether the power may have taken records of this round, also some that were read."""
        return self._losses() != self._losses_seen

    def _delete(self) -> None:
        def on_answer(answer: Any | None) -> None:
            if answer is None or answer.responses[0].error_code not in _GONE:
                self._again(self._delete)
                return
            self._deliveries.count("topics deleted")
            if self._round >= self._rounds:
                self.is_done = True
            else:
                self.channel.world.after(self.channel.rng.between(0, 20_000), self._create)

        self.channel.send(
            DELETE_TOPICS, 4, {"topic_names": [self._name], "timeout": dt.timedelta(seconds=2)}, on_answer
        )


class ShortLivedWriter(Stoppable):
    """Writes to a partition of a topic that an administrator deletes and creates again, whatever the answers are.

    The clients' history knows topics by name, so it has none of these records: the checks of the replicas compare them.
    """

    def __init__(self, channel: Channel, deliveries: Deliveries, topic: str, partition: int) -> None:
        self._channel, self._deliveries, self._topic, self._partition = channel, deliveries, topic, partition
        self._pause_us = channel.rng.choice((80_000, 250_000))

    def start(self) -> None:
        if self._is_stopped:
            return
        self._deliveries.count("sent to short-lived topics")
        acks = self._channel.rng.choice((1, 1, -1))
        fields = produce_fields(
            self._topic, record_batch([b"x"], self._channel.world.now_ms), partition=self._partition, acks=acks
        )
        self._channel.send(PRODUCE, 9, fields, lambda _answer: self._later())

    def _later(self) -> None:
        self._channel.world.after(self._channel.rng.between(self._pause_us // 4, self._pause_us), self.start)
