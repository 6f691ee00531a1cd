"""One request in the broker, and the outcomes that its handler can return.

An outcome is `Now` with the answer's fields, `Encoded` for the two hot answers, `Later` with a delayed operation, or None
when the request gets no answer (acks=0).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

from yak.errors import ErrorCode, PeerError
from yak.ports.disk import Part
from yak.protocol.schema_fields import plain

if TYPE_CHECKING:
    from yak.broker.connections import Connection
    from yak.quotas.client_quotas import MutationQuota
    from yak.replication.fetch_sessions import ConsumerSession

Encoded: TypeAlias = list[Part]
"""An encoded answer, with its length prefix and header."""
Fields: TypeAlias = dict[str, Any]
"""An answer without a version: kio's field names to plain values; the codec drops what a version lacks."""


def error_fields(error: PeerError | None) -> Fields:
    """The fields of a result that is an error, or none."""
    return {
        "error_code": ErrorCode.none if error is None else error.error_code,
        "error_message": None if error is None else error.message,
    }


def forwarded_fields(message: Any) -> Fields:
    """The fields of a request to another broker, or of its answer without the throttle time: this broker has its own."""
    fields = plain(message)
    assert isinstance(fields, dict)
    fields.pop("throttle_time", None)
    return fields


def milliseconds(duration: dt.timedelta) -> int:
    """A duration of a request in ms."""
    return duration // dt.timedelta(milliseconds=1)


@dataclass(slots=True, eq=False, repr=False)
class Call:
    """A decoded request and its context. `request` is kio's dataclass of exactly `version`.

    `came_ns` is set when the answer is delayed: the time at which the request's turn began (`yak.broker.counters`).
    `request_bytes` and `mutation_quota` are set while there are quotas (`yak.broker.throttling`), and `is_denied` when a
    part of it was denied (`yak.broker.authorization`).
    """

    connection: Connection
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    now_ms: int
    came_ns: int = field(init=False)
    is_denied: bool = field(init=False)
    request_bytes: int = field(init=False)
    mutation_quota: MutationQuota = field(init=False)
    request: Any = None
    parts: Encoded | None = None
    """The encoded answer, None until there is one; it is sent after all earlier answers of its connection."""
    delayed: DelayedOperation | None = None
    fault: CallFault | None = None
    """What the fault rules do to the request's answer."""

    @property
    def timeout_ms(self) -> int:
        """The request's own timeout, at least 1 ms."""
        return max(1, milliseconds(self.request.timeout))


@final
@dataclass(slots=True)
class Now:
    """The answer, to be encoded for the call's version."""

    fields: Fields


class DelayedOperation:
    """A request that cannot be answered yet (Kafka's DelayedOperation).

    The component that it waits for refers to it and calls `Purgatory.complete` when `is_done` turns true; a time-out
    calls `on_expiration`. In both cases `leave` removes it from every component that refers to it.
    """

    __slots__ = ("call", "finished", "timeout_ms")

    def __init__(self, call: Call, timeout_ms: int) -> None:
        self.call = call
        self.timeout_ms = timeout_ms
        self.finished = False

    @property
    def is_waiting_for_more(self) -> bool:
        """Whether `answer` can be given at any time, and waiting only makes it fuller."""
        return False

    def outcome(self) -> Outcome:
        """The handler's outcome: the answer, if it can be given already."""
        return self.answer() if self.is_done() else Later(self)

    def is_done(self) -> bool:
        """Whether `answer` can be given now; false for one that only its component, or its time, completes."""
        return False

    def answer(self) -> Outcome:
        """The answer after `is_done`; a fetch that needs the disk answers `Later` once more."""
        raise NotImplementedError

    def on_expiration(self) -> Outcome:
        """The answer after a time-out; by default the one that there is."""
        return self.answer()

    def leave(self) -> None:
        """Remove this request from every component that refers to it."""


@final
@dataclass(slots=True)
class Later:
    """The answer is delayed: `operation` gives it."""

    operation: DelayedOperation


Outcome: TypeAlias = Now | Encoded | Later | None
Slices: TypeAlias = Generator[None, None, Outcome]
"""A handler that yields after every `SLICE_ELEMENTS` elements; any state may have changed when it resumes."""


class CallFault(Protocol):
    """What fault rules do to one call, and to its answer (`yak.broker.fault_injection`)."""

    def answered(self, outcome: Now | Encoded | None) -> Outcome:
        """The answer that the client gets, and when. Called once, with the handler's answer."""

    def check(self, topic: str, index: int) -> None:
        """Raise PeerError if a Fetch is to get an error for this partition."""

    def mark_dirty(self, session: ConsumerSession) -> None:
        """Let a fetch of a session answer the partitions that get an error, though nothing is new in them."""
