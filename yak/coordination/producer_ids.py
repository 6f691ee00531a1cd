"""Producer ids, from blocks of 1,000 that the metadata store assigns to this broker alone.

The next block is requested ahead of need, so that producers can start while the store is down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from yak.cluster.changes import BeginChange
from yak.cluster.topic_changes import plan_producer_ids
from yak.errors import ErrorCode, PeerError
from yak.ids import ProducerId
from yak.transactions.transaction import NO_PRODUCER_ID

REFILL_BELOW = 500
"""Ids left when the next block is requested: an outage of the store is shorter than 500 new producers."""


Then: TypeAlias = Callable[[ProducerId, PeerError | None], None]
"""Called once, with an id or with the error: COORDINATOR_LOAD_IN_PROGRESS."""


class ProducerIds:
    """The current block, the next one, and the callbacks that wait for an id."""

    def __init__(self, begin_change: BeginChange) -> None:
        self._begin_change = begin_change
        self._next = 0
        self._end = 0
        self._spare: tuple[int, int] | None = None
        self._waiting: deque[Then] = deque()
        self._is_asking = False

    def take(self, then: Then) -> None:
        """Give an id now or when a block arrives, or the error when no block can come."""
        if self._next == self._end and self._spare is not None:
            (self._next, self._end), self._spare = self._spare, None
        if self._next < self._end:
            self._next += 1
            then(self._next - 1, None)
        else:
            self._waiting.append(then)
        self.refill()

    def refill(self) -> None:
        """Request a block when few ids are left; without the store the next use requests it again."""
        if self._is_asking or self._spare is not None or self._end - self._next >= REFILL_BELOW:
            return
        self._is_asking = True
        try:
            self._begin_change([plan_producer_ids()], self._on_block)
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
        for then in waiting:
            self.take(then)

    def _fail(self, error: PeerError) -> None:
        """Fail the callbacks with COORDINATOR_LOAD_IN_PROGRESS, which every client repeats.

        REQUEST_TIMED_OUT ends a Java producer before 3.4 (KAFKA-14417, Kafka's ProducerIdManager).
        """
        waiting, self._waiting = self._waiting, deque()
        for then in waiting:
            then(NO_PRODUCER_ID, PeerError(ErrorCode.coordinator_load_in_progress, error.message))
