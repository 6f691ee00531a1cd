"""The controller's office while we hold it: letting brokers in, fencing those that are gone, electing leaders.

What fences an old controller is the controller epoch that its scripts carry, so nothing here has to be certain that we
still hold the office. Work is looked for when the image changed, or when a broker is known to be dead, not on a timer.

A broker comes in at once when its registration was just seen, and tried again for a moment while it has not written
that registration to its own disk; any other fenced broker when its heartbeats move. A broker that was fenced and is
alive registers anew by itself.

A controller that has just booted itself may be the first one back after all went down: the store still calls the others
ACTIVE. Elected now, a dead one would be the only member of the ISR, and if it comes back with a loss nobody could lead any
more. So such a controller elects nobody until each of the others beat, came back, or was fenced.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from yak.cluster.electing import Electing
from yak.cluster.failure_detector import FailureDetector
from yak.cluster.heart import HeartbeatAnswer
from yak.cluster.image import BrokerInfo, Image
from yak.cluster.lease import Deposed
from yak.cluster.link import FREEZING_CODES, Link
from yak.cluster.member_state import MembershipSettings
from yak.cluster.outputs import Work
from yak.cluster.records import BrokerState
from yak.cluster.snapshot import json_pieces, write_snapshot
from yak.cluster.unfinished import Unfinished
from yak.ids import BrokerEpoch, MetadataOffset, NodeId
from yak.seams.metadata_store import StoreOutcome

KEEP_RECORDS = 100_000
"""Records that stay in the store's log behind a snapshot, for brokers that come back after a while."""
TRIM_EVERY = 100_000
ANSWER_AFTER_MS = 50
"""A broker that waits to be let in beats this long after it saw a new controller, ..."""
LOOK_AFTER_MS = 100
"""... which reads the counters when it took the office, and again after this time."""
UNFENCE_RETRIES_MS = (30, 30, 60, 120, 240)
"""A broker that registered writes that to its disk and says so; meanwhile it is tried again after these times."""


@dataclass(slots=True)
class _Letting:
    """A broker on its way in: `due_ms` is None while a call is under way."""

    broker_epoch: BrokerEpoch
    tries: int = 0
    due_ms: int | None = None


