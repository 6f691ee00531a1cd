"""Answers: JSON at once or from a thread, and answers of unknown length, sent piece by piece."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import trio
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from yak.server.http.bodies import in_thread
from yak.server.http.context import Context
from yak.server.http.problems import json_bytes, large_json_bytes

LARGE_ITEMS: Final = 500
"""A longer list is rendered in a thread, so that it does not delay Kafka clients."""
Write: TypeAlias = Callable[[bytes], Awaitable[None]]


def answer(
    content: Any, status: int = 200, headers: Mapping[str, str] | None = None, media_type: str = "application/json"
) -> Response:
    """JSON, rendered on the event loop."""
    return Response(json_bytes(content), status, headers, media_type)


async def large_answer(context: Context, make: Callable[[], Any], items: int) -> Response:
    """The JSON of what `make` returns: with many items, `make` runs in a thread and must only read what never changes."""
    if items <= LARGE_ITEMS:
        return answer(make())
    body = await in_thread(context, lambda: large_json_bytes(make()))
    return Response(body, media_type="application/json")


class Streamed(StreamingResponse):
    """Sent while the request's body may still be read: unlike Starlette's, it does not call `receive`."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the whole answer."""
        await self.stream_response(send)


class RunUntilDisconnect(Response):
    """Sends what `run` writes, until it ends or the client disconnects; a disconnect cancels `run`."""

    def __init__(self, run: Callable[[Write], Awaitable[None]], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._run = run

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send until `run` ends or the client disconnects."""

        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_gone, receive, nursery.cancel_scope)
            await self._run(write)
            nursery.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel a scope when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
