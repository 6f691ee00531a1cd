"""Leader elections: which partitions need another leader, which replica it is, and the calls to the store.

`needed_elections` and its neighbours compute from the image alone. `LeaderElections` runs them for the controller: it
looks when brokers change, sends elections in batches, one a turn, and logs the results.

A leader is in order when it is ACTIVE and in the ISR under its current broker epoch. Otherwise the leader comes from
the first of these groups that is not empty:

- the ACTIVE members of the ISR under their current broker epoch;
- when no such member is left, ACTIVE former members (ISR under an older epoch, or ELR, KIP-966) that lost nothing
  since.

Within a group leader-role brokers go first, then the order of the replicas counts. A STOPPING leader leads on until an
ACTIVE member can take over.

If both groups are empty, the partition has no leader until a member comes back. An unclean leader, which may lack
committed records, is elected only in these cases:

- the topic allows it (`unclean.leader.election.enable`);
- the partition has one replica, so that no other copy exists;
- all replicas are back after all machines lost power: every last member of the ISR or ELR had a lossy start since, and
  every other replica too since those registered. No broker is left to wait for, and none is known to have more. A
  replica of the last ISR leads, as Kafka's last known leader does (KIP-966). A broker that came back without a data
  directory does not qualify: its disk is empty, and others may have more.

An election names the partition epoch that it was computed from. The store refuses one from an old image, and the
controller computes it again from a newer one, so electing early loses nothing.
"""

import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Final

from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.store_session import StoreSession
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, MetadataOffset, NodeId, PartitionEpoch
from yak.ports.metadata_store import StoreOutcome

MAX_PARTITIONS_PER_CALL = 200
"""A script blocks the store while it runs; this many partitions take about 2 ms."""
UNCLEAN_CONFIG = "unclean.leader.election.enable"
RETRY_MS = 250
"""Wait before the next call to a store that refused a whole call (out of memory, read only)."""
BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
"""Upper bounds of the histogram's buckets; one more bucket counts longer rounds."""

EXAMINED_PER_ELECTION = 10
"""One turn examines so many partitions for each election that a call takes: about 1 ms."""

Brokers = Mapping[NodeId, BrokerInfo]
Elect = Callable[[Image, TopicInfo, PartitionInfo], "Election | None"]


class Cause(StrEnum):
    """The reason for a new leader."""

    LOST = "lost"
    STOPPING = "stopping"
    PREFERRED = "preferred"


_EVENTS = {
    Cause.LOST: "leaders-elected",
    Cause.STOPPING: "leaders-moved",
    Cause.PREFERRED: "preferred-leaders-elected",
}


@dataclass(slots=True, frozen=True)
class Election:
    """One partition's change of leader; `leader` is -1 for none."""

    topic_id: uuid.UUID
    partition: int
    leader: NodeId
    partition_epoch: PartitionEpoch
    unclean: bool
    cause: Cause = Cause.LOST

    def arguments(self) -> dict[str, object]:
        """The arguments of the script `elect`."""
        return {
            "topic_id": str(self.topic_id),
            "partition": self.partition,
            "leader": self.leader,
            "partition_epoch": self.partition_epoch,
            "unclean": self.unclean,
        }


def needed_elections(image: Image, *, unclean: bool = False) -> Iterator[Election | None]:
    """For each partition, topic by topic, the election that it needs, or None; `unclean` as for `unclean_allowed`."""
    return _examined(image, partial(_needed_election, unclean=unclean))


def preferred_elections(image: Image) -> Iterator[Election | None]:
    """For each partition its preferred leader election, or None.

    It needs one when the preferred leader is ACTIVE and in the ISR, and another replica leads.
    """
    return _examined(image, _preferred_election)


def preferred_leader(partition: PartitionInfo) -> NodeId:
    """The first replica. Placement puts a leader-role broker there; an operator may order otherwise."""
    return partition.replicas[0]


def can_lead(partition: PartitionInfo, node_id: NodeId, brokers: Brokers) -> bool:
    """Whether a broker may lead the partition now without loss of records."""
    return node_id in (_members(partition, brokers) or _former_members(partition, brokers))


def has_leader(partition: PartitionInfo, brokers: Brokers) -> bool:
    """Whether the leader is alive and in the ISR."""
    return _leader_state(partition, brokers) is not None


