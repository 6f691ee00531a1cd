"""The shell around the core: one thread, one turn at a time.

Sockets, threads, the clock and the metadata store bring events. `Shell` steps the core with them and executes the
returned effects in order. A turn is either the frames of one read, as many as fit into a time slice, or one other
event. `TurnEnd` follows, then each connection with replies is flushed once. No code here awaits within a turn.

An exception in the core or in an effect leaves state that is unsafe to use: the process ends at once (`halt`,
`yak.fail_stop`), and nothing of that turn is sent.
"""

import os
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, Protocol

import trio

from yak import limits as bounds
from yak.broker.counters import Counters as CoreCounters
from yak.core.events import (
    CallStore,
    CloseConnection,
    ClosePeer,
    ConnectPeer,
    DisksLost,
    DropJob,
    Effect,
    Event,
    LimitConnections,
    LoggedIn,
    MuteConnection,
    Notice,
    PeerProven,
    Ready,
    ReconfigureListeners,
    Refused,
    Reply,
    RunJob,
    SendPeer,
    Stopped,
    StopRequested,
    StoreLost,
    TailStore,
    TimerDue,
    TurnEnd,
    UnmuteConnection,
    WallClockMoved,
)
from yak.errors import FailStop, StartRefused
from yak.ids import ConnectionId, Nonce
from yak.ports.disk import Disk
from yak.ports.metadata_store import StoreRequest
from yak.server import log
from yak.server.clock import Clock
from yak.server.connection import Connection
from yak.server.connection_selector import ConnectionSelector
from yak.server.in_process import InProcess
from yak.server.jobs import JobRunner
from yak.server.latencies import Histogram, Latencies
from yak.server.peers import Peers
from yak.server.receive_buffer import Memory, SharedBuffer
from yak.server.send_queue import SendQueue

DISKS_LOST_EXIT_CODE: Final = 7
"""Exit code of a process whose last log directory failed; `yak help exit-codes`."""
SLOW_TURN_MS: Final = 200
"""A longer turn delays every connection and is logged."""
_RETRY_AFTER_BUG_SECONDS: Final = 1.0


class Core(Protocol):
    """The shell's view of `yak.broker.broker.Broker`."""

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; returns its effects in order. Raises FailStop."""

    def next_due(self) -> int | None:
        """When the next `TimerDue` is due, on the clock of `step`; None without timers."""

    def backlog(self, connection_id: ConnectionId) -> int:
        """Requests of a connection that were stepped and are not answered yet."""

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that the core copied for work after their step."""


class Store(Protocol):
    """The shell's view of the metadata store's client, `yak.server.redis_store`."""

    round_trips: Histogram
    """Latency of answered calls."""

    def submit(self, nonce: Nonce, request: StoreRequest) -> None:
        """Send one call; `StoreReplied` or `StoreLost` follows through `post`."""

    def tail(self, after: int) -> None:
        """(Re)start tailing after this metadata offset."""

    async def run(self, post: Callable[[Event], None]) -> None:
        """Connect, reconnect and post events, until cancelled."""


@dataclass(slots=True)
class ConnectionLimits:
    """The limits of `yak.limits` for sockets, changeable by configs and tests. Times in ms."""

    request_bytes_min: int = bounds.REQUEST_BYTES_MIN
    request_bytes_max: int = bounds.REQUEST_BYTES_MAX
    login_request_bytes_max: int = bounds.LOGIN_REQUEST_BYTES_MAX
    unsent_reply_bytes_max: int = bounds.UNSENT_REPLY_BYTES_MAX
    in_flight_max: int = bounds.REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
    first_byte_ms_max: int = bounds.FIRST_BYTE_MS_MAX
    tls_handshake_ms_max: int = bounds.TLS_HANDSHAKE_MS_MAX
    tls_handshakes_max: int = bounds.TLS_HANDSHAKES_MAX
    frame_ms_max: Callable[[int], int] = bounds.frame_deadline_ms
    idle_ms_max: int = bounds.IDLE_MS_MAX
    connections_max: int = bounds.CONNECTIONS_MAX
    connections_possible: int = bounds.CONNECTIONS_MAX
    """More do not have file handles, whatever `max.connections` says."""
    connections_per_ip_max: int = bounds.CONNECTIONS_PER_IP_MAX
    peers_reserved: int = bounds.PEERS_RESERVED
    peers_proving_max: int = bounds.PEERS_PROVING_MAX
    peer_proof_ms_max: int = bounds.PEER_PROOF_MS_MAX
    peer_connect_ms_max: int = bounds.PEER_CONNECT_MS_MAX
    peer_answer_bytes_max: int = bounds.PEER_ANSWER_BYTES_MAX
    memory_bytes_max: int = bounds.REQUEST_MEMORY_BYTES_MIN


