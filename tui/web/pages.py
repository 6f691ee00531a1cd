"""HTML, and the headers of every answer.

The Content-Security-Policy makes browsers enforce that a page loads from and connects to this server only. Inline
styles are allowed, because xterm.js creates some; inline scripts are not.
"""

import re
from pathlib import Path
from typing import Final

import jinja2
from aiohttp import web

from yak.tui.web.options import WebOptions

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
