"""Runs the controller's elections: finds them when brokers change, sends them in batches, and logs the results.

An election names the partition epoch that it was computed from. The store refuses one from an old image, and the
controller computes it again from a newer one, so electing early loses nothing.
"""

import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from yak.cluster.elections import MAX_PARTITIONS_PER_CALL, Cause, Election, needed_elections, preferred_elections
from yak.cluster.image import Image
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.store_session import StoreSession
from yak.ids import MetadataOffset, PartitionEpoch
from yak.seams.metadata_store import StoreOutcome

RETRY_MS = 250
"""Wait before the next call to a store that refused a whole call (out of memory, read only)."""
_EVENTS = {
    Cause.LOST: "leaders-elected",
    Cause.STOPPING: "leaders-moved",
    Cause.PREFERRED: "preferred-leaders-elected",
}
BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper bounds of the histogram's buckets; one more bucket counts longer rounds."""


class ElectionCounts:
    """Totals since this broker's start.

    A round is all elections that one event, such as the loss of a broker, made necessary.
    """

    __slots__ = ("by_cause", "offices_taken", "rounds_by_duration", "rounds_ms", "unclean", "without_leader")

    def __init__(self) -> None:
        self.by_cause: dict[str, int] = {}
        """Partitions that got a leader, by `yak.cluster.elections.Cause`."""
        self.without_leader = 0
        """Partitions that were left without a leader."""
        self.unclean = 0
        """Elected leaders that may lack committed records."""
        self.offices_taken = 0
        """Times this broker became the controller."""
        self.rounds_by_duration = [0] * (len(BOUNDS_MS) + 1)
        self.rounds_ms = 0
        """Sum of the durations, in ms."""

    def round_took(self, took_ms: int) -> None:
        """Record a finished round."""
        self.rounds_by_duration[bisect_left(BOUNDS_MS, took_ms)] += 1
        self.rounds_ms += took_ms


