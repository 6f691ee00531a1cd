"""Metadata changes that clients requested, from the request until the local image holds them.

A change is a run of requests, sent in order and repeated unchanged after an outage of the store. Each request carries
ids chosen by the caller and final values, so a repeat does no harm when an answer was lost. A change is done when the
image on disk holds it.

A topic's creation is repeated only under the registration in which it was first sent. Under a later one the topic may
have been created and deleted since, and the store recognizes a repeat only by that registration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from yak.cluster.outputs import ChangeDone, OnChanged
from yak.cluster.store_session import FREEZING_CODES, StoreSession
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, MetadataOffset
from yak.ports.metadata_store import StoreOutcome, StoreRequest

_MAYBE_CREATED = "The broker lost its registration. The topic may exist by now: list the topics, or retry."


class BeginChange(Protocol):
    """Sends a change of the broker's own (`Metadata.begin_own`)."""

    def __call__(self, requests: Sequence[StoreRequest], done: OnChanged, /, *, when_joined: bool = False) -> int:
        """Returns the change's id. Raises PeerError when the change cannot be sent."""


_ERRORS = {
    "TOPIC_EXISTS": ErrorCode.topic_already_exists,
    "TOPIC_COLLIDES": ErrorCode.invalid_topic_exception,
    "NO_TOPIC": ErrorCode.unknown_topic_or_partition,
    "INVALID_PARTITIONS": ErrorCode.invalid_partitions,
    "INELIGIBLE_BROKER": ErrorCode.invalid_replica_assignment,
    "BROKER_ACTIVE": ErrorCode.invalid_request,
    "NO_BROKER": ErrorCode.broker_id_not_registered,
    "STALE_EPOCH": ErrorCode.stale_broker_epoch,
    "FENCED_CONTROLLER": ErrorCode.not_controller,
    "BAD_REQUEST": ErrorCode.invalid_request,
}
_MESSAGES = {
    "NO_TOPIC": "The topic was deleted meanwhile.",
    "BROKER_ACTIVE": "The broker is alive, or was until a moment ago: stop it first.",
    "NO_BROKER": "The broker was unregistered meanwhile.",
    "STALE_EPOCH": "The broker has registered again meanwhile.",
    "FENCED_CONTROLLER": "Another broker became the controller meanwhile.",
}
"""For people, where a refusal of the store has no message."""


@dataclass(slots=True)
class _Change:
    change_id: int
    requests: tuple[StoreRequest, ...]
    done: OnChanged | None
    """None once it is abandoned."""
    outcomes: list[StoreOutcome] = field(default_factory=list)
    needs_offset: MetadataOffset = 0
    attempt: int = 0
    sent_in: tuple[str, BrokerEpoch] | None = None
    """The cluster incarnation and the broker epoch in which it was first sent."""


class Changes:
    """The changes under way. `on_freeze` is called when a reply says that the store has another history."""

    def __init__(self, session: StoreSession, on_freeze: Callable[[StoreOutcome, int], None]) -> None:
        self._session = session
        self._on_freeze = on_freeze
        self._changes: dict[int, _Change] = {}
        self._last_id = 0

    def begin(self, requests: Sequence[StoreRequest], done: OnChanged) -> int:
        """Send a change; returns its id."""
        change_id = self.hold(requests, done)
        self._send(self._changes[change_id])
        return change_id

    def hold(self, requests: Sequence[StoreRequest], done: OnChanged) -> int:
        """Keep a change for `resend`, which sends it as soon as the broker has joined; returns its id."""
        self._last_id += 1
        self._changes[self._last_id] = _Change(self._last_id, tuple(requests), done)
        return self._last_id

    def abandon(self, change_id: int) -> None:
        """Report the end of this change to no client. A change of several requests goes on: it is not left incomplete."""
        if change_id in self._changes:
            self._changes[change_id].done = None

    def abandon_all(self) -> list[OnChanged]:
        """Report the end of no change; returns what each of those under way would have called."""
        waiting = []
        for change in self._changes.values():
            if change.done is not None:
                waiting.append(change.done)
                change.done = None
        return waiting

    def resend(self) -> None:
        """Repeat the changes without a definite answer: the store is back."""
        for change in list(self._changes.values()):
            if len(change.outcomes) == len(change.requests):
                continue
            if change.done is None and len(change.requests) == 1:
                # its client got no result, and may have requested another change since
                del self._changes[change.change_id]
                continue
            is_creation = change.requests[0].script == "create_topic"
            if is_creation and change.sent_in not in (None, self._registration()):
                self._end(change, PeerError(ErrorCode.request_timed_out, _MAYBE_CREATED))
            else:
                self._send(change)

    def on_image(self) -> None:
        """End the changes that the new image holds."""
        if self._changes:
            for change in list(self._changes.values()):
                self._finish_if_applied(change)

    def _registration(self) -> tuple[str, BrokerEpoch]:
        return self._session.incarnation_id, self._session.broker_epoch

    def _send(self, change: _Change) -> None:
        change.sent_in = change.sent_in or self._registration()
        change.outcomes.clear()
        change.attempt += 1
        on_reply = partial(self._on_reply, change, change.attempt)
        for request in change.requests:
            self._session.send(request.script, request.arguments, on_reply)

    def _on_reply(self, change: _Change, attempt: int, outcome: StoreOutcome, now_ms: int) -> None:
        if change.change_id not in self._changes or attempt != change.attempt:
            return
        if outcome.code == "OK":
            change.outcomes.append(outcome)
            change.needs_offset = max(change.needs_offset, outcome.offset)
            self._finish_if_applied(change)
            return
        self._end(change, _error(outcome))
        first = change.requests[0]
        if first.script == "create_topic" and change.outcomes:
            # A later slice was refused: remove the topic, which no client has seen yet.
            self._session.send(
                "delete_topic", {"topic_id": first.arguments["topic_id"]}, lambda _outcome, _now_ms: None
            )
        if outcome.code in FREEZING_CODES:
            self._on_freeze(outcome, now_ms)

    def _finish_if_applied(self, change: _Change) -> None:
        if len(change.outcomes) == len(change.requests) and self._session.image.offset >= change.needs_offset:
            self._end(change, None)

    def _end(self, change: _Change, error: PeerError | None) -> None:
        del self._changes[change.change_id]
        if change.done is not None:
            values = () if error is not None else tuple(outcome.value for outcome in change.outcomes)
            self._session.put(ChangeDone(change.done, error, values))


def _error(outcome: StoreOutcome) -> PeerError:
    sent = outcome.value.get("message")
    message = sent if isinstance(sent, str) else ""
    if outcome.code in FREEZING_CODES or outcome.code in ("STALE_BROKER_EPOCH", "STORE_ERROR"):
        # Retriable: nothing was changed, and the broker is verifying its state with the store.
        return PeerError(ErrorCode.request_timed_out, f"The metadata store refused: {outcome.code}. {message}".strip())
    return PeerError(
        _ERRORS.get(outcome.code, ErrorCode.unknown_server_error), message or _MESSAGES.get(outcome.code, outcome.code)
    )