@dataclass(slots=True)
class Counters:
    """Counters since the start, for metrics and tests."""

    frames: int = 0
    turns: int = 0
    sends: int = 0
    received_bytes: int = 0
    pauses: int = 0
    bugs: int = 0
    busy_ns: int = 0
    """Time in turns, without those of HTTP requests."""
    served_ns: int = 0
    """Time in passes of the selector."""
    slowest_turn_ms: float = 0.0
    bad_requests: dict[str, int] = field(default_factory=dict)

    def bad(self, kind: str) -> None:
        """Count an invalid request."""
        self.bad_requests[kind] = self.bad_requests.get(kind, 0) + 1


class Shell:
    """Turns events into effects and effects into I/O. Create it inside the nursery that runs its tasks."""

    def __init__(
        self,
        core: Core,
        nursery: trio.Nursery,
        *,
        disk: Disk,
        clock: Clock | None = None,
        limits: ConnectionLimits | None = None,
        store: Store | None = None,
        on_ready: Callable[[], Awaitable[None]] | None = None,
        latencies: Latencies | None = None,
        end_process: Callable[[int], NoReturn] = os._exit,
    ) -> None:
        self.core = core
        self.nursery = nursery
        self.clock = clock or Clock()
        self.limits = limits or ConnectionLimits()
        self.counters = Counters()
        self.latencies = latencies or Latencies(CoreCounters())
        self._core_counters = self.latencies.counters
        self.rate_limit = log.RateLimit()
        self.memory = Memory(self.limits.memory_bytes_max)
        self._core_held_bytes = 0
        self.shared_buffer = SharedBuffer(bounds.RECEIVE_BUFFER_BYTES, self.memory)
        self.jobs = JobRunner(nursery, self.post, self.clock, disk)
        self.connections: dict[ConnectionId, Connection] = {}
        self.in_process = InProcess(self)
        self.peers = Peers(self)
        self.selector = ConnectionSelector(self)
        self.touched: dict[SendQueue, None] = {}
        """Connections with replies of this turn, in order."""
        self.turn_ms = self.clock.now_ms()
        self.observers: list[Callable[[Notice], None]] = []
        """Each gets every notice besides the log, and must not do more than note it."""
        self.refusal: Refused | None = None
        self.stopped = trio.Event()
        self.store = store
        self._on_ready = on_ready
        self.on_listener_configs: Callable[[Mapping[str, str]], None] = lambda _: None
        """Called with the configs of single listeners when they change."""
        self._end_process = end_process
        self.in_turn = False
        self.last_served: SendQueue | None = None
        """The connection whose frames were stepped last; None for a request of this process."""
        self._turn_started_ns = 0
        self._posted: deque[Event] = deque()
        self._turn_end = TurnEnd()
        self._armed_ms: int | None = None
        self._timer_scope: trio.CancelScope | None = None
        self._on_effect: dict[type[Effect], Callable[..., None]] = {
            CloseConnection: self._close_connection,
            MuteConnection: self._mute,
            UnmuteConnection: self._unmute,
            PeerProven: self._peer_proven,
            LoggedIn: self._logged_in,
            RunJob: self.jobs.submit,
            DropJob: self.jobs.drop,
            ConnectPeer: self.peers.connect,
            SendPeer: self.peers.send,
            ClosePeer: self.peers.close,
            ReconfigureListeners: lambda effect: self.on_listener_configs(effect.configs),
            LimitConnections: self._limit_connections,
            CallStore: self._call_store,
            TailStore: self._tail_store,
            Notice: self._notice,
            Ready: self._ready,
            Refused: self._refused,
            DisksLost: self._disks_lost,
            Stopped: lambda _: self.stopped.set(),
        }

    # ------------------------------------------------------------------------------------------------- turns

    def post(self, event: Event) -> None:
        """Step the core with one non-frame event in a turn of its own: at once, or after the current turn."""
        self._posted.append(event)
        if not self.in_turn:
            self.begin_turn()
            self.end_turn()

    def begin_turn(self) -> int:
        """Start a turn. Returns the time of its steps in ms."""
        self.in_turn = True
        self._turn_started_ns = now_ns = self.clock.now_ns()
        self._core_counters.turn_ns = now_ns
        self.turn_ms = now_ms = now_ns // 1_000_000
        ahead_ms = self.clock.wall_moved(now_ns)
        if ahead_ms is not None:
            # before any frame of this turn, since timestamps of records are compared with the wall clock
            self._step(WallClockMoved(ahead_ms))
        return now_ms

    def end_turn(self) -> None:
        """Step posted events, end the core's turn, flush touched connections, and set the timer."""
        try:
            posted = self._posted
            while True:
                while posted:
                    self._step(posted.popleft())
                self._step(self._turn_end)
                touched = self.touched
                if touched:
                    self.touched = {}
                    for outgoing in touched:
                        outgoing.flush()
                if not posted and not self.touched:
                    break
        finally:
            self.in_turn = False
        self.counters.turns += 1
        if (held_bytes := self.core.held_bytes) != self._core_held_bytes:
            self.memory.change(held_bytes - self._core_held_bytes)
            self._core_held_bytes = held_bytes
        self._arm_timer()
        now_ns = self.clock.now_ns()
        took_ns = now_ns - self._turn_started_ns
        self.latencies.turn_ended(now_ns, took_ns)
        self.counters.busy_ns += took_ns
        took_ms = took_ns / 1e6
        if took_ms > self.counters.slowest_turn_ms:
            self.counters.slowest_turn_ms = took_ms
        if took_ms > SLOW_TURN_MS:
            self.rate_limit.write("warning", "slow-turn", {"took_ms": round(took_ms)})

    def _step(self, event: Event) -> None:
        effects = self.step(event, self.turn_ms)
        if effects:
            self.carry_out(effects)

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Step the core. Returns its effects."""
        try:
            return self.core.step(event, now_ms)
        except (FailStop, Exception) as error:  # noqa: BLE001 - the core is in a state that nothing may act on
            self.halt(type(event).__name__, error)

    def halt(self, event: str, error: BaseException) -> NoReturn:
        """End the process at once with its own exit code: no reply is sent, no file closed, no log marked clean."""
        cause = error.__cause__ if isinstance(error, FailStop) and error.__cause__ is not None else error
        fields: dict[str, object] = {
            "during": event,
            "in": error.what if isinstance(error, FailStop) else "the shell",
            "what": f"{type(cause).__name__}: {cause}",
            "exit_code": FailStop.exit_code,
        }
        log.write("error", "broker-halted", fields, error=cause)
        self._end_process(FailStop.exit_code)

    # ------------------------------------------------------------------------------------------------- effects

    def carry_out(self, effects: list[Effect]) -> None:
        """Execute effects in order."""
        effect: Effect | None = None
        try:
            for effect in effects:
                if type(effect) is Reply:
                    connection_id, parts = effect
                    connection = self.connections.get(connection_id)
                    if connection is not None:
                        if len(parts) == 1:  # most often; a slice never comes alone
                            connection.outgoing += parts
                            connection.unsent_bytes += len(parts[0])
                        else:
                            connection.queue(parts)
                        self.touched[connection] = None
                        if connection.relief is not None:
                            connection.relief.set()
                    else:
                        self.in_process.answered(connection_id, parts)
                else:
                    self._on_effect[type(effect)](effect)
        except Exception as error:  # noqa: BLE001 - the core counts on what was not done
            self.halt(type(effect).__name__, error)

    def _limit_connections(self, effect: LimitConnections) -> None:
        limits = self.limits
        limits.connections_max = min(effect.total, limits.connections_possible)
        limits.connections_per_ip_max = effect.per_address

    def _close_connection(self, effect: CloseConnection) -> None:
        connection = self.connections.get(effect.connection_id)
        if connection is not None and not connection.closing:
            self.counters.bad("closed-by-broker")
            fields: dict[str, object] = {"peer": connection.peer, "reason": effect.reason}
            self.rate_limit.write("info", "connection-closed", fields)
            connection.close(effect.reason)
        elif connection is None:
            self.in_process.closed(effect.connection_id, effect.reason)

    def _mute(self, effect: MuteConnection) -> None:
        connection = self.connections.get(effect.connection_id)
        if connection is not None:
            connection.mutes += 1

    def _unmute(self, effect: UnmuteConnection) -> None:
        connection = self.connections.get(effect.connection_id)
        if connection is not None:
            connection.unmute()

    def _peer_proven(self, effect: PeerProven) -> None:
        connection = self.connections.get(effect.connection_id)
        if connection is not None and connection.trial is not None:
            connection.trial.keep(connection)
        self._logged_in(effect)

    def _logged_in(self, effect: LoggedIn | PeerProven) -> None:
        connection = self.connections.get(effect.connection_id)
        if connection is not None:
            connection.request_bytes_max = self.limits.request_bytes_max

    def _call_store(self, effect: CallStore) -> None:
        if self.store is None:
            self.post(StoreLost("there is no metadata store"))
        else:
            self.store.submit(effect.nonce, effect.request)

    def _tail_store(self, effect: TailStore) -> None:
        if self.store is not None:
            self.store.tail(effect.after)

    def _notice(self, effect: Notice) -> None:
        write = self.rate_limit.write if effect.is_provoked else log.write
        write(effect.level, effect.event, effect.fields, error=effect.error)
        if effect.error is not None:
            self.counters.bugs += 1
        for observe in self.observers:
            try:
                observe(effect)
            except Exception as error:  # noqa: BLE001 - observers change nothing
                self.counters.bugs += 1
                self.rate_limit.write("error", "observer-failed", {"notice": effect.event}, error=error)

    def _ready(self, _effect: Ready) -> None:
        if self._on_ready is not None:
            self.nursery.start_soon(self._on_ready)

    def _refused(self, effect: Refused) -> None:
        self.refusal = effect
        self.post(StopRequested())  # without the mark of a clean stop, the next start may be a lossy one

    def _disks_lost(self, effect: DisksLost) -> None:
        """All log directories have failed: the process ends without an orderly stop, as Kafka's does."""
        fields = {"directory": effect.directory, "error": effect.error, "exit_code": DISKS_LOST_EXIT_CODE}
        log.write("error", "log-directories-lost", fields)
        self._end_process(DISKS_LOST_EXIT_CODE)

    # ------------------------------------------------------------------------------------------------- tasks

    def _arm_timer(self) -> None:
        """Wake the timer's task earlier, if a timer is due before all others."""
        due = self._next_due()
        if due is not None and (self._armed_ms is None or due < self._armed_ms):
            self._armed_ms = due
            if self._timer_scope is not None:
                self._timer_scope.deadline = self._deadline(due)

    def _next_due(self) -> int | None:
        try:
            return self.core.next_due()
        except Exception as error:  # noqa: BLE001 - nothing would run by the clock any more
            self.halt("next_due", error)

    def _deadline(self, due_ms: int) -> float:
        return trio.current_time() + max(1, due_ms - self.clock.now_ms()) / 1000

    async def run_timer(self) -> None:
        """The task that posts `TimerDue`; sleeps until the next due time, forever without one."""
        while True:
            self._armed_ms = due = self._next_due()
            with trio.CancelScope() as scope:
                if due is not None:
                    scope.deadline = self._deadline(due)
                self._timer_scope = scope
                await trio.sleep_forever()
            self._timer_scope = None
            now_ms = self.clock.now_ms()
            next_due = self._next_due()
            if next_due is not None and next_due <= now_ms:
                self.post(TimerDue())


async def keep_store_running(store: Store, post: Callable[[Event], None]) -> None:
    """The task of the metadata store's client. It restarts after a bug in the client, while the data path goes on."""
    while True:
        try:
            await store.run(post)
        except StartRefused:
            raise
        except Exception as error:  # noqa: BLE001 - a bug in it must not end the broker
            log.write("error", "store-client-failed", {"what": type(error).__name__}, error=error)
            post(StoreLost("".join(traceback.format_exception_only(error)).strip()))
        await trio.sleep(_RETRY_AFTER_BUG_SECONDS)
