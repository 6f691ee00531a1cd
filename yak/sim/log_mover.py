"""An administrator who moves replicas between the log directories of a broker (AlterReplicaLogDirs, KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yak.sim.clients import Sender

ALTER_REPLICA_LOG_DIRS, VERSION = 34, 1
_PAUSES_US = (5_000, 60_000, 400_000)
"""The longest pause between two requests: a move is often replaced, or taken back, before it is over."""


class LogMover:
    """Moves the partitions of `topics` to one of `directories`, again and again until `is_over`."""

    def __init__(
        self, channel: Sender, topics: Mapping[str, int], directories: tuple[str, ...], is_over: Callable[[], bool]
    ) -> None:
        """`topics`: name -> number of partitions."""
        self._channel, self._rng = channel, channel.rng
        self._partitions = [(name, number) for name, partitions in topics.items() for number in range(partitions)]
        self._directories = directories
        self._pause_us = self._rng.choice(_PAUSES_US)
        self._is_over = is_over

    def start(self) -> None:
        self._channel.world.after(self._rng.between(1_000, self._pause_us), self._move)

    def _move(self) -> None:
        if self._is_over():
            return
        topic, number = self._rng.choice(self._partitions)
        place = {"name": topic, "partitions": (number,)}
        fields = {"dirs": [{"path": self._rng.choice(self._directories), "topics": [place]}]}
        self._channel.send(ALTER_REPLICA_LOG_DIRS, VERSION, fields, lambda _answer: self.start())
