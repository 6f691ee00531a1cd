"""A writer with acks=1 and without a producer id: what it wrote may be lost, which makes logs diverge."""

from __future__ import annotations

from typing import Any

from yak.sim.books import Books
from yak.sim.clients import Sender
from yak.sim.producer import PRODUCE
from yak.sim.request_fields import build, produce_fields
from yak.sim.wire import record_batch, request_class


class SloppyWriter:
    """Writes one record after the other to whoever it takes for the leader, and never again what failed."""

    def __init__(self, channel: Sender, books: Books, name: str, topic: str, partition: int, *, pause_us: int) -> None:
        self._channel = channel
        self._books = books
        self._name = name
        self._topic = topic
        self._partition = partition
        self._pause_us = pause_us
        self._number = 0
        self._is_stopped = False

    def start(self) -> None:
        """Write the next one."""
        if self._is_stopped:
            return
        self._number += 1
        value = f"{self._name}:{self._number}".encode()
        self._books.sent(self._topic, self._partition, [value])
        records = record_batch([value], self._channel.world.now_ms)
        fields = produce_fields(self._topic, records, partition=self._partition, acks=1)
        self._channel.send(PRODUCE, 9, build(request_class(PRODUCE, 9), fields), self._on_answer)

    def stop(self) -> None:
        """Write nothing more."""
        self._is_stopped = True

    def _on_answer(self, answer: Any | None) -> None:  # noqa: ARG002
        self._channel.world.after(self._channel.dice.between(self._pause_us // 4, self._pause_us), self.start)
