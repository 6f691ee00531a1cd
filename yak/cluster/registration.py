"""A broker's registration: one for each boot, and a new one when it was fenced and is alive after all.

The store gives the broker epoch. A repeat of the same boot gets the same epoch, so that an answer that was lost costs
nothing; only `renew` asks for another one.
"""

from collections.abc import Mapping

from yak.cluster.link import Link
from yak.cluster.member_state import Identity
from yak.ids import BrokerEpoch
from yak.seams.metadata_store import StoreOutcome


class Registration:
    """What this broker says about itself, and which of its epochs it knows of."""

    def __init__(self, link: Link, identity: Identity) -> None:
        self._link = link
        self._identity = identity
        known = link.image.brokers.get(identity.node_id)
        self._last_epoch: BrokerEpoch = 0 if known is None else known.broker_epoch
        """The newest of our epochs that was on our disk when we last registered."""
        self._observed_heartbeat: int | None = None

    def arguments(self, *, renew: bool) -> dict[str, object]:
        """For the script `register`. A renewal loses nothing more; a registration that the store lost is repeated whole."""
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
        """The store registered us."""
        epoch = outcome.value["broker_epoch"]
        assert isinstance(epoch, int)
        link = self._link
        link.broker_epoch = epoch
        link.registered_ms = now_ms
        link.is_lossy = outcome.value.get("lossy") is True
        link.say("info", "broker-registered", node_id=link.node_id, broker_epoch=epoch, lossy=link.is_lossy)

    def another_is_alive(self, counter: object) -> bool:
        """The store has our node id under another boot, whose heartbeat counter is this: it beats if that moved."""
        if self._observed_heartbeat is not None and counter != self._observed_heartbeat:
            return True
        self._observed_heartbeat = counter if isinstance(counter, int) else 0
        return False

    def is_newer(self, broker: Mapping[str, object]) -> bool:
        """Whether a registration in the store is of a boot that registered after this one.

        Broker epochs are offsets of the metadata log, so an earlier boot never has a higher one.
        """
        epoch = broker.get("broker_epoch")
        return not self.is_ours(broker) and isinstance(epoch, int) and epoch > self._link.broker_epoch

    def is_ours(self, broker: Mapping[str, object]) -> bool:
        """Whether a registration in the store is of this boot, be it in another epoch: a renewal unanswered."""
        return broker.get("boot_id") == self._identity.boot_id
