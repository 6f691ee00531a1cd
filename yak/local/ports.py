"""TCP ports of this machine: test a port, find or hold a free one, and name the process on a taken one."""

import errno
import os
import secrets
import socket
import sys
from collections import deque
from typing import Final

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
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:  # a part of the name is empty, or too long
        raise UsageError(
            "unknown-host", f"cannot listen on {host}", why=f"the name has no address ({error.args[-1]})"
        ) from error
    with socket.socket(family, kind, protocol) as listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise UsageError(
                "cannot-listen", f"cannot listen on {host}:{port}", why=os.strerror(error.errno or 0)
            ) from error
    return True


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


def holder(port: int) -> str | None:
    """The process that listens on a port, as `pid 4242 (java)`; None when this user may not see it."""
    import psutil

    pid = listening().get(port)
    if pid is None:
        return None
    try:
        return f"pid {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"pid {pid}"


def port_taken_error(host: str, port: int) -> UsageError:
    """The error for a port that was given by number and is taken."""
    who = holder(port)
    return UsageError(
        "port-in-use",
        f"cannot listen on {host}:{port}",
        why=f"{who} already listens there" if who else "another program already listens there",
        try_=("yak up --port 0                take any free port", "yak up --status                see what runs here"),
    )
