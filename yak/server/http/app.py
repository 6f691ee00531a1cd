"""The ASGI application: route, guard, handler; every error is answered as JSON, without a traceback or a file path."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from yak.server import log
from yak.server.http import guard
from yak.server.http.authentication import CALLER
from yak.server.http.bodies import refuse_unknown_query
from yak.server.http.context import Context
from yak.server.http.http_server import is_only_the_peer
from yak.server.http.problems import SECURITY_HEADERS, Problem, body_of
from yak.server.http.route import Route
from yak.server.http.routes import ROUTES


def make_app(context: Context, routes: Sequence[Route] | None = None) -> Starlette:
    """The ASGI application of one broker. Tests pass routes of their own."""
    table = by_path(ROUTES if routes is None else routes)
    app = Starlette(
        routes=[
            StarletteRoute("/favicon.ico", _no_icon),
            *(StarletteRoute(path, _endpoint(context, each), methods=sorted(each)) for path, each in table.items()),
        ],
        exception_handlers={HTTPException: _http_exception, Exception: partial(_bug, context)},
    )
    # Starlette's redirect from /health/ would repeat the Host header of the request, whatever it says.
    app.router.redirect_slashes = False
    return app


def by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    """The routes by path and method. Paths without a parameter come first, so that they match first."""
    table: dict[str, dict[str, Route]] = {}
    for route in sorted(routes, key=lambda route: "{" in route.path):
        methods = table.setdefault(route.path, {})
        assert route.method not in methods, f"two routes are {route.method} {route.path}"
        methods[route.method] = route
    return table


def _endpoint(context: Context, table: dict[str, Route]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        route = table.get("GET" if request.method == "HEAD" else request.method)
        try:
            if route is None:  # OPTIONS and the like: Starlette refuses all other methods
                raise Problem(405, "method-not-allowed", f"{request.method} is not allowed for this path")
            CALLER.set(await guard.check(context, request, route))
            if not route.any_query:
                refuse_unknown_query(request, route.query_names)
            response = await route.handler(context, request)
        except Problem as problem:
            response = problem_response(problem)
        except ClientDisconnect:
            response = Response(status_code=400)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - our bug: said in the log, not to the client
            context.shell.counters.bugs += 1
            log.write(
                "error",
                "http-bug",
                {"method": request.method, "route": "" if route is None else route.path},
                error=error,
            )
            response = problem_response(_internal_error())
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return _head_of(response) if request.method == "HEAD" else response

    return answer


async def _no_icon(_request: Request) -> Response:
    """Browsers request an icon for each page, and log an error as the answer. It is no route of the API."""
    return Response(status_code=204, headers={**SECURITY_HEADERS, "cache-control": "max-age=86400"})


def problem_response(problem: Problem) -> Response:
    """The HTTP response for a problem."""
    body, headers = body_of(problem)
    return Response(body, status_code=problem.status, headers=dict(headers))


def _head_of(response: Response) -> Response:
    """The same response without its body. A stream's body would never end."""
    head = Response(status_code=response.status_code)
    head.raw_headers = response.raw_headers
    return head


def _internal_error() -> Problem:
    return Problem(
        500, "internal-error", "internal error in this broker", "the broker's log describes the error; please report it"
    )


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        problem = Problem(
            404, "not-found", f"path not found: {request.scope['path'][:128]}", "GET /docs lists all routes"
        )
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        problem = Problem(
            405,
            "method-not-allowed",
            f"{request.method} is not allowed for this path",
            f"use {allowed}",
            headers={"allow": allowed},
        )
    else:
        problem = Problem(error.status_code, "bad-request", str(error.detail))
    return problem_response(problem)


async def _bug(context: Context, request: Request, error: Exception) -> Response:
    """Answer 500 to an error that the routing or the sending of an answer raised."""
    if not is_only_the_peer(error):
        context.shell.counters.bugs += 1
        log.write("error", "http-bug", {"method": request.method}, error=error)
    return problem_response(_internal_error())
