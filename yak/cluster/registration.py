"""A broker's registration: one per start, and a new one when the broker was fenced and is alive.

The store assigns the broker epoch. Repeating a registration returns the same epoch, so a lost answer does no harm; only
`renew` asks for another one.
"""

from collections.abc import Mapping

from yak.cluster.link import Link
from yak.cluster.member_state import Identity
from yak.ids import BrokerEpoch
from yak.seams.metadata_store import StoreOutcome


class Registration:
    """The content of this broker's registration, and its known epochs."""

    def __init__(self, link: Link, identity: Identity) -> None:
        self._link = link
        self._identity = identity
        known = link.image.brokers.get(identity.node_id)
        self._last_epoch: BrokerEpoch = 0 if known is None else known.broker_epoch
        """The newest of this broker's epochs that was on its disk at the last registration."""
        self._observed_heartbeat: int | None = None

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
            "lossy": identity.lossy and not renew,
            "last_epoch": self._link.broker_epoch or self._last_epoch,
            "renew": renew,
            "min_isr": identity.min_isr,
        }
        if self._observed_heartbeat is not None:
            arguments["observed_heartbeat"] = self._observed_heartbeat
        return arguments

    def taken(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Note the registration."""
        epoch = outcome.value["broker_epoch"]
        assert isinstance(epoch, int)
        link = self._link
        link.broker_epoch = epoch
        link.registered_ms = now_ms
        link.is_lossy = outcome.value.get("lossy") is True
        link.say("info", "broker-registered", node_id=link.node_id, broker_epoch=epoch, lossy=link.is_lossy)

    def another_is_alive(self, counter: object) -> bool:
        """Whether another process with this node id is alive: its heartbeat `counter` moved since the last attempt."""
        if self._observed_heartbeat is not None and counter != self._observed_heartbeat:
            return True
        self._observed_heartbeat = counter if isinstance(counter, int) else 0
        return False

    def is_newer(self, broker: Mapping[str, object]) -> bool:
        """Whether a registration in the store is of a process that registered after this one.

        Broker epochs are offsets of the metadata log, so an earlier process never has a higher one.
        """
        epoch = broker.get("broker_epoch")
        return not self.is_ours(broker) and isinstance(epoch, int) and epoch > self._link.broker_epoch

    def is_ours(self, broker: Mapping[str, object]) -> bool:
        """Whether a registration in the store is of this process, also under the epoch of an unanswered renewal."""
        return broker.get("boot_id") == self._identity.boot_id