def clean_leader(partition: PartitionInfo, brokers: Brokers) -> NodeId:
    """The next leader that has all committed records; -1 for none."""
    candidates = _members(partition, brokers) or _former_members(partition, brokers)
    return _first(partition, candidates, brokers)


def unclean_leader(partition: PartitionInfo, brokers: Brokers, *, allow_any: bool) -> NodeId:
    """The next leader, which may lack committed records; -1 for none.

    `allow_any`: a request or a config allows any leader.

    A broker whose current epoch began with a loss comes last: its disk may be empty, and the others would follow it.
    Among the rest former ISR members go first, then former ELR members: they probably lack the fewest records.
    """
    active = [n for n in partition.replicas if (b := brokers.get(n)) is not None and b.state is BrokerState.ACTIVE]
    if not active or _has_stopping_member(partition, brokers):
        return NO_LEADER
    last_in = dict(_named(partition))
    newest = max(last_in.values(), default=0)
    all_lost = len(active) == len(partition.replicas) and all(
        brokers[node_id].lossy_epoch > last_in.get(node_id, newest) for node_id in active
    )
    if not allow_any and not all_lost and len(partition.replicas) > 1:
        return NO_LEADER
    pool = active
    if not allow_any and len(partition.replicas) > 1:
        pool = [n for n in active if n in last_in and brokers[n].emptied_epoch <= last_in[n]]
    whole = [node_id for node_id in pool if brokers[node_id].lossy_epoch != brokers[node_id].broker_epoch]
    candidates = whole or pool
    if partition.leader in candidates:
        return partition.leader
    last = [node_id for node_id in candidates if node_id in partition.isr]
    former = [node_id for node_id in candidates if node_id in last_in]
    return _first(partition, last or former or candidates, brokers)


def unclean_allowed(image: Image, topic: TopicInfo, *, by_default: bool = False) -> bool:
    """Whether unclean elections are allowed: by the topic, else the default of all brokers, else `by_default`."""
    value = topic.configs.get(UNCLEAN_CONFIG) or image.default_broker_configs.get(UNCLEAN_CONFIG)
    return by_default if value is None else value.strip().lower() == "true"


