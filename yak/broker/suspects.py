"""Leaders that seem to be dead: between the moment a connection to one breaks and the moment the cluster has decided.

A client whose leader died asks any other broker who leads now, at once. The answer "the same as before" would send it back to a
closed port, and it may then wait a second before it asks again (librdkafka does). So the answer waits for the decision, for
at most `DECISION_MS_MAX`, and then says that there is no leader, which every client takes as "ask again soon".

The kernel of a killed process closes its connections one by one, so a client may ask before ours broke. So nobody is told
of another broker before that gave a sign of life, sent after the question came, or lost its connection to us
(`yak.broker.pulse`). It must also know what we know: a new leader that does not know it yet would send the client away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from yak.broker.call import Call, Later, Outcome, Waiting
from yak.broker.pulse import PulseWaiting
from yak.cluster.image import TopicInfo
from yak.ids import BrokerEpoch, NodeId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

DECISION_MS_MAX = 300
SUSPECTED_MS_MAX = 2_000
"""A broker that is not fenced by then is left to its session; it may be that only we cannot reach it."""


class Suspects:
    """Brokers whose connection to us broke, and the requests that wait to hear what becomes of them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._since: dict[NodeId, tuple[BrokerEpoch, int]] = {}
        self._waiting: dict[Waiting, None] = {}

    def add(self, node_id: NodeId) -> None:
        """A connection to this broker was cut."""
        info = self._broker.image.brokers.get(node_id)
        if info is not None and not self._broker.maintenance.is_stopping:
            self._since.setdefault(node_id, (info.broker_epoch, self._broker.now_ms))

    def clear(self, node_id: NodeId) -> None:
        """It answered."""
        if self._since.pop(node_id, None) is not None:
            self.wake()

    def has(self, node_id: NodeId) -> bool:
        """Whether this broker, in its present boot, is under suspicion now."""
        held = self._since.get(node_id) if self._since else None
        if held is None:
            return False
        broker_epoch, since_ms = held
        info = self._broker.image.brokers.get(node_id)
        if info is None or info.broker_epoch != broker_epoch or self._broker.now_ms - since_ms >= SUSPECTED_MS_MAX:
            del self._since[node_id]
            return False
        return True

    def lead(self, topics: Iterable[TopicInfo]) -> bool:
        """Whether one of them leads a partition of these topics."""
        suspected = [node_id for node_id in list(self._since) if self.has(node_id)]
        return bool(suspected) and any(info.leader in suspected for topic in topics for info in topic.partitions)

    def wake(self) -> None:
        """There may be news: a new image, or a broker that answers."""
        for waiting in list(self._waiting):
            if waiting.is_done():
                self._broker.finish(waiting)

    def wait(self, waiting: Waiting) -> None:
        """Wake this one when there may be news."""
        self._waiting[waiting] = None

    def forget(self, waiting: Waiting) -> None:
        """It waits no more."""
        self._waiting.pop(waiting, None)


def answer_when_decided(
    broker: Broker, call: Call, topics: Callable[[], Iterable[TopicInfo]], answer: Callable[[], Outcome]
) -> Outcome:
    """Answer who leads these topics: when it is decided what becomes of leaders that died, and those named live and know."""

    def is_open() -> bool:
        return broker.suspects.lead(topics())

    def look() -> Outcome:
        if is_open():
            return Later(DecisionWaiting(broker, call, is_open, look, answer))
        leaders = dict.fromkeys(info.leader for topic in topics() for info in topic.partitions)
        pulses = broker.failure_watch.pulses(leaders)
        return Later(PulseWaiting(broker, call, pulses, judge)) if pulses else answer()

    def judge() -> Outcome:
        is_late = broker.now_ms - call.now_ms >= DECISION_MS_MAX
        return look() if is_open() and not is_late else answer()

    return look()


class DecisionWaiting(Waiting):
    """A question for leaders one of whom is suspected; `is_open` tells whether that is so still."""

    __slots__ = ("_answer", "_is_open", "_look_again")

    def __init__(
        self,
        broker: Broker,
        call: Call,
        is_open: Callable[[], bool],
        look_again: Callable[[], Outcome],
        answer: Callable[[], Outcome],
    ) -> None:
        super().__init__(call, DECISION_MS_MAX)
        self._is_open = is_open
        self._look_again = look_again
        self._answer = answer
        broker.suspects.wait(self)

    def is_done(self) -> bool:
        """Whether no leader that was asked for is suspected any more."""
        return not self._is_open()

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Decided: whoever leads now may have to learn it first."""
        return self._look_again()

    def on_expiry(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Nothing was decided in time: what is known now, in which a suspect leads nothing."""
        return self._answer()

    def leave(self, broker: Broker) -> None:
        """Wake me no more."""
        broker.suspects.forget(self)
