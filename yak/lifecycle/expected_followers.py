"""Delays the creation of replicated topics until the followers of `--followers` are registered, or for a bounded time.

Replicas are placed on the brokers that are registered when a topic is created, ACTIVE ones first: a topic created too early
would have no replica on brokers that start a second later. Topics with one replica do not wait. Nothing waits once all
expected followers were registered, or the time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from yak.core.context import Context
from yak.errors import ErrorCode, PeerError

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


class ExpectedFollowers:
    """The expected followers, and the requests that wait for them."""

    def __init__(self, context: Context, addresses: tuple[str, ...], timeout_ms: int) -> None:
        self._context = context
        self._addresses = addresses
        self._due_ms: int | None = context.clock.now_ms + timeout_ms if addresses else None
        """The time until which replicated topics wait; None when the wait is over."""
        if self._due_ms is not None:
            context.timers.arm(self, self._due_ms, self.end_when_due)
        self._waiting: dict[object, Callable[[], None]] = {}
        """How to start each request that waits."""

    def missing(self) -> list[str]:
        """The expected addresses without a registered active broker, in the order given."""
        present = {_address(info.host, info.port) for info in self._context.image.active_brokers()}
        return [address for address in self._addresses if _address(*address.rsplit(":", 1)) not in present]

    @property
    def is_awaited(self) -> bool:
        """Whether replicated topics have to wait."""
        return self._due_ms is not None

    def wait_ms(self) -> int:
        """The remaining time in ms; 0 when the wait is over."""
        return 0 if self._due_ms is None else max(0, self._due_ms - self._context.clock.now_ms)

    def check(self, replication_factor: int) -> None:
        """Raise PeerError REQUEST_TIMED_OUT for more than one replica while followers are awaited."""
        if self.is_awaited and replication_factor > 1:
            message = f"Expected followers are missing: {', '.join(self.missing())}. Nothing was changed; try again."
            raise PeerError(ErrorCode.request_timed_out, message)

    def explain(self, error: PeerError) -> PeerError:
        """The error for the client: INVALID_REPLICATION_FACTOR also lists the missing followers."""
        if error.error_code != ErrorCode.invalid_replication_factor or not (missing := self.missing()):
            return error
        return PeerError(error.error_code, f"{error.message} Expected followers are missing: {', '.join(missing)}.")

    def on_brokers(self) -> None:
        """The registered brokers changed: end the wait if no follower is missing."""
        if self._due_ms is not None and not self.missing():
            self._context.notice("info", "expected-followers-registered", followers=", ".join(self._addresses))
            self._end()

    def end_when_due(self) -> None:
        """When the time is over, log the missing followers and go on without them."""
        if self._due_ms is None or self._context.clock.now_ms < self._due_ms:
            return
        missing = self.missing()
        if missing:
            self._context.notice(
                "warning",
                "expected-followers-missing",
                followers=", ".join(missing),
                what="replicated topics are created on other brokers; start the missing ones, or change --followers",
            )
        self._end()

    def add(self, request: object, start: Callable[[], None]) -> None:
        """Call `start` when the wait ends."""
        self._waiting[request] = start

    def remove(self, request: object) -> None:
        """Remove this request from those that wait."""
        self._waiting.pop(request, None)

    def _end(self) -> None:
        self._due_ms = None
        self._context.timers.disarm(self)
        for start in list(self._waiting.values()):
            start()


def _address(host: str, port: int | str) -> tuple[str, int]:
    name = host.lower()
    return "localhost" if name in _LOOPBACK else name.strip("[]"), int(port)
