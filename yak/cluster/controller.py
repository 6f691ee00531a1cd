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

from yak.cluster.electing import Electing
from yak.cluster.election_counts import ElectionCounts
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.heartbeat import HeartbeatAnswer
from yak.cluster.image import BrokerInfo, Image
from yak.cluster.lease import Deposed
from yak.cluster.outputs import Work
from yak.cluster.records import BrokerState
from yak.cluster.settings import ClusterSettings
from yak.cluster.snapshot import json_pieces, write_snapshot
from yak.cluster.store_session import FREEZING_CODES, StoreSession
from yak.cluster.unfinished import Unfinished
from yak.ids import BrokerEpoch, MetadataOffset, NodeId
from yak.seams.metadata_store import StoreOutcome

KEEP_RECORDS = 100_000
"""Records that the store's log keeps behind a snapshot, for brokers that come back after a while."""
TRIM_EVERY = 100_000
ANSWER_AFTER_MS = 50
"""A broker that waits to be unfenced sends a heartbeat this long after it sees a new controller."""
LOOK_AFTER_MS = 100
"""The controller reads the heartbeat counters when it is elected, and again after this time."""
UNFENCE_RETRIES_MS = (30, 30, 60, 120, 240)
"""Times between retries of `unfence`, until the broker has its registration on its own disk."""


@dataclass(slots=True)
class _Letting:
    """A broker that is being unfenced; `due_ms` is None while a call is under way."""

    broker_epoch: BrokerEpoch
    tries: int = 0
    due_ms: int | None = None


