"""What can happen to a broker, and what it can ask of the world: the whole border of the core.

The shell (`yak.server`) and the simulator (`yak.sim`) turn sockets, threads and the metadata store into events, hand
them to `Broker.step(event, now_ms)`, and carry out the effects that it returns, in order. Nothing else crosses.

A *turn* is all frames of one read of one socket; `TurnEnd` follows it and wakes what they woke.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from yak.ids import ConnectionId, JobId, Nonce, PeerId
from yak.seams.disk import Part
from yak.seams.metadata_store import StoreOutcome, StoreRequest, TailedRecord

# --------------------------------------------------------------------------------------------------------- events


@dataclass(slots=True)
class ConnectionOpened:
    """A client (or peer) connected; `peer` is `host:port`, for logs and client ids."""

    connection_id: ConnectionId
    peer: str
    round_trip_ms: int = 0
    """How long the line to the peer is, as the kernel measured it at the handshake; 0 when it cannot tell."""
    is_in_process: bool = False
    """Whether this very process asks, as for a request that came over HTTP."""


@dataclass(slots=True)
class FrameReceived:
    """One whole request, without its length prefix; a read-only view that is valid only during the step."""

    connection_id: ConnectionId
    frame: memoryview


@dataclass(slots=True)
class ConnectionClosed:
    """The connection is gone; no reply can reach it any more."""

    connection_id: ConnectionId


@dataclass(slots=True)
class TurnEnd:
    """All frames of one read were stepped: run the wake-ups and sends they collected."""


@dataclass(slots=True)
class TimerDue:
    """The time that `Broker.next_due()` named has come (or any time: an early one does nothing)."""


@dataclass(slots=True)
class JobDone:
    """A `RunJob` ended: `error` is what it raised, else `result` is what it returned."""

    job_id: JobId
    result: object
    error: BaseException | None


@dataclass(slots=True)
class StoreConnected:
    """The metadata store answers. `process_id` tells one store process from another (Redis run_id)."""

    process_id: str
    unsafe: tuple[str, ...] = ()
    """Settings of the store that make it unsafe, in words (see reliability rules: appendonly, appendfsync…)."""


@dataclass(slots=True)
class StoreLost:
    """The metadata store stopped answering; calls in flight were or were not executed."""

    reason: str


@dataclass(slots=True)
class StoreReplied:
    """The answer to one `CallStore`."""

    nonce: Nonce
    outcome: StoreOutcome


@dataclass(slots=True)
class RecordsTailed:
    """New records of the cluster's metadata log, in order, without a gap since those tailed before."""

    records: list[TailedRecord]


@dataclass(slots=True)
class PeerConnected:
    """A `ConnectPeer` reached the other broker."""

    peer_id: PeerId


@dataclass(slots=True)
class PeerAnswered:
    """One whole answer of a peer, without its length prefix; a read-only view that is valid only during the step."""

    peer_id: PeerId
    frame: memoryview


PeerEnd: TypeAlias = Literal["refused", "reset", "closed", "timeout", "unreachable"]
"""How a connection to a peer ended, or why there was none: nobody listens there; it was cut; it was closed in order; no
answer to the connect in time; anything else."""


@dataclass(slots=True)
class PeerLost:
    """A connection to a peer ended, or could not be made; comes once, and not after `ClosePeer`."""

    peer_id: PeerId
    how: PeerEnd
    reason: str = ""


@dataclass(slots=True)
class WallClockMoved:
    """The wall clock is `ahead_ms` ahead of the time of the steps (behind it when negative): it was set, or the machine
    is a virtual one that was suspended. What waits follows the steps, what is written for others the wall clock."""

    ahead_ms: int


@dataclass(slots=True)
class StopRequested:
    """Leave in order: finish, flush, write the clean-shutdown mark; `Stopped` follows when done."""


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
    | StopRequested
)

# -------------------------------------------------------------------------------------------------------- effects


@dataclass(slots=True)
class Reply:
    """Bytes for a connection, length prefix included, after all earlier ones of it."""

    connection_id: ConnectionId
    parts: list[Part]


@dataclass(slots=True)
class CloseConnection:
    """Send what is queued, then close; `reason` is for the log."""

    connection_id: ConnectionId
    reason: str


@dataclass(slots=True)
class PeerProven:
    """The other end of a connection has proven that it is a broker of this cluster: it may use what is kept for brokers."""

    connection_id: ConnectionId


JobKind: TypeAlias = Literal["flush", "read", "checkpoint", "delete", "recompress", "compact", "image", "cut"]


@dataclass(slots=True)
class RunJob:
    """Call `run` off the loop, in a thread, and bring back `JobDone`. Jobs of one kind may run side by side."""

    job_id: JobId
    kind: JobKind
    run: Callable[[], object]


@dataclass(slots=True)
class CallStore:
    """Ask the metadata store; exactly one `StoreReplied` or `StoreLost` follows."""

    nonce: Nonce
    request: StoreRequest


@dataclass(slots=True)
class TailStore:
    """(Re)start tailing the metadata log after this offset; `RecordsTailed` follows as records come."""

    after: int


@dataclass(slots=True)
class ConnectPeer:
    """Open a connection to another broker; `PeerConnected` or `PeerLost` follows. A peer id is never used twice."""

    peer_id: PeerId
    host: str
    port: int


@dataclass(slots=True)
class SendPeer:
    """One whole request for a peer, length prefix included, after all earlier ones; ignored when the peer is lost."""

    peer_id: PeerId
    parts: list[Part]


@dataclass(slots=True)
class ClosePeer:
    """Close a connection to a peer; no `PeerLost` follows."""

    peer_id: PeerId


@dataclass(slots=True)
class Notice:
    """A line for the log: a level, a stable event name, and fields."""

    level: Literal["debug", "info", "warning", "error"]
    event: str
    fields: dict[str, object]
    is_provoked: bool = False
    """A client can cause it with each request: the log writes some of them, and how many it held back."""
    error: Exception | None = None
    """A bug of ours: the log writes its traceback."""


@dataclass(slots=True)
class Ready:
    """Registered and caught up: start to listen. Comes once."""


@dataclass(slots=True)
class Refused:
    """The broker cannot join this cluster (another cluster's id, its node id is taken…): stop with this error."""

    code: str
    message: str
    why: str
    try_: tuple[str, ...]


@dataclass(slots=True)
class DisksLost:
    """The last log directory failed: end the process at once, as Kafka does (LogManager.handleLogDirFailure)."""

    directory: str
    error: str


@dataclass(slots=True)
class Stopped:
    """All is flushed and marked clean; the process may end."""


Effect: TypeAlias = (
    Reply
    | CloseConnection
    | PeerProven
    | RunJob
    | CallStore
    | TailStore
    | ConnectPeer
    | SendPeer
    | ClosePeer
    | Notice
    | Ready
    | Refused
    | DisksLost
    | Stopped
)
