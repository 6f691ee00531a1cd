"""What the membership asks its driver to do; the broker core turns each into an effect."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from yak.errors import PeerError
from yak.ids import MetadataOffset, Nonce
from yak.protocol.peer_proof import ClusterSecret
from yak.seams.metadata_store import StoreRequest


@dataclass(slots=True, frozen=True)
class Call:
    """Ask the metadata store."""

    nonce: Nonce
    request: StoreRequest


@dataclass(slots=True, frozen=True)
class Tail:
    """(Re)start tailing the metadata log after this offset."""

    after: MetadataOffset


@dataclass(slots=True, frozen=True)
class Say:
    """A line for the log."""

    level: Literal["debug", "info", "warning", "error"]
    event: str
    fields: dict[str, object]


@dataclass(slots=True, frozen=True)
class Work:
    """Call `run` in a thread; its result goes to `Membership.on_worked`, with `done`."""

    run: Callable[[], object]
    done: Callable[[object], None]


@dataclass(slots=True, frozen=True)
class BecameReady:
    """Registered, unfenced, caught up, leaders of our partitions elected. Comes once."""


@dataclass(slots=True, frozen=True)
class Refuse:
    """This broker cannot be part of this cluster: stop it with these words."""

    code: str
    message: str
    why: str
    try_: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class ChangeDone:
    """A change begun with `Membership.begin` ended: refused, or done and already in the image.

    `values` are the store's answers, one a request.
    """

    change_id: int
    error: PeerError | None
    values: tuple[dict[str, object], ...] = ()


@dataclass(slots=True, frozen=True)
class Left:
    """The broker has left the cluster in order, or the store did not answer in time to note it."""


@dataclass(slots=True, frozen=True)
class SecretAgreed:
    """This broker is registered, and the secret of its cluster is this one: the store's, which all brokers take."""

    secret: ClusterSecret


Output: TypeAlias = Call | Tail | Say | Work | BecameReady | Refuse | ChangeDone | Left | SecretAgreed
