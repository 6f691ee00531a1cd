"""Delays requests that change the metadata until the image holds their changes, or until expected followers are registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Outcome
from yak.errors import ErrorCode, PeerError
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.broker import Broker


class DelayedMetadataChanges(DelayedOperation):
    """A delayed request that changes the metadata: answered when each change is in the image or refused."""

    __slots__ = ("_build", "pending", "results")

    def __init__(self, call: Call, timeout_ms: int, build: Callable[[dict[Any, PeerError | None]], Outcome]) -> None:
        super().__init__(call, timeout_ms)
        self._build = build
        self.pending: dict[Any, int] = {}
        self.results: dict[Any, PeerError | None] = {}

    def change(self, broker: Broker, key: object, requests: Sequence[StoreRequest]) -> None:
        """Send one change; a refusal becomes its result."""
        try:
            self.pending[key] = broker.metadata.begin_own(requests, partial(self._resolve, broker, key))
        except PeerError as error:
            self.refuse(key, error)

    def refuse(self, key: object, error: PeerError) -> None:
        """Record the result of a change that cannot be sent.

        The error loses its traceback: its frames refer to this object, which would be a reference cycle.
        """
        self.results[key] = error.with_traceback(None)

    def _resolve(self, broker: Broker, key: object, error: PeerError | None, _values: object) -> None:
        """Record the result of one change; the last one completes the request."""
        if self.pending.pop(key, None) is None:
            return
        self.results[key] = error
        if not self.pending:
            broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether every change has its result."""
        return not self.pending

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """The answer that the handler builds from the results by key."""
        return self._build(self.results)

    def on_expiration(self, broker: Broker) -> Outcome:
        """Pending changes are answered with REQUEST_TIMED_OUT: they may still happen."""
        late = PeerError(
            ErrorCode.request_timed_out, "the metadata store did not confirm in time; the result is unknown"
        )
        for key in self.pending:
            self.results[key] = late
        return self.answer(broker)

    def leave(self, broker: Broker) -> None:
        """Stop waiting for the pending changes."""
        for change_id in self.pending.values():
            broker.metadata.abandon(change_id)


class FollowersWaiting(DelayedOperation):
    """A delayed request for replicated topics: it starts when the wait for followers ends.

    It also starts when its own time is over, and is refused then (`ExpectedFollowers.check`).
    """

    __slots__ = ("_begin",)

    def __init__(self, broker: Broker, call: Call, timeout_ms: int, begin: Callable[[Broker, Call], Outcome]) -> None:
        super().__init__(call, min(timeout_ms, broker.expected_followers.wait_ms()))
        self._begin = begin
        broker.expected_followers.add(self)

    def is_done(self) -> bool:
        """False: only the end of the wait completes it."""
        return False

    def answer(self, broker: Broker) -> Outcome:
        """The outcome of the request, which starts now."""
        return self._begin(broker, self.call)

    def on_expiration(self, broker: Broker) -> Outcome:
        """The outcome of the request after its time-out: it starts all the same."""
        broker.expected_followers.end_when_due()
        return self._begin(broker, self.call)

    def leave(self, broker: Broker) -> None:
        """Remove this request from those that wait for followers."""
        broker.expected_followers.remove(self)
