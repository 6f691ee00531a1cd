"""Who may ask for what: checked before a handler runs.

- **Host**: without a token a page in somebody's browser must not reach us under a name of its own (DNS rebinding); so the
  name asked for is an address, this machine's name, or the one that is advertised.
- **Origin**: a page of another site may send simple requests; such a request changes nothing.
- **Token** (`YAK_HTTP_TOKEN`): when it is set, `Authorization: Bearer TOKEN` for everything that changes something.
- **Administration**: without a token only from this machine.
"""

import hmac
import ipaddress

from starlette.requests import Request

from yak.server.http.context import Context
from yak.server.http.hosts import host_name, is_own_name
from yak.server.http.problems import Problem
from yak.server.http.route import Route


def check(context: Context, request: Request, route: Route) -> None:
    """Raises Problem: 421 `wrong-host`, 403 `foreign-origin`, 401 `token-needed`, 403 `local-only`."""
    if context.token is None:
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
            "without a token the administration is for this machine only",
            "start the broker with YAK_HTTP_TOKEN, and send it as Authorization: Bearer TOKEN",
        )


def is_local(request: Request) -> bool:
    """Whether the request came over the loopback, or from the very address that it came to."""
    client, server = request.client, request.scope.get("server")
    if client is None:
        return False
    try:
        if ipaddress.ip_address(client.host.partition("%")[0]).is_loopback:
            return True
    except ValueError:
        return False
    return server is not None and client.host == server[0]


def _check_host(context: Context, request: Request) -> None:
    host = request.headers.get("host", "")
    if is_own_name(context, host):
        return
    raise Problem(
        421,
        "wrong-host",
        f"this broker is not {host_name(host)[:64]!r}",
        "ask by its address or the name it advertises, or start it with YAK_HTTP_TOKEN",
    )


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is None:
        # A page may load what it likes as a picture, which has no Origin; browsers say so here (Fetch Metadata).
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Problem(403, "foreign-origin", "a page of another site may change nothing here", "ask by yourself")
        return
    if origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise Problem(403, "foreign-origin", "a page of another site may change nothing here", "send no Origin header")


def _check_token(token: str, request: Request) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        return
    raise Problem(
        401,
        "token-needed",
        "this needs the token" if not given else "the token is not the right one",
        "send Authorization: Bearer TOKEN, with what the broker's YAK_HTTP_TOKEN is",
        headers={"www-authenticate": "Bearer"},
    )
