"""The lifecycle of one broker in the cluster, as Kafka's BrokerLifecycleManager: a state machine without I/O.

    DISCONNECTED -> VERIFYING -> (BOOTSTRAPPING ->) REGISTERING -> CATCHING_UP -> ACTIVE
                        ^                                                         |
                        +---------- FROZEN (the store lost the history) <---------+        REFUSED, LEFT: for good

While the store does not answer, a broker is DISCONNECTED: produce and fetch go on, changes of metadata wait. A broker that
was fenced although it is alive registers again: ACTIVE -> REGISTERING.

A broker uses a store only while the store holds the metadata history that the broker has on disk. If the store was
rolled back, emptied or forked, or belongs to another cluster, the broker freezes its metadata: produce and fetch go on
and metadata cannot change. The broker checks the store again every few seconds, since an operator may bring the history
back. Only a broker with neither an image nor a `meta.properties` creates a new cluster.
"""

import base64
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Literal

from yak.cluster import refusals
from yak.cluster.changes import Changes
from yak.cluster.controller import ANSWER_AFTER_MS, Controller
from yak.cluster.controller_election import ControllerElection
from yak.cluster.election_counts import ElectionCounts
from yak.cluster.hash_chain import HashChainTail
from yak.cluster.heartbeat import HeartbeatAnswer, Heartbeats
from yak.cluster.high_watermark_sender import HighWatermarkSender
from yak.cluster.image import Image
from yak.cluster.outputs import BecameReady, Left, OnChanged, Output, Refused, SecretAgreed, TailStore
from yak.cluster.records import BrokerState, Kind
from yak.cluster.registration import Identity, Registration
from yak.cluster.settings import ClusterSettings
from yak.cluster.store_restore import StoreRestore
from yak.cluster.store_session import FREEZING_CODES, StoreSession
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, MetadataOffset, NodeId, Nonce
from yak.ports.metadata_store import StoreOutcome, StoreRequest, TailedRecord
from yak.ports.random_source import RandomSource
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret

FIRST_RECHECK_MS = 200
"""First recheck of a store that just proved to lack this broker's history: then it offers its image. Every recheck of a
store whose metadata are moved, which takes milliseconds, or that an operator restores: from when the first broker adopts
the restored history until all have, records wait for their acknowledgement."""
DEATH_REPORT_MS_MAX = 2_000
"""A report that a broker's process is dead counts this long: a later start of the broker has another epoch anyway."""
FAST_FENCE_INTERVAL_MS = 30_000
"""A broker epoch is fenced on suspicion at most this often: a load balancer may refuse connects for ever."""


class LifecycleState(StrEnum):
    """The broker's state towards the metadata store."""

    DISCONNECTED = "DISCONNECTED"
    VERIFYING = "VERIFYING"
    BOOTSTRAPPING = "BOOTSTRAPPING"
    REGISTERING = "REGISTERING"
    CATCHING_UP = "CATCHING_UP"
    ACTIVE = "ACTIVE"
    FROZEN = "FROZEN"
    REFUSED = "REFUSED"
    LEFT = "LEFT"


_S = LifecycleState
_ENDS = {_S.FROZEN, _S.REFUSED, _S.DISCONNECTED, _S.LEFT}
_TRANSITIONS: dict[LifecycleState, set[LifecycleState]] = {
    _S.DISCONNECTED: {_S.VERIFYING, _S.REFUSED, _S.LEFT},
    _S.VERIFYING: {_S.BOOTSTRAPPING, _S.REGISTERING, _S.CATCHING_UP} | _ENDS,
    _S.BOOTSTRAPPING: {_S.REGISTERING} | _ENDS,
    _S.REGISTERING: {_S.CATCHING_UP} | _ENDS,
    _S.CATCHING_UP: {_S.ACTIVE, _S.VERIFYING, _S.REGISTERING} | _ENDS,
    _S.ACTIVE: {_S.CATCHING_UP, _S.VERIFYING, _S.REGISTERING} | _ENDS,
    _S.FROZEN: {_S.VERIFYING, _S.BOOTSTRAPPING, _S.DISCONNECTED, _S.REFUSED, _S.LEFT},
    _S.REFUSED: set(),
    _S.LEFT: set(),
}


