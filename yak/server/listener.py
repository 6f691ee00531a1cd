"""Accepts clients at the listening sockets."""

import contextlib
import errno
import itertools
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from yak.config.listeners import Listener, bracketed
from yak.server.connection import Connection
from yak.server.listening_sockets import Bound, close_all
from yak.server.peer_reserve import PeerReserve
from yak.server.shell import Shell

if TYPE_CHECKING:
    from yak.server.tls_listener import ListenerTls

_ACCEPTS_PER_TURN: Final = 4
_ACCEPTS_PER_TURN_MAX: Final = 64
"""After a pause in which the event loop worked for long, one for each millisecond of that: a connection costs it 0.1 to
0.3 ms. With heavy requests a pass takes 30 ms, and 1,000 clients that wait to be accepted would wait for 250 passes."""
_TLS_ACCEPTS_PER_TURN: Final = 1
"""A handshake takes as much of the event loop as many requests, and so does the end of one that is given up."""
_PAUSE_SECONDS: Final = 0.002
"""After each turn. A flood of connections then leaves most of the event loop to the clients that are connected: with 64
in a turn and no pause, their p99 was 10 to 19 times as long, now 1.1 to 1.8 times (`benchmarks/bench_logins.py`)."""
_OUT_OF_HANDLES: Final = (errno.EMFILE, errno.ENFILE)
_PEER_GAVE_UP: Final = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM)


class Acceptor:
    """Accepts clients of all listeners up to the limits per address and in total, and other brokers beyond."""

    def __init__(self, shell: Shell, tls: "Mapping[str, ListenerTls] | None" = None) -> None:
        """`tls` has the TLS of each listener with it, by name."""
        self._shell = shell
        self._tls = tls or {}
        self._ids: Iterator[int] = itertools.count(1)
        self._per_ip: dict[str, int] = {}
        self._peers = PeerReserve(shell)
        self._reserve = _open_reserve()

    async def run(self, every: Sequence[Bound]) -> None:
        """Accept clients of these sockets until cancelled; closes the sockets at the end."""
        try:
            async with trio.open_nursery() as nursery:
                for bound in every:
                    for sock in bound.sockets:
                        nursery.start_soon(self._accept_all, sock, bound.listener)
        finally:
            close_all(every)
            if self._reserve is not None:
                os.close(self._reserve)
                self._reserve = None

    async def _accept_all(self, listening: socket.socket, listener: Listener) -> None:
        worked_ms = 0
        while True:
            accepts = min(_ACCEPTS_PER_TURN_MAX, max(_ACCEPTS_PER_TURN, worked_ms))
            worked_ms = 0
            try:
                await trio.lowlevel.wait_readable(listening)
                for _ in range(_TLS_ACCEPTS_PER_TURN if listener.name in self._tls else accepts):
                    sock, address = listening.accept()
                    self._accepted(sock, address, listener)
                began_ns = time.thread_time_ns()
                await trio.sleep(_PAUSE_SECONDS)
                worked_ms = (time.thread_time_ns() - began_ns) // 1_000_000
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _PEER_GAVE_UP:
                    continue
                await self._accept_failed(listening, error)
            except Exception as error:  # noqa: BLE001 - the accept loop outlives every bug
                self._shell.counters.bugs += 1
                self._shell.rate_limit.write("error", "accept-failed", {}, error=error)

    def _accepted(self, sock: socket.socket, address: tuple[object, ...], listener: Listener) -> None:
        shell = self._shell
        ip, port = str(address[0]), address[1]
        count = self._per_ip.get(ip, 0)
        over = None
        if count >= shell.limits.connections_per_ip_max:
            over = "too-many-connections-of-one-address"
        elif len(shell.connections) >= shell.limits.connections_max:
            over = "too-many-connections"
        if over is not None and not self._peers.has_room():
            sock.close()
            self._peers.refused(ip, over)
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:  # the peer is gone already
            sock.close()
            return
        connection = self._connection(sock, next(self._ids), ip, f"{bracketed(ip)}:{port}", listener)
        shell.connections[connection.connection_id] = connection
        self._per_ip[ip] = count + 1
        if over is not None:
            self._peers.admit(connection, over)
        shell.nursery.start_soon(self._serve, connection)

    def _connection(self, sock: socket.socket, number: int, ip: str, peer: str, listener: Listener) -> Connection:
        tls = self._tls.get(listener.name)
        if tls is None:
            return Connection(self._shell, sock, number, ip, peer, listener)
        from yak.server.tls_connection import TlsConnection

        return TlsConnection(tls, self._shell, sock, number, ip, peer, listener)

    async def _serve(self, connection: Connection) -> None:
        try:
            if connection.trial is not None:
                self._shell.nursery.start_soon(self._end_trial, connection)
            await connection.run()
        finally:
            self._peers.forget(connection)
            left = self._per_ip[connection.peer_ip] - 1
            if left:
                self._per_ip[connection.peer_ip] = left
            else:
                del self._per_ip[connection.peer_ip]

    async def _end_trial(self, connection: Connection) -> None:
        await trio.sleep(self._shell.limits.peer_proof_ms_max / 1000)
        self._peers.expire(connection)

    async def _accept_failed(self, listening: socket.socket, error: OSError) -> None:
        """Out of file handles: accept and close one connection with the reserve, so that the queue moves."""
        self._shell.counters.bad("accept-failed")
        fields: dict[str, object] = {"error": error.strerror, "connections": len(self._shell.connections)}
        self._shell.rate_limit.write("error", "accept-failed", fields)
        if error.errno in _OUT_OF_HANDLES and self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
            with contextlib.suppress(OSError):
                listening.accept()[0].close()
        if self._reserve is None:
            self._reserve = _open_reserve()
        await trio.sleep(0.01 if self._reserve is not None else 0.1)


def _open_reserve() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
