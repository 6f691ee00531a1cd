"""Connect to another broker within a time limit; a failure has a reason in the terms of `PeerLost`."""

import errno
import os
import socket
from typing import Any, Final

import trio

from yak.core.events import PeerEnd

_NO_WAY_FROM_HERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)
"""This host has no such addresses (mostly IPv6), which says nothing about the peer."""


class NotConnectedError(Exception):
    """The connection failed: `how` in the terms of `PeerLost`, and the reason as text."""

    def __init__(self, how: PeerEnd, reason: str, *, no_way: bool = False) -> None:
        super().__init__(reason)
        self.how: PeerEnd = how
        self.reason = reason
        self.no_way = no_way


async def connect_peer(host: str, port: int, limit_seconds: float) -> socket.socket:
    """Return a connected, non-blocking socket. Raises NotConnectedError.

    A name may have several addresses: each is tried in turn with an equal share of the remaining time. The failure is
    "refused" only if every address that this host can reach refused.
    """
    deadline = trio.current_time() + limit_seconds
    failures: list[NotConnectedError] = []
    with trio.move_on_after(limit_seconds) as whole:
        addresses = await _addresses(host, port)
        for index, (family, kind, protocol, address) in enumerate(addresses):
            # A process that was paused resumes after the deadline.
            share = max(0.0, deadline - trio.current_time()) / (len(addresses) - index)
            try:
                return await _connect_one(family, kind, protocol, address, share)
            except NotConnectedError as failure:
                failures.append(failure)
    if whole.cancelled_caught or not failures:
        raise NotConnectedError("timeout", f"no answer in {limit_seconds:g} s")
    raise min(failures, key=lambda failure: 2 if failure.no_way else 1 if failure.how == "refused" else 0)


async def connect_stream(host: str, port: int, limit_seconds: float) -> trio.SocketStream:
    """As `connect_peer`, for Trio. Raises NotConnectedError."""
    return trio.SocketStream(trio.socket.from_stdlib_socket(await connect_peer(host, port, limit_seconds)))


async def _addresses(host: str, port: int) -> list[tuple[int, int, int, Any]]:
    if not 0 < port < 65536:
        # getaddrinfo would take the port modulo 65536, and a connect to port 0 is always refused.
        raise NotConnectedError("unreachable", f"{port} is not a port")
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotConnectedError("unreachable", f'the name "{host}" does not resolve ({reason})') from error
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]


async def _connect_one(family: int, kind: int, protocol: int, address: Any, limit_seconds: float) -> socket.socket:
    sock: socket.socket | None = None
    connected = False
    try:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        with trio.move_on_after(limit_seconds):
            await _handshake(sock, address)
            connected = True
            return sock
    except OSError as error:
        raise _why(error) from error
    finally:
        if sock is not None and not connected:
            sock.close()
    raise NotConnectedError("timeout", f"no answer in {limit_seconds:g} s")


async def _handshake(sock: socket.socket, address: Any) -> None:
    """Connect the socket. Raises OSError."""
    try:
        sock.connect(address)
    except BlockingIOError:
        await trio.lowlevel.wait_writable(sock)
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number)) from None
    if sock.getsockname() == sock.getpeername():
        # The kernel chose the peer's port as our own, so TCP connected the socket to itself: no peer is there.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "only this connection itself is at that port")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _why(error: OSError) -> NotConnectedError:
    how: PeerEnd = "unreachable"
    if error.errno == errno.ECONNREFUSED:
        how = "refused"
    elif error.errno == errno.ECONNRESET:
        how = "reset"
    reason = error.strerror or type(error).__name__
    return NotConnectedError(how, reason, no_way=error.errno in _NO_WAY_FROM_HERE)
