"""The followers that `--followers` names: until they are there, or for a bounded time, no replicated topic is made.

Replicas are placed on the brokers that are registered when a topic is made, ACTIVE ones first, so a topic made too early
would be missing on those that come a second later. What has one replica waits for nobody, and nothing waits once all were there, or the time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from yak.broker.call import Call, Outcome, Waiting
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


class ExpectedFollowers:
    """Which followers are expected, and the requests that wait for them."""

    def __init__(self, broker: Broker, addresses: tuple[str, ...], timeout_ms: int, now_ms: int) -> None:
        self._broker = broker
        self._addresses = addresses
        self._due_ms: int | None = now_ms + timeout_ms if addresses else None
        """Until when replicated topics wait; None when they wait no more."""
        self._waiting: dict[FollowersWaiting, None] = {}

    def missing(self) -> list[str]:
        """The expected addresses at which no active broker is registered, in the order they were given."""
        if not self._addresses:
            return []
        present = {_address(info.host, info.port) for info in self._broker.image.active_brokers()}
        return [address for address in self._addresses if _address(*address.rsplit(":", 1)) not in present]

    @property
    def is_awaited(self) -> bool:
        """Whether a replicated topic must not be made yet."""
        return self._due_ms is not None

    def wait_ms(self) -> int:
        """How long it may still take."""
        return 0 if self._due_ms is None else max(0, self._due_ms - self._broker.now_ms)

    def check(self, replication_factor: int) -> None:
        """Refuse to make something replicated while followers are awaited: PeerError(REQUEST_TIMED_OUT)."""
        if self.is_awaited and replication_factor > 1:
            words = f"Expected followers are missing: {', '.join(self.missing())}. Nothing was changed; try again."
            raise PeerError(ErrorCode.request_timed_out, words)

    def explain(self, error: PeerError) -> PeerError:
        """The error for the client: where too few brokers are there, with the addresses of those that should be."""
        if error.error_code != ErrorCode.invalid_replication_factor or not (missing := self.missing()):
            return error
        return PeerError(error.error_code, f"{error.message} Expected followers are missing: {', '.join(missing)}.")

    def on_brokers(self) -> None:
        """Brokers came or went."""
        if self._due_ms is not None and not self.missing():
            self._broker.notice("info", "followers-present", followers=", ".join(self._addresses))
            self._end()

    def next_due(self) -> int | None:
        """When `on_timer` is wanted, in ms."""
        return self._due_ms

    def on_timer(self) -> None:
        """The time may be over: say who is missing, and go on without them."""
        if self._due_ms is None or self._broker.now_ms < self._due_ms:
            return
        missing = self.missing()
        if missing:
            self._broker.notice(
                "warning",
                "followers-missing",
                followers=", ".join(missing),
                what="replicated topics are made without them; start them, or name others with --followers",
            )
        self._end()

    def add(self, waiting: FollowersWaiting) -> None:
        """Wake this request when nobody is waited for any more."""
        self._waiting[waiting] = None

    def remove(self, waiting: FollowersWaiting) -> None:
        """Wake it no more."""
        self._waiting.pop(waiting, None)

    def _end(self) -> None:
        self._due_ms = None
        for waiting in list(self._waiting):
            self._broker.finish(waiting)


class FollowersWaiting(Waiting):
    """A request that makes replicated topics: it begins when the expected followers are there, or their time is over.

    It begins too when its own time is over, and is refused then (`ExpectedFollowers.check`).
    """

    __slots__ = ("_begin",)

    def __init__(self, broker: Broker, call: Call, timeout_ms: int, begin: Callable[[Broker, Call], Outcome]) -> None:
        super().__init__(call, min(timeout_ms, broker.expected_followers.wait_ms()))
        self._begin = begin
        broker.expected_followers.add(self)

    def is_done(self) -> bool:
        """It is woken."""
        return False

    def answer(self, broker: Broker) -> Outcome:
        """Now the request can be looked at."""
        return self._begin(broker, self.call)

    def on_expiry(self, broker: Broker) -> Outcome:
        """The time is over."""
        broker.expected_followers.on_timer()
        return self._begin(broker, self.call)

    def leave(self, broker: Broker) -> None:
        """Wake me no more."""
        broker.expected_followers.remove(self)


def _address(host: str, port: int | str) -> tuple[str, int]:
    name = host.lower()
    return "localhost" if name in _LOOPBACK else name.strip("[]"), int(port)
