"""The controller's work: it unfences brokers, fences dead ones, and elects leaders.

The controller epoch in each script call fences an old controller, so nothing here has to be certain that this broker is
still the controller. It acts on a changed image and on a dead broker, not on a timer.

A broker is unfenced as soon as its registration is seen, with retries until it has that registration on its own disk.
Any other fenced broker is unfenced when its heartbeat counter moves. A broker that was fenced and is alive registers
again by itself.

A controller that has just started may be the first broker back after all went down, while the store still records the
others as ACTIVE. An election now could leave a dead broker as the only member of an ISR, and if it came back with a
loss, no replica could lead any more. So such a controller elects no leaders until each other broker has sent a
heartbeat, has come back, or was fenced.

A leader is in order when it is ACTIVE and in the ISR under its current broker epoch. Otherwise the next leader comes
from the first of these groups that is not empty:

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

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain

from yak.cluster.controller_election import FencedController
from yak.cluster.election_counts import ElectionCounts
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.heartbeat import HeartbeatAnswer
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, TopicInfo
from yak.cluster.incomplete_topics import IncompleteTopics
from yak.cluster.outputs import Work
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.settings import ClusterSettings
from yak.cluster.snapshot import SnapshotText
from yak.cluster.store_session import FREEZING_CODES, StoreSession
from yak.ids import BrokerEpoch, MetadataOffset, NodeId, PartitionEpoch
from yak.ports.metadata_store import StoreOutcome

ANSWER_AFTER_MS = 50
"""A broker that waits to be unfenced sends a heartbeat this long after it sees a new controller."""
RECHECK_AFTER_MS = 100
"""The controller reads the heartbeat counters when it is elected, and again after this time."""
UNFENCE_RETRIES_MS = (30, 30, 60, 120, 240)
"""Times between retries of `unfence`, until the broker has its registration on its own disk."""
UNCLEAN_CONFIG = "unclean.leader.election.enable"
RETRY_MS = 250
"""Wait before the next call to a store that refused a whole call (out of memory, read only)."""
EXAMINED_PER_ELECTION = 10
"""One turn examines so many partitions for each election that a call takes: about 1 ms."""
_NOTHING = (None, None, None)

Brokers = Mapping[NodeId, BrokerInfo]
Elect = Callable[[Image, TopicInfo, PartitionInfo], "Election | None"]


@dataclass(slots=True)
class _Unfencing:
    """A broker that is being unfenced; `due_ms` is None while a call is under way."""

    broker_epoch: BrokerEpoch
    pauses_ms: list[int]
    """Before each retry that is left."""
    due_ms: int | None = None


class Controller:
    """The controller's work.

    `heartbeat_by(due_ms)` sends the next heartbeat by then; its answer carries all brokers' counters. `on_refused` gets
    refusals that say that the store, or this broker's registration, is invalid. `on_fast_fence_failed` is called when
    the store refused a call that fences a suspected broker. `full` are the brokers without room for logs.
    """

    def __init__(
        self,
        session: StoreSession,
        settings: ClusterSettings,
        counts: ElectionCounts,
        *,
        heartbeat_by: Callable[[int], None],
        on_refused: Callable[[StoreOutcome, int], None],
        on_fast_fence_failed: Callable[[], None],
        full: Callable[[], Collection[NodeId]],
    ) -> None:
        self._session = session
        self._counts = counts
        self._on_fast_fence_failed = on_fast_fence_failed
        self._heartbeat_by = heartbeat_by
        self._settings = settings
        self._on_refused = on_refused
        self._detector = FailureDetector(settings.patience_ms, settings.gap_ms)
        self.elections = LeaderElections(
            session,
            counts,
            self._on_elections_failed,
            unclean=settings.unclean_leader_election,
            elections_a_call=settings.elections_a_call,
        )
        self._incomplete_topics = IncompleteTopics(session, self._on_call_refused, full)
        self._unfencing: dict[NodeId, _Unfencing] = {}
        self._known = {node_id: broker.broker_epoch for node_id, broker in session.image.brokers.items()}
        self._registered: dict[NodeId, BrokerEpoch] = {}
        """Fenced brokers whose registration was seen: they are alive, or were recently."""
        self._brokers: object = None
        self._elected_offset: MetadataOffset = 0
        """The log's end when this broker was elected."""
        self._waiting_since_offset: MetadataOffset | None = None
        """The same, until the check for brokers that already waited then."""
        self._balance_checked: tuple[object, ...] = _NOTHING
        self._balance_due_ms: int | None = None
        self._suspicion_ends_ms = 0
        """Until then a broker that is dead by all appearances may still count as ACTIVE."""
        self._counters_due_ms: int | None = None
        self._trimmed_offset: MetadataOffset = 0

    # ------------------------------------------------------------------------------------------------- views

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._session.controller_epoch > 0

    @property
    def due_ms(self) -> int | None:
        """When to call `on_time`, in ms."""
        if not self.is_active:
            return None
        dues = [unfencing.due_ms for unfencing in self._unfencing.values()]
        dues += [self._balance_due_ms, self._counters_due_ms, self._incomplete_topics.due_ms, self.elections.due_ms]
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def pause(self) -> None:
        """Send no calls: the store is unreachable or invalid. A controller keeps its role until another is elected."""
        self._detector.reset()
        self.elections.restart()
        self._incomplete_topics.restart()
        self._unfencing.clear()
        self._balance_due_ms = None
        self._balance_checked = _NOTHING
        self._waiting_since_offset = self._counters_due_ms = None

    def on_elected(self, outcome: StoreOutcome, fenced: FencedController | None, now_ms: int) -> None:
        """This broker is the controller, newly or still. `fenced` is the old controller, if the store fenced it."""
        session = self._session
        epoch = outcome.value["controller_epoch"]
        assert isinstance(epoch, int)
        self.pause()
        self.elections.restart(outcome.offset)
        self._waiting_since_offset = self._elected_offset = outcome.offset
        if epoch != session.controller_epoch:
            session.controller_epoch = epoch
            self._counts.controller_elections += 1
            fields: dict[str, object] = {} if fenced is None else {"took_ms": now_ms - fenced.since_ms}
            session.say("info", "controller-elected", controller_epoch=epoch, **fields)
            if not self._is_unfenced() or self._may_be_first_after_power_loss(now_ms):
                self.elections.hold()
        self.elections.detected(now_ms if fenced is None else fenced.since_ms)
        if fenced is not None:
            session.say("warning", "broker-fenced", node_id=fenced.node_id, broker_epoch=fenced.broker_epoch)
            if fenced.node_id in session.image.brokers:  # else it was unregistered before the answer came
                self.elections.elect_for(_with_fenced(session.image, fenced.node_id), now_ms)
        self._unfence_self(now_ms)
        self._unfence_registered()

    def on_heartbeats(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        """Check all brokers' counters, read with this broker's heartbeat."""
        if answer.controller_epoch > self._session.controller_epoch:
            self.renounce()
            return
        if answer.counters is None:
            # Sent before this broker was elected.
            return
        brokers = self._session.image.brokers
        self._detector.observe(answer.counters, brokers, now_ms)
        self._check_liveness()
        self.elections.check(now_ms)
        for broker in self._detector.to_unfence(brokers):
            if broker.node_id not in self._unfencing:
                self._begin_unfencing(broker.node_id, broker.broker_epoch)
        for broker in self._detector.to_fence(brokers, now_ms):
            if broker.node_id != self._session.node_id:
                self._fence(broker, now_ms, fast=False)
        self._trim_when_long()

    def on_broker_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """Fence a broker whose address refuses connections; returns whether a fence call was sent."""
        broker = self._session.image.brokers.get(node_id)
        if broker is None or broker.broker_epoch != broker_epoch or node_id == self._session.node_id:
            return False
        if broker.state not in (BrokerState.ACTIVE, BrokerState.STOPPING):
            return False
        self._fence(broker, now_ms, fast=True)
        return True

    def renounce(self) -> None:
        """Another broker is the controller."""
        if self.is_active:
            self._session.say("warning", "controller-fenced", controller_epoch=self._session.controller_epoch)
        self._session.controller_epoch = 0
        self.elections.release()
        self.pause()

    def on_image(self, now_ms: int, joined_at: MetadataOffset) -> None:
        """The image advanced, or the store answered: unfence brokers and elect leaders as needed.

        `joined_at` is the log's end when this broker joined or rejoined: it did not watch earlier registrations.
        """
        image = self._session.image
        if self._brokers is not image.brokers:
            self._brokers = image.brokers
            self._note_registrations(joined_at)
        if not self.is_active:
            return
        if image.controller_epoch > self._session.controller_epoch:
            self.renounce()
            return
        self._unfence_registered()
        self._check_waiting_brokers(now_ms)
        self._check_liveness()
        self.elections.check(now_ms)
        self._incomplete_topics.check(now_ms)
        seen = (image.brokers, image.topics, image.default_broker_configs)
        is_new = any(one is not other for one, other in zip(seen, self._balance_checked, strict=True))
        if self._balance_due_ms is None and is_new:
            self._balance_due_ms = now_ms + self._settings.leader_imbalance_check_interval_ms

    def on_time(self, now_ms: int) -> None:
        """Run the due timers."""
        for node_id, unfencing in list(self._unfencing.items()):
            if unfencing.due_ms is not None and unfencing.due_ms <= now_ms:
                self._retry_unfence(node_id, unfencing)
        if self._counters_due_ms is not None and self._counters_due_ms <= now_ms:
            self._counters_due_ms = None
            self._heartbeat_by(now_ms)
        if self._balance_due_ms is not None and self._balance_due_ms <= now_ms:
            image = self._session.image
            self._balance_due_ms = None
            self._balance_checked = (image.brokers, image.topics, image.default_broker_configs)
            is_suspicious = now_ms < self._suspicion_ends_ms
            rebalance = self._settings.auto_leader_rebalance and not is_suspicious
            if not self.elections.recheck(now_ms, rebalance=rebalance):
                self._balance_due_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
            if is_suspicious:
                self._balance_due_ms = self._suspicion_ends_ms
        self._incomplete_topics.on_time(now_ms)
        self.elections.on_time(now_ms)

    # ---------------------------------------------------------------------------------------------- unfencing

    def _note_registrations(self, joined_at: MetadataOffset) -> None:
        for node_id, broker in self._session.image.brokers.items():
            epoch = broker.broker_epoch
            is_new, self._known[node_id] = self._known.get(node_id) != epoch, epoch
            if broker.state is not BrokerState.FENCED:
                self._registered.pop(node_id, None)
                self._unfencing.pop(node_id, None)
            elif is_new and epoch >= joined_at:
                self._registered[node_id] = epoch

    def _unfence_self(self, now_ms: int) -> None:
        """Unfence this broker itself, without waiting for its registration in the image: it is alive.

        The elections that this makes possible are sent right behind.
        """
        session = self._session
        if self._is_unfenced():
            return
        own = session.image.brokers.get(session.node_id)
        self._begin_unfencing(session.node_id, session.broker_epoch)
        if own is not None:
            lossy_epoch = session.broker_epoch if session.is_lossy else own.lossy_epoch
            active = replace(own, broker_epoch=session.broker_epoch, state=BrokerState.ACTIVE, lossy_epoch=lossy_epoch)
            self.elections.elect_for(_with_broker(session.image, active), now_ms)

    def _is_unfenced(self) -> bool:
        """Whether the image shows this broker unfenced under this epoch."""
        own = self._session.image.brokers.get(self._session.node_id)
        return (
            own is not None and own.broker_epoch == self._session.broker_epoch and own.state is not BrokerState.FENCED
        )

    def _may_be_first_after_power_loss(self, now_ms: int) -> bool:
        """Whether this machine just came back from a power loss, which other brokers recorded as ACTIVE may share."""
        session = self._session
        return session.is_lossy and now_ms - session.registered_ms < self._settings.patience_ms

    def _check_liveness(self) -> None:
        """Resume elections once every broker recorded as ACTIVE proved to be alive or was fenced."""
        image = self._session.image
        if not self.elections.is_held or image.offset < self._elected_offset:
            return
        for broker in image.brokers.values():
            if (
                broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
                and broker.broker_epoch < self._session.broker_epoch
                and not self._detector.has_moved(broker)
            ):
                return
        self.elections.release()

    def _unfence_registered(self) -> None:
        """Begin to unfence newly registered brokers."""
        for node_id, epoch in self._registered.items():
            unfencing = self._unfencing.get(node_id)
            is_under_way = unfencing is not None and unfencing.broker_epoch == epoch
            if not is_under_way and self._is_fenced(node_id, epoch):
                self._begin_unfencing(node_id, epoch, UNFENCE_RETRIES_MS)
        self._registered.clear()

    def _check_waiting_brokers(self, now_ms: int) -> None:
        """Read the counters soon: brokers that registered before the election may be alive."""
        image = self._session.image
        if self._waiting_since_offset is None or image.offset < self._waiting_since_offset:
            return
        self._waiting_since_offset = None
        fenced = [n for n, broker in image.brokers.items() if broker.state is BrokerState.FENCED]
        if any(node_id not in self._unfencing for node_id in fenced):
            self._heartbeat_by(now_ms)
            self._counters_due_ms = now_ms + RECHECK_AFTER_MS

    def _is_fenced(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> bool:
        """Whether the image shows the broker fenced under this epoch."""
        broker = self._session.image.brokers.get(node_id)
        return broker is not None and broker.broker_epoch == broker_epoch and broker.state is BrokerState.FENCED

    def _begin_unfencing(self, node_id: NodeId, broker_epoch: BrokerEpoch, pauses_ms: Sequence[int] = ()) -> None:
        self._unfencing[node_id] = unfencing = _Unfencing(broker_epoch, list(pauses_ms))
        self._unfence(node_id, unfencing)

    def _retry_unfence(self, node_id: NodeId, unfencing: _Unfencing) -> None:
        if self._is_fenced(node_id, unfencing.broker_epoch):
            unfencing.due_ms = None
            self._unfence(node_id, unfencing)
        else:
            del self._unfencing[node_id]

    def _unfence(self, node_id: NodeId, unfencing: _Unfencing) -> None:
        """Call `unfence`; `unfencing` stays until the image shows the broker ACTIVE, or the attempt is abandoned."""
        term = self._session.controller_epoch

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if term != self._session.controller_epoch or self._unfencing.get(node_id) is not unfencing:
                return
            if outcome.code == "NOT_CAUGHT_UP" and unfencing.pauses_ms:
                unfencing.due_ms = now_ms + unfencing.pauses_ms.pop(0)
            elif outcome.code != "OK":
                del self._unfencing[node_id]
                if outcome.code not in ("STALE_EPOCH", "NOT_CAUGHT_UP"):
                    self._on_call_refused(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": node_id, "target_epoch": unfencing.broker_epoch}
        self._session.send("unfence", arguments, on_reply)

    # ------------------------------------------------------------------------------------------------ fencing

    def _fence(self, broker: BrokerInfo, now_ms: int, *, fast: bool) -> None:
        """Fence a broker, and elect right behind on the image that results."""
        session = self._session
        named = {"node_id": broker.node_id, "broker_epoch": broker.broker_epoch, "fast": fast}

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if outcome.code == "OK":
                session.say("warning", "broker-fenced", **named)
            elif outcome.code == "TOO_MANY_FENCED":
                # its leaders moved all the same, and no preferred leader election may give them back
                self._suspicion_ends_ms = now_ms + self._settings.session_timeout_ms
                session.say(
                    "warning",
                    "fast-fencing-refused",
                    **named,
                    reason="too many brokers were fenced on suspicion: the session timeout decides",
                )
            elif outcome.code != "STALE_EPOCH":
                if fast:
                    self._on_fast_fence_failed()
                self._on_call_refused(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": broker.node_id, "target_epoch": broker.broker_epoch, "fast": fast}
        session.send("fence", arguments, on_reply)
        self.elections.detected(now_ms)
        self.elections.elect_for(_with_fenced(session.image, broker.node_id), now_ms)

    # --------------------------------------------------------------------------------- snapshots and failures

    def _trim_when_long(self) -> None:
        image = self._session.image
        if image.offset - self._trimmed_offset < self._settings.trim_every:
            return
        self._trimmed_offset = image.offset
        arguments: dict[str, object] = {
            "snapshot_offset": image.offset,
            "snapshot_hash": image.chain_hash,
            "keep": self._settings.trim_keeps,
        }

        def send(snapshot: object) -> None:
            if self.is_active:
                self._session.send("trim", {"snapshot": snapshot, **arguments}, self._on_trimmed)

        self._session.put(Work(SnapshotText(image), send))

    def _on_trimmed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            self._session.say("info", "metadata-log-trimmed", records=outcome.value.get("trimmed"))
        else:
            self._on_call_refused(outcome, now_ms)

    def _on_elections_failed(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Repeat the check for preferred leader elections: the image may not change before."""
        if self._balance_due_ms is None:
            self._balance_due_ms = now_ms + self._settings.leader_imbalance_check_interval_ms
        self._on_call_refused(outcome, now_ms)

    def _on_call_refused(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "FENCED_CONTROLLER":
            self.renounce()
        elif outcome.code in FREEZING_CODES or outcome.code == "STALE_BROKER_EPOCH":
            self._on_refused(outcome, now_ms)
        else:
            self._session.say_refused(outcome, now_ms)


def _with_broker(image: Image, broker: BrokerInfo) -> Image:
    """The image as it will be once the store has applied the call just sent."""
    return replace(image, brokers={**image.brokers, broker.node_id: broker})


def _with_fenced(image: Image, node_id: NodeId) -> Image:
    return _with_broker(image, replace(image.brokers[node_id], state=BrokerState.FENCED))


# ----------------------------------------------------------------------------------------------------- leader elections


class Cause(StrEnum):
    """The reason for a new leader."""

    LOST = "lost"
    STOPPING = "stopping"
    PREFERRED = "preferred"


_EVENTS = {Cause.LOST: "leaders-elected", Cause.STOPPING: "leaders-moved", Cause.PREFERRED: "preferred-leaders-elected"}


@dataclass(slots=True, frozen=True)
class Election:
    """One partition's change of leader; `leader` is -1 for none."""

    topic_id: uuid.UUID
    partition: int
    leader: NodeId
    partition_epoch: PartitionEpoch
    unclean: bool
    cause: Cause = Cause.LOST
    unclean_config: str | None = None
    """The config that allows it, as `unclean_config` has it: the store refuses the election if that has changed."""

    def arguments(self) -> dict[str, object]:
        """The arguments of the script `elect`."""
        return {
            "topic_id": str(self.topic_id),
            "partition": self.partition,
            "leader": self.leader,
            "partition_epoch": self.partition_epoch,
            "unclean": self.unclean,
            "unclean_config": self.unclean_config,
        }


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
        self._refused: dict[tuple[uuid.UUID, int], Election] = {}
        """By partition, what the store refused last."""
        self._refused_by_brokers: object = None
        self.is_held = False
        """Whether it is unknown which of the brokers recorded as ACTIVE are alive: no leader is elected."""
        self._detected_ms: int | None = None
        self._done: Counter[Cause] = Counter()
        self._offline = 0

    def is_settled(self) -> bool:
        """Whether no election is in flight or waits for the image. Elections on hold do not count."""
        image = self._session.image
        is_checked = self.is_held or self._checked_brokers is image.brokers
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
        self.is_held = True
        self._drop_plan()

    def release(self) -> None:
        """Resume elections with the next check."""
        self.is_held = False
        self._checked_brokers = None

    def check_again(self) -> None:
        """Check the next image even if no broker changed: a partition may have lost its leader."""
        self._checked_brokers = None

    def detected(self, now_ms: int) -> None:
        """Note when an event made elections necessary: the log reports their duration since then."""
        if self._detected_ms is None:
            self._detected_ms = now_ms

    def check(self, now_ms: int) -> None:
        """Send the elections that the image needs, if it may need more than at the last check."""
        image = self._session.image
        if self.is_held or self._is_busy() or image.offset < self._since_offset or now_ms < self._not_before_ms:
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
        if not self.is_held:
            self._begin(needed_elections(image, unclean=self._unclean), now_ms)

    def recheck(self, now_ms: int, *, rebalance: bool) -> bool:
        """Check again for partitions that can have a leader by now; `rebalance` adds preferred leader elections.

        Returns False, and checks nothing, while other elections are under way.
        """
        image = self._session.image
        if self.is_held or self._is_busy() or image.offset < self._since_offset:
            return False
        self.detected(now_ms)
        wanted = needed_elections(image, unclean=self._unclean)
        self._begin(chain(wanted, preferred_elections(image)) if rebalance else wanted, now_ms)
        return True

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
        """Whether the store refused this very election, and neither the partition nor a broker changed since.

        A plan goes on with the image that it began with. What it proposes may be refused after a broker changed, and the
        new image needs another election then, of the same partition epoch.
        """
        return self._refused.get((election.topic_id, election.partition)) == election

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
            self._refused[election.topic_id, election.partition] = election
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


# -------------------------------------------------------------------------------------------------- which replica leads


def needed_elections(image: Image, *, unclean: bool = False) -> Iterator[Election | None]:
    """For each partition, topic by topic, the election that it needs, or None; `unclean`: also an unclean one where no config is set."""
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

    The other replicas follow the leader and truncate. So a broker comes last whose disk may still be empty: it came back
    without a directory since it was last in sync, or its current epoch began with a loss. Of a broker outside ISR and ELR
    it is not known when that was: one without an empty disk since the last change of the ISR goes first. Among the rest
    former ISR members go first, then former ELR members: they probably lack the fewest records.
    """
    active = [n for n in partition.replicas if (b := brokers.get(n)) is not None and b.state is BrokerState.ACTIVE]
    if not active or _members(partition, brokers, BrokerState.STOPPING):
        return NO_LEADER
    last_in = dict((*partition.isr_members, *partition.elr_members))
    newest = max(last_in.values(), default=0)
    pool = active
    if not allow_any and len(partition.replicas) > 1:
        all_lost = len(active) == len(partition.replicas) and all(
            brokers[node_id].lossy_epoch > last_in.get(node_id, newest) for node_id in active
        )
        if not all_lost:
            return NO_LEADER
        pool = [n for n in active if n in last_in and brokers[n].emptied_epoch <= last_in[n]]
    filled = [n for n in pool if brokers[n].emptied_epoch <= last_in.get(n, newest)]
    filled = filled or [n for n in pool if n not in last_in]
    whole = [n for n in filled if brokers[n].lossy_epoch != brokers[n].broker_epoch]
    candidates = whole or filled or pool
    if partition.leader in candidates:
        return partition.leader
    last = [node_id for node_id in candidates if node_id in partition.isr]
    former = [node_id for node_id in candidates if node_id in last_in]
    return _first(partition, last or former or candidates, brokers)


def unclean_config(image: Image, topic: TopicInfo) -> str:
    """`unclean.leader.election.enable` of the topic, else the default of all brokers; empty if neither is set."""
    return topic.configs.get(UNCLEAN_CONFIG) or image.default_broker_configs.get(UNCLEAN_CONFIG) or ""


def _examined(image: Image, elect: Elect) -> Iterator[Election | None]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield elect(image, topic, partition)


def _needed_election(image: Image, topic: TopicInfo, partition: PartitionInfo, *, unclean: bool) -> Election | None:
    brokers = image.brokers
    state = _leader_state(partition, brokers)
    if state is BrokerState.ACTIVE:
        return None
    leader, is_unclean, config = clean_leader(partition, brokers), False, None
    if state is BrokerState.STOPPING:
        if leader == NO_LEADER:
            return None
        return _election(topic, partition, leader, Cause.STOPPING)
    if leader == NO_LEADER:
        config = unclean_config(image, topic)
        allow_any = config.strip().lower() == "true" if config else unclean
        leader = unclean_leader(partition, brokers, allow_any=allow_any)
        is_unclean = leader != NO_LEADER
        config = config if is_unclean and allow_any else None
    if leader == partition.leader == NO_LEADER:
        return None
    return _election(topic, partition, leader, Cause.LOST, unclean=is_unclean, config=config)


def _preferred_election(image: Image, topic: TopicInfo, partition: PartitionInfo) -> Election | None:
    preferred = preferred_leader(partition)
    if partition.leader in (preferred, NO_LEADER) or preferred not in _members(partition, image.brokers):
        return None
    return _election(topic, partition, preferred, Cause.PREFERRED)


def _election(
    topic: TopicInfo,
    partition: PartitionInfo,
    leader: NodeId,
    cause: Cause,
    *,
    unclean: bool = False,
    config: str | None = None,
) -> Election:
    return Election(topic.topic_id, partition.partition, leader, partition.partition_epoch, unclean, cause, config)


def _leader_state(partition: PartitionInfo, brokers: Brokers) -> BrokerState | None:
    """ACTIVE or STOPPING for a leader in the ISR under its current broker epoch; else None."""
    broker = brokers.get(partition.leader)
    if broker is None or (broker.node_id, broker.broker_epoch) not in partition.isr_members:
        return None
    return broker.state if broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING) else None


def _members(partition: PartitionInfo, brokers: Brokers, state: BrokerState = BrokerState.ACTIVE) -> list[NodeId]:
    """The members of the ISR under their current broker epoch that are in this state."""
    return [
        node_id
        for node_id, epoch in partition.isr_members
        if (broker := brokers.get(node_id)) is not None and broker.broker_epoch == epoch and broker.state is state
    ]


def _former_members(partition: PartitionInfo, brokers: Brokers) -> list[NodeId]:
    """ACTIVE brokers that were in the ISR or ELR and lost nothing since; none while a STOPPING member is alive."""
    if _members(partition, brokers, BrokerState.STOPPING):
        return []
    return [
        node_id
        for node_id, epoch in (*partition.isr_members, *partition.elr_members)
        if (broker := brokers.get(node_id)) is not None
        and broker.state is BrokerState.ACTIVE
        and epoch >= broker.lossy_epoch
    ]


def _first(partition: PartitionInfo, candidates: list[NodeId], brokers: Brokers) -> NodeId:
    """The first leader-role candidate in the replicas' order, else the first candidate; -1 for none."""
    ordered = [node_id for node_id in partition.replicas if node_id in candidates]
    for node_id in ordered:
        if brokers[node_id].role == "leader":
            return node_id
    return ordered[0] if ordered else NO_LEADER
