"""One request on its way through the broker, and the three things a handler can say to it.

A handler is `handle(broker, call) -> Outcome`: `Now` with the answer's fields (or `Prebuilt` bytes, for the two hot
answers), `Later` with what it waits for, or None when the request gets no answer (acks=0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.seams.disk import Part

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.broker.connections import Connection

Fields: TypeAlias = dict[str, Any]
"""An answer without a version: kio's field names to plain values; the codec drops what a version lacks."""


class Call:
    """A decoded request with what is needed to answer it. `request` is kio's dataclass of exactly `version`.

    `came_ns` is set where it waits: when its turn began (`yak.broker.counters`).
    """

    __slots__ = (
        "api_key",
        "came_ns",
        "client_id",
        "connection",
        "correlation_id",
        "now_ms",
        "parts",
        "request",
        "version",
        "waiting",
    )

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        now_ms: int,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.now_ms = now_ms
        self.came_ns: int
        self.request: Any = None
        self.parts: list[Part] | None = None
        """The encoded answer, once there is one; it leaves when all earlier answers of its connection have."""
        self.waiting: Waiting | None = None


@dataclass(slots=True)
class Now:
    """The answer, to be encoded for the call's version."""

    fields: Fields


@dataclass(slots=True)
class Prebuilt:
    """The answer, already in bytes with its length prefix and header."""

    parts: list[Part]


class Waiting:
    """A request that cannot be answered yet (Kafka's DelayedOperation).

    What it waits for holds it by reference and calls `Broker.finish` when `is_done` turns true; a time-out calls
    `on_expiry`. Either way it leaves every place that holds it through `leave`.
    """

    __slots__ = ("call", "finished", "timeout_ms")

    def __init__(self, call: Call, timeout_ms: int) -> None:
        self.call = call
        self.timeout_ms = timeout_ms
        self.finished = False

    def is_done(self) -> bool:
        """Whether `answer` can be given now."""
        raise NotImplementedError

    def answer(self, broker: Broker) -> Outcome:
        """The answer after `is_done`; a fetch that needs the disk answers `Later` once more."""
        raise NotImplementedError

    def on_expiry(self, broker: Broker) -> Outcome:
        """The answer when the time is over."""
        raise NotImplementedError

    def look(self, broker: Broker) -> None:
        """Something moved: finish the request if it is done now."""
        if self.is_done():
            broker.finish(self)

    def leave(self, broker: Broker) -> None:
        """Forget this request wherever it is held, so that nothing wakes it any more."""


@dataclass(slots=True)
class Later:
    """The answer will come from `waiting`."""

    waiting: Waiting


Outcome: TypeAlias = Now | Prebuilt | Later | None
