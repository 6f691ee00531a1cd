"""The open tabs of one server: their child processes, their messages, their files, their limit and their end.

textual-serve's AppService speaks the protocol with the child. This class changes three things. It uses no shell, so
nothing needs quoting and the ended process is the app. The child has a process group of its own, which is killed if the
child does not end in time. The end of its standard error is reported to the user.

An app offers a file under a key, the page requests `/download/KEY`, and the app then sends the file piece by piece on
request (`textual.drivers.web_driver`). textual-serve keeps the keys. The answer is ours: a truncated one must not look
complete, and a file name must not break its header.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import urllib.parse
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from aiohttp import WSCloseCode, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DOWNLOAD_CHUNK_SIZE, Download, DownloadManager

T = TypeVar("T")
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
        for key, download in list(self._active_downloads.items()):
            if download.app_service.app_service_id == app_service_id:
                download.incoming_chunks.put_nowait(None)
                if key not in self._taken:
                    self.forget(key)

    async def _next(self, download: Download) -> bytes:
        is_sent = await download.app_service.send_meta(
            {
                "type": "deliver_chunk_request",
                "key": download.delivery_key,
                "size": DOWNLOAD_CHUNK_SIZE,
                "name": download.name,
            }
        )
        if not is_sent:
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


DRIVER: Final = "yak.tui.web.driver:TabDriver"
QUIT_SECONDS: Final = 1.0
"""The time for an app to quit before it is killed."""
_KILLED_SECONDS: Final = 0.3
"""The time for its pipes to close after the kill."""
_START_SECONDS: Final = 30.0
_STDERR_BYTES_MAX: Final = 16 * 1024
_HEADER_BYTES: Final = 5
_ESCAPE_KEY: Final = b"\x1b[27u"
"""The Escape key in kitty's keyboard protocol. Textual waits 100 ms after an ESC alone, which can begin a sequence, and
reads a key that follows in that time as Alt with that key. The page sends each sequence in one message."""
_PACKET_BYTES_MAX: Final = 64 * 1024 * 1024
_WIDTHS: Final = (20, 1000)
_HEIGHTS: Final = (5, 500)


@dataclass(frozen=True, slots=True)
class End:
    """Why a session ended, for its page."""

    reason: str
    detail: str = ""
    """The child's own error, if it gave one."""


LEFT: Final = End("You left the UI.")
STOPPED: Final = End("yak ui was stopped.", "Start it again, then reload this page.")


class Session(AppService):
    """The process of one tab. Call `start`, then `handle` for each message of the page, and always `stop`."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], socket: web.WebSocketResponse, downloads: Downloads
    ) -> None:
        super().__init__(
            argv[0],
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=self._close_tab,
            download_manager=downloads,
        )
        self._argv = list(argv)
        self._environment = dict(environment)
        self._socket = socket
        self._tab_is_there = True
        self._stderr = bytearray()
        self.end: End | None = None
        """Why the session ended; None while it runs. A value set before `stop` is shown on the page."""

    async def start(self, width: int, height: int) -> None:
        """Start the child and relay its output. Raises OSError if it cannot be started."""
        await self._open_app_process(_clamped(width, _WIDTHS), _clamped(height, _HEIGHTS))
        await self._say("instance_id", self.app_service_id)
        self._task = asyncio.create_task(self.run())

    async def handle(self, text: str) -> None:
        """Handle one message of the page. Raises ValueError for an unknown message."""
        match json.loads(text):
            case ["stdin", "\x1b"]:
                await self.send_bytes(_ESCAPE_KEY)
            case ["stdin", str(typed)]:
                await self.send_bytes(typed.encode("utf-8", "replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                await self.set_terminal_size(_clamped(width, _WIDTHS), _clamped(height, _HEIGHTS))
            case ["ping", sent]:
                await self._say("pong", sent)
            case ["focus", *_]:
                await self.focus()
            case ["blur", *_]:
                await self.blur()
            case other:
                raise ValueError(f"no message of ours: {str(other)[:60]}")

    async def stop(self) -> None:
        """Ask the app to quit, kill it after a timeout, and notify the page. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        try:
            # `drain` blocks if the child does not read, so the timeout covers it too.
            async with asyncio.timeout(QUIT_SECONDS):
                await self.send_meta({"type": "quit"})
                self.stdin.close()
                await asyncio.shield(task)
        except TimeoutError:
            self._kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(task, _KILLED_SECONDS)

    async def run(self) -> None:
        """Relay the child's output until it ends. `start` calls this."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None
        keeping = asyncio.create_task(self._keep_stderr(process.stderr))
        try:
            async with asyncio.timeout(_START_SECONDS):
                began = await self._has_begun(process.stdout)
            if began:
                await self._relay(process.stdout)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ValueError):
            pass  # whatever broke the stream, the child is ended and reported below
        finally:
            code = await self._wait(process)
            await asyncio.wait((keeping,), timeout=_KILLED_SECONDS)
            keeping.cancel()
        if self.end is None:
            self.end = LEFT if code == 0 else End("The UI ended by an error.", error_lines(bytes(self._stderr)))
        await farewell(self._socket, self.end)
        self._tab_is_there = False

    def stderr_text(self) -> str:
        """The last part of the child's standard error."""
        return self._stderr.decode("utf-8", "replace").strip()

    async def on_data(self, payload: bytes) -> None:
        """Send output to the page."""
        await self._to_page(self._socket.send_bytes, payload)

    async def on_meta(self, data: bytes) -> None:
        """Relay the app's other messages, except for its exit, which is detected by the process's end."""
        if json.loads(data).get("type") != "exit":
            with contextlib.suppress(ConnectionError, RuntimeError):
                await super().on_meta(data)

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        return self._environment | {
            "TEXTUAL_DRIVER": DRIVER,
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "TERM_PROGRAM": "textual",
            "COLUMNS": str(width),
            "ROWS": str(height),
        }

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._build_environment(width, height),
            start_new_session=True,  # keeps Ctrl+C from the child, and its group can be killed as a whole
        )
        assert process.stdin is not None
        self._process, self._stdin = process, process.stdin
        return process

    async def _has_begun(self, stdout: asyncio.StreamReader) -> bool:
        """Whether the line arrives that starts a Textual app's output.

        Up to nine other lines, of libraries, may precede it.
        """
        for _ in range(10):
            line = await stdout.readline()
            if line == b"__GANGLION__\n":
                return True
            if not line:
                return False
        return False

    async def _relay(self, stdout: asyncio.StreamReader) -> None:
        handlers = {b"D": self.on_data, b"M": self.on_meta, b"P": self.on_packed}
        while True:
            header = await stdout.readexactly(_HEADER_BYTES)
            size_bytes = int.from_bytes(header[1:], "big")
            handler = handlers.get(header[:1])
            if handler is None or size_bytes > _PACKET_BYTES_MAX:
                raise ValueError("no packet of a Textual app")
            await handler(await stdout.readexactly(size_bytes))

    async def _wait(self, process: Process) -> int:
        """The exit code. A child that closed its output but still runs is killed."""
        try:
            return await asyncio.wait_for(process.wait(), QUIT_SECONDS)
        except TimeoutError:
            self._kill()
            return await process.wait()

    def _kill(self) -> None:
        """Kill the whole group: the one-file executable has two processes.

        Brokers of a local cluster have their own groups.
        """
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    async def _keep_stderr(self, stderr: asyncio.StreamReader) -> None:
        while piece := await stderr.read(4096):
            self._stderr += piece
            del self._stderr[:-_STDERR_BYTES_MAX]

    async def _say(self, kind: str, value: object) -> None:
        await self._to_page(self._socket.send_str, json.dumps([kind, value]))

    async def _to_page(self, send: Callable[[T], Awaitable[None]], payload: T) -> None:
        """Send; after the tab is closed it is dropped, so that the child does not block on writing."""
        if self._tab_is_there:
            try:
                await send(payload)
            except (ConnectionError, RuntimeError):
                self._tab_is_there = False

    async def _close_tab(self) -> None:
        await self._socket.close()


