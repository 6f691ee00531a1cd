"""All clients of a run, and their replacement when one dies."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from yak.ids import TopicPartition
from yak.local.chaos.members import Library, Member, librdkafka
from yak.local.chaos.readers import Reader
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.transactions import RECORDS, TransactionalProducer, TransactionalWriter, Worker
from yak.local.chaos.writers import Writer, close_log, refused_writer
from yak.sim.seeded_random import SeededRandom

GROUP: Final = "yak-chaos"
_FLUSH_SECONDS: Final = 130.0
"""For all writers together."""
_TRANSACTIONAL_SHARE: Final = 0.25
"""Of the records, those in transactions of writers."""
_WRITERS: Final = 3
_TRANSACTIONAL_WRITERS: Final = 2
_READERS: Final = 2
_MEMBERS: Final = 2
_WORKERS: Final = 2
_Client = Writer | TransactionalWriter | Reader | Member


class Clients:
    """The clients run from `start` until `stop_writing`, `stop_processing` and `stop_reading`.

    `rate` is of all writers in records per second, without what the workers copy from the topic `source` to the topic
    `target`. One of the readers reads uncommitted records too. `library` makes a library for each transactional client.
    """

    def __init__(
        self,
        bootstrap: str,
        partitions: Sequence[TopicPartition],
        recorder: Recorder,
        *,
        rate: float,
        seed: int,
        group: str,
        source: str,
        target: str,
        log: logging.Logger | None = None,
        library: Callable[[], Library] = librdkafka,
    ) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._recorder = recorder
        self._rate = rate
        self._rng = SeededRandom(f"chaos-clients:{seed}")
        self.group = group
        self.worker_group = f"{group}-workers"
        self._source = source
        self._target = [each for each in partitions if each.topic == target]
        self._log = log
        self._library = library
        self._numbers = 0
        self._makers: dict[str, list[Callable[[], _Client]]] = {
            "writer": [
                *[self._writer] * _WRITERS,
                *(partial(self._transactional_writer, index) for index in range(_TRANSACTIONAL_WRITERS)),
            ],
            "reader": [partial(self._reader, index) for index in range(_READERS)],
            "member": [*[self._member] * _MEMBERS, *(partial(self._worker, index) for index in range(_WORKERS))],
        }
        self._clients = {who: [make() for make in makers] for who, makers in self._makers.items()}
        self._refused = refused_writer(self._next(), bootstrap, partitions, recorder)

    def start(self) -> None:
        for each in (*(each for clients in self._clients.values() for each in clients), self._refused):
            each.start()

    def replace(self, who: str, which: int) -> str:
        """Drop a `writer`, `reader` or `member` and start a new one; return the name of the dropped one."""
        clients = self._clients[who]
        index = which % len(clients)
        dropped = clients[index]
        dropped.drop()
        clients[index] = self._makers[who][index]()
        clients[index].start()
        return dropped.client_id

    def stop_writing(self) -> int:
        """Stop the writers and wait for sends in flight; return the number of sends that were never answered."""
        until = time.monotonic() + _FLUSH_SECONDS
        unanswered = 0
        for each in (*self._clients["writer"], self._refused):
            assert isinstance(each, Writer | TransactionalWriter)
            unanswered += each.finish(max(0.0, until - time.monotonic()))
        return unanswered

    def stop_processing(self) -> None:
        """Stop the workers, each after its transaction."""
        for each in self._clients["member"]:
            if isinstance(each, Worker):
                each.stop()
        if self._log is not None:
            close_log(self._log)

    def stop_reading(self) -> None:
        for each in (*self._clients["reader"], *self._clients["member"]):
            assert isinstance(each, Reader | Member)
            if not isinstance(each, Worker):
                each.stop()

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _writer(self) -> Writer:
        every_s = _WRITERS / (self._rate * (1.0 - _TRANSACTIONAL_SHARE))
        return Writer(self._next(), self._bootstrap, self._partitions, self._recorder, every_s=every_s, log=self._log)

    def _transactional_producer(self, name: str, transactional_id: str) -> TransactionalProducer:
        number = self._next()
        return TransactionalProducer(
            f"{name}-{number}", self._bootstrap, f"{self.group}-{transactional_id}", self._recorder,
            number=number, log=self._log, library=self._library(),
        )  # fmt: skip

    def _transactional_writer(self, index: int) -> TransactionalWriter:
        every_s = sum(RECORDS) / 2 * _TRANSACTIONAL_WRITERS / (self._rate * _TRANSACTIONAL_SHARE)
        producer = self._transactional_producer("transactional-writer", f"writer-{index}")
        return TransactionalWriter(producer, self._partitions, every_s=every_s)

    def _reader(self, index: int) -> Reader:
        number = self._next()
        rng = self._rng.fork(f"reader-{number}")
        return Reader(number, self._bootstrap, self._partitions, self._recorder, rng, read_committed=index > 0)

    def _member(self) -> Member:
        topics = list(dict.fromkeys(each.topic for each in self._partitions))
        return Member(f"member-{self._next()}", self._bootstrap, topics, self.group, self._recorder)

    def _worker(self, index: int) -> Worker:
        producer = self._transactional_producer("worker", f"worker-{index}")
        return Worker(producer, self._bootstrap, self._source, self._target, self.worker_group, self._recorder)
