"""The server of `yak ui --web`: its routes and life cycle, its pages, and the headers of every answer.

The Content-Security-Policy makes browsers enforce that a page loads from and connects to this server only. Inline
styles are allowed, because xterm.js creates some; inline scripts are not.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import ssl
import tempfile
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import jinja2
import textual_serve
from aiohttp import web
from aiohttp.multipart import BodyPartReader

from yak.limits import UI_MESSAGE_BYTES_MAX, UI_UPLOAD_BYTES_MAX, UI_UPLOADS_BYTES_MAX
from yak.server.http.host_header import host_name, is_name_here
from yak.tui.settings import PUBLIC, UPLOADS
from yak.tui.web.options import PORT, TOKEN_VARIABLE, WebOptions, address_of, bind
from yak.tui.web.session import Sessions

_READING: Final = ("GET", "HEAD")
_ITS_OWN: Final = ("same-origin", "none")
"""What browsers send for a request by our own page, or by the user (Fetch Metadata)."""


class RefusedRequest(Exception):
    """A refused request, with an HTTP status and a slug. Nothing of a refused upload stays on the disk."""

    def __init__(self, status: int, code: str, message: str, try_: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.try_ = try_


@dataclass(slots=True)
class Guard:
    """The checks of one server."""

    options: WebOptions
    _secret: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def check(self, request: web.BaseRequest) -> None:
        """Raise RefusedRequest unless the request is allowed."""
        has_token = self.has_token(request)
        host = request.headers.get("Host", "")
        if not has_token and not is_name_here(host, self.options.host):
            raise RefusedRequest(
                421,
                "wrong-host",
                f"this server is not {host_name(host)[:64]!r}",
                "open it by its address or by this machine's name",
            )
        if self.options.token is not None and not has_token:
            raise RefusedRequest(
                401,
                "token-needed",
                "the token is not the right one" if "token" in request.query else "this needs the token",
                "open the address with ?token=… that yak ui printed when it started",
            )
        if not self._is_own_page(request):
            raise RefusedRequest(
                403, "foreign-origin", "the request came from a page of another site", "open the address yourself"
            )

    def remember(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Set the cookie if the token came in the address."""
        if self.options.token is not None and "token" in request.query and not response.prepared:
            response.set_cookie(
                self._cookie(request), self._secret, httponly=True, samesite="Strict", secure=request.secure, path="/"
            )

    def has_token(self, request: web.BaseRequest) -> bool:
        """Whether the request has the token, or the cookie for it."""
        if self.options.token is None:
            return False
        given = request.query.get("token")
        if given is not None:
            return _are_equal(given, self.options.token)
        return _are_equal(request.cookies.get(self._cookie(request), ""), self._secret)

    def _is_own_page(self, request: web.BaseRequest) -> bool:
        origin = request.headers.get("Origin")
        opens_socket = request.headers.get("Upgrade", "").lower() == "websocket"
        if request.method in _READING and not opens_socket:
            return True
        if origin is None:  # not a browser, or one that uses Fetch Metadata instead
            return request.headers.get("Sec-Fetch-Site", "none") in _ITS_OWN
        return urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()

    def _cookie(self, request: web.BaseRequest) -> str:
        """The cookie's name, with the port: browsers share cookies between all ports of a host."""
        _, colon, port = request.headers.get("Host", "").rpartition(":")
        return f"yak_ui_{port}" if colon and port.isdigit() else "yak_ui"


def _are_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


_CHUNK_BYTES: Final = 1024 * 1024
_STALLED_SECONDS: Final = 60.0
_NAME_LENGTH_MAX: Final = 100
_NAMESAKES_MAX: Final = 1000


