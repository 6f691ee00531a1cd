"""Taking the controller's office: when a broker tries, and who goes first.

The office is a lease without a clock of its own: the holder's heartbeats count up, and everybody else times on his own
clock how long that counter stands still. The store decides: it gives the office away when its holder is known to be
gone, or when a caller names the very count that the holder still stands at.

Only the controller epoch fences an old holder; all that is timed here is when to try.
"""

from collections.abc import Callable
from dataclasses import dataclass

from yak.cluster.heart import HeartbeatAnswer
from yak.cluster.image import BrokerInfo, Image
from yak.cluster.link import Link
from yak.cluster.member_state import MembershipSettings
from yak.cluster.records import BrokerState
from yak.cluster.sight_gaps import SightGaps
from yak.ids import BrokerEpoch, MetadataOffset, NodeId
from yak.seams.metadata_store import StoreOutcome

HOLD_BACK_MS = 100
"""How long a broker waits when another one is meant to take the office before it."""
RETRY_MS = 250


class StandstillWatch:
    """How long a value has been seen to stand still, on our own clock; gaps in what we see are not held against it."""

    def __init__(self, gaps: SightGaps) -> None:
        self._gaps = gaps
        self._value: tuple[int, int] | None = None
        self._since_ms = 0
        self._asked_ms = 0

    def restart(self) -> None:
        """Forget what was seen."""
        self._value = None
        self._gaps.reset()

    def observe(self, value: tuple[int, int], asked_ms: int, now_ms: int) -> None:
        """The value as answered at `now_ms` to a question of `asked_ms`."""
        uncounted_ms = self._gaps.uncounted_ms(now_ms)
        if self._value != value or uncounted_ms is None:
            self._value = value
            self._since_ms = now_ms
        else:
            self._since_ms += uncounted_ms
        self._asked_ms = asked_ms

    def still_for_ms(self) -> int:
        """For how long it certainly stood still: from the first answer to the last question."""
        return 0 if self._value is None else max(0, self._asked_ms - self._since_ms)

    @property
    def value(self) -> tuple[int, int] | None:
        """What was seen last."""
        return self._value


@dataclass(slots=True, frozen=True)
class Deposed:
    """A holder that the store fenced for us while we took its office, and since when we took it for dead."""

    node_id: NodeId
    broker_epoch: BrokerEpoch
    since_ms: int


