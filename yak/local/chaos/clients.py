"""All clients of a run, and their replacement when one dies."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from yak.ids import TopicPartition
from yak.local.chaos.members import Member
from yak.local.chaos.readers import Reader
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.writers import Writer, close_log, refused_writer
from yak.sim.seeded_random import SeededRandom

GROUP: Final = "yak-chaos"
_FLUSH_SECONDS: Final = 130.0
"""For all writers together."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The numbers of clients, and their total write rate in records per second."""

    writers: int = 3
    readers: int = 2
    members: int = 2
    rate: float = 150.0


class Clients:
    """The clients run from `start` until `stop_writing` and `stop_reading`."""

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        recorder: Recorder,
        settings: ClientSettings,
        *,
        seed: int,
        group: str,
        log: logging.Logger | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._topics = list(dict.fromkeys(each.topic for each in partitions))
        self._recorder = recorder
        self._settings = settings
        self._rng = SeededRandom(f"chaos-clients:{seed}")
        self.group = group
        self._log = log
        self._numbers = 0
        self.writers = [self._writer() for _ in range(settings.writers)]
        self.readers = [self._reader() for _ in range(settings.readers)]
        self.members = [self._member() for _ in range(settings.members)]
        self._refused = refused_writer(self._next(), bootstrap, partitions, recorder)

    def start(self) -> None:
        """Start all clients."""
        everybody: list[Writer | Reader | Member] = [*self.writers, *self.readers, *self.members, self._refused]
        for each in everybody:
            each.start()

    def replace(self, who: str, which: int) -> str:
        """Drop a `writer`, `reader` or `member` and start a new one; return the name of the dropped one."""
        if who == "writer":
            index = which % len(self.writers)
            writer = self.writers[index]
            writer.drop()
            self.writers[index] = self._writer()
            self.writers[index].start()
            return writer.name
        if who == "reader":
            index = which % len(self.readers)
            reader = self.readers[index]
            reader.stop()
            self.readers[index] = self._reader()
            self.readers[index].start()
            return reader.name
        index = which % len(self.members)
        member = self.members[index]
        member.drop()
        self.members[index] = self._member()
        self.members[index].start()
        return member.name

    def stop_writing(self) -> int:
        """Stop the writers and wait for sends in flight; return the number of sends that were never answered."""
        until = time.monotonic() + _FLUSH_SECONDS
        everybody = (*self.writers, self._refused)
        unanswered = sum(each.stop(max(0.0, until - time.monotonic())) for each in everybody)
        if self._log is not None:
            close_log(self._log)
        return unanswered

    def stop_reading(self) -> None:
        """Stop readers and members in order."""
        for reader in self.readers:
            reader.stop()
        for member in self.members:
            member.stop()

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _writer(self) -> Writer:
        every_s = self._settings.writers / self._settings.rate
        return Writer(self._next(), self._bootstrap, self._partitions, self._recorder, every_s=every_s, log=self._log)

    def _reader(self) -> Reader:
        number = self._next()
        rng = self._rng.fork(f"reader-{number}")
        return Reader(number, self._bootstrap, self._partitions, self._recorder, rng)

    def _member(self) -> Member:
        return Member(f"member-{self._next()}", self._bootstrap, self._topics, self.group, self._recorder)