@dataclass(slots=True)
class Uploads:
    """The directory of one server's uploads. `close` removes it."""

    file_bytes_max: int = UI_UPLOAD_BYTES_MAX
    all_bytes_max: int = UI_UPLOADS_BYTES_MAX
    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="yak-ui-uploads-")))
    _stored_bytes: int = 0

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    async def receive(self, request: web.Request) -> Path:
        """Store the body of a POST: a form's first file, or the body itself, named by `?name=`.

        Raises RefusedRequest: `upload-too-large` (413), `no-room` (507), `no-file` (400), `stalled` (408).
        """
        self._check_size(request.content_length or 0, of_form=request.content_type.startswith("multipart/"))
        if not request.content_type.startswith("multipart/"):
            return await self._keep(request.query.get("name", ""), _chunks(request.content.read))
        try:
            reader = await request.multipart()
            while (part := await reader.next()) is not None:
                if isinstance(part, BodyPartReader) and part.filename is not None:
                    return await self._keep(part.filename, _chunks(part.read_chunk))
        except ValueError as error:
            raise RefusedRequest(
                400, "no-file", f"the form cannot be read ({error})", "send it as a browser does"
            ) from error
        raise RefusedRequest(400, "no-file", "the form has no file in it", "curl -F file=@orders.csv …/upload")

    def _check_size(self, size_bytes: int, *, of_form: bool = False) -> None:
        slack = _CHUNK_BYTES if of_form else 0  # a form adds lines around the file
        if size_bytes > self.file_bytes_max + slack:
            raise RefusedRequest(
                413,
                "upload-too-large",
                f"a file may have {_mebibytes(self.file_bytes_max)}, this one has more",
                "send it with yak produce -f FILE, or in parts",
            )
        if self._stored_bytes + size_bytes > self.all_bytes_max + slack:
            raise RefusedRequest(
                507,
                "no-room",
                f"all uploads together may have {_mebibytes(self.all_bytes_max)}",
                "restart yak ui --web, which deletes them",
            )

    async def _keep(self, name: str, chunks: AsyncIterator[bytes]) -> Path:
        """Write a file under a temporary name and rename it, so that a picker never lists an incomplete file."""
        size_bytes, temporary = 0, ""
        try:
            handle, temporary = tempfile.mkstemp(prefix=".", dir=self.directory)  # mode 0600, as always with mkstemp
            with os.fdopen(handle, "wb") as file:
                async for chunk in chunks:
                    size_bytes += len(chunk)
                    self._stored_bytes += len(chunk)
                    self._check_size(0)
                    if size_bytes > self.file_bytes_max:
                        self._check_size(size_bytes)
                    await asyncio.to_thread(file.write, chunk)
            return self._name(temporary, safe_name(name))
        except BaseException as error:
            self._stored_bytes -= size_bytes
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            # A disconnect of the browser is an OSError too, but not a disk error.
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                why = error.strerror or str(error)
                raise RefusedRequest(507, "no-room", f"the file cannot be kept ({why})", "make room there") from error
            raise

    def _name(self, temporary: str, name: str) -> Path:
        """Rename a complete file to its name, or to `name (2)` if that is taken."""
        stem, dot, ending = name.rpartition(".")
        stem, ending = (stem, dot + ending) if stem else (name, "")
        for number in range(1, _NAMESAKES_MAX):
            path = self.directory / (name if number == 1 else f"{stem} ({number}){ending}")
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            os.replace(temporary, path)
            return path
        raise RefusedRequest(507, "no-room", f"{_NAMESAKES_MAX} files are called {name}", "give it another name")


async def _chunks(read: Callable[[int], Coroutine[object, object, bytes]]) -> AsyncIterator[bytes]:
    try:
        while chunk := await asyncio.wait_for(read(_CHUNK_BYTES), _STALLED_SECONDS):
            yield chunk
    except TimeoutError as error:
        raise RefusedRequest(408, "stalled", "the upload stood still", "send it again") from error


