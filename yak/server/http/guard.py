"""Access rules, checked before a handler runs.

- **Host**: a page in a browser must not reach the broker under a name of its own (DNS rebinding), not even to read. So
  the Host header must be an address, a name of this machine, or the advertised name. A request with the token is
  exempt, and so is a request without a Host header, as load balancers send in HTTP/1.0.
- **Origin**: a page of another site can send simple requests; such a request must not change anything.
- **Login**: with `yak.http.authentication=basic` every request needs a user's password, the token, or a client's
  certificate, except those of load balancers (`Route.is_open`).
- **Token**: otherwise, if `YAK_HTTP_TOKEN` is set, requests that change something need `Authorization: Bearer TOKEN`.
- **Forwarded requests**: a broker of the cluster names the caller, whose login it has checked (`forwarded_caller`).
- **ACLs**: with an authorizer, the caller needs the operation of the route (`access_of`).
- **Administration**: without a login and without a configured token, only from this machine.
"""

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.security import ANONYMOUS
from yak.server.http.authentication import TOKEN_PRINCIPAL, Caller, authenticate, login_needed, slow_down
from yak.server.http.forwarded_caller import forwarded_caller
from yak.server.http.host_header import host_name, is_name_here
from yak.server.http.problems import Problem
from yak.server.http.rights import denied, is_allowed
from yak.server.http.timed_stream import STREAM

if TYPE_CHECKING:
    from starlette.requests import Request

    from yak.server.http.context import Context
    from yak.server.http.route import Route

_OPERATIONS: Final = {"read": Operation.DESCRIBE, "change": Operation.ALTER, "admin": Operation.ALTER}
_PARAMETERS: Final[Mapping[str, ResourceType]] = {
    "group": ResourceType.GROUP,
    "topic": ResourceType.TOPIC,
    "name": ResourceType.TOPIC,
}


class Access(NamedTuple):
    """An operation on a resource with this name."""

    operation: Operation
    kind: ResourceType
    name: str


def access_of(route: "Route", request: "Request") -> Access | None:
    """What the request needs: on the group or the topic that its path or its query names, else on the cluster.

    A parameter that the route does not have counts for nothing. None where the body names it: the Kafka requests are
    checked.
    """
    operation = route.operation or _OPERATIONS[route.guard]
    listed = {} if route.is_about_cluster else {name: request.query_params.get(name) for name in route.query_names}
    query = {name: value for name, value in listed.items() if value is not None}
    for given in (request.path_params, query):
        for parameter, kind in _PARAMETERS.items():
            if parameter in given:
                return Access(operation, kind, str(given[parameter]))
    return None if route.operation else Access(operation, ResourceType.CLUSTER, CLUSTER_NAME)


async def check(context: "Context", request: "Request", route: "Route") -> Caller:
    """The caller of a request that may be served.

    Raises Problem: 421 `wrong-host`, 403 `foreign-origin`, 401 `login-needed`, `login-failed` and `token-needed`, 403
    `local-only` and `not-allowed`.
    """
    caller = forwarded_caller(context, request) or await _direct_caller(context, request)
    principal = caller.principal
    if principal != TOKEN_PRINCIPAL:
        _check_host(context, request)
    if route.guard != "read":
        _check_origin(request)
    if principal == ANONYMOUS and not route.is_open:
        try:
            _check_anonymous(context, request, route)
        except Problem:
            if context.token is not None and request.headers.get("authorization", "")[:7].lower() == "bearer ":
                await slow_down(context, request, why="wrong token")
            raise
    if not route.is_open:
        _check_rights(context, caller, request, route)
    return caller


async def _direct_caller(context: "Context", request: "Request") -> Caller:
    """The client at the other end of the connection. Raises Problem 401 `login-failed`."""
    principal = await authenticate(context, request, _certified(request))
    client = request.client
    peer = "in-process" if client is None else f"{client.host}:{client.port}"
    return Caller(principal, request.headers.get("authorization"), peer)


def _check_rights(context: "Context", caller: Caller, request: "Request", route: "Route") -> None:
    """Whether the ACLs allow the request. Raises Problem, and counts and logs the denial."""
    access = access_of(route, request)
    if access is None or is_allowed(context.broker, caller, *access):
        return
    raise denied(context.broker, context.shell.rate_limit, caller, f"{route.method} {route.path}", *access)


def _certified(request: "Request") -> str:
    """The principal of the client's certificate."""
    stream = request.scope.get("state", {}).get(STREAM)
    return ANONYMOUS if stream is None else stream.principal


def _check_anonymous(context: "Context", request: "Request", route: "Route") -> None:
    """Whether a request without a login may be served. Raises Problem."""
    if context.authentication == "basic":
        raise login_needed("login-needed", "this broker requires a login")
    if route.guard == "read":
        return
    if context.token is not None:
        raise Problem(
            401,
            "token-needed",
            "the token is wrong" if "authorization" in request.headers else "this request needs a token",
            "send Authorization: Bearer TOKEN with the broker's YAK_HTTP_TOKEN",
            headers={"www-authenticate": "Bearer"},
        )
    if route.guard == "admin" and not is_local(request):
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


def is_own_name(context: "Context", host: str) -> bool:
    """Whether a Host header names this broker: an address, a name of this machine, or the advertised name."""
    return is_name_here(host, context.host, context.advertised_host)
