"""Access rules, checked before a handler runs.

- **Host**: a page in a browser must not reach the broker under a name of its own (DNS rebinding), not even to read. So
  the Host header must be an address, a name of this machine, or the advertised name. A request with the token is
  exempt, and so is a request without a Host header, as load balancers send in HTTP/1.0.
- **Origin**: a page of another site can send simple requests; such a request must not change anything.
- **Token**: if `YAK_HTTP_TOKEN` is set, requests that change something need `Authorization: Bearer TOKEN`.
- **Administration**: without a configured token, only from this machine.
"""

import hmac
import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from yak.server.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from yak.server.http.context import Context
    from yak.server.http.route import Route

_LOCAL_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


def check(context: "Context", request: "Request", route: "Route") -> None:
    """Raises Problem: 421 `wrong-host`, 403 `foreign-origin`, 401 `token-needed`, 403 `local-only`."""
    if context.token is None or not _has_token(context.token, request):
        _check_host(context, request)
    if route.guard == "read":
        return
    _check_origin(request)
    if context.token is not None:
        _check_token(context.token, request)
    elif route.guard == "admin" and not is_local(request):
        raise Problem(
            403,
            "local-only",
            "without a token, administration is allowed from this machine only",
            "set YAK_HTTP_TOKEN on the broker, and send Authorization: Bearer TOKEN",
        )


def is_local(request: "Request") -> bool:
    """Whether the request came over the loopback interface, or from the address it was sent to."""
    client, server = request.client, request.scope.get("server")
    if client is None:
        return False
    try:
        if ipaddress.ip_address(client.host.partition("%")[0]).is_loopback:
            return True
    except ValueError:
        return False
    return server is not None and client.host == server[0]


def _check_host(context: "Context", request: "Request") -> None:
    if "host" not in request.headers:  # only HTTP/1.0 allows this, and browsers do not use HTTP/1.0
        return
    host = request.headers["host"]
    if is_own_name(context, host):
        return
    raise Problem(
        421,
        "wrong-host",
        f"the Host {host_name(host)[:64]!r} is not this broker",
        "use its IP address or advertised name, or send its token",
    )


def _check_origin(request: "Request") -> None:
    origin = request.headers.get("origin")
    if origin is None:
        # A page's image can send a GET without an Origin header; browsers then send Fetch Metadata.
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Problem(403, "foreign-origin", "cross-site requests are not allowed", "send the request directly")
        return
    if origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise Problem(403, "foreign-origin", "cross-site requests are not allowed", "send no Origin header")


def _check_token(token: str, request: "Request") -> None:
    if _has_token(token, request):
        return
    raise Problem(
        401,
        "token-needed",
        "the token is wrong" if "authorization" in request.headers else "this request needs a token",
        "send Authorization: Bearer TOKEN with the broker's YAK_HTTP_TOKEN",
        headers={"www-authenticate": "Bearer"},
    )


def _has_token(token: str, request: "Request") -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Starlette decodes headers as Latin-1; curl sends the terminal's encoding.
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), token.encode())


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
