"""JSON answers; large lists are rendered in a thread, so that they do not delay Kafka clients."""

import json
from typing import Any, Final

import trio
from starlette.responses import Response

from yak.plain_text import json_text

_LARGE_ITEMS: Final = 500


def render(content: Any) -> bytes:
    """Compact UTF-8. Raises ValueError for NaN, which is a bug of ours."""
    return json_text(json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)).encode() + b"\n"


def answer(content: Any, status: int = 200) -> Response:
    """A small JSON answer, rendered on the event loop."""
    return Response(render(content), status, media_type="application/json")


async def list_answer(items: list[Any]) -> Response:
    """A JSON answer for a list of any length."""
    body = render(items) if len(items) <= _LARGE_ITEMS else await trio.to_thread.run_sync(render, items)
    return Response(body, media_type="application/json")
