"""The events that a broker takes and the effects that it returns: the whole interface of the core.

The shell (`yak.server`) and the simulator (`yak.sim`) turn sockets, threads and the metadata store into events, pass
them to `Broker.step(event, now_ms)`, and carry out the effects that it returns, in order.

A *turn* is all frames of one read of one socket; `TurnEnd` follows it and completes the delayed operations they affected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

from yak.cluster.outputs import CallStore, Notice, Refused, TailStore
from yak.config.listeners import PLAINTEXT_LISTENER, Listener
from yak.ids import ConnectionId, JobId, Nonce, PeerId
from yak.ports.disk import Disk, Part
from yak.ports.metadata_store import StoreOutcome, TailedRecord
from yak.security import ANONYMOUS

# --------------------------------------------------------------------------------------------------------- events


@dataclass(slots=True)
class ConnectionOpened:
    """A client or another broker connected; `peer` is `host:port`, for logs and client ids."""

    connection_id: ConnectionId
    peer: str
    round_trip_ms: int = 0
    """The round trip time that the kernel measured at the handshake; 0 when unknown."""
    is_in_process: bool = False
    """Whether this process itself is the client, as for a request that came over HTTP."""
    principal: str = ANONYMOUS
    """The user that the connection itself proves, by the certificate of a TLS client."""
    listener: Listener = PLAINTEXT_LISTENER
    """The listener that accepted the connection. A request in this process has that of the other brokers."""


class FrameReceived(NamedTuple):
    """One whole request without its length prefix: a read-only view, valid only during the step.

    Like `Reply` it is a tuple, which takes a third of the time to build: each request has one of both.
    """

    connection_id: ConnectionId
    frame: memoryview


@dataclass(slots=True)
class ConnectionClosed:
    """The connection is closed; no reply can reach it."""

    connection_id: ConnectionId


@dataclass(slots=True)
class TurnEnd:
    """All frames of one read were stepped: complete the delayed operations and start the sends they collected."""


@dataclass(slots=True)
class TimerDue:
    """The time that `Broker.next_due()` returned has come; an early one does nothing."""


@dataclass(slots=True)
class JobDone:
    """A `RunJob` ended: `error` is the exception it raised, else `result` is its return value."""

    job_id: JobId
    result: object
    error: BaseException | None


@dataclass(slots=True)
class StoreConnected:
    """The metadata store answers. `process_id` identifies the store's process (Redis run_id)."""

    process_id: str
    unsafe: tuple[str, ...] = ()
    """The store's settings that could lose metadata, such as `appendfsync`, as text."""


@dataclass(slots=True)
class StoreLost:
    """The metadata store stopped answering; calls in flight may or may not have been executed."""

    reason: str


@dataclass(slots=True)
class StoreReplied:
    """The answer to one `CallStore`."""

    nonce: Nonce
    outcome: StoreOutcome


@dataclass(slots=True)
class RecordsTailed:
    """New records of the cluster's metadata log, in order, without a gap to the previous ones."""

    records: list[TailedRecord]


@dataclass(slots=True)
class PeerConnected:
    """A `ConnectPeer` reached the other broker."""

    peer_id: PeerId


@dataclass(slots=True)
class PeerAnswered:
    """One whole answer of a peer without its length prefix: a read-only view, valid only during the step."""

    peer_id: PeerId
    frame: memoryview


PeerEnd: TypeAlias = Literal["refused", "reset", "closed", "timeout", "unreachable"]
"""How a connection to a peer ended, or why the connect failed: no process listens there; reset; closed in order; no answer
to the connect in time; anything else."""


@dataclass(slots=True)
class PeerLost:
    """A connection to a peer ended, or the connect failed; comes once, and not after `ClosePeer`."""

    peer_id: PeerId
    how: PeerEnd
    reason: str = ""


@dataclass(slots=True)
class WallClockMoved:
    """The wall clock is `ahead_ms` ahead of the time of the steps (behind it when negative): it was set, or the virtual
    machine was suspended. Timers follow the steps; timestamps in records and answers follow the wall clock."""

    ahead_ms: int


@dataclass(slots=True)
class OwnUsersChanged:
    """The users of this broker alone changed: SCRAM credentials by name and mechanism. The next logins use them."""

    users: Mapping[str, Mapping[str, str]] = field(repr=False)