async def farewell(socket: web.WebSocketResponse, end: End) -> None:
    """Send the reason and close, without waiting for the page."""
    with contextlib.suppress(ConnectionError, RuntimeError, TimeoutError):
        async with asyncio.timeout(QUIT_SECONDS):
            await socket.send_str(json.dumps(["ended", {"reason": end.reason, "detail": end.detail}]))
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"ended")


def error_lines(stderr: bytes) -> str:
    """The three-part error at the end of a command's standard error; "" if there is none."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("error[")]
    return "\n".join(lines[starts[-1] :][:12]) if starts else ""


def _clamped(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], value))


class Sessions:
    """A limited number of sessions, each with a child process started by the same command."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], *, count_max: int, problem: Callable[[str], None]
    ) -> None:
        self.downloads = Downloads()
        self._argv = list(argv)
        self._environment = dict(environment)
        self._count_max = count_max
        self._problem = problem
        self._open: dict[str, Session] = {}
        self._is_stopping = False

    @property
    def are_full(self) -> bool:
        return len(self._open) >= self._count_max

    @property
    def too_many(self) -> End:
        return End(f"{self._count_max} tabs are open, and more are not served.", "Close one, then reload this page.")

    async def serve(self, socket: web.WebSocketResponse, width: int, height: int) -> None:
        """Run one tab from start to end; its child is gone on return."""
        if self._is_stopping or self.are_full:
            await farewell(socket, STOPPED if self._is_stopping else self.too_many)
            return
        session = Session(self._argv, self._environment, socket, self.downloads)
        self._open[session.app_service_id] = session
        try:
            await session.start(width, height)
            async for message in socket:
                if message.type == web.WSMsgType.TEXT:
                    await session.handle(message.data)
        except OSError as error:
            await farewell(socket, End("The UI cannot be started.", str(error.strerror or error)))
            self._problem(f"a tab's UI cannot be started: {error}")
        except (ValueError, RecursionError):
            session.end = End("The page sent an unknown message.")
        finally:
            try:
                await session.stop()
            finally:
                del self._open[session.app_service_id]
        if said := session.stderr_text():
            self._problem(f"a tab's UI said: {said}")

    async def notify_uploaded(self, session_id: str, path: Path) -> None:
        """Notify a tab's app of an upload by its page, unless the tab is gone."""
        session = self._open.get(session_id)
        if session is not None:
            await session.send_meta({"type": "uploaded", "path": str(path)})

    async def stop(self) -> None:
        """End all tabs at once, and accept no new ones."""
        self._is_stopping = True
        ending = list(self._open.values())
        for session in ending:
            session.end = session.end or STOPPED
        await asyncio.gather(*(session.stop() for session in ending))
