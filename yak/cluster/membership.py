"""The lifecycle of one broker in the cluster: a state machine without I/O, driven by the broker core.

    DISCONNECTED -> VERIFYING -> (BOOTSTRAPPING ->) REGISTERING -> CATCHING_UP -> ACTIVE
                        ^                                                         |
                        +---------- FROZEN (the store lost the history) <---------+        REFUSED: for good

A broker that was fenced although it is alive registers again: ACTIVE -> REGISTERING.

A broker uses a store only while the store holds the metadata history that the broker has on disk. If the store was
rolled back, emptied or forked, or belongs to another cluster, the membership freezes: produce and fetch go on and
metadata cannot change. The broker asks the store again every few seconds, since an operator may bring the history back.
Only a broker with neither an image nor a `meta.properties` creates a new cluster.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence

from yak.cluster import refusals
from yak.cluster.changes import STORE_AWAY, Changes
from yak.cluster.controller import ANSWER_AFTER_MS, Controller
from yak.cluster.fast_fences import FastFences
from yak.cluster.heartbeat import HeartbeatAnswer, Heartbeats
from yak.cluster.high_watermarks import HighWatermarks
from yak.cluster.image import Image
from yak.cluster.joining import Joining
from yak.cluster.lease import Candidacy
from yak.cluster.link import FREEZING_CODES, Link
from yak.cluster.member_state import Identity, MembershipSettings, MemberState
from yak.cluster.outputs import BecameReady, Left, Output
from yak.cluster.records import BrokerState, Kind
from yak.cluster.restoring import WhatIsHeld, holds_nothing
from yak.cluster.standing import Standing
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, LeaderEpoch, MetadataOffset, NodeId, Nonce, Offset
from yak.protocol.peer_proof import ClusterSecret
from yak.seams.dice import Dice
from yak.seams.metadata_store import StoreOutcome, StoreRequest, TailedRecord

__all__ = ["Identity", "MemberState", "Membership", "MembershipSettings"]


class Membership:
    """The state machine. Every input method returns the outputs that it leads to, in order."""

    def __init__(
        self,
        identity: Identity,
        image: Image,
        *,
        next_nonce: Callable[[], Nonce],
        dice: Dice,
        settings: MembershipSettings | None = None,
        secret: ClusterSecret | None = None,
        held: WhatIsHeld = holds_nothing,
    ) -> None:
        self._settings = settings = settings or MembershipSettings()
        self._link = link = Link(identity.node_id, image, next_nonce)
        self.elections = link.elections
        """The elections that this broker ran as the controller since it started."""
        link.cluster_id = image.cluster_id or identity.cluster_id or ""
        self._standing = standing = Standing(link, settings.recheck_ms)
        self._joining = Joining(
            link,
            standing,
            identity,
            settings,
            dice,
            secret=secret,
            held=held,
            on_joined=self._joined,
            on_refused=self._on_refusal,
        )
        self.heart = Heartbeats(link, settings.heartbeat_interval_ms, self._on_heartbeat, self._on_refusal)
        self._fast_fences = FastFences()
        self._office = Controller(
            link,
            settings,
            beat_by=self.heart.hasten,
            on_refused=self._on_refusal,
            on_fast_fence_failed=self._fast_fences.pause,
            full=lambda: self.heart.full,
        )
        self._candidacy = Candidacy(
            link,
            identity.role,
            settings,
            on_taken=self._office.taken,
            on_held=self._office.lost,
            on_refused=self._on_refusal,
            on_takeover_failed=self._fast_fences.pause,
        )
        self._changes = Changes(link, standing.freeze)
        self._high_watermarks = HighWatermarks(link, settings.high_watermark_interval_ms)
        standing.parts = (
            self.heart,
            self._candidacy,
            self._office,
            self._fast_fences,
            self._high_watermarks,
            self._joining.restoring,
        )
        self._target: MetadataOffset = 0
        """The log's end when this broker joined: an older image is incomplete."""
        self._told_epoch: BrokerEpoch = 0
        """The newest broker epoch that this broker reported to the controller as on disk."""
        self._is_stopping = False
        self._process_id = ""
        self._unsafe: tuple[str, ...] = ()

    # ------------------------------------------------------------------------------------------------- views

    @property
    def state(self) -> MemberState:
        """The broker's state towards the metadata store."""
        return self._standing.state

    @property
    def reason(self) -> str:
        """The reason for the state, as text; empty when all is well."""
        standing = self._standing
        return f"{standing.reason}; {standing.note}" if standing.note else standing.reason

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The broker epoch, 0 before registration."""
        return self._link.broker_epoch

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._office.held

    def refusal(self) -> PeerError | None:
        """The error for a client that asks for a metadata change now; None when changes are possible."""
        if self.state is MemberState.ACTIVE:
            return None
        if self.state is MemberState.DISCONNECTED:
            return PeerError(ErrorCode.request_timed_out, STORE_AWAY)
        words = f"Metadata cannot be changed now ({self.state}: {self.reason}). Nothing was changed; try again."
        return PeerError(ErrorCode.request_timed_out, words)

    def describe(self) -> dict[str, object]:
        """The membership for people and scripts (`yak cluster`)."""
        image = self._link.image
        return {
            "state": self.state.value,
            "reason": self.reason,
            "cluster_id": self._link.cluster_id,
            "incarnation": image.incarnation,
            "node_id": self._link.node_id,
            "broker_epoch": self.broker_epoch,
            "controller_id": image.controller_id,
            "controller_epoch": image.controller_epoch,
            "is_controller": self.is_controller,
            "metadata_offset": image.offset,
            "store_process_id": self._process_id,
            "unsafe_settings": list(self._unsafe),
        }

    def next_due(self) -> int | None:
        """When to call `on_time`, in ms."""
        dues = [*self._standing.dues.values(), self.heart.due_ms, self._candidacy.due_ms, self._office.due_ms]
        if self.state is MemberState.ACTIVE:
            dues.append(self._high_watermarks.due_ms())
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def on_connected(self, process_id: str, unsafe: Sequence[str], now_ms: int) -> list[Output]:
        """The store connected; it may be another process, with another history, than before."""
        del now_ms
        if self._standing.is_over:
            return []
        link = self._link
        if self._process_id and process_id != self._process_id:
            link.say("warning", "metadata-store-restarted", process_id=process_id)
        self._process_id = process_id
        self._unsafe = tuple(unsafe)
        for words in self._unsafe:
            link.say("warning", "metadata-store-unsafe", setting=words)
        standing = self._standing
        standing.drop_calls()
        if self.state not in (MemberState.FROZEN, MemberState.DISCONNECTED):
            standing.move(MemberState.DISCONNECTED, "the store connected anew")
        if self._unsafe and self._settings.refuse_unsafe_store:
            standing.refuse(refusals.unsafe_store(self._unsafe))
        else:
            self._joining.verify()
        return link.take_outputs()

    def on_lost(self, reason: str, now_ms: int) -> list[Output]:
        """The store does not answer: every call in flight is dropped, and may or may not have taken effect."""
        del now_ms
        if not self._standing.is_over:
            self._standing.lose(reason)
        return self._link.take_outputs()

    def on_replied(self, nonce: Nonce, outcome: StoreOutcome, now_ms: int) -> list[Output]:
        """The store answered a call; a reply to an abandoned call is ignored."""
        handler = self._link.take_handler(nonce)
        if handler is not None:
            handler(outcome, now_ms)
            self._progress(now_ms)
        return self._link.take_outputs()

    def admit(self, records: Sequence[TailedRecord], now_ms: int) -> tuple[list[TailedRecord], list[Output]]:
        """The records that continue this broker's history, to be written to disk; known ones are dropped.

        Any other record shows that the store has another history: the membership freezes.
        """
        good: list[TailedRecord] = []
        if self.state in (MemberState.DISCONNECTED, MemberState.FROZEN, MemberState.REFUSED, MemberState.LEFT):
            return good, []
        for record in records:
            offset, chain_hash = self._joining.admitted
            if record.offset <= offset:
                continue
            follows = record.offset == offset + 1 and record.previous_hash == chain_hash
            if record.kind == Kind.SNAPSHOT and not self._joining.restoring.may_admit(record):
                self._standing.freeze(StoreOutcome("WRONG_INCARNATION", record.offset, record.chain_hash), now_ms)
                break
            if not follows and record.kind != Kind.SNAPSHOT:
                value: dict[str, object] = {"message": f"record {record.offset} does not follow {offset}"}
                self._standing.freeze(StoreOutcome("FORKED", record.offset, record.chain_hash, value), now_ms)
                break
            self._joining.admitted = (record.offset, record.chain_hash)
            good.append(record)
        return good, self._link.take_outputs()

    def on_image(self, image: Image, now_ms: int, *, has_leaderless: bool = False) -> list[Output]:
        """Use the new image, with the admitted records applied. `has_leaderless`: some left a partition leaderless."""
        if has_leaderless:
            self._office.look_again()
        if image.controller_epoch != self._link.image.controller_epoch and self.state is MemberState.CATCHING_UP:
            # The new controller does not know yet that this broker is alive.
            self.heart.hasten(now_ms + ANSWER_AFTER_MS)
        self._link.image = image
        self._joining.restoring.on_image()
        self._changes.on_image()
        self._progress(now_ms)
        return self._link.take_outputs()

    def on_time(self, now_ms: int) -> list[Output]:
        """Run the due timers."""
        dues = self._standing.dues
        for name in [name for name, due_ms in dues.items() if due_ms <= now_ms]:
            if dues.pop(name, None) is None:
                continue
            if name == "recheck":
                self._joining.verify()
            elif name == "register":
                self._joining.register()
            elif name == "leave":
                self._standing.leave("the metadata store did not answer in time")
        self.heart.on_time(now_ms)
        if self._candidacy.due_ms is not None and self._candidacy.due_ms <= now_ms:
            self._candidacy.on_time(now_ms)
        if self._office.due_ms is not None and self._office.due_ms <= now_ms:
            self._office.on_time(now_ms)
        if self.state is MemberState.ACTIVE:
            due_ms = self._high_watermarks.due_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._high_watermarks.report(now_ms)
        return self._link.take_outputs()

    def on_worked(self, done: Callable[[object], None], result: object) -> list[Output]:
        """A `Work` ended."""
        done(result)
        return self._link.take_outputs()

    def on_peer_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> list[Output]:
        """Two probes found that a broker's address refuses connections.

        The controller fences that broker. If it is the controller, this broker tries to become controller.
        """
        if self.state is not MemberState.ACTIVE or self._is_stopping:
            return []
        if self._fast_fences.is_recent(node_id, broker_epoch, now_ms):
            return []
        whose = self._office if self._office.held else self._candidacy
        if whose.on_dead(node_id, broker_epoch, now_ms):
            self._fast_fences.begin(node_id, broker_epoch, now_ms)
        return self._link.take_outputs()

    def begin_stopping(self, now_ms: int) -> list[Output]:
        """Begin a controlled shutdown: leaderships move away. Sends nothing while the store is unreachable."""
        del now_ms
        self._is_stopping = self._candidacy.is_withdrawn = True
        if self._standing.is_joined:
            self._say_stopping()
        return self._link.take_outputs()

    def leave(self, now_ms: int) -> list[Output]:
        """Leave the cluster in order, if the store answers soon."""
        self._is_stopping = self._candidacy.is_withdrawn = True
        standing = self._standing
        if standing.is_leaving or standing.is_over:
            self._link.put(Left())
        elif not standing.is_joined:
            standing.leave("not a member at this moment")
        else:
            standing.is_leaving = True
            standing.dues["leave"] = now_ms + self._settings.leave_timeout_ms
            self._link.send("begin_stop", {"state": BrokerState.CLOSED.value}, self._on_closed)
        return self._link.take_outputs()

    def begin(self, requests: Sequence[StoreRequest], *, when_joined: bool = False) -> tuple[int, list[Output]]:
        """Send a change; `ChangeDone` with the returned id tells its end. Raises PeerError when it cannot be sent.

        With `when_joined` it is sent right behind the registration, before the broker is unfenced.
        """
        if when_joined and not self._standing.is_joined:
            return self._changes.hold(requests), []
        if not when_joined and (refusal := self.refusal()) is not None:
            raise refusal
        return self._changes.begin(requests), self._link.take_outputs()

    def abandon(self, change_id: int) -> None:
        """Stop waiting for this change; it may still take effect."""
        self._changes.abandon(change_id)

    def note_high_watermark(
        self,
        topic_id: uuid.UUID,
        partition: int,
        leader_epoch: LeaderEpoch,
        high_watermark: Offset,
        log_end_offsets: Mapping[NodeId, Offset],
    ) -> None:
        """Note that a high watermark or a replica's log end moved; the next report carries it."""
        self._high_watermarks.note(topic_id, partition, leader_epoch, high_watermark, log_end_offsets)

    # -------------------------------------------------------------------------------------------- transitions

    def _joined(self, outcome: StoreOutcome, now_ms: int) -> None:
        """This broker is registered: send heartbeats, find the controller, and resend the clients' changes."""
        self._target = outcome.offset
        self._standing.move(MemberState.CATCHING_UP, f"reading the metadata log up to {self._target}")
        self.heart.start(now_ms)
        self._candidacy.open()
        self._changes.resend()
        if self._is_stopping:
            self._say_stopping()

    def _progress(self, now_ms: int) -> None:
        """Move on as far as the image now allows."""
        if not self._standing.is_joined:
            return
        image = self._link.image
        broker = image.brokers.get(self._link.node_id)
        here = broker is not None and broker.broker_epoch == self.broker_epoch
        if here and self._told_epoch != self.broker_epoch:
            # The controller unfences a broker only with its registration on its own disk: report that at once.
            self._told_epoch = self.broker_epoch
            self.heart.beat(now_ms)
        self._candidacy.consider(now_ms)
        self._office.on_image(now_ms, self._target)
        if image.offset < self._target:
            return
        state = broker.state if broker is not None and here else BrokerState.FENCED
        if broker is not None and here and broker.must_register_anew and not self._is_stopping:
            self._come_back()
            return
        if state is BrokerState.ACTIVE:
            self.heart.let_in(self.broker_epoch)
        self._settle(is_in=state is BrokerState.ACTIVE or (self._is_stopping and state is BrokerState.STOPPING))

    def _settle(self, *, is_in: bool) -> None:
        """Move between CATCHING_UP and ACTIVE: ACTIVE needs the whole image, no fencing, settled elections."""
        standing = self._standing
        if self.state is MemberState.ACTIVE:
            if not is_in and not standing.is_leaving:
                standing.move(MemberState.CATCHING_UP, "waiting for the controller to let us in")
        elif is_in and self._candidacy.is_settled and (self._office.is_settled() or not self._office.held):
            standing.move(MemberState.ACTIVE)
            if standing.is_ready:
                self._link.say("info", "metadata-caught-up", metadata_offset=self._link.image.offset)
            else:
                standing.is_ready = True
                self._link.put(BecameReady())
        elif is_in:
            standing.reason = "waiting for leaders to be elected"
        else:
            standing.reason = "waiting for the controller to let us in"

    def _come_back(self) -> None:
        """Register again with a new broker epoch after a fencing: others may have decided on operations in flight."""
        self._link.say("warning", "this-broker-fenced", node_id=self._link.node_id, broker_epoch=self.broker_epoch)
        self._standing.drop_calls()
        self._office.lost()
        self._joining.register(renew=True)

    def _on_heartbeat(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        if self._office.held:
            self._office.on_heartbeats(answer, now_ms)
        else:
            self._candidacy.on_heartbeat(answer, now_ms)

    def _say_stopping(self) -> None:
        self._link.send("begin_stop", {"state": BrokerState.STOPPING.value}, self._on_stopping)

    def _on_stopping(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code != "OK":
            self._on_refusal(outcome, now_ms)

    def _on_refusal(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Handle the refusal of a call of the membership itself."""
        if outcome.code in FREEZING_CODES:
            self._standing.freeze(outcome, now_ms)
        elif outcome.code == "STALE_BROKER_EPOCH":
            # Unregistered, or another process has this node id: `verify` shows which.
            if self._standing.is_joined and not self._standing.is_leaving:
                self._standing.drop_calls()
                self._joining.verify()
        else:
            words = outcome.value.get("message", "")
            self._link.say("warning", "metadata-call-refused", code=outcome.code, reason=words)
            if self.state is MemberState.REGISTERING:
                self._standing.dues["register"] = now_ms + self._settings.recheck_ms

    def _on_closed(self, outcome: StoreOutcome, now_ms: int) -> None:
        del now_ms
        self._standing.leave("" if outcome.code == "OK" else outcome.code)
