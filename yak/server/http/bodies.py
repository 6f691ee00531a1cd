"""Request bodies and parameters within limits: invalid input is refused with a hint before anything is done.

Python's `json` accepts NaN and lone surrogates, and it recurses. So both are refused here, and the depth is checked
before parsing. The parser holds the GIL, which blocks the event loop too. So a body of too many values is refused
before it is parsed.
"""

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

import fastjsonschema
import trio
from starlette.requests import ClientDisconnect, Request

from yak.exact_json import Digits, compact, number, refuse_constant
from yak.server.http.context import Context, HttpLimits
from yak.server.http.fair_share import fair_share
from yak.server.http.problems import Problem, bad_body, bad_parameter
from yak.server.http.route import Schema

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")
_BYTES_PER_SECOND_MIN: Final = 64 * 1024
_PIECE_BYTES: Final = 64 * 1024
_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_SAME_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
INT64_MAX: Final = 2**63 - 1
_FAULT_CHARS_MAX: Final = 200
_KINDS: Final = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    Digits: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
_NAMED_BY_KAFKA: Final = frozenset(("pattern", "maxLength"))
_validators: Final[dict[tuple[int, frozenset[str]], Callable[[Any], Any]]] = {}
EMBEDDED_DEPTH_MAX: Final = 64
"""JSON nested deeper than this is embedded as text: many parsers fail on it."""
PARSED_AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""A larger body is parsed in a thread, so that it does not block the event loop."""


@asynccontextmanager
async def json_body(
    context: Context, request: Request, *, hint: str, optional: bool = False, is_exact: bool = False
) -> AsyncIterator[Any]:
    """The body as JSON; its size counts as held while the block runs. None when it is `optional` and empty.

    `is_exact` is that of `parse_json`.

    Raises Problem: 413 `body-too-large`, 408 `body-too-slow`, 503 `too-busy`, 400 `not-json`, `bad-body`.
    """
    raw = bytearray()
    parse = partial(parse_json, is_exact=True) if is_exact else parse_json
    try:
        async for piece in body_pieces(context, request, bytes_max=context.limits.body_bytes_max):
            raw += piece
            context.body_bytes_held += len(piece)
            if context.body_bytes_held > context.limits.body_in_flight_bytes_max:
                raise Problem(503, "too-busy", "this broker is reading too many request bodies", "retry in a moment")
        body = None
        if len(raw) > PARSED_AT_ONCE_BYTES_MAX:
            body = await in_thread(context, parse, bytes(raw), context.limits, hint)
        elif raw or not optional:
            body = parse(bytes(raw), context.limits, hint)
        if raw and body is None and optional:
            raise bad_body("the body is null, not an object", hint)
        yield body
    finally:
        context.body_bytes_held -= len(raw)


async def in_thread(context: Context, work: Callable[[*_Arguments], _T], *arguments: *_Arguments) -> _T:
    """Run work that holds the GIL for milliseconds in a thread, off the event loop. May raise what the work raises.

    One thread at a time: several would take turns holding the GIL while the loop waits. The time counts as HTTP's.
    """
    took_ns = 0

    def timed() -> _T:
        nonlocal took_ns
        began_ns = time.thread_time_ns()
        try:
            return work(*arguments)
        finally:
            took_ns = time.thread_time_ns() - began_ns

    try:
        return await trio.to_thread.run_sync(timed, limiter=context.part(_one_thread))
    finally:
        context.part(fair_share).spent(took_ns)


def _one_thread(_context: Context) -> trio.CapacityLimiter:
    return trio.CapacityLimiter(1)


def is_small(request: Request) -> bool:
    """Whether the body may be parsed without a thread. False for chunked bodies, whose size is unknown beforehand."""
    declared = request.headers.get("content-length", "")
    return declared.isdigit() and int(declared) <= PARSED_AT_ONCE_BYTES_MAX


async def body_pieces(context: Context, request: Request, *, bytes_max: int | None) -> AsyncIterator[bytes]:
    """The pieces of the body as they arrive, within size and time limits. The caller's time between two pieces is free.

    Raises Problem: 413 `body-too-large`, 408 `body-too-slow`, 400 `cut`, 415 `content-encoding` (RFC 9110, 15.5.16).
    """
    limits = context.limits
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise Problem(
            415,
            "content-encoding",
            f"the body has content encoding {encoding[:64]!r}; the broker decodes none",
            "send it without compression",
            headers={"accept-encoding": "identity"},
        )
    declared = request.headers.get("content-length", "")
    if bytes_max is not None and declared.isdigit() and int(declared) > bytes_max:
        raise _too_large(f"the body may have at most {bytes_max} bytes")
    received = 0
    waited_s = 0.0
    pieces = request.stream().__aiter__()
    while True:
        allowed = limits.body_deadline_ms / 1000 + received / _BYTES_PER_SECOND_MIN
        began = trio.current_time()
        try:
            with trio.fail_at(began + allowed - waited_s):
                piece = await anext(pieces, None)
        except trio.TooSlowError:
            raise Problem(
                408,
                "body-too-slow",
                f"{received} bytes of the body came in {allowed:.0f} s",
                "send the whole body without pauses",
                headers={"connection": "close"},
            ) from None
        except ClientDisconnect:
            raise Problem(400, "cut", "the body is shorter than its Content-Length") from None
        waited_s += trio.current_time() - began
        if piece is None:
            return
        received += len(piece)
        if bytes_max is not None and received > bytes_max:
            raise _too_large(f"the body may have at most {bytes_max} bytes")
        if piece:
            yield piece


def parse_json(raw: bytes, limits: HttpLimits, hint: str, is_exact: bool = False) -> Any:
    """Strict JSON. Raises Problem: 400 `not-json`, 413 `body-too-large` for too many values.

    With `is_exact` a number that a float would change is `Digits`.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "not-json", f"the body is not UTF-8 (byte {error.start})", hint) from None
    if _has_more_values(raw, limits.json_values_max):
        raise _too_large(f"the JSON has more than {limits.json_values_max} values")
    if _is_deeper(raw, limits.json_depth_max):
        raise Problem(400, "not-json", f"the JSON is nested deeper than {limits.json_depth_max}", hint)
    try:
        return _loads(text, _exact if is_exact else _finite)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "not-json", f"the body is not JSON: {error}", hint) from None


