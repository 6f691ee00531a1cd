"""Requests whose answer names leaders: they wait until suspected brokers are fenced or cleared.

A client whose leader died asks another broker for Metadata at once. An answer with the old leader would send it back to
a closed port, and librdkafka then waits a second before it asks again. So the answer waits for the election, for at
most `DECISION_MS_MAX`. After that it names no leader, and every client retries soon.

The kernel of a killed process closes its connections one by one, so a client may ask before our connection breaks. So
an answer names another broker only after that broker answered a liveness probe sent since the request, or lost its
connection (`yak.lifecycle.failure_watch`). Its image must be as new as ours: a new leader that does not know it yet would send the
client away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from yak.broker.call import Call, DelayedOperation, Later, Outcome
from yak.cluster.image import TopicInfo
from yak.ids import MetadataOffset, NodeId
from yak.lifecycle.failure_watch import PROBE_MS_MAX, LivenessProbes

if TYPE_CHECKING:
    from yak.broker.broker import Broker

DECISION_MS_MAX = 300
CATCH_UP_MS_MAX = 5_000
"""A broker that lags for longer is cut off from the metadata; no request waits for its answer."""


def answer_when_decided(
    broker: Broker, call: Call, topics: Callable[[], Iterable[TopicInfo]], answer: Callable[[], Outcome]
) -> Outcome:
    """Answer with the leaders of these topics, once suspected brokers are fenced or cleared and named brokers probed."""

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
            return Later(DelayedByElection(broker, call, self._is_open, self.look, self._answer))
        leaders = dict.fromkeys(info.leader for topic in self._topics() for info in topic.partitions)
        probes = broker.failure_watch.probes(leaders)
        return Later(DelayedByProbes(broker, call, probes, self._judge)) if probes else self._answer()

    def _is_open(self) -> bool:
        return self._broker.suspected_brokers.lead(self._topics())

    def _judge(self) -> Outcome:
        is_late = self._broker.now_ms - self._call.now_ms >= DECISION_MS_MAX
        return self.look() if self._is_open() and not is_late else self._answer()


class DelayedByElection(DelayedOperation):
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
        broker.suspected_brokers.wait(self)

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
        broker.suspected_brokers.forget(self)


class DelayedProbeAnswer(DelayedOperation):
    """Another broker's probe, delayed until this broker's image is as new as the prober's."""

    __slots__ = ("_answer", "_broker", "_offset")

    def __init__(self, broker: Broker, call: Call, offset: MetadataOffset, answer: Callable[[], Outcome]) -> None:
        super().__init__(call, CATCH_UP_MS_MAX)
        self._broker = broker
        self._offset = offset
        self._answer = answer
        broker.suspected_brokers.wait(self)

    def is_done(self) -> bool:
        """Whether the image is as new."""
        return self._broker.image.offset >= self._offset

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Alive, and up to date."""
        return self._answer()

    def on_expiration(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Alive at least."""
        return self._answer()

    def leave(self, broker: Broker) -> None:
        """Remove this probe from the waiters."""
        broker.suspected_brokers.forget(self)


class DelayedByProbes(DelayedOperation):
    """A request whose answer names brokers, delayed until each answered a probe or lost its connection."""

    __slots__ = ("_broker", "_decide", "_outstanding", "_probes")

    def __init__(self, broker: Broker, call: Call, probes: list[LivenessProbes], decide: Callable[[], Outcome]) -> None:
        super().__init__(call, PROBE_MS_MAX)
        self._broker = broker
        self._decide = decide
        self._probes = probes
        self._outstanding = {each.node_id: None for each in probes}
        for each in probes:
            each.send(self)

    def on_probed(self, node_id: NodeId, *, lives: bool) -> None:  # noqa: ARG002
        """One broker answered, or lost its connection."""
        self._outstanding.pop(node_id, None)
        if not self._outstanding:
            self._broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether no probe is outstanding."""
        return not self._outstanding

    def answer(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """Answer from the current state."""
        return self._decide()

    def on_expiration(self, broker: Broker) -> Outcome:  # noqa: ARG002
        """A connected broker is silent: answer from the current state."""
        return self._decide()

    def leave(self, broker: Broker) -> None:  # noqa: ARG002
        """Remove this request from the probes."""
        for each in self._probes:
            each.forget(self)
