"""A record in the formats that can be copied: its parts as text, JSON, and a command that sends it again. Pure."""

import json
import shlex
from typing import Final

from yak.client.received import Received
from yak.client.record_json import encode_bytes, record_document
from yak.client.times import format_time

CHOICES: Final = (
    ("k", "key"),
    ("v", "value"),
    ("h", "headers"),
    ("j", "record as JSON"),
    ("p", "command that sends it again"),
)
"""The entries of the copy menu: letter and name."""


def copied(record: Received, what: str) -> str:
    """The text for one entry of the menu. Binary data is base64, a null value is empty."""
    if what == "k":
        return encode_bytes(record.key)[0] or ""
    if what == "v":
        return encode_bytes(record.value)[0] or ""
    if what == "h":
        return json.dumps(record_document(record, format_time)["headers"], ensure_ascii=False)
    if what == "j":
        return record_line(record)
    if what == "p":
        return produce_command(record)
    raise KeyError(what)


def record_line(record: Received) -> str:
    """One line of JSON, as `yak consume -o json` prints it and `yak produce --format json` reads it."""
    return json.dumps(record_document(record, format_time), ensure_ascii=False)


def produce_command(record: Received) -> str:
    """A shell command that sends the same key, value and headers to the same topic.

    It uses flags where possible. Null values, binary data, NUL and an `=` in a header's name are piped as JSON.
    """
    words = ["yak", "produce", record.topic]
    value = _argument(record.value)
    key = _argument(record.key)
    headers = [(name, _argument(data)) for name, data in record.headers]
    by_flags = (
        value is not None
        and (key is not None or record.key is None)
        and all(text is not None or data is None for (_, text), (_, data) in zip(headers, record.headers, strict=True))
        and all(name and "=" not in name and "\0" not in name for name, _ in headers)
    )
    if not by_flags:
        document = record_document(record, format_time)
        sent = {
            name: document[name]
            for name in ("key", "value", "headers", "key_encoding", "value_encoding")
            if name in document
        }
        line = shlex.quote(json.dumps(sent, ensure_ascii=False))
        return f"printf '%s\\n' {line} | {shlex.join(words)} --file - --format json"
    if key is not None:
        words.append(f"--key={key}")
    # A header without an equals sign has a null value.
    words += [f"--header={name}" if text is None else f"--header={name}={text}" for name, text in headers]
    return shlex.join([*words, f"--message={value}"])


def _argument(data: bytes | None) -> str | None:
    """As an argument of a command line; None if that is impossible."""
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
