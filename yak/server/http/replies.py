"""How problems go over the wire, with the headers that every answer has; for handlers and for what is refused before them."""

import json
from typing import Final

from yak.plain_text import json_text
from yak.server.http.problems import Problem

SECURITY_HEADERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


def json_bytes(content: object) -> bytes:
    """JSON as UTF-8, compact; NaN in it is our bug."""
    return json_text(json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)).encode() + b"\n"


def body_of(problem: Problem) -> tuple[bytes, list[tuple[str, str]]]:
    """The body and the headers that say what it is."""
    headers = {"content-type": "application/json", **SECURITY_HEADERS, **(problem.headers or {})}
    return json_bytes(problem.as_json()), list(headers.items())