def safe_name(name: str) -> str:
    """A file name from a browser, without directories, leading dots, or characters that control a terminal."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    cleaned = re.sub(r"[^\w .()+,=@-]", "_", last).strip(" .")
    stem, dot, ending = cleaned.rpartition(".")
    if len(cleaned) > _NAME_LENGTH_MAX:
        cleaned = f"{stem[: _NAME_LENGTH_MAX - 12]}{dot}{ending[:11]}" if stem else cleaned[:_NAME_LENGTH_MAX]
    return cleaned or "upload"


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024 / 1024:g} MiB"


TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
OWN_FILES: Final = Path(__file__).resolve().parent / "static"
_FONT_SIZES: Final = (6, 48)
_FONT_SIZE: Final = 16

_environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True)


def app_page(request: web.BaseRequest, options: WebOptions) -> web.Response:
    """The page with the terminal."""
    text = _environment.get_template("app.html").render(
        title=f"yak ui · {request.headers.get('Host', '')}",
        font_size=font_size(request.query.get("fontsize", "")),
        has_reader=request.query.get("reader") == "1",
        takes_uploads=not options.readonly,
    )
    return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-store"})


def message_page(status: int, reason: str, detail: str = "") -> web.Response:
    """A page with a message only."""
    text = _environment.get_template("message.html").render(reason=reason, detail=detail)
    return web.Response(status=status, text=text, content_type="text/html", headers={"Cache-Control": "no-store"})


def error_answer(status: int, code: str, message: str, try_: str) -> web.Response:
    """An error as JSON, in the format of the brokers' HTTP errors."""
    return web.json_response({"error": code, "message": message, "hint": try_}, status=status)


def font_size(requested: str) -> int:
    """The font size in pixels from `fontsize` in the address, clamped; invalid text gives the default."""
    size = int(requested) if re.fullmatch(r"[0-9]{1,3}", requested) else _FONT_SIZE
    return max(_FONT_SIZES[0], min(_FONT_SIZES[1], size))


async def add_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Add headers that restrict the browser's use of an answer."""
    headers = response.headers
    headers["Server"] = "yak"  # hides the versions of the libraries
    headers.setdefault("Content-Security-Policy", _content_policy(request.headers.get("Host", "")))
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("X-Frame-Options", "DENY")
    headers.setdefault("Referrer-Policy", "no-referrer")
    headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-cache")


def _content_policy(host: str) -> str:
    # 'self' should cover our websocket, but does not in every browser yet.
    sockets = f" ws://{host} wss://{host}" if re.fullmatch(r"[A-Za-z0-9.\[\]:_-]+", host) else ""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        f"font-src 'self'; connect-src 'self'{sockets}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