class BrokerLifecycle:
    """The state machine. Every input method returns the outputs that it leads to, in order."""

    def __init__(
        self,
        identity: Identity,
        image: Image,
        *,
        next_nonce: Callable[[], Nonce],
        rng: RandomSource,
        hash_chain: Callable[[], HashChainTail],
        settings: ClusterSettings | None = None,
        secret: ClusterSecret | None = None,
    ) -> None:
        self._settings = settings = settings or ClusterSettings()
        self.identity = identity
        self._rng = rng
        self._secret = secret or ClusterSecret(rng.secret_bytes(SECRET_BYTES))
        """This broker's secret, for a store without one; from the first registration on the store's."""
        self._session = session = StoreSession(identity.node_id, image, next_nonce)
        session.cluster_id = image.cluster_id or identity.cluster_id or ""
        self.state = LifecycleState.DISCONNECTED
        self._reason = "the metadata store did not answer yet"
        self._lost_reason = ""
        """Why the store was lost, until it answers again: a quorum's leader that resigns refuses many calls a second."""
        self.awaited = ""
        """The event that a restore waits for while the metadata are frozen, as text."""
        self._dues: dict[str, int] = {}
        """Due times in ms, by name: `recheck`, `register`, `stop`, `leave`."""
        self.is_ready = False
        """Whether the broker became ready once, and so serves clients."""
        self._is_stopping = False
        self._is_leaving = False
        self.admitted: tuple[MetadataOffset, str] = (image.offset, image.chain_hash)
        """Offset and chain hash of the newest record admitted to disk."""
        self._target: MetadataOffset = 0
        """The log's end when this broker joined: an older image is incomplete."""
        self._reported_epoch: BrokerEpoch = 0
        """The newest broker epoch that this broker reported to the controller as on disk."""
        self._fast_fences: dict[tuple[NodeId, BrokerEpoch], int] = {}
        """Broker epochs fenced on suspicion, and until when in ms not again. A failed call does not count."""
        self._unfenced_dead: dict[tuple[NodeId, BrokerEpoch], int] = {}
        """Broker epochs whose process was found dead while the store was away, and when in ms."""
        self._process_id = ""
        self._unsafe: tuple[str, ...] = ()
        self.elections = ElectionCounts()
        """The elections that this broker ran as the controller since it started."""
        self._registration = Registration(session, identity)
        self._restore = StoreRestore(self, session, identity.boot_id, hash_chain)
        self.heartbeats = Heartbeats(session, settings.heartbeat_interval_ms, self._on_heartbeat, self._on_refusal)
        self._controller = Controller(
            session,
            settings,
            self.elections,
            heartbeat_by=self.heartbeats.send_by,
            on_refused=self._on_refusal,
            on_fast_fence_failed=self._fast_fences.clear,
            full=lambda: self.heartbeats.full,
        )
        self._election = ControllerElection(
            session,
            identity.role,
            settings,
            on_elected=self._controller.on_elected,
            on_other_elected=self._controller.renounce,
            on_refused=self._on_refusal,
            on_takeover_failed=self._fast_fences.clear,
        )
        self.changes = Changes(session, self._freeze)
        self.high_watermarks = HighWatermarkSender(session, settings.high_watermark_interval_ms)

    # ------------------------------------------------------------------------------------------------- views

    @property
    def reason(self) -> str:
        """The reason for the state, as text; empty when all is well."""
        return f"{self._reason}; {self.awaited}" if self.awaited else self._reason

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The broker epoch, 0 before registration."""
        return self._session.broker_epoch

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._controller.is_active

    @property
    def _is_over(self) -> bool:
        return self.state in (LifecycleState.REFUSED, LifecycleState.LEFT)

    @property
    def _is_joined(self) -> bool:
        """Whether this broker is registered with a store that holds its history."""
        return self.state in (LifecycleState.CATCHING_UP, LifecycleState.ACTIVE)

    def refusal(self) -> PeerError | None:
        """The error for a client's metadata change now; None when changes are possible."""
        if self.state is LifecycleState.ACTIVE:
            return None
        if self.state is LifecycleState.DISCONNECTED:
            message = "The metadata store cannot be reached. Nothing was changed; try again."
        else:
            message = f"Metadata cannot be changed now ({self.state}: {self.reason}). Nothing was changed; try again."
        return PeerError(ErrorCode.request_timed_out, message)

    def describe(self) -> dict[str, object]:
        """The broker's state for people and scripts (`yak cluster`)."""
        image = self._session.image
        return {
            "state": self.state.value,
            "reason": self.reason,
            "cluster_id": self._session.cluster_id,
            "incarnation": image.incarnation,
            "node_id": self._session.node_id,
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
        dues = [*self._dues.values(), self.heartbeats.due_ms, self._election.due_ms, self._controller.due_ms]
        if self.state is LifecycleState.ACTIVE:
            dues.append(self.high_watermarks.due_ms())
        return min((due_ms for due_ms in dues if due_ms is not None), default=None)

    # ------------------------------------------------------------------------------------------------ inputs

    def on_connected(self, process_id: str, unsafe: Sequence[str]) -> list[Output]:
        """The store connected; it may be another process, with another history, than before."""
        if self._is_over:
            return []
        session = self._session
        if self._process_id and process_id != self._process_id:
            session.say("warning", "metadata-store-restarted", process_id=process_id)
        self._process_id = process_id
        self._unsafe = tuple(unsafe)
        for setting in self._unsafe:
            session.say("warning", "metadata-store-unsafe", setting=setting)
        # a new leader of the quorum has moved all counters
        self._registration.observed_heartbeat = None
        self._drop_calls()
        if self.state not in (LifecycleState.FROZEN, LifecycleState.DISCONNECTED):
            self._move(LifecycleState.DISCONNECTED, "the store connected again")
        self.verify()
        return session.take_outputs()

    def on_lost(self, reason: str) -> list[Output]:
        """The store does not answer: every call in flight is dropped, and may or may not have taken effect."""
        if not self._is_over:
            self._drop_calls()
            if self.state is not LifecycleState.DISCONNECTED:
                if reason != self._lost_reason:
                    self._session.say("warning", "metadata-store-lost", reason=reason)
                    self._lost_reason = reason
                self._move(LifecycleState.DISCONNECTED, reason)
            elif reason != self._reason:
                self._session.say("warning", "metadata-store-unavailable", reason=reason)
                self._reason = reason
            if self._is_leaving:
                self._end("the metadata store does not answer")
        return self._session.take_outputs()

    def on_replied(self, nonce: Nonce, outcome: StoreOutcome, now_ms: int) -> list[Output]:
        """The store answered a call; a reply to an abandoned call is ignored."""
        handler = self._session.take_handler(nonce)
        if handler is not None:
            handler(outcome, now_ms)
            self._progress(now_ms)
        return self._session.take_outputs()

    def admit(self, records: Sequence[TailedRecord], now_ms: int) -> tuple[list[TailedRecord], list[Output]]:
        """The records that continue this broker's history, to be written to disk; known ones are dropped.

        Any other record shows that the store has another history: the broker freezes its metadata.
        """
        good: list[TailedRecord] = []
        if self._is_over or self.state in (LifecycleState.DISCONNECTED, LifecycleState.FROZEN):
            return good, []
        for record in records:
            offset, chain_hash = self.admitted
            if record.offset <= offset:
                continue
            follows = record.offset == offset + 1 and record.previous_hash == chain_hash
            if record.kind == Kind.SNAPSHOT and not self._restore.may_admit(record):
                self._freeze(StoreOutcome("WRONG_INCARNATION", record.offset, record.chain_hash), now_ms)
                break
            if not follows and record.kind != Kind.SNAPSHOT:
                value: dict[str, object] = {"message": f"record {record.offset} does not follow {offset}"}
                self._freeze(StoreOutcome("FORKED", record.offset, record.chain_hash, value), now_ms)
                break
            self.admitted = (record.offset, record.chain_hash)
            good.append(record)
        return good, self._session.take_outputs()

    def on_image(self, image: Image, now_ms: int, *, has_leaderless: bool = False) -> list[Output]:
        """Use the new image, with the admitted records applied. `has_leaderless`: some partitions in them have no live leader."""
        if has_leaderless:
            self._controller.elections.check_again()
        if image.controller_epoch != self._session.image.controller_epoch and self.state is LifecycleState.CATCHING_UP:
            # The new controller does not know yet that this broker is alive.
            self.heartbeats.send_by(now_ms + ANSWER_AFTER_MS)
        self._session.image = image
        self._restore.on_image()
        self.changes.on_image()
        self._progress(now_ms)
        return self._session.take_outputs()

    def on_time(self, now_ms: int) -> list[Output]:
        """Run the due timers."""
        for name in [name for name, due_ms in self._dues.items() if due_ms <= now_ms]:
            if self._dues.pop(name, None) is None:
                continue
            if name == "recheck":
                self.verify()
            elif name == "register":
                self._register()
            elif name == "stop":
                self._report_stopping()
            elif name == "leave":
                self._end("the metadata store did not answer in time")
        self.heartbeats.on_time(now_ms)
        if self._election.due_ms is not None and self._election.due_ms <= now_ms:
            self._election.on_time(now_ms)
        if self._controller.due_ms is not None and self._controller.due_ms <= now_ms:
            self._controller.on_time(now_ms)
            if self.state is LifecycleState.CATCHING_UP:
                # elections that it waits for may be settled
                self._progress(now_ms)
        if self.state is LifecycleState.ACTIVE:
            due_ms = self.high_watermarks.due_ms()
            if due_ms is not None and due_ms <= now_ms:
                self.high_watermarks.report(now_ms)
        return self._session.take_outputs()

    def on_worked(self, done: Callable[[object], None], result: object) -> list[Output]:
        """A `Work` ended."""
        done(result)
        return self._session.take_outputs()

    def on_peer_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> list[Output]:
        """Two connects in a row were refused by the address of a broker.

        The controller fences that broker. If it is the controller, this broker tries to become controller.
        """
        if self._is_stopping:
            return []
        if self.state is not LifecycleState.ACTIVE:
            # with a quorum the same death may have taken the store's leader: act on it when there is one again
            self._unfenced_dead[node_id, broker_epoch] = now_ms
            return []
        self._fence_dead(node_id, broker_epoch, now_ms)
        return self._session.take_outputs()

    def _fence_dead(self, node_id: NodeId, broker_epoch: BrokerEpoch, now_ms: int) -> None:
        for expired in [key for key, until_ms in self._fast_fences.items() if until_ms <= now_ms]:
            del self._fast_fences[expired]
        if (node_id, broker_epoch) in self._fast_fences:
            return
        fencing = self._controller if self._controller.is_active else self._election
        if fencing.on_broker_dead(node_id, broker_epoch, now_ms):
            self._fast_fences[node_id, broker_epoch] = now_ms + FAST_FENCE_INTERVAL_MS

    def _fence_reported(self, now_ms: int) -> None:
        """Act on deaths that were reported a moment ago, while this broker could not."""
        reported, self._unfenced_dead = self._unfenced_dead, {}
        for (node_id, broker_epoch), reported_ms in reported.items():
            if now_ms - reported_ms <= DEATH_REPORT_MS_MAX:
                self._fence_dead(node_id, broker_epoch, now_ms)

    def on_unreadable(self, reason: str) -> list[Output]:
        """A record of the metadata cannot be read. A broker that serves goes on with what it knows, another one ends."""
        if not self.is_ready and not self._is_over:
            self._refuse(refusals.unreadable(reason))
        return self._session.take_outputs()

    def begin_stopping(self) -> list[Output]:
        """Begin a controlled shutdown: leaderships move away. Sends nothing while the store is unreachable."""
        self._is_stopping = self._election.is_withdrawn = True
        if self._is_joined:
            self._report_stopping()
        return self._session.take_outputs()

    def leave(self, now_ms: int) -> list[Output]:
        """Leave the cluster in order, if the store answers soon."""
        self._is_stopping = self._election.is_withdrawn = True
        if self._is_leaving or self._is_over:
            self._session.put(Left())
        elif not self._is_joined:
            self._end("not a member at this moment")
        else:
            self._is_leaving = True
            self._dues["leave"] = now_ms + self._settings.leave_timeout_ms
            self._session.send("begin_stop", {"state": BrokerState.CLOSED.value}, self._on_closed)
        return self._session.take_outputs()

    def begin(
        self, requests: Sequence[StoreRequest], done: OnChanged, *, when_joined: bool = False
    ) -> tuple[int, list[Output]]:
        """Send a change, and return its id; `ChangeDone` reports its end. Raises PeerError when it cannot be sent.

        With `when_joined` it is sent right behind the registration, before the broker is unfenced.
        """
        if when_joined and not self._is_joined:
            return self.changes.hold(requests, done), []
        if not when_joined and (refusal := self.refusal()) is not None:
            raise refusal
        return self.changes.begin(requests, done), self._session.take_outputs()

    # ------------------------------------------------------------------------- verification and registration

    def verify(self) -> None:
        """Verify that the store holds this broker's history."""
        if self.state not in (LifecycleState.FROZEN, LifecycleState.VERIFYING):
            self._move(LifecycleState.VERIFYING, "comparing the store's history with ours")
        self._session.send("verify", {}, self._on_verified)

    def _on_verified(self, outcome: StoreOutcome, now_ms: int) -> None:
        session = self._session
        if outcome.code == "OK":
            if self.state is LifecycleState.FROZEN:
                session.say("info", "metadata-unfrozen", metadata_offset=outcome.offset)
                self._move(LifecycleState.VERIFYING)
            self._adopt(outcome)
            self._join_or_register(outcome, now_ms)
        elif outcome.code == "NO_CLUSTER" and session.image.offset == 0 and not session.cluster_id:
            self._bootstrap()
        elif outcome.code == "WRONG_CLUSTER" and not self.is_ready:
            self._refuse(refusals.wrong_cluster(session.cluster_id, outcome.value.get("cluster_id")))
        elif outcome.code == "TRIMMED" and self._restore.may_read_snapshot(outcome.value.get("broker")):
            self._restore.read_snapshot(now_ms)
        else:
            self._freeze(outcome, now_ms)
            if self.state is LifecycleState.FROZEN:
                self._restore.on_refused(outcome, now_ms)

    def _join_or_register(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Join under the present registration, if the store has it and the secret; else register."""
        session, registration = self._session, self._registration
        broker = outcome.value.get("broker")
        if not session.broker_epoch or not isinstance(broker, dict):
            self._register()
        elif registration.is_newer(broker) and (self.is_ready or registration.count > 1):
            # at a start it may be the late call of a process that died before: then this one registers once more
            self._refuse(refusals.replaced(session.node_id, broker))
        elif broker.get("broker_epoch") != session.broker_epoch or not registration.is_ours(broker):
            # The answer to a renewal was lost: the store repeats its epoch. Or the store was rolled back to an
            # earlier registration of this broker: register again, which replaces it.
            self._register()
        elif ClusterSecret.parse(outcome.value.get("secret")) is None:
            # A restored store has the registration but not the secret: registering again brings the secret back.
            self._register()
        else:
            self._agree_on_secret(outcome)
            self._join(outcome, now_ms)

    def _bootstrap(self) -> None:
        self._move(LifecycleState.BOOTSTRAPPING, "making a new cluster")
        cluster_id = base64.urlsafe_b64encode(self._rng.uuid4().bytes).rstrip(b"=").decode()
        arguments: dict[str, object] = {"new_cluster_id": cluster_id, "new_incarnation_id": str(self._rng.uuid4())}
        self._session.send("bootstrap", arguments, self._on_bootstrapped)

    def _on_bootstrapped(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code != "OK":
            self._freeze(outcome, now_ms)
            return
        if outcome.value.get("created"):
            self._session.say("info", "cluster-created", cluster_id=outcome.value["cluster_id"])
        self._adopt(outcome)
        self._register()

    def _adopt(self, outcome: StoreOutcome) -> None:
        """Use the ids of the store, whose history contains this broker's, and tail its log."""
        self._session.cluster_id = str(outcome.value["cluster_id"])
        self._session.incarnation_id = str(outcome.value["incarnation_id"])
        self._session.put(TailStore(self.admitted[0]))

    def _agree_on_secret(self, outcome: StoreOutcome) -> None:
        """Use the store's secret as that of the cluster; the answer to every registration carries it."""
        secret = ClusterSecret.parse(outcome.value.get("secret"))
        if secret is None:
            self._session.say("error", "cluster-secret-unreadable", what="this broker keeps its own copy")
        else:
            self._secret = secret
        self._session.put(SecretAgreed(self._secret))

    def _register(self, *, renew: bool = False) -> None:
        """Register this incarnation of the broker; `renew` requests another broker epoch."""
        if self.state is not LifecycleState.REGISTERING:
            self._move(LifecycleState.REGISTERING, "registering")
        arguments = self._registration.arguments(renew=renew) | {"secret": self._secret.to_text()}
        self._session.send("register", arguments, self._on_registered)

    def _on_registered(self, outcome: StoreOutcome, now_ms: int) -> None:
        node_id = self._session.node_id
        if outcome.code == "OK":
            self._registration.on_registered(outcome, now_ms)
            self._agree_on_secret(outcome)
            self._join(outcome, now_ms)
        elif outcome.code == "NODE_ID_IN_USE":
            if self._registration.another_is_alive(outcome.value.get("heartbeat")):
                self._refuse(refusals.node_id_in_use(node_id, outcome.value))
                return
            # The other process is dead if its heartbeat counter does not change for a few intervals.
            self._reason = f"node id {node_id} is registered elsewhere; watching its heartbeats"
            self._session.say("warning", "node-id-registered-elsewhere", **outcome.value)
            self._dues["register"] = now_ms + self._settings.takeover_wait_ms
        else:
            self._on_refusal(outcome, now_ms)

    # ------------------------------------------------------------------------------------------- transitions

    def _join(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Send heartbeats, find the controller, and resend the clients' changes: this broker is registered."""
        self._target = outcome.offset
        self._move(LifecycleState.CATCHING_UP, f"reading the metadata log up to {self._target}")
        self.heartbeats.start(now_ms)
        self._election.start()
        self.changes.resend()
        if self._is_stopping:
            self._report_stopping()

    def _progress(self, now_ms: int) -> None:
        """Move on as far as the image now allows."""
        if not self._is_joined:
            return
        image = self._session.image
        known = image.brokers.get(self._session.node_id)
        own = known if known is not None and known.broker_epoch == self.broker_epoch else None
        if own is not None and self._reported_epoch != self.broker_epoch:
            # The controller unfences a broker only with its registration on its own disk: report that at once.
            self._reported_epoch = self.broker_epoch
            self.heartbeats.send(now_ms)
        self._election.consider(now_ms)
        self._controller.on_image(now_ms, self._target)
        if image.offset < self._target:
            return
        if own is not None and own.must_register_again and not self._is_stopping:
            self._register_again()
            return
        state = BrokerState.FENCED if own is None else own.state
        if state is BrokerState.ACTIVE:
            self.heartbeats.on_unfenced(self.broker_epoch)
        was_active = self.state is LifecycleState.ACTIVE
        self._settle(is_in=state is BrokerState.ACTIVE or (self._is_stopping and state is BrokerState.STOPPING))

        if self._unfenced_dead and not was_active and self.state is LifecycleState.ACTIVE:
            self._fence_reported(now_ms)

    def _settle(self, *, is_in: bool) -> None:
        """Move between CATCHING_UP and ACTIVE: ACTIVE needs the whole image, no fencing, settled elections."""
        if self.state is LifecycleState.ACTIVE:
            if not is_in and not self._is_leaving:
                self._move(LifecycleState.CATCHING_UP, "waiting for the controller to unfence this broker")
        elif (
            is_in
            and self._election.is_settled
            and (self._controller.elections.is_settled() or not self._controller.is_active)
        ):
            self._move(LifecycleState.ACTIVE)
            if self.is_ready:
                self._session.say("info", "metadata-caught-up", metadata_offset=self._session.image.offset)
            else:
                self.is_ready = True
                self._session.put(BecameReady())
        elif is_in:
            self._reason = "waiting for leaders to be elected"
        else:
            self._reason = "waiting for the controller to unfence this broker"

    def _register_again(self) -> None:
        """Register with a new broker epoch after a fencing: others may have decided on operations in flight."""
        session = self._session
        session.say("warning", "this-broker-fenced", node_id=session.node_id, broker_epoch=self.broker_epoch)
        self._drop_calls()
        self._controller.renounce()
        self._register(renew=True)

    def _on_heartbeat(self, answer: HeartbeatAnswer, now_ms: int) -> None:
        if self._controller.is_active:
            self._controller.on_heartbeats(answer, now_ms)
        else:
            self._election.on_heartbeat(answer, now_ms)

    def _report_stopping(self) -> None:
        self._session.send("begin_stop", {"state": BrokerState.STOPPING.value}, self._on_stopping)

    def _on_stopping(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code == "STORE_ERROR" and not self._is_leaving:
            # without it no leadership moves away within the drain
            self._dues["stop"] = now_ms + FIRST_RECHECK_MS
        if outcome.code != "OK":
            self._on_refusal(outcome, now_ms)

    def _on_refusal(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Handle the refusal of a call of the lifecycle itself."""
        if outcome.code in FREEZING_CODES:
            self._freeze(outcome, now_ms)
        elif outcome.code == "STALE_BROKER_EPOCH":
            # Unregistered, or another process has this node id: `verify` shows which.
            if self._is_joined and not self._is_leaving:
                self._drop_calls()
                self.verify()
        else:
            self._session.say_refused(outcome, now_ms)
            if self.state is LifecycleState.REGISTERING:
                self._dues["register"] = now_ms + self._settings.recheck_ms

    def _on_closed(self, outcome: StoreOutcome, now_ms: int) -> None:
        del now_ms
        self._end("" if outcome.code == "OK" else outcome.code)

    def _move(self, state: LifecycleState, reason: str = "") -> None:
        assert state in _TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state
        self._reason = reason
        self.awaited = ""
        if state not in (LifecycleState.DISCONNECTED, LifecycleState.VERIFYING):
            self._lost_reason = ""

    def _drop_calls(self) -> None:
        """Abandon all calls under way. Only the timeout of an orderly stop stays due."""
        self._session.forget_calls()
        self.heartbeats.pause()
        self._election.pause()
        self._controller.pause()
        self._fast_fences.clear()
        self.high_watermarks.pause()
        self._restore.pause()
        self._dues = {name: due_ms for name, due_ms in self._dues.items() if name == "leave"}

    def _freeze(self, outcome: StoreOutcome, now_ms: int) -> None:
        """The store does not hold this broker's history: make no metadata change, and check again later."""
        if self._is_over:
            return
        self._drop_calls()
        is_new = self.state is not LifecycleState.FROZEN
        is_soon = is_new or outcome.code in ("MIGRATING", "SEEDING")
        self._dues["recheck"] = now_ms + (FIRST_RECHECK_MS if is_soon else self._settings.recheck_ms)
        reason = refusals.frozen(outcome, self._session.image, is_serving=self.is_ready)
        if is_new:
            self._move(LifecycleState.FROZEN, reason)
            # a migration ends by itself
            level: Literal["warning", "error"] = "warning" if outcome.code == "MIGRATING" else "error"
            self._session.say(level, "metadata-frozen", code=outcome.code, reason=reason)
            if self._is_leaving:
                self._end("frozen")
        self._reason = reason

    def _refuse(self, refusal: Refused) -> None:
        """This broker cannot be part of this cluster."""
        self._drop_calls()
        self._move(LifecycleState.REFUSED, refusal.message)
        self._session.put(refusal)

    def _end(self, reason: str) -> None:
        """The broker has left, recorded or not."""
        self._drop_calls()
        self._dues.clear()
        self._move(LifecycleState.LEFT, reason)
        self._session.put(Left())

    # --------------------------------------------------------------------------------- for `StoreRestore`

    def begin_adoption(self, due_ms: int) -> None:
        """Tail the store's log, which begins with a snapshot; verify it again at `due_ms` if that does not arrive."""
        if self.state is not LifecycleState.VERIFYING:
            self._move(LifecycleState.VERIFYING)
        self._reason = "reading the store's snapshot of the metadata"
        self._dues["recheck"] = due_ms
        self._session.put(TailStore(self.admitted[0]))

    def end_adoption(self) -> None:
        """Verify the snapshot's history, which is on this broker's disk."""
        self._dues.pop("recheck", None)
        self.verify()
