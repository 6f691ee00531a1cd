"""The JSON form of a record: the output of `consume -o json` and the input of `produce --format json`.

    {"topic","partition","offset","timestamp","timestamp_type","key","value","headers":[{"key","value"}],
     "key_encoding"?,"value_encoding"?,"leader_epoch"}

Bytes that are not UTF-8 are base64, and then `key_encoding`, `value_encoding`, or a header's `encoding` says so.
"""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from yak.client.consumer import ConsumerRecord
from yak.client.numbers import parse_long
from yak.client.produce import Outgoing
from yak.exact_json import compact, number, refuse_constant

BASE64 = "base64"


class BadRecord(Exception):
    """A line or row that cannot become a record; the message gives the reason."""


def encode_bytes(data: bytes | None) -> tuple[str | None, str | None]:
    """Text and, when the bytes are not UTF-8, the encoding's name."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), BASE64


def record_document(record: ConsumerRecord, when: Callable[[int], str], *, json_value: bool = False) -> dict[str, Any]:
    """A received record as a JSON document; with `json_value` a JSON value is embedded, not quoted."""
    key, key_encoding = encode_bytes(record.key)
    value: Any
    value, value_encoding = encode_bytes(record.value)
    if json_value and value is not None and value_encoding is None:
        value = _embedded(value)
    headers = []
    for name, data in record.headers:
        text, encoding = encode_bytes(data)
        headers.append({"key": name, "value": text, **({"encoding": encoding} if encoding else {})})
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": when(record.timestamp_ms) if record.timestamp_ms >= 0 else None,
        "timestamp_type": record.timestamp_type,
        "key": key,
        "value": value,
        "headers": headers,
    }
    if key_encoding:
        document["key_encoding"] = key_encoding
    if value_encoding:
        document["value_encoding"] = value_encoding
    document["leader_epoch"] = record.leader_epoch
    return document


def _embedded(text: str) -> Any:
    """The JSON value of a text; the text itself where the document would not be JSON, or would have no value (null)."""
    try:
        value = json.loads(text, parse_constant=refuse_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # no number beyond floats, no lone surrogate
    except (ValueError, RecursionError):
        return text
    return text if value is None else value


def _json_bytes(value: object) -> bytes:
    """Compact JSON; a lone surrogate stays an escape."""
    try:
        return compact(value).encode()
    except UnicodeEncodeError:
        return compact(value, is_ascii=True).encode()


def parse_record(line: str) -> Outgoing:
    """The record of one JSON line; its topic, partition and offset are ignored. Raises BadRecord."""
    try:
        document = json.loads(line, parse_float=number, parse_constant=refuse_constant)
    except ValueError as error:
        raise BadRecord(f"not JSON: {error}") from None
    except RecursionError:
        raise BadRecord("nested too deep") from None
    if not isinstance(document, dict):
        raise BadRecord("not a JSON object")
    if "value" not in document and "key" not in document:
        raise BadRecord('the object has neither "value" nor "key"; to send each line as a value use --format lines')
    try:
        return Outgoing(
            value=_decode(document.get("value"), document.get("value_encoding"), "value"),
            key=_decode(document.get("key"), document.get("key_encoding"), "key"),
            headers=_headers(document.get("headers")),
            timestamp_ms=_timestamp(document.get("timestamp")),
        )
    except RecursionError:
        raise BadRecord("nested too deep") from None


def _decode(value: object, encoding: object, what: str) -> bytes | None:
    if encoding not in (None, BASE64):
        raise BadRecord(f'"{what}_encoding" is {encoding!r}; only "base64" is known')
    if value is None:
        return None
    if not isinstance(value, str):
        return _json_bytes(value)
    if encoding == BASE64:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise BadRecord(f'"{what}" is not base64') from None
    return value.encode("utf-8", "surrogatepass")


def _headers(value: object) -> list[tuple[str, bytes | None]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [(_header_name(name), _decode(each, None, "headers")) for name, each in value.items()]
    if not isinstance(value, list):
        raise BadRecord('"headers" is neither a list nor an object')
    headers: list[tuple[str, bytes | None]] = []
    for each in value:
        if not isinstance(each, dict) or not isinstance(each.get("key"), str):
            raise BadRecord('a header is not {"key","value"}')
        headers.append((_header_name(each["key"]), _decode(each.get("value"), each.get("encoding"), "header")))
    return headers


def _header_name(name: str) -> str:
    """The name. librdkafka's binding ends the process for a lone surrogate, and cuts a name at a null character."""
    try:
        is_whole = b"\0" not in name.encode()
    except UnicodeEncodeError:
        is_whole = False
    if not is_whole:
        raise BadRecord(f"the header name {name!r} is not UTF-8, or has a null character")
    return name


def _timestamp(value: object) -> int:
    """Milliseconds of an ISO time or an epoch in ms; 0 (now) without a timestamp."""
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(max(value, 0))
    if not isinstance(value, str):
        raise BadRecord('"timestamp" is neither ISO-8601 nor milliseconds')
    if (epoch_ms := parse_long(value)) is not None:
        return epoch_ms
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise BadRecord(f'"timestamp" {value!r} is not ISO-8601') from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
