"""Records as lossless JSON: `GET /consume` returns what `POST /produce` accepts, and bytes that are not JSON.

A record has exactly one of

    payload           a JSON value, embedded unchanged (numbers keep their digits); null: the record has no value
    payload_text      a UTF-8 value that is not JSON, or the word null
    payload_base64    any other value

and exactly one of `key` (text or null) and `key_base64`. Headers are a list, since names may repeat: `{"key", "value"}`,
or `value_base64`. A row to produce has these fields too, and `partition`, and `topic` if the request names none. Its
payload is stored as compact UTF-8 JSON with all digits of its numbers, and its headers may be an object of texts.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from yak.exact_json import compact
from yak.protocol.record_fields import INT32_MAX
from yak.protocol.record_walk import WalkedRecord
from yak.protocol.record_writer import RECORD_OVERHEAD_BYTES_MAX, Headers, headers_size_bytes
from yak.server.http.bodies import INT64_MAX, is_strict_json, kind_of
from yak.server.http.schemas import OFFSET, TEXT, TEXT_OR_NULL, listing, record

Form: TypeAlias = Literal["json", "text", "base64"]
"""The form of values: `json` as above; `text` never parses them; `base64` applies to keys, values and headers."""
FORMS: Final[tuple[Form, ...]] = ("json", "text", "base64")
_quote: Final = json.JSONEncoder(ensure_ascii=False).encode
_LINE_ENDS: Final = re.compile(r"[\r\n]+")
_BLANKS: Final = " \t\r\n"
_JSON_STARTS: Final = frozenset('{["-0123456789tf' + _BLANKS)


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
        if (
            form == "json"
            and text[:1] in _JSON_STARTS
            and text.strip(_BLANKS) not in ("", "null")
            and is_strict_json(text)
        ):
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
        optional={"key": TEXT_OR_NULL, "key_base64": TEXT, "payload": {}, "payload_text": TEXT, "payload_base64": TEXT},
    ),
    "allOf": [
        {"oneOf": [{"required": [name]} for name in ("key", "key_base64")]},
        {"oneOf": [{"required": [name]} for name in ("payload", "payload_text", "payload_base64")]},
    ],
}


# ---------------------------------------------------------------------------------------------- rows to produce

HEADERS_MAX: Final = 100
"""Of one record."""
ROW_FIELDS: Final = ("key", "key_base64", "payload", "payload_text", "payload_base64", "partition", "headers")
_KNOWN: Final = frozenset(ROW_FIELDS)
_KNOWN_WITH_TOPIC: Final = _KNOWN | {"topic"}


class BadRow(Exception):
    """The row cannot become a record; the message gives the reason."""


class Row(NamedTuple):
    """A record to produce; `partition` is None when the key or the broker chooses it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes_max(self) -> int:
        """An upper bound of the record's size in a batch."""
        return (
            RECORD_OVERHEAD_BYTES_MAX
            + len(self.key or b"")
            + len(self.value or b"")
            + (headers_size_bytes(self.headers) if self.headers else 0)
        )


def read_rows(rows: Sequence[Any], topic: str | None, named_max: int) -> tuple[list[Row], int, list[dict[str, Any]]]:
    """The rows as records, the number of invalid rows, and the faults of the first of these."""
    read: list[Row] = []
    failed = 0
    faults: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        try:
            read.append(read_row(row, topic))
        except BadRow as error:
            failed += 1
            if len(faults) < named_max:
                faults.append({"row": index, "error": "bad-record", "message": str(error)})
    return read, failed, faults


def read_row(row: Any, topic: str | None) -> Row:
    """One row as a record. Raises BadRow."""
    if type(row) is not dict:
        raise BadRow(f"a record is an object, not {kind_of(row)}")
    known = _KNOWN_WITH_TOPIC if topic is None else _KNOWN
    if not row.keys() <= known:
        unknown = min(set(row) - known)
        if unknown == "topic":
            raise BadRow("name the topic once for all records, or in each record")
        raise BadRow(f"unknown field {unknown[:64]!r}; known are {', '.join(ROW_FIELDS)}")
    if topic is None:
        topic = row.get("topic")
        if type(topic) is not str:
            raise BadRow("topic is missing" if topic is None else f"topic is {kind_of(topic)}, not a text")
    partition = row.get("partition")
    if partition is not None and (type(partition) is not int or not 0 <= partition <= INT32_MAX):
        raise BadRow(f"partition is {_printed(partition)}, not a whole number from 0")
    return Row(topic, partition, _key(row), _value(row), _headers(row.get("headers")))


def _printed(value: Any) -> str:
    return str(value)[:24] if type(value) in (int, float) else kind_of(value)


def _key(row: Mapping[str, Any]) -> bytes | None:
    key = row.get("key")
    if "key_base64" in row:
        if key is not None:
            raise BadRow("key and key_base64 are both given")
        return _from_base64("key_base64", row["key_base64"])
    if key is None:
        return None
    if type(key) is not str:
        raise BadRow(f"key is {kind_of(key)}, not a text or null: write it as a text, or put it into the payload")
    return key.encode()


def _value(row: Mapping[str, Any]) -> bytes | None:
    given = ("payload" in row) + ("payload_text" in row) + ("payload_base64" in row)
    if given != 1:
        if not given:
            raise BadRow("payload is missing; send null for a record without a value")
        raise BadRow("one of payload, payload_text and payload_base64, not several")
    if "payload" in row:
        payload = row["payload"]
        return None if payload is None else compact(payload).encode()
    if "payload_base64" in row:
        return _from_base64("payload_base64", row["payload_base64"])
    text = row["payload_text"]
    if type(text) is not str:
        raise BadRow(f"payload_text is {kind_of(text)}, not a text")
    return text.encode()


def _from_base64(name: str, value: Any) -> bytes:
    if type(value) is not str:
        raise BadRow(f"{name} is {kind_of(value)}, not a text")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise BadRow(f"{name} is not base64") from None


def _headers(headers: Any) -> Headers:
    if headers is None:
        return ()
    if type(headers) is dict:
        pairs = [(name.encode(), _header_text(name, value)) for name, value in headers.items()]
    elif type(headers) is list:
        pairs = [_header_pair(each) for each in headers]
    else:
        raise BadRow(f"headers is {kind_of(headers)}, neither an object nor a list")
    if len(pairs) > HEADERS_MAX:
        raise BadRow(f"{len(pairs)} headers, at most {HEADERS_MAX}")
    return pairs


def _header_pair(each: Any) -> tuple[bytes, bytes | None]:
    if (
        type(each) is not dict
        or not each.keys() <= {"key", "value", "value_base64"}
        or type(each.get("key")) is not str
    ):
        raise BadRow('a header is {"key", "value"} or {"key", "value_base64"}')
    name = each["key"]
    if "value_base64" not in each:
        return name.encode(), _header_text(name, each.get("value"))
    if each.get("value") is not None:
        raise BadRow(f"header {name[:64]!r} has value and value_base64")
    return name.encode(), _from_base64("value_base64", each["value_base64"])


def _header_text(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if type(value) is not str:
        raise BadRow(f"header {name[:64]!r} is {kind_of(value)}, not a text or null")
    return value.encode()