def is_strict_json(text: str) -> bool:
    """Whether a text is strict JSON that may be embedded in an answer unchanged."""
    if _is_deeper(text.encode(errors="surrogatepass"), EMBEDDED_DEPTH_MAX):
        return False
    try:
        _loads(text, _finite)
    except (ValueError, RecursionError):
        return False
    return True


def _loads(text: str, parse_float: Callable[[str], float | Digits]) -> Any:
    value = json.loads(text, parse_constant=refuse_constant, parse_float=parse_float)
    if "\\u" in text:  # the only way for a lone surrogate to come in
        text_of(value)
    return value


def text_of(value: Any) -> bytes:
    """A JSON value as compact UTF-8. Raises ValueError for lone surrogates and NaN."""
    try:
        return compact(value).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a lone surrogate at character {error.start}") from None


def _finite(text: str) -> float:
    found = float(text)
    if found in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:32]} is too large")
    return found


def _exact(text: str) -> float | Digits:
    _finite(text)
    return number(text)


def _is_deeper(raw: bytes, depth_max: int) -> bool:
    """Whether the brackets of JSON, except those in strings, nest deeper. Invalid JSON is left to the parser to refuse.

    Each round removes the innermost pairs: as many rounds as levels, each at the speed of C.
    """
    brackets = b"".join(piece.translate(_SAME_BRACKETS, _ALL_BUT_BRACKETS) for piece in outside_strings(raw))
    for _ in range(depth_max):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            return False
        brackets = fewer
    return bool(brackets)


def _has_more_values(raw: bytes, values_max: int) -> bool:
    """Whether JSON has more values, by its commas. Those in strings are excluded only when all would be too many."""
    if raw.count(b",") < values_max:
        return False
    return sum(piece.count(b",") for piece in outside_strings(raw)) >= values_max


