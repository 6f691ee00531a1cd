"""Delays requests that change the metadata until the image holds their changes, or until expected followers are registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Outcome
from yak.errors import ErrorCode, PeerError
from yak.ports.metadata_store import StoreRequest

if TYPE_CHECKING:
    from yak.broker.purgatory import Purgatory
    from yak.lifecycle.expected_followers import ExpectedFollowers
    from yak.lifecycle.metadata import Metadata


class DelayedMetadataChanges(DelayedOperation):
    """A delayed request that changes the metadata: answered when each change is in the image or refused."""

    __slots__ = ("_build", "_metadata", "_purgatory", "pending", "results")

    def __init__(
        self,
        metadata: Metadata,
        purgatory: Purgatory,
        call: Call,
        timeout_ms: int,
        build: Callable[[dict[Any, PeerError | None]], Outcome],
    ) -> None:
        super().__init__(call, timeout_ms)
        self._metadata, self._purgatory, self._build = metadata, purgatory, build
        self.pending: dict[Any, int] = {}
        self.results: dict[Any, PeerError | None] = {}

    def change(self, key: object, requests: Sequence[StoreRequest]) -> None:
        """Send one change; a refusal becomes its result."""
        try:
            self.pending[key] = self._metadata.begin_own(requests, partial(self._resolve, key))
        except PeerError as error:
            self.refuse(key, error)

    def refuse(self, key: object, error: PeerError) -> None:
        """Record the result of a change that cannot be sent.

        The error loses its traceback: its frames refer to this object, which would be a reference cycle.
        """
        self.results[key] = error.with_traceback(None)

    def _resolve(self, key: object, error: PeerError | None, _values: object) -> None:
        """Record the result of one change; the last one completes the request."""
        if self.pending.pop(key, None) is None:
            return
        self.results[key] = error
        if not self.pending:
            self._purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether every change has its result."""
        return not self.pending

    def answer(self) -> Outcome:
        """The answer that the handler builds from the results by key."""
        return self._build(self.results)

    def on_expiration(self) -> Outcome:
        """Pending changes are answered with REQUEST_TIMED_OUT: they may still happen."""
        late = PeerError(
            ErrorCode.request_timed_out, "the metadata store did not confirm in time; the result is unknown"
        )
        for key in self.pending:
            self.results[key] = late
        return self.answer()

    def leave(self) -> None:
        """Stop waiting for the pending changes."""
        for change_id in self.pending.values():
            self._metadata.abandon(change_id)


class FollowersWaiting(DelayedOperation):
    """A delayed request for replicated topics: it starts when the wait for followers ends.

    It also starts when its own time is over, and is refused then (`ExpectedFollowers.check`).
    """

    __slots__ = ("_begin", "_expected_followers")

    def __init__(
        self,
        expected_followers: ExpectedFollowers[DelayedOperation],
        call: Call,
        timeout_ms: int,
        begin: Callable[[Call], Outcome],
    ) -> None:
        super().__init__(call, min(timeout_ms, expected_followers.wait_ms()))
        self._expected_followers, self._begin = expected_followers, begin
        expected_followers.add(self)

    def is_done(self) -> bool:
        """False: only the end of the wait completes it."""
        return False

    def answer(self) -> Outcome:
        """The outcome of the request, which starts now."""
        return self._begin(self.call)

    def on_expiration(self) -> Outcome:
        """The outcome of the request after its time-out: it starts all the same."""
        self._expected_followers.end_when_due()
        return self._begin(self.call)

    def leave(self) -> None:
        """Remove this request from those that wait for followers."""
        self._expected_followers.remove(self)
