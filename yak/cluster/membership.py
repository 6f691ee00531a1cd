"""One broker's membership in the cluster: a state machine without I/O, driven by the broker core.

    DISCONNECTED -> VERIFYING -> (BOOTSTRAPPING ->) REGISTERING -> CATCHING_UP -> ACTIVE
                        ^                                                         |
                        +------------- FROZEN (the store lost our history) <------+        REFUSED: for good

A store is used only while it holds the history that this broker has on disk. One that does not (rolled back, emptied,
forked, another cluster's) freezes the membership: the data path goes on, no metadata change is made, and the store is
asked again every few seconds, since an operator may bring the history back. A new cluster is made only by a broker
that knows none: neither its image nor its `meta.properties`.
"""

import base64
import uuid
from collections.abc import Callable, Sequence

from yak.cluster import refusals
from yak.cluster.changes import STORE_AWAY, Changes
from yak.cluster.high_watermarks import HighWatermarks
from yak.cluster.image import Image
from yak.cluster.link import FREEZING_CODES, Link
from yak.cluster.member_state import MOVES, Identity, MembershipSettings, MemberState
from yak.cluster.office import Office
from yak.cluster.outputs import BecameReady, Left, Output, Refuse, Tail
from yak.cluster.records import BrokerState, Kind
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, LeaderEpoch, MetadataOffset, Nonce, Offset
from yak.seams.dice import Dice
from yak.seams.metadata_store import StoreOutcome, StoreRequest, TailedRecord

__all__ = ["Identity", "MemberState", "Membership", "MembershipSettings"]


