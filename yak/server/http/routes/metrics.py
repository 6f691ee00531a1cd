"""`/metrics`: for Prometheus and other readers of its text format."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from yak.server.http.context import Context
from yak.server.http.metrics.rendering import Rendering
from yak.server.http.route import Answer, Routes

ROUTES: Final = Routes("Metrics")


@ROUTES.add(
    "GET /metrics",
    "Metrics of this broker for Prometheus",
    answers={200: Answer("Prometheus text format, or OpenMetrics if requested", {"type": "string"}, "text/plain")},
    description="Scrapes within one second get the same response. Labels are bounded; `yak_metrics_truncated` counts what is left out.",
)
async def metrics(context: Context, request: Request) -> Response:
    """All metrics, in the format of the Accept header."""
    content_type, pieces = await context.part(Rendering).text(",".join(request.headers.getlist("accept")))

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers = {"content-length": str(sum(map(len, pieces))), "content-type": content_type}
    return StreamingResponse(body(), headers=headers)