def outside_strings(raw: bytes, piece_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
    """JSON without its strings, piece by piece: one call for a long body would hold the GIL and block the loop."""
    is_inside, carried = False, b""
    for start in range(0, len(raw), piece_bytes):
        piece = raw[start : start + piece_bytes]
        if carried or b"\\" in piece:
            piece = carried + piece
            # a last backslash stays for the next piece, which has the escaped character
            is_cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
            carried = b"\\" if is_cut else b""
            piece = piece[: len(piece) - is_cut].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0


def _too_large(message: str) -> Problem:
    return Problem(413, "body-too-large", message, "send it in several requests", headers={"connection": "close"})


# ----------------------------------------------------------------------------------------------- fields and parameters


def fault_of(
    value: Any, schema: Schema, *, except_for: frozenset[str] = frozenset()
) -> fastjsonschema.JsonSchemaValueException | None:
    """The first deviation of a JSON value from a schema that is a constant of a module; some keywords may be left out."""
    validate = _validators.get((id(schema), except_for))
    if validate is None:
        compiled = json.loads(json.dumps(_without(schema, except_for)))  # an enum's members become text
        validate = fastjsonschema.compile(compiled, use_default=False, use_formats=False)
        _validators[id(schema), except_for] = validate
    try:
        validate(value)
    except fastjsonschema.JsonSchemaValueException as fault:
        return fault
    return None


def _without(schema: Any, keywords: frozenset[str]) -> Any:
    """A schema and those in it without some keywords; fields may have the names of keywords."""
    if isinstance(schema, list):
        return [_without(each, keywords) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: {field: _without(inner, keywords) for field, inner in part.items()}
        if name == "properties"
        else _without(part, keywords)
        for name, part in schema.items()
        if name not in keywords
    }


def field_of(fault: fastjsonschema.JsonSchemaValueException) -> str:
    """Where a body deviates from its schema, as `partitions[0].topic`; empty for the body itself."""
    return str(fault.name).removeprefix("data").removeprefix(".")


def fault_text(fault: fastjsonschema.JsonSchemaValueException) -> str:
    """Where a body deviates from its schema, and how."""
    how = fault.message.removeprefix(str(fault.name)).strip()
    return f"{field_of(fault)[:_FAULT_CHARS_MAX] or 'the body'} {how[:_FAULT_CHARS_MAX]}"


def checked(body: Any, schema: Schema, *, hint: str, except_for: frozenset[str] = _NAMED_BY_KAFKA) -> Mapping[str, Any]:
    """An object that its schema allows. Raises Problem 400 `bad-body`.

    A name that no topic can have is allowed by default: Kafka refuses it with an error of its own.
    """
    fault = fault_of(body, schema, except_for=except_for)
    if fault is not None:
        raise bad_body(fault_text(fault), hint)
    fields: Mapping[str, Any] = body
    return fields


def fields_of(body: Any, known: Sequence[str], *, hint: str) -> Mapping[str, Any]:
    """A JSON object with these fields and no others. Raises Problem 400 `bad-body`."""
    if not isinstance(body, dict):
        raise bad_body(f"the body is {kind_of(body)}, not an object", hint)
    unknown = sorted(set(body) - set(known))
    if unknown:
        raise bad_body(f"unknown field {unknown[0][:64]!r}; known are {', '.join(known)}", hint)
    return body


def kind_of(value: Any) -> str:
    """The kind of a JSON value, for messages."""
    return _KINDS[type(value)]


def query_integer(
    request: Request, name: str, default: int | None = None, *, minimum: int = 0, maximum: int = INT64_MAX
) -> int:
    """A whole number from the query, within limits. Raises Problem 400 `bad-parameter`."""
    text = query_text(request, name)
    if text is None:
        if default is None:
            raise bad_parameter(f"{name} is missing", f"add ?{name}=N")
        return default
    return checked_integer(name, text, minimum=minimum, maximum=maximum)


def checked_integer(name: str, text: str, *, minimum: int = 0, maximum: int = INT64_MAX) -> int:
    """A whole number from a URL. Raises Problem 400 `bad-parameter`."""
    if not re.fullmatch(r"-?[0-9]{1,20}", text, re.ASCII) or not minimum <= int(text) <= maximum:
        raise bad_parameter(f"{name}={text[:64]!r} is not a whole number from {minimum} to {maximum}", "")
    return int(text)


def query_text(request: Request, name: str) -> str | None:
    """A query parameter that may be given once. Raises Problem 400 `bad-parameter`."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise bad_parameter(f"{name} appears {len(values)} times", "send it once")
    return values[0] if values else None


def query_choice(request: Request, name: str, choices: Collection[str], default: str) -> str:
    """One of some values. Raises Problem 400 `bad-parameter`."""
    text = query_text(request, name)
    if text is not None and text not in choices:
        raise bad_parameter(f"{name}={text[:64]!r} is not known", f"one of {', '.join(choices)}")
    return default if text is None else text


def query_flag(request: Request, name: str) -> bool:
    """`true` or `false`; false when it is absent. Raises Problem 400 `bad-parameter`."""
    text = query_text(request, name)
    if text not in (None, "true", "false"):
        raise bad_parameter(f"{name}={text[:64]!r} is neither true nor false", f"try ?{name}=true")
    return text == "true"


def refuse_unknown_query(request: Request, known: Sequence[str]) -> None:
    """Raises Problem 400 `bad-parameter` for a parameter that has no effect here."""
    for name in request.query_params:
        if name not in known:
            raise bad_parameter(f"unknown parameter {name[:64]!r}", f"known are {', '.join(known) or 'none'}")