Say = Callable[[str], None]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TERMINAL_FILES: Final = Path(textual_serve.__file__).resolve().parent / "static"
_HEARTBEAT_SECONDS: Final = 15.0
WRONG_TOKEN_SECONDS: Final = 0.1
"""How late a wrong token is refused: brokers refuse one after connection.failed.authentication.delay.ms, 100 ms."""
_SHUTDOWN_SECONDS: Final = 0.3
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(options: WebOptions, argv: Sequence[str], *, say: Say, warn: Say) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP. On return, all children and uploads are removed.

    `argv` is the command of one tab. Addresses go to `say`, problems of tabs to `warn`, a line each.
    Raises UsageError: `open-to-all`, `bad-token`, `unknown-host`, `port-in-use`, `cannot-listen`; and as
    `WebOptions.context`.
    """
    options.check()
    context = options.context()
    listener = bind(options.host, options.port)
    with listener:
        asyncio.run(WebServer(options, argv, warn=warn).run(listener, say, context))


class WebServer:
    """One server: its routes, tabs and uploads."""

    def __init__(self, options: WebOptions, argv: Sequence[str], *, warn: Say) -> None:
        self._options = options
        self._warn = warn
        self._guard = Guard(options)
        self.uploads = Uploads()
        environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
        environment[UPLOADS] = str(self.uploads.directory)
        if options.token is None and options.readonly:
            environment[PUBLIC] = "1"
        self.sessions = Sessions(argv, environment, count_max=options.sessions_max, problem=warn)

    async def run(self, listener: socket.socket, say: Say, context: ssl.SSLContext | None = None) -> None:
        """Serve on a listening socket until a signal."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop.set)
        for name in ("aiohttp", "textual-serve"):
            logging.getLogger(name).addHandler(logging.NullHandler())  # invalid requests do not concern the user
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        try:
            await runner.setup()
            await web.SockSite(runner, listener, ssl_context=context).start()
            self._announce(listener.getsockname()[1], say)
            await stop.wait()
            await self.sessions.stop()
        finally:
            await runner.cleanup()
            await asyncio.to_thread(self.uploads.close)

    def application(self) -> web.Application:
        """The routes, each behind the guard."""
        application = web.Application(middlewares=[self._checked])
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/favicon.ico", _icon),
                web.get("/ws", self._socket),
                web.post("/upload", self._upload),
                web.get("/download/{key}", self._download, allow_head=False),
                web.static("/static/terminal", TERMINAL_FILES),
                web.static("/static/yak", OWN_FILES),
            ]
        )
        application.on_response_prepare.append(add_headers)
        return application

    def _announce(self, port: int, say: Say) -> None:
        options = self._options
        if options.port is None and port != PORT:
            say(f"port {PORT} is taken; this is {port}")
        encrypted = options.certificate is not None
        say(f"open    {address_of(options.host, port, options.token, is_encrypted=encrypted)}")
        if options.host in ("0.0.0.0", "::"):  # noqa: S104 - it is compared
            elsewhere = address_of(socket.gethostname(), port, options.token, is_encrypted=encrypted)
            say(f"        {elsewhere}   from other machines")
        if warning := options.warning():
            self._warn(warning)
        say("Ctrl+C stops it and ends its tabs")

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        is_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")
        try:
            self._guard.check(request)
            response = await handler(request)
            self._guard.remember(request, response)
            return response
        except RefusedRequest as refused:
            if "token" in request.query and not self._guard.has_token(request):
                await asyncio.sleep(WRONG_TOKEN_SECONDS)
            if is_page:
                return message_page(refused.status, _sentence(refused.message), _sentence(refused.try_))
            return error_answer(refused.status, refused.code, refused.message, refused.try_)
        except web.HTTPException as error:
            if is_page:
                return message_page(error.status, f"{error.reason}.", "The UI is at /.")
            return error_answer(error.status, error.reason.lower().replace(" ", "-"), error.reason, "GET /")
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - one request's fault must not show a stranger our insides
            self._warn(f"{request.method} {request.path} failed: {type(error).__name__}: {error}")
            return error_answer(500, "internal", "yak has a bug", "see the terminal that runs yak ui --web")

    async def _page(self, request: web.Request) -> web.Response:
        if self.sessions.are_full:
            end = self.sessions.too_many
            return message_page(503, end.reason, end.detail)
        return app_page(request, self._options)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        tab = web.WebSocketResponse(heartbeat=_HEARTBEAT_SECONDS, max_msg_size=UI_MESSAGE_BYTES_MAX, compress=False)
        await tab.prepare(request)
        await self.sessions.serve(tab, _number(request, "width", 80), _number(request, "height", 24))
        return tab

    async def _upload(self, request: web.Request) -> web.Response:
        if self._options.readonly:
            raise RefusedRequest(403, "readonly", "this UI changes nothing", "start it without --readonly")
        path = await self.uploads.receive(request)
        await self.sessions.notify_uploaded(request.query.get("session", ""), path)
        return web.json_response({"path": str(path), "name": path.name, "bytes": path.stat().st_size}, status=201)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        downloads = self.sessions.downloads
        download = downloads.take(request.match_info["key"])
        if download is None:
            raise web.HTTPNotFound
        return await downloads.send(download, request)


async def _icon(_request: web.Request) -> web.FileResponse:
    """The page names its icon; browsers request this path for what has no page, such as a download."""
    return web.FileResponse(OWN_FILES / "icon.svg")


def _number(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else otherwise


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
