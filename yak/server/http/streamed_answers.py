"""Answers of unknown length, sent piece by piece."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

Write: TypeAlias = Callable[[bytes], Awaitable[None]]


class Streamed(StreamingResponse):
    """Sent while the request's body may still be read: unlike Starlette's, it does not call `receive`."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the whole answer."""
        await self.stream_response(send)


class UntilGone(Response):
    """Sends what `run` writes, until it ends or the client disconnects; a disconnect cancels `run`."""

    def __init__(self, run: Callable[[Write], Awaitable[None]], media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until `run` ends or the client disconnects."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await self._send_body(receive, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_body(self, receive: Receive, send: Send) -> None:
        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await self._run(write)
            nursery.cancel_scope.cancel()
