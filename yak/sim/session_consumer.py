"""A consumer of all partitions of a topic through one fetch session (KIP-227), as real clients fetch.

It sends only what changed since its last fetch, and starts a new session if the broker does not know the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from yak.sim.clients import FETCH, LIST_OFFSETS, RETRY_US, ReadListener, Sender, take_records
from yak.sim.request_fields import fetch_fields, list_offsets_fields, partition_fields


class SimSessionConsumer:
    """Reads partitions from their starts on, by long polling, and reports the records of each to its listener."""

    def __init__(self, channel: Sender, listeners: Sequence[ReadListener], topic: str, *, pause_us: int) -> None:
        self.channel = channel
        self._listeners = listeners
        self._topic = topic
        self.pause_us = pause_us
        """The longest pause between a response and the next fetch."""
        self._positions = dict.fromkeys(range(len(listeners)), 0)
        self._sent: dict[int, int] = {}
        """The position of each partition in the broker's session."""
        self._session_id = 0
        self._epoch = 0

    def start(self) -> None:
        self._fetch()

    def _fetch(self) -> None:
        rng = self.channel.rng
        partitions = [
            partition_fields(partition, at, rng.between(1, 4096))
            for partition, at in self._positions.items()
            if self._sent.get(partition) != at
        ]
        topics = [{"topic": self._topic, "partitions": partitions}] if partitions else []
        session = {"session_id": self._session_id, "session_epoch": self._epoch, "topics": topics}
        wait_ms, max_bytes = rng.between(0, 300), rng.between(1, 4096)
        requested = dict(self._positions)
        self._sent = dict(requested)
        fields = fetch_fields(self._topic, 0, max_wait_ms=wait_ms, max_bytes=max_bytes) | session
        self.channel.send(FETCH, 12, fields, lambda answer: self._on_fetched(requested, answer))

    def _on_fetched(self, requested: dict[int, int], answer: Any | None) -> None:
        if answer is None or answer.error_code != ErrorCode.none:
            self._restart_session()
            return
        if answer.session_id:
            self._session_id = answer.session_id
            self._epoch += 1
        else:
            self._forget_session()
        lost = None
        failed = False
        for topic in answer.responses:
            for result in topic.partitions:
                partition = result.partition_index
                if result.error_code == ErrorCode.offset_out_of_range:
                    lost = partition
                elif result.error_code != ErrorCode.none:
                    failed = True
                elif self._positions[partition] == requested[partition]:
                    self._positions[partition] = take_records(
                        self._listeners[partition], self._topic, partition, requested[partition], result
                    )
        if lost is not None:
            self._ask_for_the_start(lost)
        else:
            self.channel.world.after(RETRY_US if failed else self.channel.rng.between(0, self.pause_us), self._fetch)

    def _restart_session(self) -> None:
        self._forget_session()
        self.channel.world.after(RETRY_US, self._fetch)

    def _forget_session(self) -> None:
        self._session_id = self._epoch = 0
        self._sent = {}

    def _ask_for_the_start(self, partition: int) -> None:
        position = self._positions[partition]

        def on_start(answer: Any | None) -> None:
            result = None if answer is None else answer.topics[0].partitions[0]
            if result is not None and result.error_code == ErrorCode.none and self._positions[partition] == position:
                self._positions[partition] = self._listeners[partition].position_lost(
                    self._topic, partition, position, result.offset
                )
            self._restart_session()

        self.channel.send(LIST_OFFSETS, 6, list_offsets_fields(self._topic, partition), on_start)
