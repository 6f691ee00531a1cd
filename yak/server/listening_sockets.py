"""Bound sockets of listeners. A port in use is reported at the bind; clients connect once the sockets listen.

On Linux the kernel assigns a port that is bound to no other listener or outgoing connection (inet_csk_find_open_port,
__inet_hash_connect). So bound sockets that never listen hold a port for a server that binds it too, as YAK's do.
"""

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from yak.config.listeners import ANY_HOST, Listener
from yak.errors import UsageError

_BACKLOG: Final = 1024


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
