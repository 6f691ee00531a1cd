"""Records in an answer: embedded JSON, or base64 (JsonConsumerRecord.java, BinaryConsumerRecord.java).

JSON is embedded byte by byte, so that large numbers, the order of keys and spaces are unchanged. It is parsed first,
since a topic may contain any bytes.
"""

import json
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Final, NoReturn

from yak.server.http.consumers.bodies import DataFormat
from yak.server.http.consumers.inbox import Fetched

_NULL: Final = b"null"


class NotJson(Exception):
    """A record that a JSON answer cannot contain; the message gives the reason."""


def render(records: Sequence[Fetched], data_format: DataFormat) -> tuple[bytes, int]:
    """The answer's body, and how many of the records it contains: those before the first one that is not JSON.

    Raises NotJson if that is the very first.
    """
    lines: list[bytes] = []
    as_value = _embedded if data_format == "json" else _base64
    for record in records:
        try:
            key, value = as_value(record.key), as_value(record.value)
        except NotJson:
            if not lines:
                raise
            break
        topic, partition = record.partition
        lines.append(
            b'{"topic":"%b","key":%b,"value":%b,"partition":%d,"offset":%d}'
            % (topic.encode(), key, value, partition, record.offset)
        )
    return b"[%b]\n" % b",".join(lines), len(lines)


def _base64(raw: bytes | None) -> bytes:
    return _NULL if raw is None else b'"%b"' % b2a_base64(raw, newline=False)


def _embedded(raw: bytes | None) -> bytes:
    if raw is None:
        return _NULL
    try:
        # Numbers are not converted: one with a million digits takes Python minutes.
        json.loads(raw.decode(), parse_int=len, parse_float=len, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise NotJson(f"invalid UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise NotJson("nested too deep") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    return raw


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
