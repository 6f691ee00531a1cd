"""The outputs of the broker lifecycle; the first four are effects of the broker core as well."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from yak.cluster.snapshot import SnapshotText
from yak.errors import PeerError
from yak.ids import Nonce
from yak.ports.metadata_store import StoreRequest
from yak.protocol.peer_proof import ClusterSecret

OnChanged: TypeAlias = Callable[[PeerError | None, tuple[dict[str, Any], ...]], None]
"""Called when a change is in the image, with the store's answers, one per request, or when it is refused."""


@dataclass(slots=True)
class CallStore:
    """Send a request to the metadata store; exactly one `StoreReplied` or `StoreLost` follows."""

    nonce: Nonce
    request: StoreRequest


@dataclass(slots=True)
class TailStore:
    """(Re)start tailing the metadata log after this offset; each batch of new records comes as `RecordsTailed`."""

    after: int


@dataclass(slots=True)
class Notice:
    """A line for the log: a level, a stable event name, and fields."""

    level: Literal["debug", "info", "warning", "error"]
    event: str
    fields: dict[str, object]
    is_provoked: bool = False
    """A client can cause it with each request: the log writes some of them, and the number it suppressed."""
    error: Exception | None = None
    """The exception of a bug in YAK: the log writes its traceback."""


@dataclass(slots=True)
class Refused:
    """The broker cannot join this cluster (the cluster id differs, its node id is taken…): stop with this error."""

    code: str
    message: str
    why: str
    try_: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Work:
    """Run `plan` in a thread; its result goes to `BrokerLifecycle.on_worked`, with `done`."""

    plan: SnapshotText
    done: Callable[[object], None]


@dataclass(slots=True, frozen=True)
class BecameReady:
    """The broker is registered, unfenced and caught up, and its partitions have leaders. Comes once."""


@dataclass(slots=True, frozen=True)
class ChangeDone:
    """A change begun with `BrokerLifecycle.begin` was refused, or is done and in the image: call `done`."""

    done: OnChanged
    error: PeerError | None
    values: tuple[dict[str, Any], ...]


@dataclass(slots=True, frozen=True)
class Left:
    """The broker has left the cluster, or the store did not answer in time to record it."""


@dataclass(slots=True, frozen=True)
class SecretAgreed:
    """This broker is registered, and this is the cluster's secret, which all brokers read from the store."""

    secret: ClusterSecret


Output: TypeAlias = CallStore | TailStore | Notice | Refused | Work | BecameReady | ChangeDone | Left | SecretAgreed
