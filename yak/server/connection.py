"""One client connection on a raw non-blocking socket: passes whole frames to the core and sends gathered replies."""

import contextlib
import mmap
import socket
from struct import Struct
from typing import TYPE_CHECKING, Final

import trio

from yak.config.listeners import Listener
from yak.core.events import ConnectionClosed, ConnectionOpened, FrameReceived
from yak.ids import ConnectionId
from yak.limits import (
    ALONE_TURNS,
    HEAVY_MS,
    HEAVY_SLICES,
    LARGE_REQUEST_ELEMENTS,
    LONG_STEP_NS,
    TURN_SLICE_ALONE_NS,
    TURN_SLICE_NS,
)
from yak.protocol.versions import API_VERSIONS, SASL_HANDSHAKE
from yak.security import ANONYMOUS
from yak.server import log
from yak.server.connection_selector import Weight
from yak.server.low_water import LowWater
from yak.server.receive_buffer import FRAME_LENGTH, ReceiveBuffer
from yak.server.send_queue import SendQueue, round_trip_ms, tcp_info, unread_bytes
from yak.server.wrong_protocol import describe_bad_length

if TYPE_CHECKING:
    from yak.server.peer_reserve import PeerReserve
    from yak.server.shell import Shell

_NEW: Final = 2**63
"""A connection has no turn together with others until one of its own ends within a slice. Otherwise 200 new connections
with a burst each would hold the loop for 200 slices."""
_HEAD: Final = Struct(">4xh")
"""The length and the API key of a request."""
_FIRST_REQUESTS: Final = (API_VERSIONS, SASL_HANDSHAKE)
_CHECK_BACKLOG_EVERY: Final = 64
_CLOSE_DRAIN_SECONDS: Final = 5.0
_make = tuple.__new__
_TCP_CLOSE: Final = b"\7"
_TCP_CLOSE_WAIT: Final = b"\10"
"""The first byte of struct tcp_info, a state of Linux's tcp_states.h: both sides have closed, or only the peer has."""


