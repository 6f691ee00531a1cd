"""Bodies and parameters within bounds: what cannot be is refused with a hint before anything is done.

JSON is read by the standard library, which takes NaN and lone surrogates and recurses; so those are refused here, and the
depth is measured before parsing.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import trio
from starlette.requests import ClientDisconnect, Request

from yak.server.http.context import Context, HttpLimits
from yak.server.http.problems import Problem

_BYTES_PER_SECOND_MIN: Final = 64 * 1024
_PIECE_CHARS: Final = 64 * 1024
_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_SAME_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
INT64_MAX: Final = 2**63 - 1
SHOWN_DEPTH_MAX: Final = 64
"""JSON that is nested deeper is shown as text: many a parser gives up on it."""
PARSED_AT_ONCE_BYTES_MAX: Final = 256 * 1024
"""A larger body is worked on in a thread, so that the loop is not held up by it."""


@asynccontextmanager
async def json_body(context: Context, request: Request, *, hint: str, optional: bool = False) -> AsyncIterator[Any]:
    """The body as JSON; its size counts as held while the block runs. None when it is `optional` and empty.

    Raises Problem: 413 `body-too-large`, 408 `body-too-slow`, 503 `too-busy`, 400 `not-json`, `bad-body`.
    """
    raw = bytearray()
    try:
        async for piece in body_pieces(context, request, bytes_max=context.limits.body_bytes_max):
            raw += piece
            context.body_bytes_held += len(piece)
            if context.body_bytes_held > context.limits.body_in_flight_bytes_max:
                raise Problem(503, "too-busy", "too many bodies are being read", "try again in a moment")
        body = None
        if len(raw) > PARSED_AT_ONCE_BYTES_MAX:
            body = await trio.to_thread.run_sync(parse_json, bytes(raw), context.limits, hint)
        elif raw or not optional:
            body = parse_json(bytes(raw), context.limits, hint)
        if raw and body is None and optional:
            raise Problem(400, "bad-body", "the body is null, not an object", hint)
        yield body
    finally:
        context.body_bytes_held -= len(raw)


async def body_pieces(context: Context, request: Request, *, bytes_max: int | None) -> AsyncIterator[bytes]:
    """The body as it comes, within bytes and time. Raises Problem: 413 `body-too-large`, 408 `body-too-slow`, 400 `cut`."""
    limits = context.limits
    declared = request.headers.get("content-length", "")
    if bytes_max is not None and declared.isdigit() and int(declared) > bytes_max:
        raise _too_large(bytes_max)
    received = 0
    started = trio.current_time()
    pieces = request.stream().__aiter__()
    while True:
        allowed = limits.body_deadline_ms / 1000 + received / _BYTES_PER_SECOND_MIN
        try:
            with trio.fail_at(started + allowed):
                piece = await anext(pieces, None)
        except trio.TooSlowError:
            raise Problem(
                408,
                "body-too-slow",
                f"{received} bytes of the body came in {allowed:.0f} s",
                "send it at once",
                headers={"connection": "close"},
            ) from None
        except ClientDisconnect:
            raise Problem(400, "cut", "the body ended too early") from None
        if piece is None:
            return
        received += len(piece)
        if bytes_max is not None and received > bytes_max:
            raise _too_large(bytes_max)
        if piece:
            yield piece


def parse_json(raw: bytes, limits: HttpLimits, hint: str) -> Any:
    """JSON that is JSON. Raises Problem: 400 `not-json`, 413 `body-too-large` for too many values."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "not-json", f"the body is not UTF-8 (byte {error.start})", hint) from None
    outside = _outside_strings(text)
    if outside.count(",") >= limits.json_values_max:
        raise Problem(
            413,
            "body-too-large",
            f"the JSON has more than {limits.json_values_max} values",
            "send it in several requests",
        )
    if _is_deeper(outside, limits.json_depth_max):
        raise Problem(400, "not-json", f"the JSON is nested deeper than {limits.json_depth_max}", hint)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\u" in text:  # only so can a lone surrogate come in
            text_of(value)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "not-json", f"the body is not JSON: {error}", hint) from None
    return value


