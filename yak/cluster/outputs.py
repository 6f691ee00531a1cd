"""The outputs of the broker lifecycle: the broker core turns each into an effect."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from yak.cluster.snapshot import SnapshotText
from yak.errors import PeerError
from yak.ids import MetadataOffset, Nonce
from yak.ports.metadata_store import StoreRequest
from yak.protocol.peer_proof import ClusterSecret


@dataclass(slots=True, frozen=True)
class Call:
    """Call the metadata store."""

    nonce: Nonce
    request: StoreRequest


@dataclass(slots=True, frozen=True)
class Tail:
    """(Re)start tailing the metadata log after this offset."""

    after: MetadataOffset


@dataclass(slots=True, frozen=True)
class Say:
    """Log an event."""

    level: Literal["debug", "info", "warning", "error"]
    event: str
    fields: dict[str, object]


@dataclass(slots=True, frozen=True)
class Work:
    """Run `plan` in a thread; its result goes to `BrokerLifecycle.on_worked`, with `done`."""

    plan: SnapshotText
    done: Callable[[object], None]


@dataclass(slots=True, frozen=True)
class BecameReady:
    """The broker is registered, unfenced and caught up, and its partitions have leaders. Comes once."""


@dataclass(slots=True, frozen=True)
class Refuse:
    """Stop this broker with this message: it cannot be part of this cluster."""

    code: str
    message: str
    why: str
    try_: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class ChangeDone:
    """A change begun with `BrokerLifecycle.begin` was refused, or is done and in the image.

    `values` are the store's answers, one per request.
    """

    change_id: int
    error: PeerError | None
    values: tuple[dict[str, object], ...] = ()


@dataclass(slots=True, frozen=True)
class Left:
    """The broker has left the cluster, or the store did not answer in time to record it."""


@dataclass(slots=True, frozen=True)
class SecretAgreed:
    """This broker is registered, and this is the cluster's secret, which all brokers read from the store."""

    secret: ClusterSecret


Output: TypeAlias = Call | Tail | Say | Work | BecameReady | Refuse | ChangeDone | Left | SecretAgreed
