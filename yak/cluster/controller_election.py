"""Controller election: when a broker tries to become controller, and which broker tries first.

The lease has no clock. The controller's heartbeats increase a counter, and every other broker measures on its own clock
how long the counter does not change. The store elects a caller in these cases:

- the controller is gone or CLOSED, or has the follower role where the caller is ACTIVE with the leader role;
- the caller names the exact present value of the controller's counter;
- an ACTIVE caller found that the controller's address refuses connections (`fast`, limited in number).

Only the controller epoch fences an old controller. The timers here only decide when to try.
"""

from collections.abc import Callable
from dataclasses import dataclass

from yak.cluster.heartbeat import HeartbeatAnswer
from yak.cluster.image import BrokerInfo, Image
from yak.cluster.pause_detection import PauseDetector
from yak.cluster.records import BrokerState
from yak.cluster.settings import ClusterSettings
from yak.cluster.store_session import StoreSession
from yak.ids import BrokerEpoch, MetadataOffset, NodeId
from yak.ports.metadata_store import StoreOutcome

DEFER_MS = 100
"""How long a broker waits for a broker that should become controller before it."""
RETRY_MS = 250


class LeaseWatch:
    """Measures by the local clock how long a value does not change; local pauses do not count."""

    def __init__(self, gaps: PauseDetector) -> None:
        self._gaps = gaps
        self.value: tuple[int, int] | None = None
        """The last value."""
        self._since_ms = 0
        self._sent_ms = 0

    def restart(self) -> None:
        """Forget the value."""
        self.value = None
        self._gaps.reset()

    def observe(self, value: tuple[int, int], sent_ms: int, now_ms: int) -> None:
        """Note the value of an answer at `now_ms` to a request at `sent_ms`."""
        paused_ms = self._gaps.paused_ms(now_ms)
        if self.value != value or paused_ms is None:
            self.value = value
            self._since_ms = now_ms
        else:
            self._since_ms += paused_ms
        self._sent_ms = sent_ms

    def unchanged_for_ms(self) -> int:
        """How long it certainly did not change: from the first answer to the last request."""
        return 0 if self.value is None else max(0, self._sent_ms - self._since_ms)