class LeaderElections:
    """The elections of the controller. `on_failed` gets the refusal of a whole call.

    `unclean` applies to topics that do not set `unclean.leader.election.enable`.
    """

    def __init__(
        self,
        session: StoreSession,
        counts: ElectionCounts,
        on_failed: Callable[[StoreOutcome, int], None],
        *,
        unclean: bool = False,
    ) -> None:
        self._session = session
        self._counts = counts
        self._unclean = unclean
        self._on_failed = on_failed
        self._term = 0
        self._checked_brokers: object = None
        """The image's `brokers` at the last check: the same object means that no broker changed."""
        self._checked_topics: object = None
        """And its `topics`: a partition may have gained an ISR member that can replace a stopping leader."""
        self._in_flight = 0
        self._since_offset: MetadataOffset = 0
        self._not_before_ms = 0
        self._refused: dict[tuple[uuid.UUID, int], PartitionEpoch] = {}
        self._refused_by_brokers: object = None
        self._is_held = False
        self._detected_ms: int | None = None
        self._done: Counter[Cause] = Counter()
        self._offline = 0

    def is_settled(self) -> bool:
        """Whether no election is in flight or waits for the image. Elections on hold do not count."""
        image = self._session.image
        is_checked = self._is_held or self._checked_brokers is image.brokers
        return not self._in_flight and image.offset >= self._since_offset and is_checked

    def restart(self, since_offset: MetadataOffset = 0) -> None:
        """Check again, on an image of that offset or later, and ignore answers to calls in flight."""
        self._term += 1
        self._in_flight = 0
        self._checked_brokers = None
        self._since_offset = since_offset
        self._refused.clear()
        self._clear_round()

    def hold(self) -> None:
        """Hold all elections until `release`: it is not known yet which brokers are alive."""
        self._is_held = True

    def release(self) -> None:
        """Resume elections with the next check."""
        self._is_held = False
        self._checked_brokers = None

    def check_again(self) -> None:
        """Check the next image even if no broker changed."""
        self._checked_brokers = None

    def detected(self, now_ms: int) -> None:
        """Note when an event made elections necessary: the log reports their duration since then."""
        if self._detected_ms is None:
            self._detected_ms = now_ms

    def check(self, now_ms: int) -> None:
        """Send the elections that the image needs, if it may need more than at the last check."""
        image = self._session.image
        if self._is_held or self._in_flight or image.offset < self._since_offset or now_ms < self._not_before_ms:
            return
        if self._checked_brokers is image.brokers and (
            self._checked_topics is image.topics
            or not any(broker.state is BrokerState.STOPPING for broker in image.brokers.values())
        ):
            return
        self._checked_brokers, self._checked_topics = image.brokers, image.topics
        self.detected(now_ms)
        self._send(needed_elections(image, unclean=self._unclean))
        if not self._in_flight:
            self._clear_round()

    def elect_for(self, image: Image) -> None:
        """Send the elections for an image as it will be once the store has applied the call sent just before."""
        if not self._is_held:
            self._send(needed_elections(image, unclean=self._unclean))

    def recheck(self, now_ms: int, *, rebalance: bool) -> None:
        """Check again for partitions that can have a leader by now; `rebalance` adds preferred leader elections."""
        image = self._session.image
        if self._is_held or self._in_flight or image.offset < self._since_offset:
            return
        self.detected(now_ms)
        self._send(needed_elections(image, unclean=self._unclean))
        if rebalance:
            self._send(preferred_elections(image))
        if not self._in_flight:
            self._clear_round()

    # ------------------------------------------------------------------------------------------------ inside

    def _send(self, elections: Iterable[Election]) -> None:
        if self._refused_by_brokers is not self._session.image.brokers:
            self._refused_by_brokers = self._session.image.brokers
            self._refused.clear()
        wanted = (e for e in elections if self._refused.get((e.topic_id, e.partition)) != e.partition_epoch)
        while batch := list(islice(wanted, MAX_PARTITIONS_PER_CALL)):
            self._in_flight += 1
            arguments: dict[str, object] = {"partitions": [election.arguments() for election in batch]}
            self._session.send("elect", arguments, partial(self._on_elected, batch, self._term))

    def _on_elected(self, batch: list[Election], term: int, outcome: StoreOutcome, now_ms: int) -> None:
        if term != self._term:
            return
        self._in_flight -= 1
        if outcome.code != "OK":
            self._checked_brokers = None
            self._not_before_ms = now_ms + RETRY_MS
            self._on_failed(outcome, now_ms)
            return
        self._since_offset = max(self._since_offset, outcome.offset)
        codes = outcome.value.get("codes")
        for election, code in zip(batch, codes if isinstance(codes, list) else [], strict=False):
            self._note(election, code)
        if not self._in_flight:
            self._report_round(now_ms)

    def _note(self, election: Election, code: object) -> None:
        if code == "INVALID_UPDATE_VERSION":
            # The partition changed meanwhile: check again when the image shows it.
            self._checked_brokers = None
        elif code != "OK":
            # Retry only after a change of the partition (its epoch) or of the brokers.
            self._refused[election.topic_id, election.partition] = election.partition_epoch
        elif election.leader == NO_LEADER:
            self._offline += 1
            self._counts.without_leader += 1
        else:
            self._done[election.cause] += 1
            counts = self._counts
            counts.by_cause[election.cause.value] = counts.by_cause.get(election.cause.value, 0) + 1
            if election.unclean:
                counts.unclean += 1
                self._session.say(
                    "warning",
                    "unclean-election",
                    topic_id=str(election.topic_id),
                    partition=election.partition,
                    leader=election.leader,
                )

    def _report_round(self, now_ms: int) -> None:
        took_ms = 0 if self._detected_ms is None else now_ms - self._detected_ms
        if self._done or self._offline:
            self._counts.round_took(took_ms)
        for cause in Cause:
            if self._done[cause]:
                self._session.say("info", _EVENTS[cause], count=self._done[cause], took_ms=took_ms)
        if self._offline:
            self._session.say("warning", "partitions-without-leader", count=self._offline, took_ms=took_ms)
        self._clear_round()

    def _clear_round(self) -> None:
        self._done.clear()
        self._offline = 0
        self._detected_ms = None
