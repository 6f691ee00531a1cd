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

from yak.broker.call import Call, DelayedOperation, Later, Outcome
from yak.broker.purgatory import Purgatory
from yak.cluster.image import TopicInfo
from yak.core.context import Context
from yak.ids import MetadataOffset, NodeId
from yak.lifecycle.failure_watch import PROBE_MS_MAX, FailureWatch, LivenessProbes, SuspectedBrokers

DECISION_MS_MAX = 300
CATCH_UP_MS_MAX = 5_000
"""A broker that lags for longer is cut off from the metadata; no request waits for its answer."""


class LeaderRequests:
    """Answers requests for leaders, and the probes of other brokers."""

    def __init__(
        self,
        context: Context,
        suspected_brokers: SuspectedBrokers[DelayedOperation],
        failure_watch: FailureWatch,
        purgatory: Purgatory,
    ) -> None:
        self.context, self.suspected_brokers = context, suspected_brokers
        self.failure_watch, self.purgatory = failure_watch, purgatory

    def answer_when_decided(
        self, call: Call, topics: Callable[[], Iterable[TopicInfo]], answer: Callable[[], Outcome]
    ) -> Outcome:
        """Answer with the leaders of these topics, once suspected brokers are fenced or cleared and named brokers
        probed."""
        return _Question(self, call, topics, answer).look()

    def answer_probe(self, call: Call, offset: MetadataOffset, answer: Callable[[], Outcome]) -> Outcome:
        """Answer another broker's probe once this broker's image is as new as its own."""
        return Later(DelayedProbeAnswer(self, call, offset, answer))


class _Question:
    """One request for leaders, and its answer.

    Methods instead of nested functions that refer to each other: those form a cycle that only the garbage collector
    frees. Each Metadata request made one, and a collection stops every client.
    """

    __slots__ = ("_topics", "answer", "call", "requests")

    def __init__(
        self,
        requests: LeaderRequests,
        call: Call,
        topics: Callable[[], Iterable[TopicInfo]],
        answer: Callable[[], Outcome],
    ) -> None:
        self.requests, self.call, self._topics, self.answer = requests, call, topics, answer

    def look(self) -> Outcome:
        """Wait for the decision on suspected leaders, then for the liveness probes of the named brokers; then
        answer."""
        if self.is_open():
            return Later(DelayedByElection(self))
        leaders = dict.fromkeys(info.leader for topic in self._topics() for info in topic.partitions)
        probes = self.requests.failure_watch.probes(leaders)
        return Later(DelayedByProbes(self, probes)) if probes else self.answer()

    def is_open(self) -> bool:
        """Whether a requested leader is suspected."""
        return self.requests.suspected_brokers.lead(self._topics())

    def decide(self) -> Outcome:
        """Wait again if a leader became suspected during the probes, unless the request waited for too long."""
        is_late = self.requests.context.clock.now_ms - self.call.now_ms >= DECISION_MS_MAX
        return self.look() if self.is_open() and not is_late else self.answer()


class DelayedByElection(DelayedOperation):
    """A request for leaders of which one is suspected, until the question is no longer open."""

    __slots__ = ("_question",)

    def __init__(self, question: _Question) -> None:
        super().__init__(question.call, DECISION_MS_MAX)
        self._question = question
        question.requests.suspected_brokers.wait(self)

    def is_done(self) -> bool:
        """Whether no requested leader is suspected any more."""
        return not self._question.is_open()

    def answer(self) -> Outcome:
        """Decided: probe the new leaders, whose images may be older."""
        return self._question.look()

    def on_expiration(self) -> Outcome:
        """Answer after the time-out; the answer names no suspected leader."""
        return self._question.answer()

    def leave(self) -> None:
        """Remove this request from the waiters."""
        self._question.requests.suspected_brokers.forget(self)


class DelayedProbeAnswer(DelayedOperation):
    """Another broker's probe, delayed until this broker's image is as new as the prober's."""

    __slots__ = ("_answer", "_offset", "_requests")

    def __init__(
        self, requests: LeaderRequests, call: Call, offset: MetadataOffset, answer: Callable[[], Outcome]
    ) -> None:
        super().__init__(call, CATCH_UP_MS_MAX)
        self._requests, self._offset, self._answer = requests, offset, answer
        requests.suspected_brokers.wait(self)

    def is_done(self) -> bool:
        """Whether the image is as new."""
        return self._requests.context.image.offset >= self._offset

    def answer(self) -> Outcome:
        """Alive, and up to date."""
        return self._answer()

    def on_expiration(self) -> Outcome:
        """Alive at least."""
        return self._answer()

    def leave(self) -> None:
        """Remove this probe from the waiters."""
        self._requests.suspected_brokers.forget(self)


class DelayedByProbes(DelayedOperation):
    """A request whose answer names brokers, delayed until each answered a probe or lost its connection."""

    __slots__ = ("_outstanding", "_probes", "_question")

    def __init__(self, question: _Question, probes: list[LivenessProbes]) -> None:
        super().__init__(question.call, PROBE_MS_MAX)
        self._question = question
        self._probes = probes
        self._outstanding = {each.node_id: None for each in probes}
        for each in probes:
            each.send(self)

    def on_probed(self, node_id: NodeId, *, lives: bool) -> None:  # noqa: ARG002
        """One broker answered, or lost its connection."""
        self._outstanding.pop(node_id, None)
        if not self._outstanding:
            self._question.requests.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether no probe is outstanding."""
        return not self._outstanding

    def answer(self) -> Outcome:
        """Answer from the current state."""
        return self._question.decide()

    def on_expiration(self) -> Outcome:
        """A connected broker is silent: answer from the current state."""
        return self._question.decide()

    def leave(self) -> None:
        """Remove this request from the probes."""
        for each in self._probes:
            each.forget(self)