@dataclass(slots=True, frozen=True)
class FencedController:
    """The old controller, which the store fenced when it elected this broker, and since when it counted as dead."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    since_ms: int


class ControllerElection:
    """A broker's attempts to become controller.

    `on_elected(outcome, fenced, now_ms)` is called when this broker is elected, `on_other_elected` when the store names
    another controller. Any other refusal calls `on_takeover_failed` and then `on_refused`.
    """

    def __init__(
        self,
        session: StoreSession,
        role: str,
        settings: ClusterSettings,
        *,
        on_elected: Callable[[StoreOutcome, FencedController | None, int], None],
        on_other_elected: Callable[[], None],
        on_refused: Callable[[StoreOutcome, int], None],
        on_takeover_failed: Callable[[], None],
    ) -> None:
        self._session = session
        self._on_takeover_failed = on_takeover_failed
        self._role = role
        self._patience_ms = settings.patience_ms
        self._on_elected = on_elected
        self._on_other_elected = on_other_elected
        self._on_refused = on_refused
        self._watch = LeaseWatch(PauseDetector(settings.gap_ms, settings.patience_ms))
        self._suspect: FencedController | None = None
        self._refused_offset: MetadataOffset = -1
        """The log's end when the store last named another broker as controller: the local image may be older."""
        self._is_calling = False
        self._is_deferring = False
        self._not_before_ms = 0
        self.is_withdrawn = False
        """A stopping broker does not try to become controller."""
        self.due_ms: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it is known which broker is the controller."""
        return not self._is_calling

    def start(self) -> None:
        """Begin after the registration: become or stay controller, or learn which broker it is."""
        self.pause()
        self._watch.restart()
        self._refused_offset = -1
        self._not_before_ms = 0
        if self._session.controller_epoch or not self.is_withdrawn:
            self._call({}, None)

    def pause(self) -> None:
        """Stop: the store is unreachable or invalid."""
        self._is_calling = False
        self._suspect = None
        self._stop_deferring()

    def on_heartbeat(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        """Note the state of the lease, from the answer to this broker's heartbeat."""
        self._watch.observe((answer.controller_epoch, answer.renewals), answer.sent_ms, now_ms)
        self.consider(now_ms)

    def on_broker_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """A broker's address refuses connections; returns whether that makes this broker try to become controller."""
        image = self._session.image
        if (image.controller_id, image.controller_broker_epoch) != (node_id, broker_epoch):
            return False
        self._suspect = FencedController(node_id, broker_epoch, now_ms)
        self.consider(now_ms)
        return True

    def on_time(self, now_ms: int) -> None:
        """Try again at `due_ms`."""
        self.due_ms = None
        self.consider(now_ms)

    def consider(self, now_ms: int) -> None:
        """Try to become controller if there is a reason; a broker that is not first in line waits a moment before."""
        if self._session.controller_epoch or self._is_calling or self.is_withdrawn:
            return
        claim = self._claim(now_ms)
        if claim is None:
            self._stop_deferring()
            return
        if not self._is_deferring and self._should_defer():
            self._is_deferring = True
            self._not_before_ms = max(self._not_before_ms, now_ms + DEFER_MS)
        if now_ms < self._not_before_ms:
            self.due_ms = self._not_before_ms
            return
        self._stop_deferring()
        self._call(*claim)

    # ------------------------------------------------------------------------------------------------ inside

    def _stop_deferring(self) -> None:
        self._is_deferring = False
        self.due_ms = None

    def _claim(self, now_ms: int) -> tuple[dict[str, object], FencedController | None] | None:
        """The arguments for the call, and the controller that it would fence; None without a reason to try."""
        image, own = self._session.image, self._own_registration()
        controller = controller_of(image)
        if controller is None:
            return ({}, None) if image.offset > self._refused_offset and own is not None else None
        if own is None:
            return None
        if self._is_preferred(own) and controller.role == "follower" and image.offset > self._refused_offset:
            return {}, None
        suspect = self._suspect
        is_suspect = suspect is not None and (suspect.node_id, suspect.broker_epoch) == (
            controller.node_id,
            controller.broker_epoch,
        )
        if is_suspect and own.state is BrokerState.ACTIVE:
            return {"claimed_epoch": image.controller_epoch, "fast": True}, suspect
        if self._watch.value is not None and self._watch.unchanged_for_ms() >= self._patience_ms:
            epoch, renewals = self._watch.value
            claim: dict[str, object] = {"claimed_epoch": epoch, "claimed_renewals": renewals}
            fenced = FencedController(controller.node_id, controller.broker_epoch, now_ms)
            return claim, fenced if epoch == image.controller_epoch else None
        return None

    def _own_registration(self) -> BrokerInfo | None:
        """This broker's registration from the image; None if the image has another or none, or it was fenced."""
        own = self._session.image.brokers.get(self._session.node_id)
        is_ours = own is not None and own.broker_epoch == self._session.broker_epoch and not own.must_register_again
        return own if is_ours else None

    def _is_preferred(self, broker: BrokerInfo) -> bool:
        return broker.state is BrokerState.ACTIVE and broker.role == "leader"

    def _should_defer(self) -> bool:
        """Whether another live broker should become controller first: leader-role brokers, then ACTIVE ones."""
        image, own = self._session.image, self._own_registration()
        if own is not None and self._is_preferred(own):
            return False
        is_active = own is not None and own.state is BrokerState.ACTIVE
        return any(
            self._is_preferred(broker) or (broker.state is BrokerState.ACTIVE and not is_active)
            for broker in image.brokers.values()
            if broker.node_id not in (self._session.node_id, image.controller_id)
        )

    def _call(self, claim: dict[str, object], fenced: FencedController | None) -> None:
        self._is_calling = True
        self._suspect = None

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            self._is_calling = False
            if outcome.code == "OK":
                self._on_elected(outcome, fenced, now_ms)
            elif outcome.code == "LEASE_HELD":
                self._on_other_elected()
                self._refused_offset = outcome.offset
                self._watch.restart()
                epoch, renewals = outcome.value.get("controller_epoch"), outcome.value.get("lease_n")
                if isinstance(epoch, int) and isinstance(renewals, int):
                    self._watch.observe((epoch, renewals), now_ms, now_ms)
                if claim.get("fast") and claim["claimed_epoch"] == epoch:
                    # Too many brokers were fenced this way recently: the session timeout decides.
                    self._session.say("warning", "controller-election-delayed", controller_epoch=epoch)
            else:
                self._not_before_ms = now_ms + RETRY_MS
                self._on_takeover_failed()
                self._on_refused(outcome, now_ms)

        self._session.send("acquire_lease", claim, on_reply)


def controller_of(image: Image) -> BrokerInfo | None:
    """The controller by the image; None when any broker may become it.

    A FENCED controller counts: it registered just now and unfences itself next.
    """
    controller = image.brokers.get(image.controller_id)
    if controller is None or controller.broker_epoch != image.controller_broker_epoch:
        return None
    return None if controller.state is BrokerState.CLOSED else controller
