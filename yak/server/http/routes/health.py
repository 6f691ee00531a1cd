"""`/health`: for people and load balancers; `/health/live` and `/health/ready`: for process supervisors and routing."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from yak.server.http.context import Context
from yak.server.http.fast_path import HealthAnswers
from yak.server.http.route import Answer, Routes
from yak.server.http.schemas import TEXT, listing, record

_STATUS: Final = record({"status": {"enum": ["ok", "unhealthy"]}, "reasons": listing(TEXT)})

ROUTES: Final = Routes("Health")


@ROUTES.add(
    "GET /health/ready",
    "Readiness: clients may connect to this broker",
    is_open=True,
    any_query=True,
    answers={200: Answer("they should", _STATUS), 503: Answer("not ready", _STATUS)},
)
@ROUTES.add(
    "GET /health/live",
    "Liveness: the process responds",
    is_open=True,
    any_query=True,
    answers={200: Answer("it does", _STATUS)},
)
@ROUTES.add(
    "GET /health",
    "Role, epochs, controller, partitions, metadata store and disks of this broker",
    any_query=True,
    answers={200: Answer("healthy", _STATUS), 503: Answer("unhealthy: see `reasons`", _STATUS)},
)
async def health(context: Context, request: Request) -> Response:
    """The three health checks.

    `/health`: 503 with the reasons when something is wrong here or in the cluster. `/health/live`: the process answers
    and needs no restart. `/health/ready`: whether to send clients here.
    """
    status, body = context.part(HealthAnswers).get(request.url.path)
    return Response(body, status, media_type="application/json")
