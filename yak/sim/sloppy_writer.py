"""A producer without a producer id, which never retries. Its guarantees depend on its acks.

- acks=0: none, and no response
- acks=1: a new leader need not keep the record, which makes logs diverge
- acks=all: acknowledged records stay at their offsets

For all acks: readers get only records that were sent, no duplicates, and no record that was refused for good.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import Stoppable
from yak.sim.compacted_records import batch_for
from yak.sim.deliveries import Deliveries
from yak.sim.producer import PRODUCE
from yak.sim.request_fields import produce_fields
from yak.sim.routing import Channel

NAMES = {0: "z", 1: "s", -1: "a"}
"""Prefixes of a writer's values, by its acks. No digit: those mark idempotent producers."""
DEFINITE = frozenset({ErrorCode.not_enough_replicas, ErrorCode.invalid_record, ErrorCode.message_too_large})
"""Errors that prove that nothing was appended."""


class SloppyWriter(Stoppable):
    """Writes one record after the other to the leader in its view."""

    def __init__(
        self,
        channel: Channel,
        deliveries: Deliveries,
        number: int,
        topic: str,
        partition: int,
        *,
        pause_us: int,
        acks: int = 1,
    ) -> None:
        self._channel = channel
        self._deliveries = deliveries
        self._name = f"{NAMES[acks]}{number}"
        self._topic = topic
        self._partition = partition
        self._pause_us = pause_us
        self._acks = acks
        self._number = 0

    def start(self) -> None:
        if self._is_stopped:
            return
        self._number += 1
        values = [f"{self._name}:{self._number}".encode()]
        self._deliveries.sent(self._topic, self._partition, values)
        self._deliveries.count(f"sent with acks={self._acks}")
        records = batch_for(self._topic, values, self._channel.world.now_ms)
        fields = produce_fields(self._topic, records, partition=self._partition, acks=self._acks)
        if self._acks:
            self._channel.send(PRODUCE, 9, fields, lambda answer: self._on_answer(values, answer))
        else:
            self._channel.send_oneway(PRODUCE, 9, fields)
            self._later()

    def _on_answer(self, values: list[bytes], answer: Any | None) -> None:
        result = None if answer is None else answer.responses[0].partition_responses[0]
        if result is not None and self._acks == -1:
            if result.error_code == ErrorCode.none:
                self._deliveries.acknowledged(self._topic, self._partition, result.base_offset, values)
            elif result.error_code in DEFINITE:
                self._deliveries.refused_for_good(values)
        self._later()

    def _later(self) -> None:
        self._channel.world.after(self._channel.rng.between(self._pause_us // 4, self._pause_us), self.start)
