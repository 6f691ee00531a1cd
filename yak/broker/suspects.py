"""Suspected brokers: a connection to the broker broke, and the cluster has not fenced it yet.

A client whose leader died asks another broker for Metadata at once. An answer with the old leader would send it back to
a closed port, and librdkafka then waits a second before it asks again. So the answer waits for the election, for at
most `DECISION_MS_MAX`. After that it names no leader, and every client retries soon.

The kernel of a killed process closes its connections one by one, so a client may ask before our connection breaks. So
an answer names another broker only after that broker answered a liveness probe sent since the request, or lost its
connection (`yak.broker.pulse`). Its image must be as new as ours: a new leader that does not know it yet would send the
client away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from yak.broker.call import Call, DelayedOperation, Later, Outcome
from yak.broker.pulse import PulseWaiting
from yak.cluster.image import TopicInfo
from yak.ids import BrokerEpoch, NodeId

if TYPE_CHECKING:
    from yak.broker.broker import Broker

DECISION_MS_MAX = 300
SUSPECTED_MS_MAX = 2_000
"""A broker that is not fenced by then is left to its session: perhaps only this broker cannot reach it."""


class Suspects:
    """Brokers whose connection to this broker broke, and the requests that wait for the outcome."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._since: dict[NodeId, tuple[BrokerEpoch, int]] = {}
        self._waiting: dict[DelayedOperation, None] = {}

    def add(self, node_id: NodeId) -> None:
        """Suspect a broker whose connection broke."""
        info = self._broker.image.brokers.get(node_id)
        if info is not None and not self._broker.maintenance.is_stopping:
            self._since.setdefault(node_id, (info.broker_epoch, self._broker.now_ms))

    def clear(self, node_id: NodeId) -> None:
        """Clear a broker that answered."""
        if self._since.pop(node_id, None) is not None:
            self.wake()

    def has(self, node_id: NodeId) -> bool:
        """Whether this broker, in its current incarnation, is suspected."""
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
        """Whether a suspected broker leads a partition of these topics."""
        suspected = [node_id for node_id in list(self._since) if self.has(node_id)]
        return bool(suspected) and any(info.leader in suspected for topic in topics for info in topic.partitions)

    def wake(self) -> None:
        """Complete decided requests, after a new image or an answer of a suspected broker."""
        for waiting in list(self._waiting):
            if waiting.is_done():
                self._broker.purgatory.complete(waiting)

    def wait(self, waiting: DelayedOperation) -> None:
        """Register a request for `wake`."""
        self._waiting[waiting] = None

    def forget(self, waiting: DelayedOperation) -> None:
        """Remove a request from the waiters."""
        self._waiting.pop(waiting, None)


def answer_when_decided(
    broker: Broker, call: Call, topics: Callable[[], Iterable[TopicInfo]], answer: Callable[[], Outcome]
) -> Outcome:
    """Answer with the leaders of these topics, once suspects are fenced or cleared and named brokers probed."""

    return _Question(broker, call, topics, answer).look()


class _Question:
    """One request for leaders, and its answer.

    Methods instead of nested functions that refer to each other: those form a cycle that only the garbage collector
    frees. Each Metadata request made one, and a collection stops every client.
    """

    __slots__ = ("_answer", "_broker", "_call", "_topics")

    def __init__(
        self, broker: Broker, call: Call, topics: Callable[[], Iterable[TopicInfo]], answer: Callable[[], Outcome]
    ) -> None:
        self._broker = broker
        self._call = call
        self._topics = topics
        self._answer = answer

    def look(self) -> Outcome:
        """Wait for the decision on suspected leaders, then for the liveness probes of the named brokers; then
        answer."""
        broker, call = self._broker, self._call
        if self._is_open():
            return Later(DecisionWaiting(broker, call, self._is_open, self.look, self._answer))
        leaders = dict.fromkeys(info.leader for topic in self._topics() for info in topic.partitions)
        pulses = broker.failure_watch.pulses(leaders)
        return Later(PulseWaiting(broker, call, pulses, self._judge)) if pulses else self._answer()

    def _is_open(self) -> bool:
        return self._broker.suspects.lead(self._topics())

    def _judge(self) -> Outcome:
        is_late = self._broker.now_ms - self._call.now_ms >= DECISION_MS_MAX
        return self.look() if self._is_open() and not is_late else self._answer()


class DecisionWaiting(DelayedOperation):
    """A request for leaders of which one is suspected, until `is_open` turns false."""

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
        """Whether no requested leader is suspected any more."""
        return not self._is_open()

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Decided: probe the new leaders, whose images may be older."""
        return self._look_again()

    def on_expiration(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Answer after the time-out; the answer names no suspected leader."""
        return self._answer()

    def leave(self, broker: Broker) -> None:
        """Remove this request from the waiters."""
        broker.suspects.forget(self)
