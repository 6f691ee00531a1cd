"""External brokers: other software, registered by clients of the metadata service to be listed (ADR 0011).

Pure, as `yak.cluster.topic_changes`: requests are checked against the image and become requests to the store, whose
scripts check them again. An external broker is only listed, as ACTIVE or CLOSED: it gets no partitions, takes no part
in elections, and no broker waits for it.
"""

from dataclasses import dataclass
from typing import Final

from yak.cluster.image import GuestInfo, Image
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, NodeId
from yak.limits import GUESTS_MAX
from yak.seams.metadata_store import StoreRequest

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By number, as in Kafka (SecurityProtocol.java)."""


@dataclass(slots=True, frozen=True)
class Place:
    """The address that an external broker registered."""

    host: str
    port: int
    rack: str | None = None
    security_protocol: str = "PLAINTEXT"


def plan_register_guest(image: Image, node_id: NodeId, boot_id: str, place: Place) -> tuple[StoreRequest, ...]:
    """Register an external broker, new or closed before. Raises PeerError: DUPLICATE_BROKER_REGISTRATION.

    `boot_id` names the registration: a request with the same one is a repeat, also for the store.
    """
    if node_id in image.brokers or node_id in image.unregistered:
        words = f"Broker {node_id} is or was a broker of this cluster."
        raise PeerError(ErrorCode.duplicate_broker_registration, words)
    old = image.guests.get(node_id)
    is_alive = old is not None and old.state is BrokerState.ACTIVE
    if old is not None and is_alive and (old.boot_id, place_of(old)) != (boot_id, place):
        raise PeerError(ErrorCode.duplicate_broker_registration, f"Broker {node_id} is registered.")
    if old is not None and not is_alive and old.boot_id == boot_id:
        words = f"This registration of broker {node_id} was closed."
        raise PeerError(ErrorCode.duplicate_broker_registration, words)
    named: dict[str, object] = {"target_id": node_id, "boot_id": boot_id, "guests_max": GUESTS_MAX}
    return (StoreRequest("register_guest", named | _said(place)),)


def plan_change_guest(
    image: Image, node_id: NodeId, epoch: BrokerEpoch, place: Place, nonce: str
) -> tuple[StoreRequest, ...]:
    """Change the address of an external broker and make it ACTIVE.

    Raises PeerError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    guest = _guest(image, node_id)
    if guest.broker_epoch != epoch:
        raise PeerError(ErrorCode.stale_broker_epoch, f"Broker {node_id} is at epoch {guest.broker_epoch}.")
    return (_change(node_id, epoch, place, BrokerState.ACTIVE, nonce),)


def plan_close_guest(image: Image, node_id: NodeId, nonce: str) -> tuple[StoreRequest, ...]:
    """Close an external broker, whose record stays; a closed one needs no request.

    Raises PeerError: BROKER_ID_NOT_REGISTERED.
    """
    guest = _guest(image, node_id)
    if guest.state is BrokerState.CLOSED:
        return ()
    return (_change(node_id, guest.broker_epoch, place_of(guest), BrokerState.CLOSED, nonce),)


def place_of(guest: GuestInfo) -> Place:
    """The address of an external broker."""
    return Place(guest.host, guest.port, guest.rack, guest.security_protocol)


def _guest(image: Image, node_id: NodeId) -> GuestInfo:
    guest = image.guests.get(node_id)
    if guest is None:
        raise PeerError(ErrorCode.broker_id_not_registered, f"Broker {node_id} is not registered as a guest.")
    return guest


def _said(place: Place) -> dict[str, object]:
    return {
        "host": place.host,
        "port": place.port,
        "rack": place.rack,
        "security_protocol": place.security_protocol,
    }


def _change(node_id: NodeId, epoch: BrokerEpoch, place: Place, state: BrokerState, nonce: str) -> StoreRequest:
    named: dict[str, object] = {"target_id": node_id, "target_epoch": epoch, "state": state.value, "nonce": nonce}
    return StoreRequest("change_guest", named | _said(place))
