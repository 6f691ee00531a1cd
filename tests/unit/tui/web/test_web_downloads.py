import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from yak.tui.web.session import Downloads, download_headers


class App:
    """What a session is to a download: it gives pieces when asked, as many as it has."""

    app_service_id = "app"

    def __init__(self, downloads: Downloads, pieces: list[bytes | None]) -> None:
        self.downloads = downloads
        self.pieces = pieces

    async def send_meta(self, data: dict[str, Any]) -> bool:
        if not self.pieces:
            return False
        piece = self.pieces.pop(0)
        if piece is None:
            await self.downloads.cancel_app_downloads("app")
        else:
            await self.downloads.chunk_received(data["key"], piece)
        return True


async def offer(downloads: Downloads, pieces: list[bytes | None], **how: Any) -> None:
    await downloads.create_download(
        app_service=App(downloads, pieces),  # type: ignore[arg-type]
        delivery_key="key",
        **{"file_name": "a.csv", "open_method": "download", "mime_type": "text/csv", "encoding": None, **how},
    )


async def fetch(downloads: Downloads) -> tuple[int, bytes]:
    async def handler(request: web.Request) -> web.StreamResponse:
        download = downloads.take("key")
        return web.Response(status=404) if download is None else await downloads.send(download, request)

    application = web.Application()
    application.router.add_get("/", handler)
    async with TestClient(TestServer(application)) as client, client.get("/") as answer:
        return answer.status, await answer.read()


def test_a_file_comes_whole_and_once():
    async def scenario():
        downloads = Downloads()
        await offer(downloads, [b"one ", b"two", b""])
        return await fetch(downloads), await fetch(downloads)

    assert asyncio.run(scenario()) == ((200, b"one two"), (404, b""))


@pytest.mark.parametrize("pieces", [[b"one "], [b"one ", None]], ids=["the app is gone", "the app ends meanwhile"])
def test_truncated_download_closes_the_connection(pieces):
    async def scenario():
        downloads = Downloads()
        await offer(downloads, pieces)
        return await fetch(downloads)

    with pytest.raises(Exception, match=r"payload is not completed|TransferEncodingError|Not enough data"):
        asyncio.run(scenario())


def test_downloads_offered_by_an_ended_app_are_forgotten():
    async def scenario():
        downloads = Downloads()
        await offer(downloads, [b"one"])
        await downloads.cancel_app_downloads("another")
        assert "key" in downloads._active_downloads
        await downloads.cancel_app_downloads("app")
        return downloads.take("key")

    assert asyncio.run(scenario()) is None


def test_the_headers_hold_whatever_the_app_says():
    async def scenario():
        downloads = Downloads()
        await offer(
            downloads, [], file_name='a"\r\nSet-Cookie: x\u00e4', mime_type="text/html\r\nX: y", encoding="utf-8"
        )
        found = downloads.take("key")
        assert found is not None
        return download_headers(found)

    headers = asyncio.run(scenario())
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"].startswith('attachment; filename="a___Set-Cookie: x_";')
    assert not any("\r" in value or "\n" in value for value in headers.values())
