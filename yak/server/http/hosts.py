"""Names by which this broker may be asked without the token: see `guard`, which says why."""

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yak.server.http.context import Context

_LOCAL_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


def is_own_name(context: "Context", host: str) -> bool:
    """Whether a Host header names this broker: an address, this machine's name, or the one that is advertised."""
    name = host_name(host)
    known = (*_LOCAL_NAMES, context.host.lower(), context.advertised_host.lower(), socket.gethostname().lower())
    return name in known or _is_address(name)


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    if host.startswith("["):
        name, closed, _ = host[1:].partition("]")
        return name.lower() if closed else ""
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
