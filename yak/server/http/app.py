"""From a request to its answer: route, guard, handler; every error as JSON, none with a traceback or a path."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from yak.server import log
from yak.server.http import guard
from yak.server.http.context import Context
from yak.server.http.problems import Problem
from yak.server.http.route import Route
from yak.server.http.routes import ROUTES

_SECURITY_HEADERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class JsonResponse(Response):
    """JSON as UTF-8, compact; NaN in it is our bug."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def make_app(context: Context) -> Starlette:
    """The ASGI application on one broker."""
    routes = [
        StarletteRoute(path, _endpoint(context, table), methods=sorted(table)) for path, table in by_path().items()
    ]
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_exception, Exception: _bug},
    )


def by_path() -> dict[str, dict[str, Route]]:
    """The routes by path and method; paths without a parameter first, so that they win."""
    table: dict[str, dict[str, Route]] = {}
    for route in sorted(ROUTES, key=lambda route: "{" in route.path):
        methods = table.setdefault(route.path, {})
        assert route.method not in methods, f"two routes are {route.method} {route.path}"
        methods[route.method] = route
    return table


def _endpoint(context: Context, table: dict[str, Route]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        route = table.get("GET" if request.method == "HEAD" else request.method)
        try:
            if route is None:  # OPTIONS and the like: Starlette has refused the others
                raise Problem(405, "method-not-allowed", f"{request.method} is not served here")
            guard.check(context, request, route)
            response = await route.handler(context, request)
        except Problem as problem:
            response = problem_response(problem)
        except ClientDisconnect:
            response = Response(status_code=400)
        except (trio.Cancelled, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - our bug: said in the log, not to the client
            context.shell.counters.bugs += 1
            log.write("error", "http-bug", {"method": request.method, "route": _shown(route)}, error=error)
            response = problem_response(_internal_error())
        for name, value in _SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return answer


def problem_response(problem: Problem) -> Response:
    """A problem as the answer that it is."""
    return JsonResponse(problem.as_json(), status_code=problem.status, headers=problem.headers)


def _shown(route: Route | None) -> str:
    return "" if route is None else route.path


def _internal_error() -> Problem:
    return Problem(500, "internal-error", "this broker made a mistake", "its log says more; please report it")


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        problem = Problem(404, "not-found", f"there is no {request.url.path[:128]}", "GET /docs lists what there is")
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        problem = Problem(
            405,
            "method-not-allowed",
            f"{request.method} is not served here",
            f"use {allowed}",
            headers={"allow": allowed},
        )
    else:
        problem = Problem(error.status_code, "bad-request", str(error.detail))
    return problem_response(problem)


async def _bug(_request: Request, error: Exception) -> Response:
    log.write("error", "http-bug", {}, error=error)
    return problem_response(_internal_error())