def is_strict_json(text: str) -> bool:
    """Whether a value from elsewhere is JSON that may be shown as it stands."""
    if _is_deeper(_outside_strings(text), SHOWN_DEPTH_MAX):
        return False
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        if "\\u" in text:
            text_of(value)
    except (ValueError, RecursionError):
        return False
    return True


def text_of(value: Any) -> bytes:
    """A JSON value as compact UTF-8. Raises ValueError for what UTF-8 or JSON cannot have (lone surrogates, NaN)."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a lone surrogate at character {error.start}") from None


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:32]} is too large a number")
    return number


def _is_deeper(outside: str, depth_max: int) -> bool:
    """Whether the brackets of JSON without its strings go deeper; what is no JSON at all is for the parser to refuse.

    Each round takes away the innermost pairs, so there are as many rounds as levels, each at the speed of C.
    """
    brackets = outside.encode().translate(_SAME_BRACKETS, _ALL_BUT_BRACKETS)
    for _ in range(depth_max):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            return False
        brackets = fewer
    return bool(brackets)


def _outside_strings(text: str) -> str:
    """JSON without its strings, in pieces: a long one in one call would hold Python's lock against the loop."""
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    kept: list[str] = []
    is_inside = False
    for start in range(0, len(text), _PIECE_CHARS):
        parts = text[start : start + _PIECE_CHARS].split('"')
        kept += parts[is_inside::2]
        is_inside ^= len(parts) % 2 == 0
    return "".join(kept)


def _too_large(bytes_max: int) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"a body here has at most {bytes_max} bytes",
        "send it in several requests",
        headers={"connection": "close"},
    )


# ----------------------------------------------------------------------------------------------- fields and parameters


def fields_of(body: Any, known: Sequence[str], *, hint: str) -> Mapping[str, Any]:
    """A JSON object with these fields and no others. Raises Problem 400 `bad-body`."""
    if not isinstance(body, dict):
        raise Problem(400, "bad-body", f"the body is {kind_of(body)}, not an object", hint)
    unknown = sorted(set(body) - set(known))
    if unknown:
        raise Problem(400, "bad-body", f"unknown field {unknown[0][:64]!r}; known are {', '.join(known)}", hint)
    return body


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names[type(value)]


def query_integer(
    request: Request, name: str, default: int | None = None, *, minimum: int = 0, maximum: int = INT64_MAX
) -> int:
    """A whole number of the query, within bounds. Raises Problem 400 `bad-parameter`."""
    text = query_text(request, name)
    if text is None:
        if default is None:
            raise Problem(400, "bad-parameter", f"{name} is missing", f"add ?{name}=N")
        return default
    return checked_integer(name, text, minimum=minimum, maximum=maximum)


def checked_integer(name: str, text: str, *, minimum: int = 0, maximum: int = INT64_MAX) -> int:
    """A whole number as it stands in an address. Raises Problem 400 `bad-parameter`."""
    if not re.fullmatch(r"-?[0-9]{1,20}", text, re.ASCII) or not minimum <= int(text) <= maximum:
        raise Problem(
            400, "bad-parameter", f"{name}={text[:64]!r} is not a whole number from {minimum} to {maximum}", ""
        )
    return int(text)


def query_text(request: Request, name: str) -> str | None:
    """A parameter of the query that may come once. Raises Problem 400 `bad-parameter`."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise Problem(400, "bad-parameter", f"{name} is given {len(values)} times", "give it once")
    return values[0] if values else None


def query_flag(request: Request, name: str) -> bool:
    """`true` or `false`, false where it is not given. Raises Problem 400 `bad-parameter`."""
    text = query_text(request, name)
    if text not in (None, "true", "false"):
        raise Problem(400, "bad-parameter", f"{name}={text[:64]!r} is neither true nor false", f"try ?{name}=true")
    return text == "true"


def refuse_unknown_query(request: Request, known: Sequence[str]) -> None:
    """Raises Problem 400 `bad-parameter` for a parameter that does nothing: it was meant to do something."""
    for name in request.query_params:
        if name not in known:
            raise Problem(
                400, "bad-parameter", f"unknown parameter {name[:64]!r}", f"known are {', '.join(known) or 'none'}"
            )
