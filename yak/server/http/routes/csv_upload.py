"""`POST /topics/{name}/csv`: uploads a CSV file of any size to a topic, each row as a JSON object."""

from collections.abc import AsyncIterator
from typing import Any, Final

import trio
from starlette.requests import Request
from starlette.responses import Response

from yak.server import log
from yak.server.http.answers import Streamed, answer
from yak.server.http.bodies import body_pieces, query_text, refuse_unknown_query
from yak.server.http.context import Context
from yak.server.http.csv_rows import ENCODINGS, CsvRows
from yak.server.http.csv_upload import CsvUpload
from yak.server.http.problems import Problem, json_bytes
from yak.server.http.route import Answer, Body, Parameter, Route
from yak.server.http.routes.topics import NAME

NDJSON: Final = "application/x-ndjson"
_PROGRESS_SECONDS: Final = 1.0
_NO_DELIMITERS: Final = ('"', "\r", "\n", "\0")


async def upload_csv(context: Context, request: Request) -> Response:
    """Upload CSV. The header is checked before anything is written."""
    refuse_unknown_query(request, ("key", "delimiter", "encoding"))
    content_type = request.headers.get("content-type", "")
    if content_type.startswith("multipart/"):
        raise Problem(415, "not-csv", "an HTML form is not CSV", "send the file itself: curl --data-binary @FILE")
    rows = CsvRows(_encoding(request), _delimiter(request), context.limits.csv_row_chars_max)
    pieces = body_pieces(context, request, bytes_max=None)
    upload = CsvUpload(context, request.path_params["name"], pieces, rows, query_text(request, "key"))
    await upload.begin()
    if NDJSON in request.headers.get("accept", ""):
        return Streamed(_progress(context, upload), media_type=NDJSON)
    try:
        async for _ in upload.go_on():
            pass
    except Problem as problem:
        problem.more |= _total(upload)
        raise
    return answer(_total(upload))


async def _progress(context: Context, upload: CsvUpload) -> AsyncIterator[bytes]:
    """One line at once, at most one line a second, and a last line with the total and the error, if any."""
    told = trio.current_time()
    yield json_bytes({"done": False, **upload.progress.as_json()})
    end: dict[str, Any] = {"done": True}
    try:
        async for progress in upload.go_on():
            if trio.current_time() - told >= _PROGRESS_SECONDS:
                told = trio.current_time()
                yield json_bytes({"done": False, **progress.as_json()})
    except Problem as problem:
        end |= problem.as_json()
    except Exception as error:  # noqa: BLE001 - our bug: the answer has begun, so this line must say it
        context.shell.counters.bugs += 1
        log.write("error", "http-bug", {"method": "POST", "route": "/topics/{name}/csv"}, error=error)
        end |= {"error": "internal-error", "message": "internal error in this broker", "hint": "its log says more"}
    yield json_bytes({**end, **_total(upload)})


def _total(upload: CsvUpload) -> dict[str, Any]:
    return {"topic": upload.topic, "columns": upload.columns, **upload.progress.as_total()}


def _encoding(request: Request) -> str:
    text = query_text(request, "encoding")
    name = "utf-8" if text is None else text.lower()
    if name not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise Problem(400, "bad-parameter", f"encoding={name[:64]!r} is not known", f"one of {known}")
    return name


def _delimiter(request: Request) -> str:
    text = query_text(request, "delimiter")
    if text is None:
        return ","
    text = "\t" if text == "tab" else text
    if len(text) != 1 or text in _NO_DELIMITERS:
        raise Problem(400, "bad-parameter", f"delimiter={text[:16]!r} is not one character", "as ; or | or tab")
    return text


_COUNT: Final = {"type": "integer", "minimum": 0}
_TOTAL: Final = {
    "type": "object",
    "required": ["topic", "columns", "rows", "written", "failed", "received_bytes", "failures", "partitions"],
    "properties": {
        "topic": {"type": "string"},
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": _COUNT,
        "written": _COUNT,
        "failed": _COUNT,
        "received_bytes": _COUNT,
        "failures": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["line", "why"],
                "properties": {"line": _COUNT, "why": {"type": "string"}},
            },
        },
        "partitions": {"type": "object", "additionalProperties": _COUNT},
    },
}

ROUTES: Final = (
    Route(
        "POST",
        "/topics/{name}/csv",
        upload_csv,
        "Upload CSV: each row becomes a JSON object",
        "Data",
        guard="change",
        parameters=(
            NAME,
            Parameter("key", {"type": "string"}, "the column with the record's key"),
            Parameter("delimiter", {"type": "string", "maxLength": 3, "default": ","}, "one character, or tab"),
            Parameter("encoding", {"enum": list(ENCODINGS), "default": "utf-8"}, "of the file"),
        ),
        body=Body({"type": "string"}, "id,name\n1,tea\n2,milk\n", "text/csv"),
        answers={200: Answer("the number of written rows, and the rejected rows", _TOTAL)},
        description="Cells are strings. Invalid rows are counted and the first of them listed; the others are "
        f"written. With `Accept: {NDJSON}` the response has a progress line each second, then the total.",
    ),
)
