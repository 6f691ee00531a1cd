"""A client that deletes the older records of a partition now and then."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import Stoppable

if TYPE_CHECKING:
    from yak.sim.clients import Sender
    from yak.sim.deliveries import Deliveries

DELETE_RECORDS, VERSION = 21, 2


class RecordsDeleter(Stoppable):
    """Sends DeleteRecords until it is stopped."""

    def __init__(self, channel: Sender, deliveries: Deliveries, topic: str, partition: int, *, pause_us: int) -> None:
        """`pause_us`: the longest pause before a request."""
        self._channel = channel
        self._deliveries = deliveries
        self._place = topic, partition
        self._pause_us = pause_us

    def start(self) -> None:
        self._channel.world.after(self._channel.rng.between(self._pause_us // 4, self._pause_us), self._delete)

    def _delete(self) -> None:
        if self._is_stopped:
            return
        topic, partition = self._place
        offset = self._deliveries.draw_deletion(topic, partition, self._channel.rng)
        fields: dict[str, Any] = {
            "topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}],
            "timeout": dt.timedelta(seconds=2),
        }
        self._channel.send(DELETE_RECORDS, VERSION, fields, self._on_answer)

    def _on_answer(self, answer: Any | None) -> None:
        result = None if answer is None else answer.topics[0].partitions[0]
        if result is not None and result.error_code == ErrorCode.none:
            self._deliveries.log_begins(*self._place, result.low_watermark)
            self._deliveries.count("records deleted on request")
        self.start()
