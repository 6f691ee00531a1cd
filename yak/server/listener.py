"""Listening sockets: bound at the start, which reveals a port in use at once; open for clients only when ready."""

import contextlib
import errno
import itertools
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import trio

from yak.config.listeners import ANY_HOST, Listener, bracketed
from yak.errors import UsageError
from yak.server.connection import Connection
from yak.server.peer_reserve import PeerReserve
from yak.server.shell import Shell

if TYPE_CHECKING:
    from yak.server.tls_listener import ListenerTls

_BACKLOG: Final = 1024
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


@dataclass(slots=True, frozen=True)
class Bound:
    """A listener with its sockets; its port is the bound one."""

    listener: Listener
    sockets: Sequence[socket.socket]


def bind_all(listeners: Sequence[Listener], *, is_shared: bool = False) -> list[Bound]:
    """Bind the sockets of every listener. Raises UsageError as `bind`; then none is bound."""
    every: list[Bound] = []
    try:
        for each in listeners:
            sockets = bind(each.host or ANY_HOST, each.port, is_shared=is_shared)
            every.append(Bound(replace(each, port=bound_port(sockets)), sockets))
    except UsageError:
        close_all(every)
        raise
    return every


def bind(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
    """Bind every address of a host to one port (0: any free port), without listening yet.

    A shared port is one that other processes of this user listen on as well; the kernel gives each connection to one of
    them (SO_REUSEPORT, socket(7)).

    Raises UsageError: `bad-address` when the host is not this machine's, `address-in-use` when the port is taken.
    """
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(sockets) > 1:
                address = (address[0], bound_port(sockets), *address[2:])
            sock.bind(address)
    except OSError as error:
        close(sockets)
        raise _explained(error, host, port) from error
    return sockets


def bound_port(sockets: Sequence[socket.socket]) -> int:
    """The port of these sockets."""
    return int(sockets[0].getsockname()[1])


def close(sockets: Sequence[socket.socket]) -> None:
    """Close these sockets."""
    for sock in sockets:
        sock.close()


def close_all(every: Sequence[Bound]) -> None:
    """Close the sockets of every listener."""
    for each in every:
        close(each.sockets)


def start_listening(sockets: Sequence[socket.socket], host: str) -> None:
    """Open the sockets for clients. Raises UsageError `address-in-use` when another process took the port."""
    for sock in sockets:
        try:
            sock.listen(_BACKLOG)
        except OSError as error:
            raise _explained(error, host, bound_port([sock])) from error


def _addresses(host: str, port: int) -> list[tuple[int, tuple[object, ...]]]:
    """The host's addresses; with others, without those of IPv6 that this machine lacks: /etc/hosts may have ::1 anyway."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:  # a part of the name is empty, or too long
        raise UsageError(
            "bad-address",
            f"cannot listen on {host}:{port}",
            why=f'the name "{host}" does not resolve ({error.args[-1]})',
            try_=("yak serve --host 127.0.0.1",),
        ) from error
    every = list(dict.fromkeys((int(family), tuple(address)) for family, _, _, _, address in found))
    return [each for each in every if each[0] != socket.AF_INET6 or _has_ipv6(each[1])] or every


def _has_ipv6(address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind((address[0], 0, *address[2:]))
    except OSError:
        return False
    return True


def _explained(error: OSError, host: str, port: int) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            "address-in-use",
            f"cannot listen on {host}:{port}",
            why="another program listens on this port",
            try_=(
                "yak serve --port 0            take any free port",
                f"ss -ltnp 'sport = :{port}'   shows the program",
            ),
        )
    if error.errno == errno.EACCES:
        return UsageError(
            "bad-address",
            f"cannot listen on {host}:{port}",
            why="this process has no permission for ports below 1024",
            try_=("yak serve --port 9092",),
        )
    return UsageError(
        "bad-address",
        f"cannot listen on {host}:{port}",
        why=f"{error.strerror or error}: not an address of this machine, or not a port",
        try_=("yak serve --host 127.0.0.1",),
    )


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
