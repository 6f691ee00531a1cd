"""Connections to other brokers, as the core requests them: followers fetch over them, and they reveal a killed peer.

One task per connection connects; then the selector serves it until its end. The kernel reports a dead process at once.
The responses that one read completes are stepped in one turn, and requests of the core are sent at the end of the turn.
Responses are read in the receive buffer (`answer_buffer`).
"""

import contextlib
import errno
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import trio

from yak.core.events import ClosePeer, ConnectPeer, PeerAnswered, PeerConnected, PeerEnd, PeerLost, SendPeer
from yak.ids import PeerId
from yak.limits import PEER_SILENT_MS_MAX
from yak.server import log
from yak.server.answer_buffer import AnswerBuffer, BadLengthError
from yak.server.connection_selector import Weight
from yak.server.low_water import LowWater
from yak.server.peer_connect import NotConnectedError, connect_peer
from yak.server.send_queue import SendQueue

if TYPE_CHECKING:
    from yak.server.shell import Shell


class _Disconnection(NamedTuple):
    how: PeerEnd
    reason: str


class Peers:
    """All connections to peers; executes the core's effects on them."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self.make: Callable[[Shell, Peers, ConnectPeer], PeerConnection] = PeerConnection
        """Makes a connection, such as one under TLS."""
        self._connections: dict[PeerId, PeerConnection] = {}

    def connect(self, effect: ConnectPeer) -> None:
        """Start to connect; `PeerConnected` or `PeerLost` follows."""
        assert effect.peer_id not in self._connections, "a peer id is used once"
        connection = self.make(self._shell, self, effect)
        self._connections[effect.peer_id] = connection
        self._shell.nursery.start_soon(connection.run)

    def send(self, effect: SendPeer) -> None:
        """Queue a request, which is sent at the end of the turn; ignored if the connection has ended."""
        connection = self._connections.get(effect.peer_id)
        if connection is not None:
            connection.queue(effect.parts)
            self._shell.touched[connection] = None

    def close(self, effect: ClosePeer) -> None:
        """Close a connection or the attempt at one; the core gets no further event."""
        connection = self._connections.get(effect.peer_id)
        if connection is not None:
            connection.close()

    def forget(self, connection: "PeerConnection") -> None:
        """Remove a connection that ended."""
        self._connections.pop(connection.peer_id, None)
        self._shell.touched.pop(connection, None)


class PeerConnection(SendQueue):
    """One connection to another broker, from the attempt to the end."""

    weight = Weight.OWN

    def __init__(self, shell: "Shell", peers: Peers, effect: ConnectPeer) -> None:
        super().__init__(None)
        self.peer_id = effect.peer_id
        self._shell = shell
        self._peers = peers
        self._host = effect.host
        self._port = effect.port
        self._input = AnswerBuffer(shell.limits.peer_answer_bytes_max)
        self._low_water = LowWater()
        self._scope = trio.CancelScope()
        self._is_connected = False
        self._closed = False
        self._draining = False
        self._end: _Disconnection | None = None
        """Set by a failed send, which knows first how the connection ended."""
        self._read_end: _Disconnection | None = None
        """Set by the last read."""
        self.has_more = False
        """Whether the last read filled the buffer."""

    # ------------------------------------------------------------------------------------------------- the task

    async def run(self) -> None:
        """Connect, and read until the end. Errors of the peer never leave this method."""
        shell = self._shell
        end: _Disconnection | None = None
        try:
            with self._scope:
                end = await self._connect_and_read()
        except OSError as error:
            end = _why(error)
        except Exception as error:  # noqa: BLE001 - a bug in one connection must not end the broker
            end = self._failed(error)
        finally:
            self._peers.forget(self)
            self._forget_unsent()
            if self._is_connected:
                self._is_connected = False
                shell.selector.forget(self)
                self.sock.close()
        if end is not None and not self._closed:
            shell.post(PeerLost(self.peer_id, end.how, end.reason))

    async def _connect_and_read(self) -> _Disconnection | None:
        try:
            self.sock = await self._open_socket()
        except NotConnectedError as error:
            return _Disconnection(error.how, error.reason)
        self._is_connected = True
        if self._closed:
            return None
        self._shell.touched[self] = None
        self._shell.post(PeerConnected(self.peer_id))
        while not self._closed and self._read_end is None:
            await self._shell.selector.wait(self)
        return self._read_end

    async def _open_socket(self) -> socket.socket:
        """Connect within the time limit. Raises NotConnectedError."""
        sock = await connect_peer(self._host, self._port, self._shell.limits.peer_connect_ms_max / 1000)
        _end_when_silent(sock)
        return sock

    def serve_readable(self) -> bool:
        """Step the responses of one read in a turn; False if the connection has ended."""
        try:
            self._read_once()
        except OSError as error:
            self._read_end = self._end or _why(error)
        except Exception as error:  # noqa: BLE001 - a bug in one connection must not end the broker
            self._read_end = self._failed(error)
        return self._read_end is None

    def _read_once(self) -> None:
        """Run at most one turn: the responses of one `recv`. Raises OSError."""
        sock, answers = self.sock, self._input
        self.has_more = False
        try:
            received = answers.receive(sock)
        except BlockingIOError:
            return
        if received <= 0:
            self._read_end = self._end or _Disconnection("closed", "the peer closed the connection")
            return
        self._shell.counters.received_bytes += received
        self._read_end = self._step_answers()
        if self._read_end is None:
            self.has_more = not self._low_water.mark(sock, answers.missing_bytes) and not answers.took_all

    def _step_answers(self) -> _Disconnection | None:
        """Step all whole responses of the last read in one turn. Returns the end of the connection, or None."""
        shell, next_frame = self._shell, self._input.next_frame
        try:
            frame = next_frame()
        except BadLengthError as error:
            return _Disconnection("unreachable", str(error))
        if frame is None:
            return None
        end: _Disconnection | None = None
        now_ms = shell.begin_turn()
        shell.last_served = self
        try:
            while frame is not None and not self._closed:
                effects = shell.step(PeerAnswered(self.peer_id, frame), now_ms)
                if effects:
                    shell.carry_out(effects)
                frame = next_frame()
        except BadLengthError as error:
            end = _Disconnection("unreachable", str(error))
        except Exception as error:  # noqa: BLE001 - a bug in cutting the answers of one connection
            end = self._failed(error)
        shell.end_turn()
        return end

    def _failed(self, error: Exception) -> _Disconnection:
        """A bug in the shell that concerns this connection alone."""
        self._shell.counters.bugs += 1
        log.write("error", "connection-failed", {"peer": f"{self._host}:{self._port}"}, error=error)
        return _Disconnection("unreachable", "internal error")

    # ------------------------------------------------------------------------------------------------- from the core

    def close(self) -> None:
        """Close the connection in any state, without an event; unsent requests are dropped."""
        self._closed = True
        self._peers.forget(self)
        self._forget_unsent()
        self._scope.cancel()

    def flush(self) -> None:
        """Send queued requests as far as the socket takes them; the selector sends the rest."""
        if self._is_connected and not self._draining:
            self._send_or_note()

    def send_more(self) -> bool:
        """Send what the socket takes, when it takes more; returns whether there is still more."""
        self._send_or_note()
        self._draining = self.unsent_bytes > 0
        return self._draining

    def _send_or_note(self) -> None:
        try:
            self._shell.counters.sends += self.send()
            if self.unsent_bytes and not self._draining:
                self._draining = True
                self._shell.selector.drain(self)
        except OSError as error:
            # The reading task still steps earlier responses and reports the end; the shutdown wakes it.
            self._cut(_why(error))
        except Exception as error:  # noqa: BLE001 - others are flushed after this one
            self._cut(self._failed(error))

    def _cut(self, end: _Disconnection) -> None:
        self._end = self._end or end
        self._forget_unsent()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _forget_unsent(self) -> None:
        self.outgoing.clear()
        self.unsent_bytes = 0


def _end_when_silent(sock: socket.socket) -> None:
    """Let the kernel end the connection when no packet of the other host arrives for `PEER_SILENT_MS_MAX`.

    After a break of the network TCP repeats a packet only when as much time again has passed. A new connection is faster.
    """
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PEER_SILENT_MS_MAX // 2000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_SILENT_MS_MAX)


def _why(error: OSError) -> _Disconnection:
    """How an established connection ended."""
    reason = error.strerror or type(error).__name__
    if error.errno == errno.ECONNRESET:
        return _Disconnection("reset", reason)
    if error.errno == errno.EPIPE:
        # A reset followed the peer's orderly close, in answer to data sent after it.
        return _Disconnection("closed", reason)
    return _Disconnection("unreachable", reason)