class Candidacy:
    """One broker's wish for the office, while it does not hold it.

    `on_taken(outcome, deposed, now_ms)` is called when the office is ours, `on_held` when the store says that it is
    another's, `on_refused` for any other refusal, before which `on_takeover_failed` is called.
    """

    def __init__(
        self,
        link: Link,
        role: str,
        settings: MembershipSettings,
        *,
        on_taken: Callable[[StoreOutcome, Deposed | None, int], None],
        on_held: Callable[[], None],
        on_refused: Callable[[StoreOutcome, int], None],
        on_takeover_failed: Callable[[], None],
    ) -> None:
        self._link = link
        self._on_takeover_failed = on_takeover_failed
        self._role = role
        self._patience_ms = settings.patience_ms
        self._on_taken = on_taken
        self._on_held = on_held
        self._on_refused = on_refused
        self._watch = StandstillWatch(SightGaps(settings.gap_ms, settings.patience_ms))
        self._suspect: Deposed | None = None
        self._held_at: MetadataOffset = -1
        """The log's end when the store said last that somebody holds the office: our image may be older."""
        self._asking = False
        self._held_back = False
        self._not_before_ms = 0
        self.is_withdrawn = False
        """A broker that stops does not want the office."""
        self.due_ms: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether we know that the office is ours, or another's."""
        return not self._asking

    def open(self) -> None:
        """We are registered and the store answers: take the office, make sure of it, or hear who has it."""
        self.pause()
        self._watch.restart()
        self._held_at = -1
        self._not_before_ms = 0
        if self._link.controller_epoch or not self.is_withdrawn:
            self._ask({}, None)

    def pause(self) -> None:
        """The store is away or not ours."""
        self._asking = False
        self._suspect = None
        self._let_go()

    def on_heartbeat(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        """What the store says of the lease, with the answer to a heartbeat of ours."""
        self._watch.observe((answer.controller_epoch, answer.renewals), answer.asked_ms, now_ms)
        self.consider(now_ms)

    def on_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> bool:
        """Nobody listens at this broker's address any more; gives whether that makes us go for the office."""
        image = self._link.image
        if (image.controller_id, image.controller_broker_epoch) != (node_id, broker_epoch):
            return False
        self._suspect = Deposed(node_id, broker_epoch, now_ms)
        self.consider(now_ms)
        return True

    def on_time(self, now_ms: int) -> None:
        """The time that `due_ms` named has come."""
        self.due_ms = None
        self.consider(now_ms)

    def consider(self, now_ms: int) -> None:
        """Try for the office if there is a reason; a broker that is not first in line waits a moment before."""
        if self._link.controller_epoch or self._asking or self.is_withdrawn:
            return
        claim = self._claim(now_ms)
        if claim is None:
            self._let_go()
            return
        if not self._held_back and self._is_behind_another():
            self._held_back = True
            self._not_before_ms = max(self._not_before_ms, now_ms + HOLD_BACK_MS)
        if now_ms < self._not_before_ms:
            self.due_ms = self._not_before_ms
            return
        self._let_go()
        self._ask(*claim)

    # ------------------------------------------------------------------------------------------------ inside

    def _let_go(self) -> None:
        self._held_back = False
        self.due_ms = None

    def _claim(self, now_ms: int) -> tuple[dict[str, object], Deposed | None] | None:
        """The arguments that go with our reason, and the holder we would fence; None without a reason."""
        image, me = self._link.image, self._me()
        holder = holder_of(image)
        if holder is None:
            return ({}, None) if image.offset > self._held_at and me is not None else None
        if me is None:
            return None
        if self._is_first(me) and holder.role == "follower" and image.offset > self._held_at:
            return {}, None
        suspect = self._suspect
        is_suspect = suspect is not None and (suspect.node_id, suspect.broker_epoch) == (
            holder.node_id,
            holder.broker_epoch,
        )
        if is_suspect and me.state is BrokerState.ACTIVE:
            return {"claimed_epoch": image.controller_epoch, "fast": True}, suspect
        if self._watch.value is not None and self._watch.still_for_ms() >= self._patience_ms:
            epoch, renewals = self._watch.value
            claim: dict[str, object] = {"claimed_epoch": epoch, "claimed_renewals": renewals}
            deposed = Deposed(holder.node_id, holder.broker_epoch, now_ms)
            return claim, deposed if epoch == image.controller_epoch else None
        return None

    def _me(self) -> BrokerInfo | None:
        """Our registration as the image has it; None while it has another one, or none, or one that was fenced."""
        me = self._link.image.brokers.get(self._link.node_id)
        is_ours = me is not None and me.broker_epoch == self._link.broker_epoch and not me.must_register_anew
        return me if is_ours else None

    def _is_first(self, broker: BrokerInfo) -> bool:
        return broker.state is BrokerState.ACTIVE and broker.role == "leader"

    def _is_behind_another(self) -> bool:
        """Whether an alive broker should have the office rather than we: leader-role first, then who is ACTIVE."""
        image, me = self._link.image, self._me()
        if me is not None and self._is_first(me):
            return False
        is_active = me is not None and me.state is BrokerState.ACTIVE
        return any(
            self._is_first(broker) or (broker.state is BrokerState.ACTIVE and not is_active)
            for broker in image.brokers.values()
            if broker.node_id not in (self._link.node_id, image.controller_id)
        )

    def _ask(self, claim: dict[str, object], deposed: Deposed | None) -> None:
        self._asking = True
        self._suspect = None

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            self._asking = False
            if outcome.code == "OK":
                self._on_taken(outcome, deposed, now_ms)
            elif outcome.code == "LEASE_HELD":
                self._on_held()
                self._held_at = outcome.offset
                self._watch.restart()
                epoch, renewals = outcome.value.get("controller_epoch"), outcome.value.get("lease_n")
                if isinstance(epoch, int) and isinstance(renewals, int):
                    self._watch.observe((epoch, renewals), now_ms, now_ms)
                if claim.get("fast") and claim["claimed_epoch"] == epoch:
                    # Too many brokers were fenced this way just now: left to the slow way.
                    self._link.say("warning", "controller-takeover-put-off", controller_epoch=epoch)
            else:
                self._not_before_ms = now_ms + RETRY_MS
                self._on_takeover_failed()
                self._on_refused(outcome, now_ms)

        self._link.send("acquire_lease", claim, on_reply)


def holder_of(image: Image) -> BrokerInfo | None:
    """The broker that has the office; None when anybody may take it.

    A FENCED holder has it: it registered just now and lets itself in next.
    """
    holder = image.brokers.get(image.controller_id)
    if holder is None or holder.broker_epoch != image.controller_broker_epoch:
        return None
    return None if holder.state is BrokerState.CLOSED else holder
