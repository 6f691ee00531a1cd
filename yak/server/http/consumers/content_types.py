"""Content types of the REST proxy's version 2, of requests and of answers (RFC 9110, section 12.5.1).

The embedded format in an Accept header selects the format of records. An instance has one format for its life. As in
the proxy, a header that names only another format is refused; a header that names none gets the instance's.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from starlette.requests import Request

from yak.server.http.consumers.failures import refusal

V2: Final = "application/vnd.kafka.v2+json"
JSON: Final = "application/json"
FORMATS: Final = ("binary", "json")
_FORMATS_WITH_A_SCHEMA: Final = ("avro", "jsonschema", "protobuf")
_CURLS_OWN: Final = "application/x-www-form-urlencoded"
"""curl's default content type of a body."""
_HINT: Final = f"send Accept: {V2}, or no Accept header"


class _Range(NamedTuple):
    kind: str
    subkind: str
    quality: float

    def match(self, media_type: str) -> int:
        """How specifically the range matches a type: 2 exactly, 1 its kind, 0 as `*/*`; -1 not at all."""
        if (self.kind, self.subkind) == ("*", "*"):
            return 0
        kind, _, subkind = media_type.partition("/")
        if self.kind != kind:
            return -1
        if self.subkind == "*":
            return 1
        return 2 if self.subkind == subkind else -1


def embedded(data_format: str) -> str:
    """The content type of records in a format."""
    return f"application/vnd.kafka.{data_format}.v2+json"


V2_TYPES: Final = (V2, JSON, *map(embedded, FORMATS))
_WITH_A_SCHEMA: Final = tuple(map(embedded, _FORMATS_WITH_A_SCHEMA))
ANSWER_TYPES: Final = (*V2_TYPES, *_WITH_A_SCHEMA)
"""The types of an error, or of an answer without records, if the client accepts them."""


def answer_type(request: Request) -> str:
    """The content type of an answer without records. Raises Problem 406."""
    return _best(request, ANSWER_TYPES)


def records_type(request: Request, data_format: str) -> str:
    """The content type of an answer with records of this format. Raises Problem 406; 40601 for another format."""
    ours = embedded(data_format)
    others = [embedded(each) for each in (*FORMATS, *_FORMATS_WITH_A_SCHEMA) if each != data_format]
    found = _best(request, (ours, V2, JSON, *others))
    if found in others:
        raise refusal(
            406,
            40601,
            "wrong-format",
            f"this instance returns records as {data_format}, the Accept header asks for another format",
            f"send Accept: {ours}, or create an instance of the other format",
        )
    return found


def check_body_type(request: Request) -> None:
    """Raises Problem 415 for a body whose Content-Type is not JSON."""
    given = request.headers.get("content-type")
    if given is None:
        return
    name = given.partition(";")[0].strip().lower()
    if name not in (*ANSWER_TYPES, _CURLS_OWN, "application/octet-stream"):
        raise refusal(
            415,
            415,
            "wrong-content-type",
            f"content type {name[:64]!r} is not supported",
            f"send JSON with Content-Type: {V2}",
        )


def _best(request: Request, offered: Iterable[str]) -> str:
    ranges = _ranges(request.headers.getlist("accept"))
    if not ranges:
        return next(iter(offered))
    best, best_quality = "", 0.0
    for media_type in offered:
        matches = [(each.match(media_type), each.quality) for each in ranges]
        exactness, quality = max(matches, key=lambda match: match[0])
        if exactness >= 0 and quality > best_quality:
            best, best_quality = media_type, quality
    if not best:
        raise refusal(406, 406, "not-acceptable", "this route supports no type of the Accept header", _HINT)
    return best


def _ranges(headers: Iterable[str]) -> list[_Range]:
    """The media ranges of the Accept headers; invalid ones are ignored."""
    found = []
    for part in ",".join(headers).split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        kind, slash, subkind = name.partition("/")
        if slash and kind and subkind:
            found.append(_Range(kind, subkind, _quality(parameters)))
    return found


def _quality(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
            return quality if 0.0 <= quality <= 1.0 else 0.0
    return 1.0
