"""A broker's heartbeats: one each interval, and one at once when it has something to say.

While an answer is outstanding the clock sends no further one: a store that hangs would only get a heap of them, which
then count as if the broker had just been heard of many times.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from yak.cluster.link import Link
from yak.cluster.records import BrokerState
from yak.ids import BrokerEpoch, ControllerEpoch, MetadataOffset, NodeId
from yak.seams.metadata_store import StoreOutcome

SLOW_MS = 1_000
"""An answer that takes so long is worth a warning: hung brokers are noticed later, and elections take longer."""
SAY_AGAIN_MS = 30_000


@dataclass(slots=True, frozen=True)
class HeartbeatAnswer:
    """What the store says to a heartbeat that was sent at `asked_ms`. `counters` is None for all but the controller."""

    asked_ms: int
    controller_epoch: ControllerEpoch
    renewals: int
    counters: Mapping[NodeId, int] | None


class Heart:
    """Sends heartbeats. `on_answer` gets what is answered, `on_refused` a refusal."""

    def __init__(
        self,
        link: Link,
        interval_ms: int,
        on_answer: Callable[[HeartbeatAnswer, int], None],
        on_refused: Callable[[StoreOutcome, int], None],
    ) -> None:
        self._link = link
        self._interval_ms = interval_ms
        self._on_answer = on_answer
        self._on_refused = on_refused
        self._outstanding = 0
        self._said_slow_ms: int | None = None
        self.due_ms: int | None = None
        self.counted_ms = 0
        """When the newest heartbeat was sent that the store took of a broker that is not fenced."""
        self.counted_offset: MetadataOffset = 0
        """Where the metadata log ended then."""
        self._taken_ms = 0
        self._taken_offset: MetadataOffset = 0
        self._let_in_epoch: BrokerEpoch = 0
        self.is_full = False
        """Whether this broker has no room for another log; the next heartbeat says so."""
        self.full: frozenset[NodeId] = frozenset()
        """Brokers without room for another log, as of the last answer: no new replica is placed there."""

    def start(self, now_ms: int) -> None:
        """We are registered: begin."""
        self._outstanding = 0
        self.due_ms = now_ms

    def let_in(self, broker_epoch: BrokerEpoch) -> None:
        """The controller has let us in, which it does once in an epoch: what the store took until now counts."""
        if self._let_in_epoch != broker_epoch:
            self._let_in_epoch = broker_epoch
            self.counted_ms, self.counted_offset = self._taken_ms, self._taken_offset

    def pause(self) -> None:
        """The store is away: nothing that was sent will be answered."""
        self._outstanding = 0
        self.due_ms = None

    def on_time(self, now_ms: int) -> None:
        """Beat, if it is time."""
        if self.due_ms is not None and self.due_ms <= now_ms:
            self.due_ms = now_ms + self._interval_ms
            if not self._outstanding:
                self.beat(now_ms)

    def hasten(self, due_ms: int) -> None:
        """Beat by then, if the clock would do so later."""
        if self.due_ms is not None:
            self.due_ms = min(self.due_ms, due_ms)

    def beat(self, now_ms: int) -> None:
        """Send one now: it says which record of the metadata log is on our disk."""
        self._outstanding += 1

        def on_reply(outcome: StoreOutcome, answered_ms: int) -> None:
            self._outstanding -= 1
            if answered_ms - now_ms >= SLOW_MS:
                self._say_slow(answered_ms - now_ms, answered_ms)
            if outcome.code != "OK":
                self._on_refused(outcome, answered_ms)
                return
            if now_ms >= self._taken_ms:
                self._taken_ms, self._taken_offset = now_ms, outcome.offset
            if outcome.value.get("state") != BrokerState.FENCED.value:
                self.counted_ms, self.counted_offset = self._taken_ms, self._taken_offset
            full = outcome.value.get("full")
            self.full = frozenset(map(int, full)) if isinstance(full, list) else frozenset()
            self._on_answer(_read(outcome.value, now_ms), answered_ms)

        self._link.send("heartbeat", {"persisted": self._link.image.offset, "is_full": self.is_full}, on_reply)

    def _say_slow(self, took_ms: int, now_ms: int) -> None:
        if self._said_slow_ms is None or now_ms - self._said_slow_ms >= SAY_AGAIN_MS:
            self._said_slow_ms = now_ms
            self._link.say(
                "warning",
                "metadata-store-slow",
                took_ms=took_ms,
                what="brokers that hang are noticed later, and metadata changes take longer; produce and fetch go on",
            )


def _read(value: Mapping[str, object], asked_ms: int) -> HeartbeatAnswer:
    epoch, renewals, counters = value.get("controller_epoch"), value.get("lease_n"), value.get("heartbeats")
    assert isinstance(epoch, int)
    assert isinstance(renewals, int)
    counted = {int(node): int(count) for node, count in counters.items()} if isinstance(counters, dict) else None
    return HeartbeatAnswer(asked_ms, epoch, renewals, counted)
