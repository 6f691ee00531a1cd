"""`/openapi.json` and `/docs`: documentation for tools and for people; `/`: links to both. Built once as bytes."""

import gzip
import json
from typing import Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.config.listeners import bracketed
from yak.server.http import docs_page, openapi
from yak.server.http.context import Context
from yak.server.http.route import Answer, Routes
from yak.server.http.schemas import TEXT, record

_HTML: Final = "text/html; charset=utf-8"
_OBJECT: Final = {"type": "object"}
_DOCUMENT: Final = record(
    {
        "openapi": {"const": "3.1.0"},
        "info": {"type": "object", "required": ["title", "version"]},
        "paths": _OBJECT,
        "components": _OBJECT,
    }
)
_INDEX: Final = record(
    {
        "node_id": {"type": "integer", "description": "of the broker that responds"},
        "docs": TEXT,
        "openapi": TEXT,
        "health": TEXT,
    }
)


def _make(address: str) -> dict[str, tuple[bytes, bytes]]:
    """Both documents by path, plain and compressed."""
    from yak.server.http.routes import ROUTES  # not at the top: this file is in that table

    document = (json.dumps(openapi.document(ROUTES), ensure_ascii=False, indent=1) + "\n").encode()
    found = {"/openapi.json": document, "/docs": docs_page.page(ROUTES, address).encode()}
    return {path: (whole, gzip.compress(whole, mtime=0)) for path, whole in found.items()}


async def _answer(context: Context, request: Request, media_type: str) -> Response:
    made = context.parts.get("documentation")
    if made is None:
        address = f"{context.scheme}://{bracketed(context.advertised_host)}:{context.http_port}"
        # Some dozens of ms for a large table: too long for the loop.
        made = context.parts["documentation"] = await trio.to_thread.run_sync(_make, address)
    whole, small = made[request.url.path]
    headers = {"content-type": media_type, "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(small, headers={**headers, "content-encoding": "gzip"})
    return Response(whole, headers=headers)


ROUTES: Final = Routes("Documentation")


@ROUTES.add("GET /openapi.json", "This API as OpenAPI 3.1", answers={200: Answer("it", _DOCUMENT)})
async def document(context: Context, request: Request) -> Response:
    """The OpenAPI 3.1 document."""
    return await _answer(context, request, "application/json")


@ROUTES.add("GET /docs", "All routes on one page, usable offline", answers={200: Answer("HTML", None, "text/html")})
async def page(context: Context, request: Request) -> Response:
    """The HTML page."""
    answer = await _answer(context, request, _HTML)
    answer.headers["content-security-policy"] = docs_page.CONTENT_SECURITY_POLICY
    answer.headers["referrer-policy"] = "no-referrer"
    return answer


@ROUTES.add(
    "GET /",
    "Entry page",
    answers={200: Answer("the addresses", _INDEX), 302: Answer("redirect to /docs if the client accepts HTML")},
)
async def index(context: Context, request: Request) -> Response:
    """Redirect browsers to the page; list the addresses for other clients."""
    if "text/html" in request.headers.get("accept", ""):
        return Response(status_code=302, headers={"location": "/docs", "vary": "accept"})
    found = {"node_id": context.broker.node_id, "docs": "/docs", "openapi": "/openapi.json", "health": "/health"}
    return Response(json.dumps(found) + "\n", media_type="application/json", headers={"vary": "accept"})
