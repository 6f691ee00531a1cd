"""A broker's registration: one per start, and a new one when the broker was fenced and is alive.

The store assigns the broker epoch. Repeating a registration returns the same epoch, so a lost answer does no harm; only
`renew` requests another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from yak.cluster.store_session import StoreSession
from yak.config.listeners import PLAINTEXT_LISTENER, Listener, write_endpoints
from yak.ids import BrokerEpoch, NodeId
from yak.ports.metadata_store import StoreOutcome


@dataclass(slots=True, frozen=True)
class Identity:
    """This broker's identity. `cluster_id` is the one in `meta.properties`, None when there is none yet.

    `boot_id` is new at each start; `directories` are the ids of the log directories. `lossy` says that this start may
    have lost acknowledged records (a crash of the machine without `flush`). `min_isr` is the broker's
    min.insync.replicas, for topics without their own: the store must know the rule by which it commits.
    """

    node_id: NodeId
    boot_id: str
    directories: tuple[str, ...]
    host: str
    port: int
    rack: str | None = None
    role: str = "leader"
    cluster_id: str | None = None
    lossy: bool = False
    min_isr: int = 1
    http_port: int = 0
    """The port for HTTP, on the same host; 0 for none."""
    inter_broker: Listener = PLAINTEXT_LISTENER
    """The listener that other brokers connect to, and whose addresses requests in this process get."""
    endpoints: tuple[Listener, ...] = ()
    """The advertised listeners; empty: PLAINTEXT at `host` and `port`."""


class Registration:
    """The content of this broker's registration, and its known epochs."""

    def __init__(self, session: StoreSession, identity: Identity) -> None:
        self._session = session
        self._identity = identity
        known = session.image.brokers.get(identity.node_id)
        self._last_epoch: BrokerEpoch = 0 if known is None else known.broker_epoch
        """The newest of this broker's epochs that was on its disk at the last registration."""
        self._persisted = session.image.offset
        """The newest metadata record that was on its disk when this process started."""
        self.observed_heartbeat: int | None = None
        """The counter of another process with this node id when it was seen first, on this connection to the store."""
        self.count = 0
        """The registrations of this process."""

    def arguments(self, *, renew: bool) -> dict[str, object]:
        """Arguments of the script `register`. A renewal is never lossy; a lost registration is repeated whole."""
        identity = self._identity
        arguments: dict[str, object] = {
            "boot_id": identity.boot_id,
            "directories": ",".join(identity.directories),
            "host": identity.host,
            "port": identity.port,
            "rack": identity.rack,
            "role": identity.role,
            "http_port": identity.http_port,
            "endpoints": write_endpoints(identity.endpoints),
            "lossy": identity.lossy and not renew,
            "last_epoch": self._session.broker_epoch or self._last_epoch,
            "persisted": self._persisted,
            "renew": renew,
            "min_isr": identity.min_isr,
        }
        if self.observed_heartbeat is not None:
            arguments["observed_heartbeat"] = self.observed_heartbeat
        return arguments

    def on_registered(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Note the registration."""
        epoch = outcome.value["broker_epoch"]
        assert isinstance(epoch, int)
        session = self._session
        session.broker_epoch = epoch
        self.count += 1
        session.registered_ms = now_ms
        session.is_lossy = outcome.value.get("lossy") is True
        session.say("info", "broker-registered", node_id=session.node_id, broker_epoch=epoch, lossy=session.is_lossy)

    def another_is_alive(self, counter: object) -> bool:
        """Whether another process with this node id is alive: its heartbeat `counter` moved since the last attempt."""
        if self.observed_heartbeat is not None and counter != self.observed_heartbeat:
            return True
        self.observed_heartbeat = counter if isinstance(counter, int) else 0
        return False

    def is_newer(self, broker: Mapping[str, object]) -> bool:
        """Whether a registration in the store is of a process that registered after this one.

        Broker epochs are offsets of the metadata log, so an earlier process never has a higher one.
        """
        epoch = broker.get("broker_epoch")
        return not self.is_ours(broker) and isinstance(epoch, int) and epoch > self._session.broker_epoch

    def is_ours(self, broker: Mapping[str, object]) -> bool:
        """Whether a registration in the store is of this process, also under the epoch of an unanswered renewal."""
        return broker.get("boot_id") == self._identity.boot_id
