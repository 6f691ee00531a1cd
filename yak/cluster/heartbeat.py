"""A broker's heartbeats: one per interval, and one at once when the broker has something to report.

The timer sends no heartbeat while an answer is outstanding. A hung store would otherwise collect many of them and
count them all later, as if the broker had just sent many heartbeats.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from yak.cluster.records import BrokerState
from yak.cluster.store_session import StoreSession
from yak.ids import BrokerEpoch, ControllerEpoch, MetadataOffset, NodeId
from yak.ports.metadata_store import StoreOutcome

SLOW_MS = 1_000
"""A slower answer is logged as a warning: hung brokers are detected later, and elections take longer."""
WARN_AGAIN_MS = 30_000
_FOR_EVERY_CHANGE = ("OOM", "MISCONF")
"""Redis has no memory, or cannot write its file: no broker can change anything. READONLY is not one of them: the Redis is a
replica now, and its master may have elected another leader."""


@dataclass(slots=True, frozen=True)
class HeartbeatAnswer:
    """The store's answer to the heartbeat sent at `sent_ms`. `counters` is None for all brokers but the controller."""

    sent_ms: int
    controller_epoch: ControllerEpoch
    renewals: int
    counters: Mapping[NodeId, int] | None


class Heartbeats:
    """Sends heartbeats. `on_answer` gets the answers, `on_refused` the refusals."""

    def __init__(
        self,
        session: StoreSession,
        interval_ms: int,
        on_answer: Callable[[HeartbeatAnswer, int], None],
        on_refused: Callable[[StoreOutcome, int], None],
    ) -> None:
        self._session = session
        self._interval_ms = interval_ms
        self._on_answer = on_answer
        self._on_refused = on_refused
        self._outstanding = 0
        self._warned_ms: int | None = None
        self.due_ms: int | None = None
        self.accepted_ms = 0
        """When the newest heartbeat was sent that the store accepted while this broker was not fenced."""
        self.accepted_offset: MetadataOffset = 0
        """The metadata log's end at that heartbeat."""
        self.refused_ms: tuple[int, int] | None = None
        """When the first and the newest heartbeat were sent that the store refused as it refuses every change; None if it
        answered a later one."""
        self._answered_ms = 0
        self._answered_offset: MetadataOffset = 0
        self._unfenced_epoch: BrokerEpoch = 0
        self.is_full = False
        """Whether this broker has no room for another log; the next heartbeat reports it."""
        self.full: frozenset[NodeId] = frozenset()
        """Brokers without room for another log, as of the last answer: they get no new replicas."""

    def start(self, now_ms: int) -> None:
        """Begin: the broker is registered."""
        self._outstanding = 0
        self.due_ms = now_ms

    def on_unfenced(self, broker_epoch: BrokerEpoch) -> None:
        """Accept the answered heartbeats, once per broker epoch: the controller has unfenced this broker."""
        if self._unfenced_epoch != broker_epoch:
            self._unfenced_epoch = broker_epoch
            self.accepted_ms, self.accepted_offset = self._answered_ms, self._answered_offset

    def pause(self) -> None:
        """Stop: the store is unreachable, and no heartbeat will be answered."""
        self._outstanding = 0
        self.due_ms = self.refused_ms = None

    def on_time(self, now_ms: int) -> None:
        """Send a heartbeat if it is due."""
        if self.due_ms is not None and self.due_ms <= now_ms:
            self.due_ms = now_ms + self._interval_ms
            if not self._outstanding:
                self.send(now_ms)

    def send_by(self, due_ms: int) -> None:
        """Send the next heartbeat by then at the latest."""
        if self.due_ms is not None:
            self.due_ms = min(self.due_ms, due_ms)

    def report_full(self, *, is_full: bool, now_ms: int) -> None:
        """Note whether this broker has room for another log; a change is reported at once."""
        if is_full != self.is_full:
            self.is_full = is_full
            self.send_by(now_ms)

    def send(self, now_ms: int) -> None:
        """Send a heartbeat now. It carries the offset of the newest metadata record on disk."""
        self._outstanding += 1

        def on_reply(outcome: StoreOutcome, answered_ms: int) -> None:
            self._outstanding -= 1
            if answered_ms - now_ms >= SLOW_MS:
                self._warn_slow(answered_ms - now_ms, answered_ms)
            if not _refuses_every_change(outcome):
                self.refused_ms = None
            else:
                first_ms = now_ms if self.refused_ms is None else self.refused_ms[0]
                self.refused_ms = first_ms, now_ms
            if outcome.code != "OK":
                self._on_refused(outcome, answered_ms)
                return
            if now_ms >= self._answered_ms:
                self._answered_ms, self._answered_offset = now_ms, outcome.offset
            if outcome.value.get("state") != BrokerState.FENCED.value:
                self.accepted_ms, self.accepted_offset = self._answered_ms, self._answered_offset
            full = outcome.value.get("full")
            self.full = frozenset(map(int, full)) if isinstance(full, list) else frozenset()
            self._on_answer(_read(outcome.value, now_ms), answered_ms)

        self._session.send("heartbeat", {"persisted": self._session.image.offset, "is_full": self.is_full}, on_reply)

    def _warn_slow(self, took_ms: int, now_ms: int) -> None:
        if self._warned_ms is None or now_ms - self._warned_ms >= WARN_AGAIN_MS:
            self._warned_ms = now_ms
            self._session.say(
                "warning",
                "metadata-store-slow",
                took_ms=took_ms,
                what="paused brokers are fenced later, and metadata changes take longer; produce and fetch continue",
            )


def _refuses_every_change(outcome: StoreOutcome) -> bool:
    message = str(outcome.value.get("message"))
    return outcome.code == "STORE_ERROR" and any(code in message for code in _FOR_EVERY_CHANGE)


def _read(value: Mapping[str, object], sent_ms: int) -> HeartbeatAnswer:
    epoch, renewals, counters = value.get("controller_epoch"), value.get("lease_n"), value.get("heartbeats")
    assert isinstance(epoch, int)
    assert isinstance(renewals, int)
    counted = {int(node): int(count) for node, count in counters.items()} if isinstance(counters, dict) else None
    return HeartbeatAnswer(sent_ms, epoch, renewals, counted)
