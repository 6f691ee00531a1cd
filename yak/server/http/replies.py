"""Problems as bytes, with the headers of every answer; for handlers and for requests refused before them."""

import json
from typing import Final

from yak.plain_text import json_text
from yak.server.http.problems import Problem

SECURITY_HEADERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


def json_bytes(content: object) -> bytes:
    """Compact UTF-8. Raises ValueError for NaN, which is a bug of ours."""
    return json_text(json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)).encode() + b"\n"


def body_of(problem: Problem) -> tuple[bytes, list[tuple[str, str]]]:
    """The body of an error answer, and its headers."""
    headers = {"content-type": "application/json", **SECURITY_HEADERS, **(problem.headers or {})}
    return json_bytes(problem.as_json()), list(headers.items())