@dataclass(slots=True)
class StopRequested:
    """Start a controlled shutdown: move leaderships, flush, write the clean-shutdown mark; then `Stopped` follows."""


Event: TypeAlias = (
    ConnectionOpened
    | FrameReceived
    | ConnectionClosed
    | TurnEnd
    | TimerDue
    | JobDone
    | StoreConnected
    | StoreLost
    | StoreReplied
    | RecordsTailed
    | PeerConnected
    | PeerAnswered
    | PeerLost
    | WallClockMoved
    | OwnUsersChanged
    | StopRequested
)

# -------------------------------------------------------------------------------------------------------- effects


class Reply(NamedTuple):
    """Bytes for a connection, length prefix included; sent after all earlier replies of the connection."""

    connection_id: ConnectionId
    parts: list[Part]


@dataclass(slots=True)
class CloseConnection:
    """Send the queued replies, then close; `reason` is for the log."""

    connection_id: ConnectionId
    reason: str


@dataclass(slots=True)
class MuteConnection:
    """Read no request of the connection until an `UnmuteConnection` for each of these; replies are sent (KIP-219)."""

    connection_id: ConnectionId


@dataclass(slots=True)
class UnmuteConnection:
    """End one `MuteConnection`: requests are read again after the last one."""

    connection_id: ConnectionId


@dataclass(slots=True)
class PeerProven:
    """The other end has proven that it is a broker of this cluster: it may use the reserved connections."""

    connection_id: ConnectionId


@dataclass(slots=True)
class LoggedIn:
    """The client is authenticated: its requests may be as large as all others."""

    connection_id: ConnectionId


JobKind: TypeAlias = Literal[
    "flush",
    "read",
    "checkpoint",
    "delete",
    "recompress",
    "compact",
    "image",
    "truncate",
    "move",
    "quorum",
    "login",
    "key set",
]


class Plan(Protocol):
    """The work of a job as a value: a frozen dataclass of paths, positions, bytes and immutable values.

    A plan holds no log, partition or broker. Only the step changes them, when it gets the result of `run`.
    """

    def run(self, disk: Disk) -> object:
        """Do the work in a thread; returns a value for the step, or raises an exception for it."""


@dataclass(slots=True)
class RunJob:
    """Run `plan` in a thread; `JobDone` follows. `yak.core.jobs.SIDE_BY_SIDE` jobs of a kind may run concurrently."""

    job_id: JobId
    kind: JobKind
    plan: Plan


@dataclass(slots=True)
class DropJob:
    """Nothing waits for this job any more: one that has not begun ends at once, with the result None."""

    job_id: JobId
    kind: JobKind


@dataclass(slots=True)
class ConnectPeer:
    """Connect to another broker; `PeerConnected` or `PeerLost` follows. A peer id is never reused."""

    peer_id: PeerId
    host: str
    port: int


@dataclass(slots=True)
class SendPeer:
    """One whole request for a peer, length prefix included, sent after all earlier ones; ignored when the peer is lost."""

    peer_id: PeerId
    parts: list[Part]


@dataclass(slots=True)
class ClosePeer:
    """Close a connection to a peer; no `PeerLost` follows."""

    peer_id: PeerId


@dataclass(slots=True)
class LimitConnections:
    """Accept at most so many connections from now on, and so many from one address."""

    total: int
    per_address: int


@dataclass(slots=True)
class ReconfigureListeners:
    """Use these configs of single listeners over those of the start, and read the files of all listeners again."""

    configs: Mapping[str, str]


@dataclass(slots=True)
class Ready:
    """The broker is registered and has caught up with the metadata: start to listen. Comes once."""


@dataclass(slots=True)
class DisksLost:
    """The last log directory failed: end the process at once, as Kafka does (LogManager.handleLogDirFailure)."""

    directory: str
    error: str


@dataclass(slots=True)
class Stopped:
    """The logs are flushed and marked clean; the process may end."""


Effect: TypeAlias = (
    Reply
    | CloseConnection
    | MuteConnection
    | UnmuteConnection
    | PeerProven
    | LoggedIn
    | RunJob
    | DropJob
    | CallStore
    | TailStore
    | ConnectPeer
    | SendPeer
    | ClosePeer
    | ReconfigureListeners
    | LimitConnections
    | Notice
    | Ready
    | Refused
    | DisksLost
    | Stopped
)
