"""External brokers: other software, registered by clients of the metadata service to be listed (ADR 0011).

Pure, as `yak.cluster.topic_changes`: requests are checked against the image and become requests to the store, whose
scripts check them again. An external broker is only listed, as ACTIVE or CLOSED: it gets no partitions, takes no part
in elections, and no broker waits for it.
"""

from dataclasses import asdict, dataclass
from typing import Final

from yak.cluster.image import ExternalBrokerInfo, Image
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, PeerError
from yak.ids import BrokerEpoch, NodeId
from yak.limits import EXTERNAL_BROKERS_MAX
from yak.ports.metadata_store import StoreRequest

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By number, as in Kafka (SecurityProtocol.java)."""


@dataclass(slots=True, frozen=True)
class Address:
    """The address that an external broker registered."""

    host: str
    port: int
    rack: str | None = None
    security_protocol: str = "PLAINTEXT"


def plan_register_external_broker(
    image: Image, node_id: NodeId, boot_id: str, address: Address
) -> tuple[StoreRequest, ...]:
    """Register an external broker, new or closed before. Raises PeerError: DUPLICATE_BROKER_REGISTRATION.

    `boot_id` names the registration: a request with the same one is a repeat, also for the store.
    """
    if node_id in image.brokers or node_id in image.unregistered:
        words = f"Broker {node_id} is or was a broker of this cluster."
        raise PeerError(ErrorCode.duplicate_broker_registration, words)
    old = image.external_brokers.get(node_id)
    is_alive = old is not None and old.state is BrokerState.ACTIVE
    if old is not None and is_alive and (old.boot_id, address_of(old)) != (boot_id, address):
        raise PeerError(ErrorCode.duplicate_broker_registration, f"Broker {node_id} is registered.")
    if old is not None and not is_alive and old.boot_id == boot_id:
        words = f"This registration of broker {node_id} was closed."
        raise PeerError(ErrorCode.duplicate_broker_registration, words)
    named: dict[str, object] = {"target_id": node_id, "boot_id": boot_id, "guests_max": EXTERNAL_BROKERS_MAX}
    return (StoreRequest("register_guest", named | asdict(address)),)


def plan_change_external_broker(
    image: Image, node_id: NodeId, epoch: BrokerEpoch, address: Address, nonce: str
) -> tuple[StoreRequest, ...]:
    """Change the address of an external broker and make it ACTIVE.

    Raises PeerError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    broker = _registered(image, node_id)
    if broker.broker_epoch != epoch:
        raise PeerError(ErrorCode.stale_broker_epoch, f"Broker {node_id} is at epoch {broker.broker_epoch}.")
    return (_change(node_id, epoch, address, BrokerState.ACTIVE, nonce),)


def plan_close_external_broker(image: Image, node_id: NodeId, nonce: str) -> tuple[StoreRequest, ...]:
    """Close an external broker, whose record stays; a closed one needs no request.

    Raises PeerError: BROKER_ID_NOT_REGISTERED.
    """
    broker = _registered(image, node_id)
    if broker.state is BrokerState.CLOSED:
        return ()
    return (_change(node_id, broker.broker_epoch, address_of(broker), BrokerState.CLOSED, nonce),)


def address_of(broker: ExternalBrokerInfo) -> Address:
    """The address of an external broker."""
    return Address(broker.host, broker.port, broker.rack, broker.security_protocol)


def _registered(image: Image, node_id: NodeId) -> ExternalBrokerInfo:
    broker = image.external_brokers.get(node_id)
    if broker is None:
        raise PeerError(
            ErrorCode.broker_id_not_registered, f"Broker {node_id} is not registered as an external broker."
        )
    return broker


def _change(node_id: NodeId, epoch: BrokerEpoch, address: Address, state: BrokerState, nonce: str) -> StoreRequest:
    named: dict[str, object] = {"target_id": node_id, "target_epoch": epoch, "state": state.value, "nonce": nonce}
    return StoreRequest("change_guest", named | asdict(address))
