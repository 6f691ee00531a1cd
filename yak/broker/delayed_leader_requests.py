"""Requests whose answer names leaders: they wait until suspected brokers are fenced or cleared.

A client whose leader died sends Metadata to another broker at once. An answer with the old leader would send it back to
a closed port, and librdkafka then waits a second before it retries. So the answer waits for the election, for at
most `DECISION_MS_MAX`. After that it names no leader, and every client retries soon.

The kernel of a killed process closes its connections one by one, so a client's request may arrive before our connection
breaks. So an answer names another broker as leader only after that broker answered a liveness probe sent since the
request, or lost its connection (`yak.lifecycle.failure_watch`). Its image must be as new as ours: a new leader that
does not know it yet would send the client away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from yak.broker.call import Call, DelayedOperation, Later, Outcome
from yak.broker.purgatory import Purgatory
from yak.cluster.image import TopicInfo
from yak.core.context import Context
from yak.ids import MetadataOffset, NodeId
from yak.lifecycle.failure_watch import PROBE_MS_MAX, FailureWatch, LivenessProbes, SuspectedBrokers

DECISION_MS_MAX = 300
CATCH_UP_MS_MAX = 5_000
"""A broker that lags for longer is cut off from the metadata; no request waits for its answer."""


Leaders: TypeAlias = Mapping[NodeId, None]
"""The node ids of some leaders; -1 where a partition has none."""


def leaders_of(topics: Iterable[TopicInfo]) -> Leaders:
    """The leaders of the partitions of these topics."""
    return dict.fromkeys(info.leader for topic in topics for info in topic.partitions)


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
        self._of_all: tuple[Mapping[str, TopicInfo], Leaders] = {}, {}
        """All leaders, and the topics whose leaders they are."""

    def answer_when_decided(self, call: Call, leaders: Callable[[], Leaders], answer: Callable[[], Outcome]) -> Outcome:
        """Answer with these leaders, once suspected brokers are fenced or cleared and named brokers probed."""
        return DelayedLeaderRequest(self, call, leaders, answer).wait()

    def all_leaders(self) -> Leaders:
        """The leaders of all partitions: found once for each image, since hundreds of requests may wait."""
        topics = self.context.image.topics
        if self._of_all[0] is not topics:
            self._of_all = topics, leaders_of(topics.values())
        return self._of_all[1]

    def answer_probe(self, call: Call, offset: MetadataOffset, answer: Callable[[], Outcome]) -> Outcome:
        """Answer another broker's probe once this broker's image is as new as its own."""
        return Later(DelayedProbeAnswer(self, call, offset, answer))


class DelayedLeaderRequest(DelayedOperation):
    """A request for leaders: it waits while one of them is suspected, then until each named broker answered a probe or
    lost its connection."""

    __slots__ = ("_answer", "_leaders", "_outstanding", "_probes", "_requests")

    def __init__(
        self,
        requests: LeaderRequests,
        call: Call,
        leaders: Callable[[], Leaders],
        answer: Callable[[], Outcome],
    ) -> None:
        super().__init__(call, DECISION_MS_MAX)
        self._requests, self._leaders, self._answer = requests, leaders, answer
        self._probes: list[LivenessProbes] = []
        """Empty while the request waits for the decision on suspected leaders."""
        self._outstanding: dict[NodeId, None] = {}
        """The brokers whose probes are not answered yet."""

    def wait(self) -> Outcome:
        """Wait for the decision on suspected leaders, then for the liveness probes of the named brokers; then
        answer."""
        if self._is_open():
            self._probes, self.timeout_ms = [], DECISION_MS_MAX
            self._requests.suspected_brokers.wait(self)
            return Later(self)
        self._probes, self.timeout_ms = self._requests.failure_watch.probes(self._leaders()), PROBE_MS_MAX
        if not self._probes:
            return self._answer()
        self._outstanding = {each.node_id: None for each in self._probes}
        for each in self._probes:
            each.send(self)
        return Later(self)

    def _is_open(self) -> bool:
        return self._requests.suspected_brokers.lead(self._leaders)

    def on_probed(self, node_id: NodeId, *, lives: bool) -> None:  # noqa: ARG002
        """One broker answered, or lost its connection."""
        self._outstanding.pop(node_id, None)
        if not self._outstanding:
            self._requests.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether the leaders are decided, or no probe is outstanding."""
        return not self._outstanding if self._probes else not self._is_open()

    def answer(self) -> Outcome:
        """Decided: probe the new leaders, whose images may be older. Probed: answer from the current state."""
        if not self._probes:
            return self.wait()
        is_late = self._requests.context.clock.now_ms - self.call.now_ms >= DECISION_MS_MAX
        return self.wait() if self._is_open() and not is_late else self._answer()

    def on_expiration(self) -> Outcome:
        """Not decided in time: the answer names no suspected leader. Or a connected broker is silent."""
        return self.answer() if self._probes else self._answer()

    def leave(self) -> None:
        """Remove this request from the waiters and from the probes."""
        self._requests.suspected_brokers.forget(self)
        for each in self._probes:
            each.forget(self)


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
        """Alive, and up to date; alive at least after a time-out."""
        return self._answer()

    def leave(self) -> None:
        """Remove this probe from the waiters."""
        self._requests.suspected_brokers.forget(self)
