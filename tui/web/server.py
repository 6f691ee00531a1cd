"""The server of `yak ui --web`: its routes and life cycle, its pages, and the headers of every answer.

The Content-Security-Policy makes browsers enforce that a page loads from and connects to this server only. Inline
styles are allowed, because xterm.js creates some; inline scripts are not.
"""

import asyncio
import logging
import os
import re
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import jinja2
import textual_serve
from aiohttp import web

from yak.limits import UI_MESSAGE_BYTES_MAX
from yak.tui.settings import UPLOADS
from yak.tui.web.guard import Guard
from yak.tui.web.options import PORT, TOKEN_VARIABLE, WebOptions, address_of, bind
from yak.tui.web.session import Sessions
from yak.tui.web.uploads import UploadRefused, Uploads

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


def message_page(status: int, words: str, detail: str = "") -> web.Response:
    """A page with a message only."""
    text = _environment.get_template("message.html").render(words=words, detail=detail)
    return web.Response(status=status, text=text, content_type="text/html", headers={"Cache-Control": "no-store"})


def error_answer(status: int, code: str, message: str, try_: str) -> web.Response:
    """An error as JSON, in the format of the brokers' HTTP errors."""
    return web.json_response({"error": code, "message": message, "hint": try_}, status=status)


def font_size(asked: str) -> int:
    """The font size in pixels from `fontsize` in the address, clamped; invalid text gives the default."""
    size = int(asked) if re.fullmatch(r"[0-9]{1,3}", asked) else _FONT_SIZE
    return max(_FONT_SIZES[0], min(_FONT_SIZES[1], size))


def add_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
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
                web.get("/ws", self._socket),
                web.post("/upload", self._upload),
                web.get("/download/{key}", self._download, allow_head=False),
                web.static("/static/terminal", TERMINAL_FILES),
                web.static("/static/yak", OWN_FILES),
            ]
        )
        application.on_response_prepare.append(self._prepare)
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
        refusal = self._guard.refuse(request)
        is_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")
        if refusal is not None:
            if is_page:
                return message_page(refusal.status, _sentence(refusal.message), _sentence(refusal.try_))
            return error_answer(refusal.status, refusal.code, refusal.message, refusal.try_)
        try:
            response = await handler(request)
            self._guard.remember(request, response)
            return response
        except web.HTTPException as error:
            if is_page:
                return message_page(error.status, f"{error.reason}.", "The UI is at /.")
            return error_answer(error.status, error.reason.lower().replace(" ", "-"), error.reason, "GET /")
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - one request's fault must not show a stranger our insides
            self._warn(f"{request.method} {request.path} failed: {type(error).__name__}: {error}")
            return error_answer(500, "internal", "yak has a bug", "see the terminal that runs yak ui --web")

    async def _prepare(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        add_headers(request, response)

    async def _page(self, request: web.Request) -> web.Response:
        if self.sessions.are_full:
            words = self.sessions.full_words
            return message_page(503, words.words, words.detail)
        return app_page(request, self._options)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        tab = web.WebSocketResponse(heartbeat=_HEARTBEAT_SECONDS, max_msg_size=UI_MESSAGE_BYTES_MAX, compress=False)
        await tab.prepare(request)
        await self.sessions.serve(tab, _number(request, "width", 80), _number(request, "height", 24))
        return tab

    async def _upload(self, request: web.Request) -> web.Response:
        if self._options.readonly:
            return error_answer(403, "readonly", "this UI changes nothing", "start it without --readonly")
        try:
            kept = await self.uploads.receive(request)
        except UploadRefused as refused:
            return error_answer(refused.status, refused.code, refused.message, refused.try_)
        await self.sessions.tell_uploaded(request.query.get("session", ""), kept.path)
        return web.json_response({"path": str(kept.path), "name": kept.path.name, "bytes": kept.size_bytes}, status=201)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        downloads = self.sessions.downloads
        download = downloads.take(request.match_info["key"])
        if download is None:
            raise web.HTTPNotFound
        return await downloads.send(download, request)


def _number(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else otherwise


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
