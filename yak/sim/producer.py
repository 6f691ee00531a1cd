"""An idempotent producer with several batches in flight, like librdkafka and the Java client.

Each batch gets its sequence once. After an error or a lost response the producer waits until nothing is in flight, and
resends in order with the same sequences. So each value must be in the log once, after those before it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import RETRY_US, Sender
from yak.sim.compacted_records import batch_for
from yak.sim.deliveries import Deliveries
from yak.sim.request_fields import init_producer_id_fields, produce_fields

PRODUCE, INIT_PRODUCER_ID = 0, 22
_GONE = (ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_producer_epoch)


@dataclass(slots=True, eq=False)
class _Batch:
    values: list[bytes]
    sequence: int


class SimProducer:
    """Sends values to one partition until it has sent its share, with at most `window` batches in flight."""

    def __init__(
        self,
        channel: Sender,
        deliveries: Deliveries,
        name: int,
        topic: str,
        partition: int,
        *,
        count: int,
        window: int,
        pause_us: int,
    ) -> None:
        self.channel = channel
        self.is_done = False
        self._deliveries = deliveries
        self._name = name
        self._topic = topic
        self._partition = partition
        self._left = count
        self._window = window
        self._pause_us = pause_us
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._value_number = 0
        self._unacked: list[_Batch] = []
        self._unsent: list[_Batch] = []
        self._under_way = 0
        self._is_halted = False
        self._is_known = False
        """Whether a batch of the present producer id was acknowledged.

        Until then one batch is in flight at a time: a broker accepts any sequence of an unknown producer, as Kafka
        does. So if it refused the first of several batches, it would accept the second as the first.
        """

    @property
    def target(self) -> tuple[str, int]:
        return self._topic, self._partition

    def start(self) -> None:
        self._send_next()

    def _send_next(self) -> None:
        if self._is_halted:
            return
        if self._producer is None:
            if not self._under_way:
                self._ask_for_id()
            return
        while self._under_way < (self._window if self._is_known else 1) and not self._is_halted:
            if not self._unsent and not self._make_batch():
                break
            batch = self._unsent.pop(0)
            self._under_way += 1
            self._send(batch)
        if not self._unacked and self._left <= 0:
            self.is_done = True

    def _make_batch(self) -> bool:
        size = min(self._left, self.channel.rng.between(1, 4))
        if size <= 0:
            return False
        values = []
        for _ in range(size):
            self._value_number += 1
            values.append(f"{self._name}:{self._value_number}".encode())
        self._left -= size
        self._deliveries.sent(self._topic, self._partition, values)
        batch = _Batch(values, self._sequence)
        self._sequence += size
        self._unacked.append(batch)
        self._unsent.append(batch)
        return True

    def _halt(self) -> None:
        """After an error: wait for the batches in flight, then resend everything unacknowledged."""
        self._is_halted = True
        if not self._under_way:
            self.channel.world.after(RETRY_US, self._resume)

    def _resume(self) -> None:
        if self._is_halted and not self._under_way:
            self._is_halted = False
            self._unsent = list(self._unacked)
            self._send_next()

    def _ask_for_id(self) -> None:
        self._under_way += 1
        self.channel.send(INIT_PRODUCER_ID, 4, init_producer_id_fields(), self._on_id)

    def _on_id(self, answer: Any | None) -> None:
        self._under_way -= 1
        if answer is None or answer.error_code != ErrorCode.none:
            self._halt()
            return
        self._deliveries.producer_id_given(answer.producer_id)
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._is_known = False
        self._sequence = 0
        self._send_next()

    def _send(self, batch: _Batch) -> None:
        assert self._producer is not None
        producer_id, epoch = self._producer
        records = batch_for(
            self._topic,
            batch.values,
            self.channel.world.now_ms,
            producer_id=producer_id,
            epoch=epoch,
            sequence=batch.sequence,
        )
        fields = produce_fields(self._topic, records, partition=self._partition) | {"timeout": dt.timedelta(seconds=2)}
        self.channel.send(PRODUCE, 9, fields, lambda answer: self._on_produced(batch, answer))

    def _on_produced(self, batch: _Batch, answer: Any | None) -> None:
        self._under_way -= 1
        if answer is None:
            self._halt()
            return
        result = answer.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.none:
            self._deliveries.acknowledged(self._topic, self._partition, result.base_offset, batch.values)
            self._is_known = True
            self._unacked = [held for held in self._unacked if held is not batch]
            if self._is_halted:
                self._halt()
            else:
                self.channel.world.after(self.channel.rng.between(0, self._pause_us), self._send_next)
            return
        if result.error_code in _GONE and self._unacked and self._unacked[0] is batch:
            # The broker lost batches without a durability guarantee (or the id expired): start again without them.
            self._deliveries.lost_sequence(self._topic, self._partition)
            self._producer = None
            self._unacked = []
        else:
            self._deliveries.count(f"refused {ErrorCode(result.error_code).name}")
        self._halt()