class Membership:
    """The machine. Every input method returns the outputs it leads to, in order."""

    def __init__(
        self,
        identity: Identity,
        image: Image,
        *,
        next_nonce: Callable[[], Nonce],
        dice: Dice,
        settings: MembershipSettings | None = None,
    ) -> None:
        self._identity = identity
        self._settings = settings or MembershipSettings()
        self._dice = dice
        self._link = link = Link(identity.node_id, image, next_nonce)
        link.cluster_id = image.cluster_id or identity.cluster_id or ""
        self._office = Office(
            link,
            lease_ms=self._settings.lease_ms,
            renew_ms=self._settings.lease_renew_ms,
            session_timeout_ms=self._settings.session_timeout_ms,
            on_refused=self._on_refusal,
        )
        self._changes = Changes(link, self._freeze)
        self._high_watermarks = HighWatermarks(link, self._settings.high_watermark_interval_ms)
        self._dues: dict[str, int] = {}
        self._admitted: tuple[MetadataOffset, str] = (image.offset, image.chain_hash)
        self._target: MetadataOffset = 0
        self._ready = False
        self._leaving = False
        self._observed_heartbeat: int | None = None
        self._process_id = ""
        self._unsafe: tuple[str, ...] = ()
        self.state = MemberState.DISCONNECTED
        self.reason = "the metadata store did not answer yet"

    # ------------------------------------------------------------------------------------------------- views

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """This boot's epoch, 0 before it is registered."""
        return self._link.broker_epoch

    @property
    def is_controller(self) -> bool:
        """Whether this broker holds the controller's office, as far as it knows."""
        return self._office.held

    def refusal(self) -> PeerError | None:
        """Why no metadata change can be made now, for the client that asks for one; None when it can."""
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
            "node_id": self._identity.node_id,
            "broker_epoch": self.broker_epoch,
            "controller_id": image.controller_id,
            "controller_epoch": image.controller_epoch,
            "is_controller": self.is_controller,
            "metadata_offset": image.offset,
            "store_process_id": self._process_id,
            "unsafe_settings": list(self._unsafe),
        }

    def next_due(self) -> int | None:
        """When `on_time` is wanted, in ms."""
        dues = list(self._dues.values())
        if self._office.due_ms is not None:
            dues.append(self._office.due_ms)
        if self.state is MemberState.ACTIVE and (due_ms := self._high_watermarks.due_ms()) is not None:
            dues.append(due_ms)
        return min(dues, default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def on_connected(self, process_id: str, unsafe: Sequence[str], now_ms: int) -> list[Output]:
        """The store answers; it may be another process, with another history, than before."""
        if self.state in (MemberState.REFUSED, MemberState.LEFT):
            return []
        link = self._link
        if self._process_id and process_id != self._process_id:
            link.say("warning", "metadata-store-restarted", process_id=process_id)
        self._process_id = process_id
        self._unsafe = tuple(unsafe)
        for words in self._unsafe:
            link.say("warning", "metadata-store-unsafe", setting=words)
        self._drop_calls()
        if self.state not in (MemberState.FROZEN, MemberState.DISCONNECTED):
            self._move(MemberState.DISCONNECTED, "the store connected anew")
        if self._unsafe and self._settings.refuse_unsafe_store:
            self._refuse(refusals.unsafe_store(self._unsafe))
        else:
            self._verify(now_ms)
        return link.take_outputs()

    def on_lost(self, reason: str, now_ms: int) -> list[Output]:
        """The store does not answer; every call in flight is void: done or not, nobody knows."""
        del now_ms
        if self.state in (MemberState.REFUSED, MemberState.LEFT):
            return []
        self._drop_calls()
        if self.state is not MemberState.DISCONNECTED:
            self._link.say("warning", "metadata-store-lost", reason=reason)
            self._move(MemberState.DISCONNECTED, reason)
        elif reason != self.reason:
            self._link.say("warning", "metadata-store-away", reason=reason)
            self.reason = reason
        if self._leaving:
            self._left("the metadata store is away")
        return self._link.take_outputs()

    def on_replied(self, nonce: Nonce, outcome: StoreOutcome, now_ms: int) -> list[Output]:
        """A call was answered; a reply to a call that was given up is ignored."""
        handler = self._link.take_handler(nonce)
        if handler is not None:
            handler(outcome, now_ms)
            self._progress(now_ms)
        return self._link.take_outputs()

    def admit(self, records: Sequence[TailedRecord], now_ms: int) -> tuple[list[TailedRecord], list[Output]]:
        """The records that continue our history, to be put on disk; the rest is dropped.

        A record that does not continue it shows that the store's history is not ours: the membership freezes.
        """
        good: list[TailedRecord] = []
        if self.state in (MemberState.DISCONNECTED, MemberState.FROZEN, MemberState.REFUSED, MemberState.LEFT):
            return good, []
        for record in records:
            offset, chain_hash = self._admitted
            if record.offset <= offset:
                continue
            follows = record.offset == offset + 1 and record.previous_hash == chain_hash
            if not follows and record.kind != Kind.SNAPSHOT:
                value: dict[str, object] = {"message": f"record {record.offset} does not follow {offset}"}
                self._freeze(StoreOutcome("FORKED", record.offset, record.chain_hash, value), now_ms)
                break
            self._admitted = (record.offset, record.chain_hash)
            good.append(record)
        return good, self._link.take_outputs()

    def on_image(self, image: Image, now_ms: int) -> list[Output]:
        """Admitted records are on disk and applied: `image` holds them."""
        self._link.image = image
        self._changes.on_image()
        self._progress(now_ms)
        return self._link.take_outputs()

    def on_time(self, now_ms: int) -> list[Output]:
        """Run what is due."""
        for name in [name for name, due_ms in self._dues.items() if due_ms <= now_ms]:
            if self._dues.pop(name, None) is None:
                continue
            if name == "heartbeat":
                self._heartbeat(now_ms)
            elif name == "recheck":
                self._verify(now_ms)
            elif name == "register":
                self._register(now_ms)
            elif name == "leave":
                self._left("the metadata store did not answer in time")
        if self._office.due_ms is not None and self._office.due_ms <= now_ms:
            self._office.on_time(now_ms)
        if self.state is MemberState.ACTIVE:
            due_ms = self._high_watermarks.due_ms()
            if due_ms is not None and due_ms <= now_ms:
                self._high_watermarks.report(now_ms)
        return self._link.take_outputs()

    def leave(self, now_ms: int) -> list[Output]:
        """The broker stops in order: tell the cluster, if the store answers soon."""
        if self._leaving or self.state in (MemberState.REFUSED, MemberState.LEFT):
            self._link.put(Left())
        elif self.state not in (MemberState.ACTIVE, MemberState.CATCHING_UP):
            self._left("not a member at this moment")
        else:
            self._leaving = True
            self._dues["leave"] = now_ms + self._settings.leave_timeout_ms
            self._link.send("begin_stop", {"state": BrokerState.CLOSED.value}, self._on_stopped)
        return self._link.take_outputs()

    def begin(self, requests: Sequence[StoreRequest], now_ms: int) -> tuple[int, list[Output]]:
        """Send a client's change; `ChangeDone` with the id tells its end. Raises PeerError when it cannot be sent."""
        del now_ms
        refusal = self.refusal()
        if refusal is not None:
            raise refusal
        change_id = self._changes.begin(requests)
        return change_id, self._link.take_outputs()

    def abandon(self, change_id: int) -> None:
        """Nobody waits for this change any more; it may still happen."""
        self._changes.abandon(change_id)

    def note_high_watermark(
        self, topic_id: uuid.UUID, partition: int, leader_epoch: LeaderEpoch, high_watermark: Offset
    ) -> None:
        """A high watermark moved; it is reported with the next batch."""
        self._high_watermarks.note(topic_id, partition, leader_epoch, high_watermark)

    # ---------------------------------------------------------------------------------------------- the moves

    def _move(self, state: MemberState, reason: str = "") -> None:
        assert state in MOVES[self.state], f"{self.state} -> {state}"
        self.state = state
        self.reason = reason

    def _drop_calls(self) -> None:
        self._link.forget_calls()
        self._office.pause()
        self._high_watermarks.pause()
        leave_ms = self._dues.pop("leave", None)
        self._dues.clear()
        if leave_ms is not None:
            self._dues["leave"] = leave_ms

    def _verify(self, now_ms: int) -> None:
        del now_ms
        if self.state is not MemberState.FROZEN:
            self._move(MemberState.VERIFYING, "comparing the store's history with ours")
        self._link.send("verify", {}, self._on_verified)

    def _on_verified(self, outcome: StoreOutcome, now_ms: int) -> None:
        link, identity = self._link, self._identity
        if outcome.code == "NO_CLUSTER" and link.image.offset == 0 and not link.cluster_id:
            self._bootstrap()
        elif outcome.code == "WRONG_CLUSTER" and not self._ready:
            self._refuse(refusals.wrong_cluster(link.cluster_id, outcome.value.get("cluster_id")))
        elif outcome.code != "OK":
            self._freeze(outcome, now_ms)
        else:
            thawed = self.state is MemberState.FROZEN
            if thawed:
                link.say("info", "metadata-thawed", metadata_offset=outcome.offset)
                self._move(MemberState.VERIFYING)
            self._adopt(outcome)
            broker = outcome.value.get("broker")
            if not link.broker_epoch or not isinstance(broker, dict):
                self._register(now_ms)
            elif broker.get("boot_id") == identity.boot_id and broker.get("broker_epoch") == link.broker_epoch:
                self._joined(outcome, now_ms)
            else:
                self._refuse(refusals.replaced(identity.node_id, broker))

    def _bootstrap(self) -> None:
        self._move(MemberState.BOOTSTRAPPING, "making a new cluster")
        cluster_id = base64.urlsafe_b64encode(self._dice.uuid4().bytes).rstrip(b"=").decode()
        arguments: dict[str, object] = {"new_cluster_id": cluster_id, "new_incarnation_id": str(self._dice.uuid4())}
        self._link.send("bootstrap", arguments, self._on_bootstrapped)

    def _on_bootstrapped(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code != "OK":
            self._freeze(outcome, now_ms)
            return
        if outcome.value.get("created"):
            self._link.say("info", "cluster-created", cluster_id=outcome.value["cluster_id"])
        self._adopt(outcome)
        self._register(now_ms)

    def _adopt(self, outcome: StoreOutcome) -> None:
        """The store's history contains ours: its ids are ours, and its log is tailed."""
        self._link.cluster_id = str(outcome.value["cluster_id"])
        self._link.incarnation_id = str(outcome.value["incarnation_id"])
        self._target = outcome.offset
        self._link.put(Tail(self._admitted[0]))

    def _register(self, now_ms: int) -> None:
        del now_ms
        if self.state is not MemberState.REGISTERING:
            self._move(MemberState.REGISTERING, "registering")
        identity = self._identity
        arguments: dict[str, object] = {
            "boot_id": identity.boot_id,
            "directories": ",".join(identity.directories),
            "host": identity.host,
            "port": identity.port,
            "rack": identity.rack,
            "role": identity.role,
            "lossy": identity.lossy,
        }
        if self._observed_heartbeat is not None:
            arguments["observed_heartbeat"] = self._observed_heartbeat
        self._link.send("register", arguments, self._on_registered)

    def _on_registered(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "OK":
            epoch = outcome.value["broker_epoch"]
            assert isinstance(epoch, int)
            self._link.broker_epoch = epoch
            self._link.say("info", "broker-registered", node_id=self._identity.node_id, broker_epoch=epoch)
            self._joined(outcome, now_ms)
        elif outcome.code == "NODE_ID_IN_USE":
            counter = outcome.value.get("heartbeat")
            if self._observed_heartbeat is not None and counter != self._observed_heartbeat:
                self._refuse(refusals.node_id_in_use(self._identity.node_id, outcome.value))
                return
            # The other boot may be dead: it is, if its heartbeat counter stands still for a few intervals.
            self._observed_heartbeat = counter if isinstance(counter, int) else 0
            self.reason = f"node id {self._identity.node_id} is registered elsewhere; watching its heartbeats"
            self._link.say("warning", "node-id-registered-elsewhere", **outcome.value)
            self._dues["register"] = now_ms + self._settings.takeover_wait_ms
        else:
            self._on_refusal(outcome, now_ms)

    def _joined(self, outcome: StoreOutcome, now_ms: int) -> None:
        self._target = max(self._target, outcome.offset)
        self._move(MemberState.CATCHING_UP, f"reading the metadata log up to {self._target}")
        self._dues["heartbeat"] = now_ms
        self._office.open(now_ms)
        self._changes.resend()

    def _progress(self, now_ms: int) -> None:
        """See whether the image now lets us go on."""
        del now_ms
        if self.state not in (MemberState.CATCHING_UP, MemberState.ACTIVE):
            return
        self._office.on_image()
        image = self._link.image
        broker = image.brokers.get(self._identity.node_id)
        in_order = (
            image.offset >= self._target
            and broker is not None
            and broker.broker_epoch == self.broker_epoch
            and broker.state is BrokerState.ACTIVE
        )
        if self.state is MemberState.ACTIVE:
            if not in_order and not self._leaving:
                self._move(MemberState.CATCHING_UP, "fenced by the controller")
        elif in_order and self._office.settled():
            self._move(MemberState.ACTIVE)
            if self._ready:
                self._link.say("info", "metadata-in-order", metadata_offset=image.offset)
            else:
                self._ready = True
                self._link.put(BecameReady())
        elif image.offset >= self._target:
            self.reason = "waiting for leaders to be elected" if in_order else "waiting for the controller to let us in"

    def _heartbeat(self, now_ms: int) -> None:
        if self.state not in (MemberState.CATCHING_UP, MemberState.ACTIVE):
            return
        self._dues["heartbeat"] = now_ms + self._settings.heartbeat_interval_ms
        self._link.send("heartbeat", {"persisted": self._link.image.offset}, self._on_heartbeat)

    def _on_heartbeat(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code != "OK":
            self._on_refusal(outcome, now_ms)
            return
        counters = outcome.value.get("heartbeats")
        if isinstance(counters, dict):
            self._office.on_heartbeats({int(node): int(count) for node, count in counters.items()}, now_ms)

    def _on_refusal(self, outcome: StoreOutcome, now_ms: int) -> None:
        """A call of the membership itself was refused."""
        if outcome.code in FREEZING_CODES:
            self._freeze(outcome, now_ms)
        elif outcome.code == "STALE_BROKER_EPOCH":
            # Unregistered, or another boot has our node id: verifying tells which.
            if self.state in (MemberState.CATCHING_UP, MemberState.ACTIVE) and not self._leaving:
                self._drop_calls()
                self._verify(now_ms)
        else:
            words = outcome.value.get("message", "")
            self._link.say("warning", "metadata-call-refused", code=outcome.code, reason=words)
            if self.state is MemberState.REGISTERING:
                self._dues["register"] = now_ms + self._settings.recheck_ms

    def _freeze(self, outcome: StoreOutcome, now_ms: int) -> None:
        if self.state in (MemberState.REFUSED, MemberState.LEFT):
            return
        self._drop_calls()
        self._dues["recheck"] = now_ms + self._settings.recheck_ms
        reason = refusals.frozen(outcome, self._link.image, is_serving=self._ready)
        if self.state is not MemberState.FROZEN:
            self._move(MemberState.FROZEN, reason)
            self._link.say("error", "metadata-frozen", code=outcome.code, reason=reason)
            if self._leaving:
                self._left("frozen")
        self.reason = reason

    def _refuse(self, refusal: Refuse) -> None:
        self._drop_calls()
        self._move(MemberState.REFUSED, refusal.message)
        self._link.put(refusal)

    def _on_stopped(self, outcome: StoreOutcome, now_ms: int) -> None:
        del now_ms
        self._left("" if outcome.code == "OK" else outcome.code)

    def _left(self, reason: str) -> None:
        self._drop_calls()
        self._dues.clear()
        self._move(MemberState.LEFT, reason)
        self._link.put(Left())
