"""TCP ports of this machine: test a port, find or hold a free one, and name the process on a taken one."""

import errno
import os
import secrets
import socket
import sys
from collections import deque
from typing import Any, Final

from yak.errors import UsageError

CAN_HOLD: Final = sys.platform.startswith("linux")
"""Whether a bound socket holds its port for a server here (`listening_sockets`): elsewhere the server cannot bind it."""

_LASTING = (15_000, 32_000)
_TRIES = 50
_given: deque[int] = deque(maxlen=256)
"""Ports that `find_lasting` gave last: their servers may be about to bind them."""


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now.

    Raises UsageError when the host is no address of this machine, or when this user may not use the port.
    """
    family, address = addresses(host, port)[0]
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise cannot_listen(host, port, error) from error
    return True


def addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    """The host's addresses to listen on. Raises UsageError (`unknown-host`)."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:  # a part of the name is empty, or too long
        why = f"the name has no address ({error.args[-1]})"
        raise UsageError("unknown-host", f"cannot listen on {host}", why=why) from error
    return [(family, address) for family, *_, address in found]


def find_free(host: str) -> int:
    """A free port from the system's ephemeral range; another process may take it at any time."""
    with socket.create_server((host, 0)) as listener:
        return int(listener.getsockname()[1])


def find_lasting(host: str) -> int:
    """A free port outside the ephemeral ranges (from 32768 on Linux, 49152 on macOS), so that it stays free over a
    restart.

    A process is given different ports, whether or not something listens on the earlier ones yet. If none is found, an
    ephemeral port.
    """
    for _ in range(_TRIES):
        port = secrets.randbelow(_LASTING[1] - _LASTING[0]) + _LASTING[0]
        if port not in _given and is_free(host, port):
            _given.append(port)
            return port
    return find_free(host)


def listening() -> dict[int, int]:
    """The process that listens on each TCP port, as far as this user may see it: on macOS only root sees any."""
    import psutil

    try:
        found = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return {}
    return {
        each.laddr.port: each.pid
        for each in found
        if each.laddr and each.pid is not None and each.status == psutil.CONN_LISTEN
    }


def holder(port: int) -> str:
    """The process that listens on a port, as `pid 4242 (java)`; `another program` when this user may not see it."""
    import psutil

    pid = listening().get(port)
    if pid is None:
        return "another program"
    try:
        return f"pid {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"pid {pid}"


_OF_YAK_UP: Final = (
    "yak up --port 0                take any free port",
    "yak up --status                see what runs here",
)


def port_taken_error(host: str, port: int, try_: tuple[str, ...] = _OF_YAK_UP) -> UsageError:
    """The error for a port that was given by number and is taken."""
    why = f"{holder(port)} already listens there"
    return UsageError("port-in-use", f"cannot listen on {host}:{port}", why=why, try_=try_)


def cannot_listen(host: str, port: int, error: OSError, *try_: str) -> UsageError:
    """The error for a port that no program holds, and that the system refuses all the same."""
    return UsageError("cannot-listen", f"cannot listen on {host}:{port}", why=os.strerror(error.errno or 0), try_=try_)
