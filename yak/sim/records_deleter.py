"""A client that deletes records of a replicated topic, up to the end of some batch or the high watermark."""

from __future__ import annotations

import datetime as dt
from math import inf
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from yak.sim.deliveries import Violation

if TYPE_CHECKING:
    from yak.sim.cluster_deliveries import ClusterDeliveries
    from yak.sim.routing import Channel

DELETE_RECORDS, VERSION = 21, 2
HIGH_WATERMARK = -1


class RecordsDeleter:
    """Sends DeleteRecords now and then, until it is stopped. The returned low watermark must be committed."""

    def __init__(
        self, channel: Channel, deliveries: ClusterDeliveries, topic: str, partition: int, *, pause_us: int
    ) -> None:
        self._channel = channel
        self._deliveries = deliveries
        self._place = topic, partition
        self._pause_us = pause_us
        self._is_stopped = False

    def start(self) -> None:
        self._channel.world.after(self._channel.rng.between(self._pause_us // 4, self._pause_us), self._delete)

    def stop(self) -> None:
        self._is_stopped = True

    def _delete(self) -> None:
        if self._is_stopped:
            return
        ends = self._deliveries.committed_ends(*self._place)
        rng = self._channel.rng
        offset = HIGH_WATERMARK if not ends or rng.chance(20) else rng.choice(ends)
        topic, partition = self._place
        held = self._deliveries.of(topic, partition)
        held.delete_before = max(held.delete_before, inf if offset == HIGH_WATERMARK else offset)
        fields: dict[str, Any] = {
            "topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}],
            "timeout": dt.timedelta(seconds=2),
        }
        self._channel.send(DELETE_RECORDS, VERSION, fields, self._on_answer)

    def _on_answer(self, answer: Any | None) -> None:
        result = None if answer is None else answer.topics[0].partitions[0]
        if result is not None and result.error_code == ErrorCode.none:
            self._deliveries.count("records deleted on request")
            topic, partition = self._place
            ends = self._deliveries.committed_ends(topic, partition)
            committed = ends[-1] if ends else 0
            if self._deliveries.promises(topic, partition) and result.low_watermark > committed:
                raise Violation(
                    f"I18: {topic}-{partition}: the low watermark is {result.low_watermark}, only {committed} is committed"
                )
        self.start()
