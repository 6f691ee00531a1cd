"""JSON answers; large ones are rendered in a thread, so that Kafka's clients do not wait for them."""

import json
from typing import Any, Final

import trio
from starlette.responses import Response

from yak.plain_text import json_text

_LARGE_ITEMS: Final = 500


def render(content: Any) -> bytes:
    """Compact UTF-8. NaN in it is our bug."""
    return json_text(json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)).encode() + b"\n"


def answer(content: Any, status: int = 200) -> Response:
    """A small one."""
    return Response(render(content), status, media_type="application/json")


async def list_answer(items: list[Any]) -> Response:
    """A list of any length."""
    body = render(items) if len(items) <= _LARGE_ITEMS else await trio.to_thread.run_sync(render, items)
    return Response(body, media_type="application/json")