def plan_requested_election(image: Image, topic_name: str, partition: int, *, unclean: bool) -> Election:
    """The election that a client requested (ElectLeaders, KIP-183 and KIP-460), from the image alone.

    A preferred election elects the preferred leader, or for a partition without a leader any replica that can lead. An
    unclean election serves a partition without a leader: it elects a replica that can lead, else a live one that may
    lack records.

    Raises PeerError, with the codes of Kafka's ReplicationControlManager.electLeader: UNKNOWN_TOPIC_OR_PARTITION,
    ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    topic = image.topics.get(topic_name)
    if topic is None:
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"No such topic as {topic_name}")
    if not 0 <= partition < len(topic.partitions):
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"No such partition as {topic_name}-{partition}")
    info, brokers = topic.partitions[partition], image.brokers
    preferred = preferred_leader(info)
    if has_leader(info, brokers) and (unclean or info.leader == preferred):
        raise PeerError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
    if not unclean:
        if can_lead(info, preferred, brokers):
            leader = preferred
        else:
            leader = NO_LEADER if has_leader(info, brokers) else clean_leader(info, brokers)
        if leader == NO_LEADER:
            words = f"The preferred leader, node {preferred}, is not alive and in sync."
            raise PeerError(ErrorCode.preferred_leader_not_available, words)
        return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=False, cause=Cause.PREFERRED)
    leader = clean_leader(info, brokers)
    is_unclean = leader == NO_LEADER
    if is_unclean:
        leader = unclean_leader(info, brokers, allow_any=True)
    if leader == NO_LEADER:
        raise PeerError(ErrorCode.eligible_leaders_not_available, "No replica of the partition is alive.")
    return Election(topic.topic_id, partition, leader, info.partition_epoch, unclean=is_unclean)


# ------------------------------------------------------------------------------------------------------- inside


def _examined(image: Image, elect: Elect) -> Iterator[Election | None]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield elect(image, topic, partition)


def _needed_election(image: Image, topic: TopicInfo, partition: PartitionInfo, *, unclean: bool) -> Election | None:
    brokers = image.brokers
    state = _leader_state(partition, brokers)
    if state is BrokerState.ACTIVE:
        return None
    leader, is_unclean = clean_leader(partition, brokers), False
    if state is BrokerState.STOPPING:
        if leader == NO_LEADER:
            return None
        return _election(topic, partition, leader, unclean=False, cause=Cause.STOPPING)
    if leader == NO_LEADER:
        allow_any = unclean_allowed(image, topic, by_default=unclean)
        leader = unclean_leader(partition, brokers, allow_any=allow_any)
        is_unclean = leader != NO_LEADER
    if leader == partition.leader == NO_LEADER:
        return None
    return _election(topic, partition, leader, unclean=is_unclean, cause=Cause.LOST)


def _preferred_election(image: Image, topic: TopicInfo, partition: PartitionInfo) -> Election | None:
    preferred = preferred_leader(partition)
    if partition.leader in (preferred, NO_LEADER) or preferred not in _members(partition, image.brokers):
        return None
    return _election(topic, partition, preferred, unclean=False, cause=Cause.PREFERRED)


def _election(topic: TopicInfo, partition: PartitionInfo, leader: NodeId, *, unclean: bool, cause: Cause) -> Election:
    return Election(topic.topic_id, partition.partition, leader, partition.partition_epoch, unclean, cause)


def _leader_state(partition: PartitionInfo, brokers: Brokers) -> BrokerState | None:
    """ACTIVE or STOPPING for a leader in the ISR under its current broker epoch; else None."""
    if partition.leader not in partition.isr:
        return None
    epoch = partition.isr_epochs[partition.isr.index(partition.leader)]
    broker = brokers.get(partition.leader)
    if broker is None or broker.broker_epoch != epoch:
        return None
    return broker.state if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING) else None


def _members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """The ACTIVE members of the ISR under their current broker epoch."""
    return [
        node_id
        for node_id, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
        if (broker := brokers.get(node_id)) is not None
        and broker.broker_epoch == epoch
        and broker.state is BrokerState.ACTIVE
    ]


def _former_members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """ACTIVE brokers that were in the ISR or ELR and lost nothing since; none while a STOPPING member is alive."""
    if _has_stopping_member(partition, brokers):
        return []
    return [
        node_id
        for node_id, epoch in _named(partition)
        if (broker := brokers.get(node_id)) is not None
        and broker.state is BrokerState.ACTIVE
        and epoch >= broker.lossy_epoch
    ]


def _named(partition: PartitionInfo) -> Iterator[tuple[NodeId, BrokerEpoch]]:
    """The members of the ISR and the ELR, alive or not, with their broker epochs."""
    yield from zip(partition.isr, partition.isr_epochs, strict=True)
    yield from zip(partition.elr, partition.elr_epochs, strict=True)


def _has_stopping_member(partition: PartitionInfo, brokers: Brokers) -> bool:
    return any(
        (broker := brokers.get(node_id)) is not None
        and broker.broker_epoch == epoch
        and broker.state is BrokerState.STOPPING
        for node_id, epoch in zip(partition.isr, partition.isr_epochs, strict=True)
    )


def _first(partition: PartitionInfo, candidates: list[NodeId], brokers: Brokers) -> NodeId:
    """The first leader-role candidate in the replicas' order, else the first candidate; -1 for none."""
    ordered = [node_id for node_id in partition.replicas if node_id in candidates]
    for node_id in ordered:
        if brokers[node_id].role == "leader":
            return node_id
    return ordered[0] if ordered else NO_LEADER


