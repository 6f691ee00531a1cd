"""Producer ids, from blocks of 1,000 that the metadata store assigns to this broker alone.

The next block is requested ahead of need, so that producers can start while the store is away.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from yak.broker.call import Call, DelayedOperation, Fields, Now, Outcome
from yak.cluster.topic_changes import plan_producer_ids
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

REFILL_BELOW = 500
"""Ids left when the next block is requested: an outage of the store is shorter than 500 new producers."""
_TIMEOUT_MS = 10_000


class DelayedInitProducerId(DelayedOperation):
    """A delayed InitProducerId; mostly the current block has an id at once."""

    __slots__ = ("error", "producer_id")

    def __init__(self, call: Call) -> None:
        super().__init__(call, _TIMEOUT_MS)
        self.producer_id = -1
        self.error: PeerError | None = None

    def is_done(self) -> bool:
        """Whether there is an id, or an error."""
        return self.producer_id >= 0 or self.error is not None

    def answer(self, broker: Broker) -> Outcome:
        """The id with epoch 0, or the error."""
        del broker
        if self.error is not None:
            return Now(refused(self.error.error_code))
        return Now({"error_code": ErrorCode.none, "producer_id": self.producer_id, "producer_epoch": 0})

    def on_expiration(self, broker: Broker) -> Outcome:
        """Answer with a retriable error: no block of ids came in time."""
        del broker
        return Now(refused(ErrorCode.coordinator_load_in_progress))


def refused(error_code: ErrorCode) -> Fields:
    """The answer with an error."""
    return {"error_code": error_code, "producer_id": -1, "producer_epoch": -1}


class ProducerIds:
    """The current block, the next one, and the requests that wait for an id."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0
        self._end = 0
        self._spare: tuple[int, int] | None = None
        self._waiting: deque[DelayedInitProducerId] = deque()
        self._is_asking = False

    def take(self, waiting: DelayedInitProducerId) -> None:
        """Assign an id to `waiting` now or when a block arrives; fail it when no block can come."""
        if self._next == self._end and self._spare is not None:
            (self._next, self._end), self._spare = self._spare, None
        if self._next < self._end:
            waiting.producer_id = self._next
            self._next += 1
        else:
            self._waiting.append(waiting)
        self.refill()

    def refill(self) -> None:
        """Request a block when few ids are left; without the store the next use requests it again."""
        if self._is_asking or self._spare is not None or self._end - self._next >= REFILL_BELOW:
            return
        self._is_asking = True
        try:
            self._broker.metadata.begin_own([plan_producer_ids()], self._on_block)
        except PeerError as error:
            self._is_asking = False
            self._fail(error)

    def _on_block(self, error: PeerError | None, values: tuple[dict[str, object], ...]) -> None:
        self._is_asking = False
        if error is not None:
            self._fail(error)
            return
        first, end = values[0]["first"], values[0]["next"]
        assert isinstance(first, int)
        assert isinstance(end, int)
        self._spare = first, end
        waiting, self._waiting = self._waiting, deque()
        for held in waiting:
            if held.finished:
                continue
            self.take(held)
            if held.is_done():
                self._finish(held)

    def _fail(self, error: PeerError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for held in waiting:
            held.error = error
            self._finish(held)

    def _finish(self, held: DelayedOperation) -> None:
        if held.call.delayed is held:
            self._broker.purgatory.complete(held)