class Controller:
    """The controller's work.

    `beat_by(due_ms)` sends the next heartbeat by then; its answer carries all brokers' counters. `on_refused` gets
    refusals that say that the store, or this broker's registration, is invalid. `on_fast_fence_failed` is called when
    the store did not take a call that fences a suspected broker. `full` are the brokers without room for logs.
    """

    def __init__(
        self,
        session: StoreSession,
        settings: ClusterSettings,
        elections: ElectionCounts,
        *,
        beat_by: Callable[[int], None],
        on_refused: Callable[[StoreOutcome, int], None],
        on_fast_fence_failed: Callable[[], None],
        full: Callable[[], Collection[NodeId]],
    ) -> None:
        self._session = session
        self._elections = elections
        self._on_fast_fence_failed = on_fast_fence_failed
        self._beat_by = beat_by
        self._settings = settings
        self._on_refused = on_refused
        self._detector = FailureDetector(settings.patience_ms, settings.gap_ms)
        self._electing = Electing(session, elections, self._failed, unclean=settings.unclean_leader_election)
        self._unfinished = Unfinished(session, self._failed, full)
        self._letting_in: dict[NodeId, _Letting] = {}
        self._known = {node_id: broker.broker_epoch for node_id, broker in session.image.brokers.items()}
        self._registered: dict[NodeId, BrokerEpoch] = {}
        """Fenced brokers whose registration was seen: they are alive, or were recently."""
        self._brokers: object = None
        self._is_wary = False
        """Whether it is unknown which of the brokers recorded as ACTIVE are alive."""
        self._since_offset: MetadataOffset = 0
        """The log's end when this broker was elected."""
        self._taken_at: MetadataOffset | None = None
        """The same, until the check for brokers that already waited then."""
        self._looked_over: tuple[object, ...] = ()
        self._look_over_due_ms: int | None = None
        self._look_again_ms: int | None = None
        self._trimmed_at: MetadataOffset = 0

    # ------------------------------------------------------------------------------------------------- views

    @property
    def held(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._session.controller_epoch > 0

    def is_settled(self) -> bool:
        """Whether no election is under way or waiting for the image."""
        return self._electing.is_settled()

    @property
    def due_ms(self) -> int | None:
        """When to call `on_time`, in ms."""
        if not self.held:
            return None
        dues = [letting.due_ms for letting in self._letting_in.values()]
        dues += [self._look_over_due_ms, self._look_again_ms, self._unfinished.due_ms]
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def pause(self) -> None:
        """Send no calls: the store is unreachable or invalid. A controller keeps its role until another is elected."""
        self._detector.reset()
        self._electing.restart()
        self._unfinished.restart()
        self._letting_in.clear()
        self._look_over_due_ms = None
        self._looked_over = ()
        self._taken_at = self._look_again_ms = None

    def taken(self, outcome: StoreOutcome, deposed: Deposed | None, now_ms: int) -> None:
        """This broker is the controller, newly or still. `deposed` is the old controller, if the store fenced it."""
        session = self._session
        epoch = outcome.value["controller_epoch"]
        assert isinstance(epoch, int)
        self.pause()
        self._electing.restart(outcome.offset)
        self._taken_at = self._since_offset = outcome.offset
        if epoch != session.controller_epoch:
            session.controller_epoch = epoch
            self._elections.offices_taken += 1
            fields: dict[str, object] = {} if deposed is None else {"took_ms": now_ms - deposed.since_ms}
            session.say("info", "controller-elected", controller_epoch=epoch, **fields)
            if not self._is_active() or self._may_be_first_of_many(now_ms):
                self._is_wary = True
                self._electing.hold()
        self._electing.detected(now_ms if deposed is None else deposed.since_ms)
        if deposed is not None:
            session.say("warning", "broker-fenced", node_id=deposed.node_id, broker_epoch=deposed.broker_epoch)
            self._electing.look_ahead(_with_fenced(session.image, deposed.node_id))
        self._let_myself_in()
        self._let_in()

    def on_heartbeats(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        """Take all brokers' counters, read with this broker's heartbeat."""
        if answer.controller_epoch > self._session.controller_epoch:
            self.lost()
            return
        if answer.counters is None:
            # Sent before this broker was elected.
            return
        brokers = self._session.image.brokers
        self._detector.observe(answer.counters, brokers, now_ms)
        self._look_who_is_alive()
        self._electing.look(now_ms)
        for broker in self._detector.to_unfence(brokers):
            if broker.node_id not in self._letting_in:
                self._letting_in[broker.node_id] = letting = _Letting(broker.broker_epoch, len(UNFENCE_RETRIES_MS))
                self._unfence(broker.node_id, letting)
        for broker in self._detector.to_fence(brokers, now_ms):
            if broker.node_id != self._session.node_id:
                self._fence(broker, now_ms, fast=False)
        self._trim_when_long()

    def on_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """Fence a broker whose address refuses connections; returns whether a fence call was sent."""
        broker = self._session.image.brokers.get(node_id)
        if broker is None or broker.broker_epoch != broker_epoch or node_id == self._session.node_id:
            return False
        if broker.state not in (BrokerState.ACTIVE, BrokerState.STOPPING):
            return False
        self._fence(broker, now_ms, fast=True)
        return True

    def lost(self) -> None:
        """Another broker is the controller."""
        if self.held:
            self._session.say("warning", "controller-fenced", controller_epoch=self._session.controller_epoch)
        self._session.controller_epoch = 0
        self._trust()
        self.pause()

    def on_image(self, now_ms: int, joined_at: MetadataOffset) -> None:
        """The image advanced, or the store answered: unfence brokers and elect leaders as needed.

        `joined_at` is the log's end when this broker joined or rejoined: it did not watch earlier registrations.
        """
        image = self._session.image
        if self._brokers is not image.brokers:
            self._brokers = image.brokers
            self._note_brokers(joined_at)
        if not self.held:
            return
        if image.controller_epoch > self._session.controller_epoch:
            self.lost()
            return
        self._let_in()
        self._look_for_waiting(now_ms)
        self._look_who_is_alive()
        self._electing.look(now_ms)
        self._unfinished.look(now_ms)
        seen = (image.brokers, image.topics, image.default_broker_configs)
        if self._look_over_due_ms is None and not _same(seen, self._looked_over):
            self._look_over_due_ms = now_ms + self._settings.leader_imbalance_check_interval_ms

    def look_again(self) -> None:
        """A partition lost its leader though no broker changed: check for elections again with the next image."""
        self._electing.look_again()

    def on_time(self, now_ms: int) -> None:
        """Run the due timers."""
        for node_id, letting in list(self._letting_in.items()):
            if letting.due_ms is not None and letting.due_ms <= now_ms:
                self._try_again(node_id, letting)
        if self._look_again_ms is not None and self._look_again_ms <= now_ms:
            self._look_again_ms = None
            self._beat_by(now_ms)
        if self._look_over_due_ms is not None and self._look_over_due_ms <= now_ms:
            image = self._session.image
            self._look_over_due_ms = None
            self._looked_over = (image.brokers, image.topics, image.default_broker_configs)
            self._electing.look_over(now_ms, hand_back=self._settings.auto_leader_rebalance)
        self._unfinished.on_time(now_ms)

    # ---------------------------------------------------------------------------------------------- unfencing

    def _note_brokers(self, joined_at: MetadataOffset) -> None:
        for node_id, broker in self._session.image.brokers.items():
            epoch = broker.broker_epoch
            is_new, self._known[node_id] = self._known.get(node_id) != epoch, epoch
            if broker.state is not BrokerState.FENCED:
                self._registered.pop(node_id, None)
                self._letting_in.pop(node_id, None)
            elif is_new and epoch >= joined_at:
                self._registered[node_id] = epoch

    def _let_myself_in(self) -> None:
        """Unfence this broker itself, without waiting for its registration in the image: it is alive.

        The elections that this makes possible are sent right behind.
        """
        session = self._session
        if self._is_active():
            return
        me = session.image.brokers.get(session.node_id)
        self._letting_in[session.node_id] = letting = _Letting(session.broker_epoch, len(UNFENCE_RETRIES_MS))
        self._unfence(session.node_id, letting)
        if me is not None:
            lossy_epoch = session.broker_epoch if session.is_lossy else me.lossy_epoch
            active = replace(me, broker_epoch=session.broker_epoch, state=BrokerState.ACTIVE, lossy_epoch=lossy_epoch)
            self._electing.look_ahead(_with_broker(session.image, active))

    def _is_active(self) -> bool:
        """Whether the image shows this broker unfenced under this epoch."""
        me = self._session.image.brokers.get(self._session.node_id)
        return me is not None and me.broker_epoch == self._session.broker_epoch and me.state is not BrokerState.FENCED

    def _may_be_first_of_many(self, now_ms: int) -> bool:
        """Whether this machine just came back from a power loss, which other brokers recorded as ACTIVE may share."""
        session = self._session
        return session.is_lossy and now_ms - session.registered_ms < self._settings.patience_ms

    def _look_who_is_alive(self) -> None:
        """Resume elections once every broker recorded as ACTIVE proved to be alive or was fenced."""
        image = self._session.image
        if not self._is_wary or image.offset < self._since_offset:
            return
        for broker in image.brokers.values():
            if (
                broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
                and broker.broker_epoch < self._session.broker_epoch
                and not self._detector.has_moved(broker)
            ):
                return
        self._trust()

    def _trust(self) -> None:
        self._is_wary = False
        self._electing.release()

    def _let_in(self) -> None:
        """Begin to unfence newly registered brokers."""
        brokers = self._session.image.brokers
        for node_id, epoch in self._registered.items():
            letting, broker = self._letting_in.get(node_id), brokers.get(node_id)
            if letting is not None and letting.broker_epoch == epoch:
                continue
            if broker is not None and broker.broker_epoch == epoch and broker.state is BrokerState.FENCED:
                self._letting_in[node_id] = letting = _Letting(epoch)
                self._unfence(node_id, letting)
        self._registered.clear()

    def _look_for_waiting(self, now_ms: int) -> None:
        """Read the counters soon: brokers that registered before the election may be alive."""
        image = self._session.image
        if self._taken_at is None or image.offset < self._taken_at:
            return
        self._taken_at = None
        fenced = [n for n, broker in image.brokers.items() if broker.state is BrokerState.FENCED]
        if any(node_id not in self._letting_in for node_id in fenced):
            self._beat_by(now_ms)
            self._look_again_ms = now_ms + LOOK_AFTER_MS

    def _try_again(self, node_id: NodeId, letting: _Letting) -> None:
        broker = self._session.image.brokers.get(node_id)
        if broker is not None and broker.broker_epoch == letting.broker_epoch and broker.state is BrokerState.FENCED:
            letting.due_ms = None
            self._unfence(node_id, letting)
        else:
            del self._letting_in[node_id]

    def _unfence(self, node_id: NodeId, letting: _Letting) -> None:
        """Call `unfence`; `letting` stays until the image shows the broker ACTIVE, or the attempt is abandoned."""
        term = self._session.controller_epoch

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if term != self._session.controller_epoch or self._letting_in.get(node_id) is not letting:
                return
            if outcome.code == "NOT_CAUGHT_UP" and letting.tries < len(UNFENCE_RETRIES_MS):
                letting.due_ms = now_ms + UNFENCE_RETRIES_MS[letting.tries]
                letting.tries += 1
            elif outcome.code != "OK":
                del self._letting_in[node_id]
                if outcome.code not in ("STALE_EPOCH", "NOT_CAUGHT_UP"):
                    self._failed(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": node_id, "target_epoch": letting.broker_epoch}
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
                self._failed(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": broker.node_id, "target_epoch": broker.broker_epoch, "fast": fast}
        session.send("fence", arguments, on_reply)
        self._electing.detected(now_ms)
        self._electing.look_ahead(_with_fenced(session.image, broker.node_id))

    # --------------------------------------------------------------------------------- snapshots and failures

    def _trim_when_long(self) -> None:
        image = self._session.image
        if image.offset - self._trimmed_at < TRIM_EVERY:
            return
        self._trimmed_at = image.offset
        arguments: dict[str, object] = {
            "snapshot_offset": image.offset,
            "snapshot_hash": image.chain_hash,
            "keep": KEEP_RECORDS,
        }

        def send(snapshot: object) -> None:
            if self.held:
                self._session.send("trim", {"snapshot": snapshot, **arguments}, self._on_trimmed)

        # Writing a snapshot of ten thousand partitions takes a tenth of a second: it must not delay heartbeats.
        self._session.put(Work(lambda: "".join(json_pieces(write_snapshot(image).payload)), send))

    def _on_trimmed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            self._session.say("info", "metadata-log-trimmed", records=outcome.value.get("trimmed"))
        else:
            self._failed(outcome, now_ms)

    def _failed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "FENCED_CONTROLLER":
            self.lost()
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