class Connection(SendQueue):
    """One accepted socket. `run` is its task; the shell calls the other methods within a turn."""

    __slots__ = (
        "_alone_turns",
        "_drained",
        "_draining",
        "_heavy_until_ms",
        "_held_bytes",
        "_low_water",
        "_peer_has_ended",
        "_scope",
        "_shell",
        "_slices",
        "_unread_bytes",
        "close_reason",
        "closing",
        "connection_id",
        "drained_bytes",
        "frame_since_ms",
        "has_sent",
        "input",
        "last_active_ms",
        "listener",
        "mutes",
        "opened_ms",
        "peer",
        "peer_ip",
        "principal",
        "relief",
        "request_bytes_max",
        "trial",
    )

    def __init__(
        self,
        shell: "Shell",
        sock: socket.socket,
        connection_id: ConnectionId,
        peer_ip: str,
        peer: str,
        listener: Listener,
    ) -> None:
        super().__init__(sock)
        self.connection_id = connection_id
        self.peer_ip = peer_ip
        self.peer = peer
        self.principal = ANONYMOUS
        self.listener = listener
        self.request_bytes_max = shell.limits.request_bytes_max
        """A client that has not logged in may send small requests only."""
        if listener.security_protocol.uses_sasl:
            self.request_bytes_max = min(self.request_bytes_max, shell.limits.login_request_bytes_max)
        self.input = ReceiveBuffer(shell.shared_buffer)
        self._low_water = LowWater()
        self.closing = False
        self.mutes = 0
        """Reasons to leave its requests in the socket: a quota, a login, and the stop may each be one."""
        self.close_reason = ""
        self.has_sent = False
        self.frame_since_ms = 0
        self.opened_ms = self.last_active_ms = shell.clock.now_ms()
        self.trial: PeerReserve | None = None
        """Set while this connection exceeds a limit and is not yet known to be another broker's."""
        self._shell = shell
        self._scope = trio.CancelScope()
        self.relief: trio.Event | None = None
        """Set while reading is paused; setting the event resumes it."""
        self._drained: trio.Event | None = None
        self._draining = False
        self.drained_bytes = 0
        """What it has sent while the socket did not take all: of a client that reads slowly."""
        self._peer_has_ended = False
        self._held_bytes = 0
        self._unread_bytes = 0
        """Received bytes outside of `input`: those that TLS has not passed on yet."""
        self._slices = 0
        """Full slices in succession."""
        self._heavy_until_ms: int = _NEW
        self._alone_turns = 0

    # ------------------------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Serve the connection until either side ends it. Errors of the peer never leave this method."""
        shell = self._shell
        try:
            with self._scope:
                await self._read_until_end()
            await self._send_rest()
        except Exception as error:  # noqa: BLE001 - a bug in serving one connection must not end the others
            self._failed(error)
        finally:
            self.closing = True
            self._forget_replies()
            self.input.release()
            shell.memory.no_longer_exempt(self)
            shell.connections.pop(self.connection_id, None)
            shell.touched.pop(self, None)
            shell.selector.forget(self)
            self.sock.close()
            shell.post(ConnectionClosed(self.connection_id))

    async def _read_until_end(self) -> None:
        shell = self._shell
        sock = self.sock
        shell.post(
            ConnectionOpened(
                self.connection_id, self.peer, round_trip_ms(sock), principal=self.principal, listener=self.listener
            )
        )
        while not self.closing:
            if self._must_stop_reading():
                await self._pause()
            else:
                await shell.selector.wait(self)

    async def _send_rest(self) -> None:
        """Send the queued replies as long as the client reads them."""
        while self.outgoing:
            before = self.unsent_bytes
            self._drained = trio.Event()
            with trio.move_on_after(_CLOSE_DRAIN_SECONDS):
                await self._drained.wait()
            if self.unsent_bytes == before:
                return

    def serve_readable(self) -> bool:
        """Step the frames of one read, in the current turn if there is one; False if the task must pause, or end."""
        try:
            if self.closing or self._must_stop_reading():
                return False
            self._read_once()
            return not self.closing
        except Exception as error:  # noqa: BLE001 - as in `run`
            self._failed(error)
            return False

    @property
    def weight(self) -> Weight:
        """How its next turn is taken."""
        if self._shell.turn_ms < self._heavy_until_ms or self.input.is_in_large_frame:
            return Weight.HEAVY if self.has_sent or not self._begins_cheaply() else Weight.NEW
        return Weight.FURTHER if self._slices else Weight.LIGHT

    def _begins_cheaply(self) -> bool:
        """Whether its first request is one that clients begin with, as far as the kernel has it."""
        try:
            head = self.sock.recv(_HEAD.size, socket.MSG_PEEK)
        except OSError:
            return True
        return len(head) < _HEAD.size or _is_cheap(head)

    @property
    def has_more(self) -> bool:
        """Whether an earlier turn has left whole frames, or ended in front of one that is too large."""
        return self.input.has_whole_frames or self.input.frame_bytes - 4 > self.request_bytes_max

    def _read_once(self) -> None:
        """Run at most one turn: frames left by an earlier turn, or those of one `recv`. Raises OSError."""
        frames_in = self.input
        if frames_in.has_whole_frames:
            frames_in.step_rest(self._step_frames)
            return
        if frames_in.frame_bytes - 4 > self.request_bytes_max:
            self._refuse_length(frames_in.frame_bytes - 4, b"")
            return
        try:
            received = frames_in.receive(self.sock, self._step_frames)
        except BlockingIOError:
            return
        if received <= 0:
            # Kafka's Selector takes the end of a client's side for a disconnect too (attemptRead, CloseMode.GRACEFUL): it
            # serves the requests that it has received, and sends no answer that is not ready by then.
            self._because("peer closed")
            self.closing = True
            return
        self._note_received(received)
        self._low_water.mark(self.sock, frames_in.missing_bytes)

    def _note_received(self, received: int) -> None:
        shell = self._shell
        shell.counters.received_bytes += received
        now_ms = self.last_active_ms = shell.clock.now_ms()
        self.has_sent = True
        if not self.input.frame_bytes:
            self.frame_since_ms = 0
            if shell.memory.exempt is self:
                shell.memory.no_longer_exempt(self)
        elif not self.frame_since_ms:
            self.frame_since_ms = now_ms

    def _step_frames(self, buffer: bytearray | mmap.mmap, view: memoryview, end: int) -> int:
        """Step the whole frames in `buffer[:end]`, in a turn of their own unless one is under way.

        Returns the end of the last one.
        """
        shell = self._shell
        has_own_turn = not shell.in_turn
        if has_own_turn:
            shell.begin_turn()
        now_ms = shell.turn_ms
        steady_ns = shell.clock.steady_ns
        passed_ns = steady_ns()
        slice_end_ns = passed_ns + (self._slice_ns(buffer) if has_own_turn else TURN_SLICE_NS)
        shell.last_served = self
        step = shell.step
        carry_out = shell.carry_out
        unpack_length = FRAME_LENGTH.unpack_from
        connection_id = self.connection_id
        limits = shell.limits
        length_min, length_max = limits.request_bytes_min, self.request_bytes_max
        unsent_max = limits.unsent_reply_bytes_max
        start = frames = 0
        try:
            while end - start >= 4:
                length = unpack_length(buffer, start)[0]
                if length < length_min or length > length_max:
                    self._refuse_length(length, bytes(buffer[start : min(end, start + 16)]))
                    break
                stop = start + 4 + length
                if stop > end:
                    break
                if self.trial is not None and not self.trial.admits(self, view[start + 4 : stop]):
                    break
                effects = step(_make(FrameReceived, (connection_id, view[start + 4 : stop])), now_ms)
                start = stop
                frames += 1
                if effects:
                    carry_out(effects)
                    length_max = self.request_bytes_max
                    if self.closing or self.mutes or self.unsent_bytes > unsent_max:
                        break
                elif length > LARGE_REQUEST_ELEMENTS and shell.core.backlog(connection_id) >= limits.in_flight_max:
                    break  # an element has at least one byte, so this one may be served in slices: later ones wait
                passed_ns = steady_ns()
                if passed_ns > slice_end_ns:
                    break
                if frames % _CHECK_BACKLOG_EVERY == 0 and shell.core.backlog(connection_id) >= limits.in_flight_max:
                    break
        except Exception as error:  # noqa: BLE001 - a bug in cutting one connection's frames must not end the others
            self._failed(error)
        if frames:
            self.frame_since_ms = 0
            shell.counters.frames += frames
            self._note_slice(passed_ns - slice_end_ns > (0 if end - start >= 4 else LONG_STEP_NS))
        if has_own_turn:
            shell.end_turn()
        return end if self.closing else start

    def _slice_ns(self, received: bytearray | mmap.mmap) -> int:
        """How long a turn of its own may take: longer while no other client or broker has had one for some time."""
        if not self.has_sent and _is_cheap(received):
            return 0  # this request alone: it did not wait for the heavy ones
        self._alone_turns = self._alone_turns + 1 if self._shell.last_served is self else 0
        return TURN_SLICE_ALONE_NS if self._alone_turns > ALONE_TURNS else TURN_SLICE_NS

    def _note_slice(self, is_full: bool) -> None:
        """Record whether a turn with frames used up its slice."""
        if is_full:
            self._slices += 1
            if self._slices >= HEAVY_SLICES:
                self._heavy_until_ms = self._shell.turn_ms + HEAVY_MS
        else:
            self._slices = 0
            if self._heavy_until_ms == _NEW:
                self._heavy_until_ms = 0

    def _refuse_length(self, length: int, head: bytes) -> None:
        shell = self._shell
        kind, hint = describe_bad_length(length, head, self.request_bytes_max)
        shell.counters.bad(kind)
        shell.rate_limit.write("warning", "bad-request", {"peer": self.peer, "kind": kind, "hint": hint})
        self.close(kind)

    # ------------------------------------------------------------------------------------------------- back-pressure

    def _must_stop_reading(self) -> bool:
        shell = self._shell
        limits, memory, frames_in = shell.limits, shell.memory, self.input
        if self._peer_has_ended:
            is_held = self.mutes > 0 and (self.has_more or unread_bytes(self.sock) > 0)
            return is_held or self.unsent_bytes > limits.unsent_reply_bytes_max
        return (
            self.mutes > 0
            or self.unsent_bytes > limits.unsent_reply_bytes_max
            or shell.core.backlog(self.connection_id) >= limits.in_flight_max
            or (
                memory.held_bytes > memory.frame_bytes_max
                and not frames_in.has_whole_frames  # to step them frees memory
                and not memory.may_read(
                    self,
                    in_frame=frames_in.frame_bytes > 0 or self._unread_bytes > 0,
                    in_large_frame=frames_in.is_in_large_frame,
                )
            )
        )

    def detect_end(self) -> None:
        """Detect a closed connection while its socket is not read; called now and then (Linux only).

        After a reset the connection ends at once. A client that closed its side may have sent requests before. They are
        read, as far as the kernel has them, and pause only while the connection is muted, or more than the allowed bytes of
        replies are unsent. If the client closed both sides, the next send fails.
        """
        state = tcp_info(self.sock, 1)
        if state == _TCP_CLOSE:
            self._because("peer closed")
            self._forget_replies()
            self.closing = True
            self._scope.cancel()
        elif state == _TCP_CLOSE_WAIT and self.relief is not None and not self._peer_has_ended:
            self._peer_has_ended = True
            self.relief.set()

    def unmute(self) -> None:
        """Read requests again, once no other reason is left not to."""
        self.mutes -= 1
        self.last_active_ms = self._shell.clock.now_ms()
        if self.relief is not None:
            self.relief.set()

    async def _pause(self) -> None:
        """Wait until a reply was sent or memory was freed; the caller checks again."""
        shell = self._shell
        self.relief = relief = trio.Event()
        shell.memory.no_longer_exempt(self)
        if shell.memory.is_full or shell.memory.is_full_of_frames:
            shell.memory.wait_in(relief)
        if not self.mutes:
            shell.counters.pauses += 1
        await relief.wait()
        self.relief = None
        if self.frame_since_ms:
            self.frame_since_ms = shell.clock.now_ms()  # the pause does not count against the peer

    # ------------------------------------------------------------------------------------------------- replies

    def flush(self) -> None:
        """Send queued replies as far as the socket takes them; the selector sends the rest."""
        if self._draining:
            self._recount_held()
        else:
            try:
                sends = self.send()
                if sends:
                    self._shell.counters.sends += sends
                    # as in Kafka an answer is activity: a client that waited long for it is idle only from then on
                    self.last_active_ms = self._shell.turn_ms
                if self.unsent_bytes:
                    self._draining = True
                    self._recount_held()
                    self._shell.selector.drain(self)
            except Exception as error:  # noqa: BLE001 - others are flushed after this one
                self._failed(error)
                self._drop_replies()
        if self.closing:
            self._scope.cancel()

    def close(self, reason: str, *, now: bool = False) -> None:
        """Stop reading; end after the queued replies are sent, or `now`."""
        self._because(reason)
        self.closing = True
        if now:
            self._drop_replies()
        self._shell.touched[self] = None

    def send_more(self) -> bool:
        """Send what the socket takes, when it takes more; returns whether there is still more."""
        shell = self._shell
        try:
            before = self.unsent_bytes
            shell.counters.sends += self.send()
            if self.unsent_bytes != before:
                self.drained_bytes += before - self.unsent_bytes
                self.last_active_ms = shell.clock.now_ms()
                self._recount_held()
                if self.relief is not None and self.unsent_bytes <= shell.limits.unsent_reply_bytes_max:
                    self.relief.set()
        except Exception as error:  # noqa: BLE001 - as in `run`
            self._failed(error)
            self._drop_replies()
        if self.outgoing:
            return True
        self._draining = False
        if self._drained is not None:
            self._drained.set()
        if self.closing:
            self._scope.cancel()
        return False

    def _recount_held(self) -> None:
        held = self.unsent_bytes - self.slice_bytes + self._unread_bytes
        if held != self._held_bytes:
            self._shell.memory.change(held - self._held_bytes)
            self._held_bytes = held

    def _drop_replies(self) -> None:
        """Send nothing more: the client would read a later answer as the rest of one that was cut off."""
        self._forget_replies()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def _forget_replies(self) -> None:
        self.outgoing.clear()
        self.unsent_bytes = self.slice_bytes = self._unread_bytes = 0
        self._recount_held()

    def _failed(self, error: Exception) -> None:
        """The socket failed, or the shell has a bug that concerns this connection alone: the connection ends."""
        self.closing = True
        if isinstance(error, OSError):
            self._because(error.strerror or type(error).__name__)
            return
        self._shell.counters.bugs += 1
        log.write("error", "connection-failed", {"peer": self.peer}, error=error)
        self._because("internal error")

    def _because(self, reason: str) -> None:
        self.close_reason = self.close_reason or reason


def _is_cheap(request: bytes | bytearray | mmap.mmap) -> bool:
    return _HEAD.unpack_from(request)[0] in _FIRST_REQUESTS
