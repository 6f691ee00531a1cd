"""Records as lossless JSON: `GET /consume` returns what `POST /produce` accepts, and bytes that are not JSON.

A record has exactly one of

    payload           a JSON value, embedded unchanged (numbers keep their digits); null: the record has no value
    payload_text      a UTF-8 value that is not JSON, or the word null
    payload_base64    any other value

and exactly one of `key` and `key_base64`. Headers are a list, since names may repeat: `{"key", "value"}`, or
`value_base64`.
"""

import base64
import json
import re
from typing import Final, Literal, TypeAlias

from yak.protocol.record_walk import WalkedRecord
from yak.server.http.bodies import INT64_MAX, is_strict_json
from yak.server.http.schemas import OFFSET, TEXT, TEXT_OR_NULL, listing, record

Form: TypeAlias = Literal["json", "text", "base64"]
"""The form of values: `json` as above; `text` never parses them; `base64` applies to keys, values and headers."""
FORMS: Final[tuple[Form, ...]] = ("json", "text", "base64")
_quote: Final = json.JSONEncoder(ensure_ascii=False).encode
_LINE_ENDS: Final = re.compile(r"[\r\n]+")
_JSON_STARTS: Final = frozenset('{["-0123456789tf \t\r\n')


def record_json(record: WalkedRecord, form: Form = "json", place: str = "") -> str:
    """One record as a JSON object on one line, with the fields in `place` first, as `"topic":"a","partition":0,`."""
    timestamp = "null" if record.timestamp < 0 else record.timestamp
    headers = ",".join([_header(name, value, form) for name, value in record.headers])
    return (
        f'{{{place}"offset":{record.offset},"timestamp_ms":{timestamp},{_named("key", record.key, form)},'
        f'{_payload(record.value, form)},"headers":[{headers}]}}'
    )


def _payload(value: bytes | None, form: Form) -> str:
    if value is None:
        return '"payload":null'
    if form != "base64":
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return f'"payload_base64":{_base64(value)}'
        if form == "json" and text[:1] in _JSON_STARTS and text and is_strict_json(text):
            # In JSON a line end can only be between tokens, where a blank is equivalent.
            return f'"payload":{_LINE_ENDS.sub(" ", text)}'
        return f'"payload_text":{_quote(text)}'
    return f'"payload_base64":{_base64(value)}'


def _named(name: str, data: bytes | None, form: Form) -> str:
    if data is None:
        return f'"{name}":null'
    if form != "base64":
        try:
            return f'"{name}":{_quote(data.decode())}'
        except UnicodeDecodeError:
            pass
    return f'"{name}_base64":{_base64(data)}'


def _header(name: bytes, value: bytes | None, form: Form) -> str:
    return f'{{"key":{_quote(name.decode(errors="replace"))},{_named("value", value, form)}}}'


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


_VALUE: Final = {"value": TEXT_OR_NULL, "value_base64": TEXT}
RECORD_SCHEMA: Final = {
    **record(
        {
            "offset": {**OFFSET, "maximum": INT64_MAX},
            "timestamp_ms": {"type": ["integer", "null"]},
            "headers": listing(record({"key": TEXT}, optional=_VALUE)),
        },
        optional={
            "key": TEXT_OR_NULL,
            "key_base64": TEXT,
            "payload": {},
            "payload_text": TEXT,
            "payload_base64": TEXT,
        },
    ),
    "allOf": [
        {"oneOf": [{"required": [name]} for name in ("key", "key_base64")]},
        {"oneOf": [{"required": [name]} for name in ("payload", "payload_text", "payload_base64")]},
    ],
}
