"""Delays the creation of replicated topics until the followers of `--followers` are registered, or for a bounded time.

Replicas are placed on the brokers that are registered when a topic is created, ACTIVE ones first: a topic created too early
would have no replica on brokers that start a second later. Topics with one replica do not wait. Nothing waits once all expected
followers were registered, or the time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from yak.broker.call import Call, DelayedOperation, Outcome
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


class ExpectedFollowers:
    """The expected followers, and the requests that wait for them."""

    def __init__(self, broker: Broker, addresses: tuple[str, ...], timeout_ms: int, now_ms: int) -> None:
        self._broker = broker
        self._addresses = addresses
        self._due_ms: int | None = now_ms + timeout_ms if addresses else None
        """The time until which replicated topics wait; None when the wait is over."""
        if self._due_ms is not None:
            broker.timers.arm(self, self._due_ms, self.end_when_due)
        self._waiting: dict[FollowersWaiting, None] = {}

    def missing(self) -> list[str]:
        """The expected addresses without a registered active broker, in the order given."""
        if not self._addresses:
            return []
        present = {_address(info.host, info.port) for info in self._broker.image.active_brokers()}
        return [address for address in self._addresses if _address(*address.rsplit(":", 1)) not in present]

    @property
    def is_awaited(self) -> bool:
        """Whether replicated topics have to wait."""
        return self._due_ms is not None

    def wait_ms(self) -> int:
        """The remaining time in ms; 0 when the wait is over."""
        return 0 if self._due_ms is None else max(0, self._due_ms - self._broker.now_ms)

    def check(self, replication_factor: int) -> None:
        """Raise PeerError REQUEST_TIMED_OUT for more than one replica while followers are awaited."""
        if self.is_awaited and replication_factor > 1:
            words = f"Expected followers are missing: {', '.join(self.missing())}. Nothing was changed; try again."
            raise PeerError(ErrorCode.request_timed_out, words)

    def explain(self, error: PeerError) -> PeerError:
        """The error for the client: INVALID_REPLICATION_FACTOR also lists the missing followers."""
        if error.error_code != ErrorCode.invalid_replication_factor or not (missing := self.missing()):
            return error
        return PeerError(error.error_code, f"{error.message} Expected followers are missing: {', '.join(missing)}.")

    def on_brokers(self) -> None:
        """The registered brokers changed: end the wait if no follower is missing."""
        if self._due_ms is not None and not self.missing():
            self._broker.notice("info", "expected-followers-registered", followers=", ".join(self._addresses))
            self._end()

    def end_when_due(self) -> None:
        """When the time is over, log the missing followers and go on without them."""
        if self._due_ms is None or self._broker.now_ms < self._due_ms:
            return
        missing = self.missing()
        if missing:
            self._broker.notice(
                "warning",
                "expected-followers-missing",
                followers=", ".join(missing),
                what="replicated topics are created on other brokers; start the missing ones, or change --followers",
            )
        self._end()

    def add(self, waiting: FollowersWaiting) -> None:
        """Complete this request when the wait ends."""
        self._waiting[waiting] = None

    def remove(self, waiting: FollowersWaiting) -> None:
        """Remove this request from those that wait."""
        self._waiting.pop(waiting, None)

    def _end(self) -> None:
        self._due_ms = None
        self._broker.timers.disarm(self)
        for waiting in list(self._waiting):
            self._broker.purgatory.complete(waiting)


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


def _address(host: str, port: int | str) -> tuple[str, int]:
    name = host.lower()
    return "localhost" if name in _LOOPBACK else name.strip("[]"), int(port)
