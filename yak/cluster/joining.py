"""Takes a broker from a connected store to a registration: verify, create the cluster if there is none, register.

`on_joined` is called after each registration, and when a store that came back still has the registration.
"""

import base64
from collections.abc import Callable

from yak.cluster import refusals
from yak.cluster.link import Link
from yak.cluster.member_state import Identity, MembershipSettings, MemberState
from yak.cluster.outputs import SecretAgreed, Tail
from yak.cluster.registration import Registration
from yak.cluster.restoring import Restoring, WhatIsHeld
from yak.cluster.standing import Standing
from yak.ids import MetadataOffset
from yak.protocol.peer_proof import SECRET_BYTES, ClusterSecret
from yak.seams.dice import Dice
from yak.seams.metadata_store import StoreOutcome


class Joining:
    """Joins a broker. `on_refused` gets the store's refusals."""

    def __init__(
        self,
        link: Link,
        standing: Standing,
        identity: Identity,
        settings: MembershipSettings,
        dice: Dice,
        *,
        secret: ClusterSecret | None,
        held: WhatIsHeld,
        on_joined: Callable[[StoreOutcome, int], None],
        on_refused: Callable[[StoreOutcome, int], None],
    ) -> None:
        self._link = link
        self._standing = standing
        self._identity = identity
        self._takeover_wait_ms = settings.takeover_wait_ms
        self._dice = dice
        self._secret = secret or ClusterSecret(dice.secret_bytes(SECRET_BYTES))
        """This broker's secret, for a store without one; from the first registration on the store's."""
        self._on_joined = on_joined
        self._on_refused = on_refused
        self.registration = Registration(link, identity)
        self.restoring = Restoring(
            link,
            standing,
            identity,
            settings,
            dice,
            held=held,
            admitted=lambda: self.admitted,
            verify=self.verify,
        )
        self.admitted: tuple[MetadataOffset, str] = (link.image.offset, link.image.chain_hash)
        """Offset and chain hash of the newest record admitted to disk."""

    def verify(self) -> None:
        """Ask whether the store holds this broker's history."""
        if self._standing.state not in (MemberState.FROZEN, MemberState.VERIFYING):
            self._standing.move(MemberState.VERIFYING, "comparing the store's history with ours")
        self._link.send("verify", {}, self._on_verified)

    def register(self, *, renew: bool = False) -> None:
        """Register this incarnation of the broker; `renew` asks for another broker epoch."""
        if self._standing.state is not MemberState.REGISTERING:
            self._standing.move(MemberState.REGISTERING, "registering")
        arguments = self.registration.arguments(renew=renew) | {"secret": self._secret.to_text()}
        self._link.send("register", arguments, self._on_registered)

    # ------------------------------------------------------------------------------------------------ inside

    def _on_verified(self, outcome: StoreOutcome, now_ms: int) -> None:
        link, standing = self._link, self._standing
        if outcome.code == "NO_CLUSTER" and link.image.offset == 0 and not link.cluster_id:
            self._bootstrap()
        elif outcome.code == "WRONG_CLUSTER" and not standing.is_ready:
            standing.refuse(refusals.wrong_cluster(link.cluster_id, outcome.value.get("cluster_id")))
        elif outcome.code != "OK":
            standing.freeze(outcome, now_ms)
            if standing.state is MemberState.FROZEN:
                self.restoring.on_refused(outcome, now_ms)
        else:
            if standing.state is MemberState.FROZEN:
                link.say("info", "metadata-unfrozen", metadata_offset=outcome.offset)
                standing.move(MemberState.VERIFYING)
            self._adopt(outcome)
            broker = outcome.value.get("broker")
            if not link.broker_epoch or not isinstance(broker, dict):
                self.register()
            elif self.registration.is_newer(broker):
                standing.refuse(refusals.replaced(link.node_id, broker))
            elif broker.get("broker_epoch") != link.broker_epoch or not self.registration.is_ours(broker):
                # The answer to a renewal was lost: the store repeats its epoch. Or the store was rolled back to an
                # earlier registration of this broker: register again, which replaces it.
                self.register()
            elif ClusterSecret.parse(outcome.value.get("secret")) is None:
                # A restored store has the registration but not the secret: registering again brings the secret back.
                self.register()
            else:
                self._agree_on_secret(outcome)
                self._on_joined(outcome, now_ms)

    def _bootstrap(self) -> None:
        self._standing.move(MemberState.BOOTSTRAPPING, "making a new cluster")
        cluster_id = base64.urlsafe_b64encode(self._dice.uuid4().bytes).rstrip(b"=").decode()
        arguments: dict[str, object] = {"new_cluster_id": cluster_id, "new_incarnation_id": str(self._dice.uuid4())}
        self._link.send("bootstrap", arguments, self._on_bootstrapped)

    def _on_bootstrapped(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code != "OK":
            self._standing.freeze(outcome, now_ms)
            return
        if outcome.value.get("created"):
            self._link.say("info", "cluster-created", cluster_id=outcome.value["cluster_id"])
        self._adopt(outcome)
        self.register()

    def _adopt(self, outcome: StoreOutcome) -> None:
        """Use the ids of the store, whose history contains this broker's, and tail its log."""
        self._link.cluster_id = str(outcome.value["cluster_id"])
        self._link.incarnation_id = str(outcome.value["incarnation_id"])
        self._link.put(Tail(self.admitted[0]))

    def _agree_on_secret(self, outcome: StoreOutcome) -> None:
        """Use the store's secret as that of the cluster; the answer to every registration carries it."""
        secret = ClusterSecret.parse(outcome.value.get("secret"))
        if secret is None:
            self._link.say("error", "cluster-secret-unreadable", what="this broker keeps its own copy")
        else:
            self._secret = secret
        self._link.put(SecretAgreed(self._secret))

    def _on_registered(self, outcome: StoreOutcome, now_ms: int) -> None:
        standing, node_id = self._standing, self._link.node_id
        if outcome.code == "OK":
            self.registration.taken(outcome, now_ms)
            self._agree_on_secret(outcome)
            self._on_joined(outcome, now_ms)
        elif outcome.code == "NODE_ID_IN_USE":
            if self.registration.another_is_alive(outcome.value.get("heartbeat")):
                standing.refuse(refusals.node_id_in_use(node_id, outcome.value))
                return
            # The other process is dead if its heartbeat counter does not change for a few intervals.
            standing.reason = f"node id {node_id} is registered elsewhere; watching its heartbeats"
            self._link.say("warning", "node-id-registered-elsewhere", **outcome.value)
            standing.dues["register"] = now_ms + self._takeover_wait_ms
        else:
            self._on_refused(outcome, now_ms)
