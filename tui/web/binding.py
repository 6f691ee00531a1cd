"""The listening socket. It is bound first, so that a taken port is reported before any work."""

import errno
import os
import socket
from typing import Final

from yak.errors import UsageError
from yak.local.ports import holder
from yak.tui.web.options import PORT

_TRIED_MAX: Final = 100


def bind(host: str, port: int | None) -> socket.socket:
    """Listen on a port, on any (0), or on PORT or the next free one (None).

    Raises UsageError: `unknown-host`, `port-in-use`, `cannot-listen`.
    """
    wanted = (port,) if port is not None else (*range(PORT, PORT + _TRIED_MAX), 0)
    for candidate in wanted:
        try:
            return _listen(host, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or candidate == wanted[-1]:
                raise _refusal(host, candidate, error) from error
    raise AssertionError("the last one either listens or raises")


def _listen(host: str, port: int) -> socket.socket:
    try:
        # IPv4 first for names with both, such as `localhost`: the printed address is 127.0.0.1.
        found = sorted(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            "unknown-host", f"cannot listen on {host}", why=f"the name has no address ({reason})"
        ) from error
    family, *_, address = found[0]
    return socket.create_server((str(address[0]), port), family=family, backlog=128)


def _refusal(host: str, port: int, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        who = holder(port)
        return UsageError(
            "port-in-use",
            f"cannot listen on {host}:{port}",
            why=f"{who or 'another program'} already listens there",
            try_=("yak ui --web              8090, or the next free port", "yak ui --web --port 0     any free port"),
        )
    why = os.strerror(error.errno or 0)
    return UsageError("cannot-listen", f"cannot listen on {host}:{port}", why=why, try_=("yak ui --web",))
