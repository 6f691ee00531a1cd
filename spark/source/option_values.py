"""Parses option values: flags, numbers, durations, partitions, offsets in JSON.

The JSON forms are those of Spark's `JsonUtils.scala`: `{"orders":[0,1]}` for partitions, `{"orders":{"0":23,"1":-1}}`
for offsets (-1 latest, -2 earliest) and times.
"""

import json
import re
from collections.abc import Mapping, Sequence

from yak.ids import TopicPartition
from yak.spark.source.errors import bad_option

_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONG_MAX = (1 << 63) - 1


def flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    """`true` or `false`, in any case. Raises SourceError."""
    text = given.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise bad_option(name, text, "it is true or false")
    return text.strip().lower() == "true"


def positive(given: Mapping[str, str], name: str) -> int | None:
    """A positive integer, or None if the option is not set. Raises SourceError."""
    text = given.get(name.lower())
    if text is None:
        return None
    number = _long(text)
    if number is None or number <= 0:
        raise bad_option(name, text, "it is a whole number above 0")
    return number


def whole_number(name: str, text: str) -> int:
    """An integer. Raises SourceError."""
    number = _long(text)
    if number is None:
        raise bad_option(name, text, "it is a whole number: milliseconds since 1970")
    return number


def one_of(given: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    """One of `words`, in any case; the first if the option is not set. Raises SourceError."""
    text = given.get(name.lower(), words[0])
    if text.strip().lower() not in words:
        raise bad_option(name, text, f"it is one of {', '.join(words)}")
    return text.strip().lower()


def time_string_ms(given: Mapping[str, str], name: str, default_ms: int) -> int:
    """A duration in Spark's syntax: `15m`, `30s`, `500ms`. Raises SourceError."""
    text = given.get(name.lower())
    if text is None:
        return default_ms
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise bad_option(name, text, "it is a duration such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _UNITS_MS[found[2]]


def partitions_of(name: str, text: str) -> list[TopicPartition]:
    """Partitions from `{"orders":[0,1]}`. Raises SourceError."""
    shape = 'partitions are written {"orders":[0,1],"payments":[0]}'
    found: list[TopicPartition] = []
    for topic, numbers in _json_object(name, text, shape).items():
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise bad_option(name, text, shape)
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise bad_option(name, text, "it names no partition", shape)
    return found


def numbers_by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    """Numbers by partition from `{"orders":{"0":23,"1":-1}}`. Raises SourceError."""
    shape = 'each partition is named: {"orders":{"0":23,"1":-2}}'
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(name, text, shape).items():
        if not isinstance(numbers, dict):
            raise bad_option(name, text, shape)
        for partition, number in numbers.items():
            if not partition.isdecimal() or not isinstance(number, int) or isinstance(number, bool):
                raise bad_option(name, text, shape)
            if abs(number) > _LONG_MAX or not _is_partition(int(partition)):
                raise bad_option(name, text, f"{topic} has a number that no offset or partition can be")
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise bad_option(name, text, "it names no partition", shape)
    return found


def _json_object(name: str, text: str, shape: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deep"
        raise bad_option(name, text, f"it is no JSON ({reason})", shape) from None
    if not isinstance(found, dict):
        raise bad_option(name, text, shape)
    return found


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 31


def _long(text: str) -> int | None:
    stripped = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", stripped):
        return None
    number = int(stripped)
    return number if abs(number) <= _LONG_MAX else None