class ElectionCounts:
    """Totals since this broker's start.

    A round is all elections that one event, such as the loss of a broker, made necessary.
    """

    __slots__ = ("by_cause", "offices_taken", "rounds_by_duration", "rounds_ms", "unclean", "without_leader")

    def __init__(self) -> None:
        self.by_cause: dict[str, int] = {}
        """Partitions that got a leader, by `Cause`."""
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
        elections_a_call: int,
    ) -> None:
        self._session = session
        self._elections_a_call = elections_a_call
        self._plan: Iterator[Election | None] | None = None
        """Examines the partitions that are left; None when none are."""
        self.due_ms: int | None = None
        """When to call `on_time`, which examines more of them."""
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
        return not self._is_busy() and image.offset >= self._since_offset and is_checked

    def _is_busy(self) -> bool:
        return bool(self._in_flight) or self._plan is not None

    def restart(self, since_offset: MetadataOffset = 0) -> None:
        """Check again, on an image of that offset or later, and ignore answers to calls in flight."""
        self._term += 1
        self._in_flight = 0
        self._drop_plan()
        self._checked_brokers = None
        self._since_offset = since_offset
        self._refused.clear()
        self._clear_round()

    def hold(self) -> None:
        """Hold all elections until `release`: it is not known yet which brokers are alive."""
        self._is_held = True
        self._drop_plan()

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
        if self._is_held or self._is_busy() or image.offset < self._since_offset or now_ms < self._not_before_ms:
            return
        if self._checked_brokers is image.brokers and (
            self._checked_topics is image.topics
            or not any(broker.state is BrokerState.STOPPING for broker in image.brokers.values())
        ):
            return
        self._checked_brokers, self._checked_topics = image.brokers, image.topics
        self.detected(now_ms)
        self._begin(needed_elections(image, unclean=self._unclean), now_ms)

    def elect_for(self, image: Image, now_ms: int) -> None:
        """Send the elections for an image as it will be once the store has applied the call sent just before."""
        if not self._is_held:
            self._begin(needed_elections(image, unclean=self._unclean), now_ms)

    def recheck(self, now_ms: int, *, rebalance: bool) -> None:
        """Check again for partitions that can have a leader by now; `rebalance` adds preferred leader elections."""
        image = self._session.image
        if self._is_held or self._is_busy() or image.offset < self._since_offset:
            return
        self.detected(now_ms)
        wanted = needed_elections(image, unclean=self._unclean)
        self._begin(chain(wanted, preferred_elections(image)) if rebalance else wanted, now_ms)

    def on_time(self, now_ms: int) -> None:
        """Examine more partitions, and send their elections."""
        if self.due_ms is not None and self.due_ms <= now_ms:
            self._send_batch(now_ms)
            # the image may have changed since these partitions were chosen
            self.check(now_ms)

    # ------------------------------------------------------------------------------------------------ inside

    def _begin(self, wanted: Iterator[Election | None], now_ms: int) -> None:
        self._plan = wanted if self._plan is None else chain(self._plan, wanted)
        self._send_batch(now_ms)

    def _drop_plan(self) -> None:
        self._plan = self.due_ms = None

    def _send_batch(self, now_ms: int) -> None:
        if self._refused_by_brokers is not self._session.image.brokers:
            self._refused_by_brokers = self._session.image.brokers
            self._refused.clear()
        batch: list[Election] = []
        examined_max = EXAMINED_PER_ELECTION * self._elections_a_call
        for count, election in enumerate(self._plan or (), 1):
            if election is not None and not self._is_refused(election):
                batch.append(election)
            if len(batch) == self._elections_a_call or count == examined_max:
                self.due_ms = now_ms + 1
                break
        else:
            self._drop_plan()
        if batch:
            self._in_flight += 1
            arguments: dict[str, object] = {"partitions": [election.arguments() for election in batch]}
            self._session.send("elect", arguments, partial(self._on_elected, batch, self._term))
        elif not self._is_busy():
            self._report_round(now_ms)

    def _is_refused(self, election: Election) -> bool:
        """Whether the store refused this election, and neither the partition nor a broker changed since."""
        return self._refused.get((election.topic_id, election.partition)) == election.partition_epoch

    def _on_elected(self, batch: list[Election], term: int, outcome: StoreOutcome, now_ms: int) -> None:
        if term != self._term:
            return
        self._in_flight -= 1
        if outcome.code != "OK":
            self._checked_brokers = None
            self._not_before_ms = now_ms + RETRY_MS
            self._drop_plan()
            self._on_failed(outcome, now_ms)
            return
        self._since_offset = max(self._since_offset, outcome.offset)
        codes = outcome.value.get("codes")
        for election, code in zip(batch, codes if isinstance(codes, list) else [], strict=False):
            self._note(election, code)
        if not self._is_busy():
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