class Office:
    """What a controller does.

    `beat_by(due_ms)` has our next heartbeat sent by then; its answer brings everybody's counters. `on_refused` gets what
    says that the store, or our registration, is not ours. `on_fast_fence_failed` is called when the store did not take a
    call that fences a broker on suspicion. `full` are the brokers without room for logs.
    """

    def __init__(
        self,
        link: Link,
        settings: MembershipSettings,
        *,
        beat_by: Callable[[int], None],
        on_refused: Callable[[StoreOutcome, int], None],
        on_fast_fence_failed: Callable[[], None],
        full: Callable[[], Collection[NodeId]],
    ) -> None:
        self._link = link
        self._on_fast_fence_failed = on_fast_fence_failed
        self._beat_by = beat_by
        self._settings = settings
        self._on_refused = on_refused
        self._detector = FailureDetector(settings.patience_ms, settings.gap_ms)
        self._electing = Electing(link, self._failed, unclean=settings.unclean_leader_election)
        self._unfinished = Unfinished(link, self._failed, full)
        self._letting_in: dict[NodeId, _Letting] = {}
        self._known = {node_id: broker.broker_epoch for node_id, broker in link.image.brokers.items()}
        self._registered: dict[NodeId, BrokerEpoch] = {}
        """Boots that registered in our sight, and were not ACTIVE in it yet: alive, or a moment ago."""
        self._brokers: object = None
        self._is_wary = False
        """Whether we do not know yet which of those that the store calls ACTIVE are alive."""
        self._since_offset: MetadataOffset = 0
        """The log's end when we took the office."""
        self._taken_at: MetadataOffset | None = None
        """The same, until we looked for brokers that were already waiting then."""
        self._looked_over: tuple[object, ...] = ()
        self._look_over_due_ms: int | None = None
        self._look_again_ms: int | None = None
        self._trimmed_at: MetadataOffset = 0

    # ------------------------------------------------------------------------------------------------- views

    @property
    def held(self) -> bool:
        """Whether we are the controller as far as we know."""
        return self._link.controller_epoch > 0

    def is_settled(self) -> bool:
        """Whether no election is under way or waiting for the image."""
        return self._electing.is_settled()

    @property
    def due_ms(self) -> int | None:
        """When `on_time` is wanted."""
        if not self.held:
            return None
        dues = [letting.due_ms for letting in self._letting_in.values()]
        dues += [self._look_over_due_ms, self._look_again_ms, self._unfinished.due_ms]
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def pause(self) -> None:
        """The store is away or not ours: no calls. The office, if held, is kept until another takes it."""
        self._detector.reset()
        self._electing.restart()
        self._unfinished.restart()
        self._letting_in.clear()
        self._look_over_due_ms = None
        self._looked_over = ()
        self._taken_at = self._look_again_ms = None

    def taken(self, outcome: StoreOutcome, deposed: Deposed | None, now_ms: int) -> None:
        """The office is ours, newly or still. `deposed` is the holder whom the store fenced for us."""
        link = self._link
        epoch = outcome.value["controller_epoch"]
        assert isinstance(epoch, int)
        self.pause()
        self._electing.restart(outcome.offset)
        self._taken_at = self._since_offset = outcome.offset
        if epoch != link.controller_epoch:
            link.controller_epoch = epoch
            link.elections.offices_taken += 1
            fields: dict[str, object] = {} if deposed is None else {"took_ms": now_ms - deposed.since_ms}
            link.say("info", "controller-office-taken", controller_epoch=epoch, **fields)
            if not self._is_active() or self._may_be_first_of_many(now_ms):
                self._is_wary = True
                self._electing.hold()
        self._electing.detected(now_ms if deposed is None else deposed.since_ms)
        if deposed is not None:
            link.say("warning", "broker-fenced", node_id=deposed.node_id, broker_epoch=deposed.broker_epoch)
            self._electing.look_ahead(_with_fenced(link.image, deposed.node_id))
        self._let_myself_in()
        self._let_in()

    def on_heartbeats(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        """All brokers' counters, read with our own heartbeat."""
        if answer.controller_epoch > self._link.controller_epoch:
            self.lost()
            return
        if answer.counters is None:
            # Asked before we had the office.
            return
        brokers = self._link.image.brokers
        self._detector.observe(answer.counters, brokers, now_ms)
        self._look_who_is_alive()
        self._electing.look(now_ms)
        for broker in self._detector.to_unfence(brokers):
            if broker.node_id not in self._letting_in:
                self._letting_in[broker.node_id] = letting = _Letting(broker.broker_epoch, len(UNFENCE_RETRIES_MS))
                self._unfence(broker.node_id, letting)
        for broker in self._detector.to_fence(brokers, now_ms):
            if broker.node_id != self._link.node_id:
                self._fence(broker, now_ms, fast=False)
        self._trim_when_long()

    def on_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """Nobody listens at this broker's address any more; gives whether that makes us fence it."""
        broker = self._link.image.brokers.get(node_id)
        if broker is None or broker.broker_epoch != broker_epoch or node_id == self._link.node_id:
            return False
        if broker.state not in (BrokerState.ACTIVE, BrokerState.STOPPING):
            return False
        self._fence(broker, now_ms, fast=True)
        return True

    def lost(self) -> None:
        """Another broker has the office."""
        if self.held:
            self._link.say("warning", "controller-office-lost", controller_epoch=self._link.controller_epoch)
        self._link.controller_epoch = 0
        self._trust()
        self.pause()

    def on_image(self, now_ms: int, joined_at: MetadataOffset) -> None:
        """The image moved on, or an answer came: see to those who want in, and to what wants a leader.

        `joined_at` is the log's end when we joined, or came back: registrations before it were not in our sight.
        """
        image = self._link.image
        if self._brokers is not image.brokers:
            self._brokers = image.brokers
            self._note_brokers(joined_at)
        if not self.held:
            return
        if image.controller_epoch > self._link.controller_epoch:
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
        """A partition lost its leader though no broker changed: look for another with the image that shows it."""
        self._electing.look_again()

    def on_time(self, now_ms: int) -> None:
        """Run what is due."""
        for node_id, letting in list(self._letting_in.items()):
            if letting.due_ms is not None and letting.due_ms <= now_ms:
                self._try_again(node_id, letting)
        if self._look_again_ms is not None and self._look_again_ms <= now_ms:
            self._look_again_ms = None
            self._beat_by(now_ms)
        if self._look_over_due_ms is not None and self._look_over_due_ms <= now_ms:
            image = self._link.image
            self._look_over_due_ms = None
            self._looked_over = (image.brokers, image.topics, image.default_broker_configs)
            self._electing.look_over(now_ms, hand_back=self._settings.auto_leader_rebalance)
        self._unfinished.on_time(now_ms)

    # --------------------------------------------------------------------------------------------- letting in

    def _note_brokers(self, joined_at: MetadataOffset) -> None:
        for node_id, broker in self._link.image.brokers.items():
            epoch = broker.broker_epoch
            is_new, self._known[node_id] = self._known.get(node_id) != epoch, epoch
            if broker.state is not BrokerState.FENCED:
                self._registered.pop(node_id, None)
                self._letting_in.pop(node_id, None)
            elif is_new and epoch >= joined_at:
                self._registered[node_id] = epoch

    def _let_myself_in(self) -> None:
        """Nobody has to be asked whether we are alive, so this does not wait for our own registration to come back.

        What we can lead is elected in the same breath.
        """
        link = self._link
        if self._is_active():
            return
        me = link.image.brokers.get(link.node_id)
        self._letting_in[link.node_id] = letting = _Letting(link.broker_epoch, len(UNFENCE_RETRIES_MS))
        self._unfence(link.node_id, letting)
        if me is not None:
            lossy_epoch = link.broker_epoch if link.is_lossy else me.lossy_epoch
            active = replace(me, broker_epoch=link.broker_epoch, state=BrokerState.ACTIVE, lossy_epoch=lossy_epoch)
            self._electing.look_ahead(_with_broker(link.image, active))

    def _is_active(self) -> bool:
        """Whether the image shows us let in already, in this boot."""
        me = self._link.image.brokers.get(self._link.node_id)
        return me is not None and me.broker_epoch == self._link.broker_epoch and me.state is not BrokerState.FENCED

    def _may_be_first_of_many(self, now_ms: int) -> bool:
        """Whether our machine just came back from a power loss, and others that the store calls ACTIVE may have had the same."""
        link = self._link
        return link.is_lossy and now_ms - link.registered_ms < self._settings.patience_ms

    def _look_who_is_alive(self) -> None:
        """Elect again as soon as nobody is left whom only an old record calls alive."""
        image = self._link.image
        if not self._is_wary or image.offset < self._since_offset:
            return
        for broker in image.brokers.values():
            if (
                broker.state in (BrokerState.ACTIVE, BrokerState.STOPPING)
                and broker.broker_epoch < self._link.broker_epoch
                and not self._detector.has_moved(broker)
            ):
                return
        self._trust()

    def _trust(self) -> None:
        self._is_wary = False
        self._electing.release()

    def _let_in(self) -> None:
        """Begin to unfence who registered in our sight."""
        brokers = self._link.image.brokers
        for node_id, epoch in self._registered.items():
            letting, broker = self._letting_in.get(node_id), brokers.get(node_id)
            if letting is not None and letting.broker_epoch == epoch:
                continue
            if broker is not None and broker.broker_epoch == epoch and broker.state is BrokerState.FENCED:
                self._letting_in[node_id] = letting = _Letting(epoch)
                self._unfence(node_id, letting)
        self._registered.clear()

    def _look_for_waiting(self, now_ms: int) -> None:
        """Brokers that registered before our time are alive if they beat now: ask soon, not only after an interval."""
        image = self._link.image
        if self._taken_at is None or image.offset < self._taken_at:
            return
        self._taken_at = None
        fenced = [n for n, broker in image.brokers.items() if broker.state is BrokerState.FENCED]
        if any(node_id not in self._letting_in for node_id in fenced):
            self._beat_by(now_ms)
            self._look_again_ms = now_ms + LOOK_AFTER_MS

    def _try_again(self, node_id: NodeId, letting: _Letting) -> None:
        broker = self._link.image.brokers.get(node_id)
        if broker is not None and broker.broker_epoch == letting.broker_epoch and broker.state is BrokerState.FENCED:
            letting.due_ms = None
            self._unfence(node_id, letting)
        else:
            del self._letting_in[node_id]

    def _unfence(self, node_id: NodeId, letting: _Letting) -> None:
        """Call `unfence`; `letting` stays until the image shows the broker ACTIVE, or this way is given up."""
        term = self._link.controller_epoch

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if term != self._link.controller_epoch or self._letting_in.get(node_id) is not letting:
                return
            if outcome.code == "NOT_CAUGHT_UP" and letting.tries < len(UNFENCE_RETRIES_MS):
                letting.due_ms = now_ms + UNFENCE_RETRIES_MS[letting.tries]
                letting.tries += 1
            elif outcome.code != "OK":
                del self._letting_in[node_id]
                if outcome.code not in ("STALE_EPOCH", "NOT_CAUGHT_UP"):
                    self._failed(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": node_id, "target_epoch": letting.broker_epoch}
        self._link.send("unfence", arguments, on_reply)

    # ------------------------------------------------------------------------------------------------ fencing

    def _fence(self, broker: BrokerInfo, now_ms: int, *, fast: bool) -> None:
        """Fence a broker, and elect right behind, on the image as it will be."""
        link = self._link
        named = {"node_id": broker.node_id, "broker_epoch": broker.broker_epoch, "fast": fast}

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if outcome.code == "OK":
                link.say("warning", "broker-fenced", **named)
            elif outcome.code == "TOO_MANY_FENCED":
                link.say("warning", "broker-not-fenced", **named, reason="too many were fenced the fast way just now")
            elif outcome.code != "STALE_EPOCH":
                if fast:
                    self._on_fast_fence_failed()
                self._failed(outcome, now_ms)

        arguments: dict[str, object] = {"target_id": broker.node_id, "target_epoch": broker.broker_epoch, "fast": fast}
        link.send("fence", arguments, on_reply)
        self._electing.detected(now_ms)
        self._electing.look_ahead(_with_fenced(link.image, broker.node_id))

    # ----------------------------------------------------------------------------------------------- the rest

    def _trim_when_long(self) -> None:
        image = self._link.image
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
                self._link.send("trim", {"snapshot": snapshot, **arguments}, self._on_trimmed)

        # a snapshot of ten thousand partitions takes a tenth of a second to write: not in the way of heartbeats
        self._link.put(Work(lambda: "".join(json_pieces(write_snapshot(image).payload)), send))

    def _on_trimmed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            self._link.say("info", "metadata-log-trimmed", records=outcome.value.get("trimmed"))
        else:
            self._failed(outcome, now_ms)

    def _failed(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "FENCED_CONTROLLER":
            self.lost()
        elif outcome.code in FREEZING_CODES or outcome.code == "STALE_BROKER_EPOCH":
            self._on_refused(outcome, now_ms)
        else:
            words = outcome.value.get("message", "")
            self._link.say("warning", "metadata-call-refused", code=outcome.code, reason=words)


def _with_broker(image: Image, broker: BrokerInfo) -> Image:
    """The image as it will be once the store did what was sent."""
    return replace(image, brokers={**image.brokers, broker.node_id: broker})


def _with_fenced(image: Image, node_id: NodeId) -> Image:
    return _with_broker(image, replace(image.brokers[node_id], state=BrokerState.FENCED))


def _same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
