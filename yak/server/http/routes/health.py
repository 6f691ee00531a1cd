"""`/health`: for people and load balancers; `/health/live` and `/health/ready`: for what restarts and routes."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from yak.broker.views.health import HealthView
from yak.server.http.bodies import text_of
from yak.server.http.context import Context
from yak.server.http.route import Answer, Route

_STATUS: Final = {
    "type": "object",
    "required": ["status", "reasons"],
    "properties": {
        "status": {"enum": ["ok", "unhealthy"]},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
}


def _view(context: Context) -> HealthView:
    view = context.parts.get("health")
    if view is None:
        view = context.parts["health"] = HealthView(context.broker)
    assert isinstance(view, HealthView)
    return view


async def health(context: Context, _request: Request) -> Response:
    """Everything; 503 with the reasons when something is wrong here or in the cluster."""
    found = _view(context).look()
    return Response(text_of(found.as_json()) + b"\n", 503 if found.reasons else 200, media_type="application/json")


async def live(_context: Context, _request: Request) -> Response:
    """The process answers: it need not be restarted."""
    return Response(b'{"status":"ok","reasons":[]}\n', media_type="application/json")


async def ready(context: Context, _request: Request) -> Response:
    """Whether to send clients here."""
    found = _view(context).look()
    body = {"status": "ok" if found.is_ready else "unhealthy", "reasons": found.own_reasons}
    return Response(text_of(body) + b"\n", 200 if found.is_ready else 503, media_type="application/json")


ROUTES: Final = (
    Route(
        "GET",
        "/health",
        health,
        "Role, epochs, controller, partitions, Redis and disks of this broker",
        "Health",
        answers={200: Answer("all is well", _STATUS), 503: Answer("it is not: `reasons` say why", _STATUS)},
    ),
    Route(
        "GET", "/health/live", live, "Whether the process answers", "Health", answers={200: Answer("it does", _STATUS)}
    ),
    Route(
        "GET",
        "/health/ready",
        ready,
        "Whether clients should be sent here",
        "Health",
        answers={200: Answer("they should", _STATUS), 503: Answer("they should not", _STATUS)},
    ),
)
