"""Fetches that read from the device: a job reads the bytes that are not in the page cache, the others wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from yak.broker.call import Call, DelayedOperation, Outcome
from yak.broker.reading import Reading
from yak.errors import LogDirectoryFailure

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_DISK_WAIT_MS = 30_000


class Buildable(Protocol):
    """A fetch that builds its answer once all its bytes are read."""

    call: Call

    def build(self, broker: Broker, reading: Reading) -> Outcome:
        """The answer with the bytes read."""


class ColdFetch(DelayedOperation):
    """A delayed fetch: some of its bytes are not in the page cache, and a job reads them."""

    __slots__ = ("_error", "_fetch", "_is_read", "_reading", "_result")

    def __init__(self, broker: Broker, fetch: Buildable, reading: Reading) -> None:
        super().__init__(fetch.call, _DISK_WAIT_MS)
        self._fetch = fetch
        self._reading = reading
        self._is_read = False
        self._result: list[Any] | None = None
        self._error: BaseException | None = None
        pending = reading.pending

        def work() -> list[Any]:
            return [plan.run() for _index, plan in pending]

        def done(result: Any, error: BaseException | None) -> None:
            self._is_read = True
            self._result, self._error = result, error
            if isinstance(error, LogDirectoryFailure):
                broker.directory_failed(error)
            broker.purgatory.complete(self)

        broker.jobs.run("read", work, done)

    def is_done(self) -> bool:
        """Whether the job has ended."""
        return self._is_read

    def answer(self, broker: Broker) -> Outcome:
        """The complete answer. Raises the job's exception unless it was a disk failure."""
        self._reading.take(broker, self._result, self._error)
        return self._fetch.build(broker, self._reading)

    def on_expiration(self, broker: Broker) -> Outcome:
        """The device takes too long: answer with the cached bytes; the client fetches the others again."""
        return self._fetch.build(broker, self._reading)
