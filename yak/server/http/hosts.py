"""Host names under which a server answers without a token; `guard` gives the reason."""

import ipaddress
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yak.server.http.context import Context

_LOCAL_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


def is_own_name(context: "Context", host: str) -> bool:
    """Whether a Host header names this broker: an address, a name of this machine, or the advertised name."""
    return is_name_here(host, context.host, context.advertised_host)


def is_name_here(host: str, *also: str) -> bool:
    """Whether a Host header is an address, a name of this machine, or one of those given."""
    name = host_name(host)
    known = (*_LOCAL_NAMES, socket.gethostname().lower(), *(each.lower() for each in also))
    return name in known or _is_address(name)


def host_name(host: str) -> str:
    """The name in a Host header: lower case, without port and brackets."""
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
