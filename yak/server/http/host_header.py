"""The Host header of an HTTP request, against DNS rebinding: a page must not reach a server under a name of its own."""

import ipaddress
import socket
from typing import Final

_LOCAL_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


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
