"""Files from an app to the browser: an export, a screenshot.

An app offers a file under a key, the page requests `/download/KEY`, and the app then sends the file piece by piece on
request (`textual.drivers.web_driver`). textual-serve keeps the keys. The answer is ours: a truncated one must not look
complete, and a file name must not break its header.
"""

import asyncio
import re
import urllib.parse
from typing import Final

from aiohttp import web
from textual_serve.download_manager import DOWNLOAD_CHUNK_SIZE, Download, DownloadManager

_CHUNK_SECONDS: Final = 30.0


class Downloads(DownloadManager):
    """The files offered by the apps of one server. Each can be downloaded once."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()

    def take(self, key: str) -> Download | None:
        """The download of this key, for the first request; None for later ones and unknown keys."""
        download = self._active_downloads.get(key)
        if download is None or key in self._taken:
            return None
        self._taken.add(key)
        return download

    async def send(self, download: Download, request: web.Request) -> web.StreamResponse:
        """Answer with the file.

        Raises ConnectionResetError, which closes the connection, if the app does not send all of it.
        """
        response = web.StreamResponse(headers=download_headers(download))
        try:
            await response.prepare(request)
            while chunk := await self._next(download):
                await response.write(chunk)
            await response.write_eof()
        finally:
            self.forget(download.delivery_key)
        return response

    def forget(self, key: str) -> None:
        """Remove a download that ended, or whose app ended."""
        self._active_downloads.pop(key, None)
        self._taken.discard(key)

    async def cancel_app_downloads(self, app_service_id: str) -> None:
        """Cancel the downloads of an app that ended."""
        for key, download in list(self._active_downloads.items()):
            if download.app_service.app_service_id == app_service_id:
                download.incoming_chunks.put_nowait(None)
                if key not in self._taken:
                    self.forget(key)

    async def _next(self, download: Download) -> bytes:
        asked = await download.app_service.send_meta(
            {
                "type": "deliver_chunk_request",
                "key": download.delivery_key,
                "size": DOWNLOAD_CHUNK_SIZE,
                "name": download.name,
            }
        )
        if not asked:
            raise ConnectionResetError("the app is gone")
        try:
            chunk = await asyncio.wait_for(download.incoming_chunks.get(), _CHUNK_SECONDS)
        except TimeoutError as error:
            raise ConnectionResetError("the app gave nothing") from error
        if chunk is None:
            raise ConnectionResetError("the app ended")
        return chunk


def download_headers(download: Download) -> dict[str, str]:
    """Headers that make browsers save the file: opened in a tab it would have the rights of a page of this server."""
    plain = re.sub(r'[^ -~]|["\\]', "_", download.file_name)
    exact = urllib.parse.quote(download.file_name, safe="")
    mime_type = download.mime_type if re.fullmatch(r"[\w.+-]+/[\w.+-]+", download.mime_type) else ""
    charset = f"; charset={download.encoding}" if re.fullmatch(r"[\w.-]+", download.encoding or "") else ""
    return {
        "Content-Type": f"{mime_type or 'application/octet-stream'}{charset if mime_type else ''}",
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}",
        "Cache-Control": "no-store",
    }
