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
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from yak.cluster.controller_election import FencedController
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.heartbeat import HeartbeatAnswer
from yak.cluster.image import BrokerInfo, Image
from yak.cluster.incomplete_topics import IncompleteTopics
from yak.cluster.leader_elections import ElectionCounts, LeaderElections
from yak.cluster.outputs import Work
from yak.cluster.records import BrokerState
from yak.cluster.settings import ClusterSettings
from yak.cluster.snapshot import SnapshotText
from yak.cluster.store_session import FREEZING_CODES, StoreSession
from yak.ids import BrokerEpoch, MetadataOffset, NodeId
from yak.ports.metadata_store import StoreOutcome

ANSWER_AFTER_MS = 50
"""A broker that waits to be unfenced sends a heartbeat this long after it sees a new controller."""
RECHECK_AFTER_MS = 100
"""The controller reads the heartbeat counters when it is elected, and again after this time."""
UNFENCE_RETRIES_MS = (30, 30, 60, 120, 240)
"""Times between retries of `unfence`, until the broker has its registration on its own disk."""


@dataclass(slots=True)
class _Unfencing:
    """A broker that is being unfenced; `due_ms` is None while a call is under way."""

    broker_epoch: BrokerEpoch
    tries: int = 0
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
        self._elections = LeaderElections(
            session,
            counts,
            self._on_call_refused,
            unclean=settings.unclean_leader_election,
            elections_a_call=settings.elections_a_call,
        )
        self._incomplete_topics = IncompleteTopics(session, self._on_call_refused, full)
        self._unfencing: dict[NodeId, _Unfencing] = {}
        self._known = {node_id: broker.broker_epoch for node_id, broker in session.image.brokers.items()}
        self._registered: dict[NodeId, BrokerEpoch] = {}
        """Fenced brokers whose registration was seen: they are alive, or were recently."""
        self._brokers: object = None
        self._is_liveness_unknown = False
        """Whether it is unknown which of the brokers recorded as ACTIVE are alive."""
        self._elected_offset: MetadataOffset = 0
        """The log's end when this broker was elected."""
        self._waiting_since_offset: MetadataOffset | None = None
        """The same, until the check for brokers that already waited then."""
        self._balance_checked: tuple[object, ...] = ()
        self._balance_due_ms: int | None = None
        self._counters_due_ms: int | None = None
        self._trimmed_offset: MetadataOffset = 0

    # ------------------------------------------------------------------------------------------------- views

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._session.controller_epoch > 0

    def is_settled(self) -> bool:
        """Whether no election is under way or waiting for the image."""
        return self._elections.is_settled()

    @property
    def due_ms(self) -> int | None:
        """When to call `on_time`, in ms."""
        if not self.is_active:
            return None
        dues = [unfencing.due_ms for unfencing in self._unfencing.values()]
        dues += [self._balance_due_ms, self._counters_due_ms, self._incomplete_topics.due_ms, self._elections.due_ms]
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def pause(self) -> None:
        """Send no calls: the store is unreachable or invalid. A controller keeps its role until another is elected."""
        self._detector.reset()
        self._elections.restart()
        self._incomplete_topics.restart()
        self._unfencing.clear()
        self._balance_due_ms = None
        self._balance_checked = ()
        self._waiting_since_offset = self._counters_due_ms = None

    def on_elected(self, outcome: StoreOutcome, fenced: FencedController | None, now_ms: int) -> None:
        """This broker is the controller, newly or still. `fenced` is the old controller, if the store fenced it."""
        session = self._session
        epoch = outcome.value["controller_epoch"]
        assert isinstance(epoch, int)
        self.pause()
        self._elections.restart(outcome.offset)
        self._waiting_since_offset = self._elected_offset = outcome.offset
        if epoch != session.controller_epoch:
            session.controller_epoch = epoch
            self._counts.offices_taken += 1
            fields: dict[str, object] = {} if fenced is None else {"took_ms": now_ms - fenced.since_ms}
            session.say("info", "controller-elected", controller_epoch=epoch, **fields)
            if not self._is_unfenced() or self._may_be_first_after_power_loss(now_ms):
                self._is_liveness_unknown = True
                self._elections.hold()
        self._elections.detected(now_ms if fenced is None else fenced.since_ms)
        if fenced is not None:
            session.say("warning", "broker-fenced", node_id=fenced.node_id, broker_epoch=fenced.broker_epoch)
            self._elections.elect_for(_with_fenced(session.image, fenced.node_id), now_ms)
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
        self._elections.check(now_ms)
        for broker in self._detector.to_unfence(brokers):
            if broker.node_id not in self._unfencing:
                self._unfencing[broker.node_id] = unfencing = _Unfencing(broker.broker_epoch, len(UNFENCE_RETRIES_MS))
                self._unfence(broker.node_id, unfencing)
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
        self._resume_elections()
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
        self._elections.check(now_ms)
        self._incomplete_topics.check(now_ms)
        seen = (image.brokers, image.topics, image.default_broker_configs)
        if self._balance_due_ms is None and not _same(seen, self._balance_checked):
            self._balance_due_ms = now_ms + self._settings.leader_imbalance_check_interval_ms

    def check_elections(self) -> None:
        """A partition lost its leader though no broker changed: check for elections again with the next image."""
        self._elections.check_again()

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
            self._elections.recheck(now_ms, rebalance=self._settings.auto_leader_rebalance)
        self._incomplete_topics.on_time(now_ms)
        self._elections.on_time(now_ms)

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
        self._unfencing[session.node_id] = unfencing = _Unfencing(session.broker_epoch, len(UNFENCE_RETRIES_MS))
        self._unfence(session.node_id, unfencing)
        if own is not None:
            lossy_epoch = session.broker_epoch if session.is_lossy else own.lossy_epoch
            active = replace(own, broker_epoch=session.broker_epoch, state=BrokerState.ACTIVE, lossy_epoch=lossy_epoch)
            self._elections.elect_for(_with_broker(session.image, active), now_ms)

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
        if not self._is_liveness_unknown or image.offset < self._elected_offset:
            return
        for broker in image.brokers.values():
            if (
                broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
                and broker.broker_epoch < self._session.broker_epoch
                and not self._detector.has_moved(broker)
            ):
                return
        self._resume_elections()

    def _resume_elections(self) -> None:
        self._is_liveness_unknown = False
        self._elections.release()

    def _unfence_registered(self) -> None:
        """Begin to unfence newly registered brokers."""
        brokers = self._session.image.brokers
        for node_id, epoch in self._registered.items():
            unfencing, broker = self._unfencing.get(node_id), brokers.get(node_id)
            if unfencing is not None and unfencing.broker_epoch == epoch:
                continue
            if broker is not None and broker.broker_epoch == epoch and broker.state is BrokerState.FENCED:
                self._unfencing[node_id] = unfencing = _Unfencing(epoch)
                self._unfence(node_id, unfencing)
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

    def _retry_unfence(self, node_id: NodeId, unfencing: _Unfencing) -> None:
        broker = self._session.image.brokers.get(node_id)
        if broker is not None and broker.broker_epoch == unfencing.broker_epoch and broker.state is BrokerState.FENCED:
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
            if outcome.code == "NOT_CAUGHT_UP" and unfencing.tries < len(UNFENCE_RETRIES_MS):
                unfencing.due_ms = now_ms + UNFENCE_RETRIES_MS[unfencing.tries]
                unfencing.tries += 1
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
        self._elections.detected(now_ms)
        self._elections.elect_for(_with_fenced(session.image, broker.node_id), now_ms)

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

    def _on_call_refused(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "FENCED_CONTROLLER":
            self.renounce()
        elif outcome.code in FREEZING_CODES or outcome.code == "STALE_BROKER_EPOCH":
            self._on_refused(outcome, now_ms)
        else:
            words = outcome.value.get("message", "")
            self._session.say("warning", "metadata-call-refused", code=outcome.code, reason=words)


def _with_broker(image: Image, broker: BrokerInfo) -> Image:
    """The image as it will be once the store has applied the call just sent."""
    return replace(image, brokers={**image.brokers, broker.node_id: broker})


def _with_fenced(image: Image, node_id: NodeId) -> Image:
    return _with_broker(image, replace(image.brokers[node_id], state=BrokerState.FENCED))


def _same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
