"""The body of `POST /consumers/{group}`: an instance's settings, checked before anything is created.

Names and values are those of kafka-rest (CreateConsumerInstanceRequest.java). Its clients may send numbers and booleans
as strings; null counts as absent; `id` takes precedence over `name`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from yak.server.http.bodies import kind_of
from yak.server.http.consumers.failures import bad_config, unprocessable

DataFormat: TypeAlias = Literal["binary", "json"]
NAME_LENGTH_MAX: Final = 255
MIN_BYTES_MAX: Final = 10_000_000
NAME_PATTERN: Final = r"^[^\x00-\x1f\x7f/]+$"
"""Of groups and instances: characters allowed in a path."""
NUMERAL_PATTERN: Final = "^(-1|[0-9]{1,7})$"
"""Of a number sent as a string."""
HINT: Final = 'send {"name": "me", "format": "json", "auto.offset.reset": "earliest"}, or no body'
FIELDS: Final = (
    "id",
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "fetch.min.bytes",
    "consumer.request.timeout.ms",
    "isolation.level",
    "responseMinBytes",
    "requestWaitMs",
)
"""The last two are old names of `fetch.min.bytes` and `consumer.request.timeout.ms`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one instance."""

    name: str | None = None
    data_format: DataFormat = "binary"
    offset_reset: str = "latest"
    auto_commit: bool = True
    isolation: str = "read_uncommitted"
    min_bytes: int | None = None
    """A read answers once it has this many bytes; None: when nothing more arrives at once."""
    wait_ms: int | None = None
    """The longest wait of a read; None: the read's own `timeout`."""


def settings_of(body: Any, wait_ms_max: int) -> Settings:
    """The settings in a body. Raises Problem 422."""
    if body is None:
        return Settings()
    if not isinstance(body, dict):
        raise unprocessable(f"the body is {kind_of(body)}, not an object", HINT)
    for field in body:
        if field not in FIELDS:
            raise unprocessable(f"unknown field {field[:64]!r}", f"known are {', '.join(FIELDS)}")
    min_bytes = _number(body, "fetch.min.bytes", "responseMinBytes", -1, MIN_BYTES_MAX)
    return Settings(
        name=_name(body),
        data_format=_format(body),
        offset_reset=_choice(body, "auto.offset.reset", ("latest", "earliest", "none")),
        auto_commit=_choice(body, "auto.commit.enable", ("true", "false")) == "true",
        isolation=_choice(body, "isolation.level", ("read_uncommitted", "read_committed")),
        min_bytes=None if min_bytes == -1 else min_bytes,
        wait_ms=_number(body, "consumer.request.timeout.ms", "requestWaitMs", 1, wait_ms_max),
    )


def check_group(group: str) -> None:
    """Raises Problem 422 for an invalid group name."""
    _check_name("the group", group)


def _name(body: Mapping[str, Any]) -> str | None:
    for field in ("id", "name"):
        value = body.get(field)
        if value is None:
            continue
        if not isinstance(value, str):
            raise unprocessable(f"{field} is {kind_of(value)}, not a string", HINT)
        _check_name(field, value)
        if value in (".", ".."):
            raise bad_config(f"{field} {value!r} cannot be part of a path", "use another name")
        return value
    return None


def _check_name(what: str, value: str) -> None:
    if not re.fullmatch(NAME_PATTERN, value) or len(value) > NAME_LENGTH_MAX:
        raise bad_config(
            f"{what} is {value[:64]!r}",
            f"a name has 1 to {NAME_LENGTH_MAX} characters without / and control characters",
        )


def _format(body: Mapping[str, Any]) -> DataFormat:
    value = body.get("format")
    if value in (None, "binary", "BINARY"):
        return "binary"
    if value in ("json", "JSON"):
        return "json"
    hint = "it is binary or json; there is no schema registry here"
    raise unprocessable(f"format is {str(value)[:64]!r}", hint)


def _choice(body: Mapping[str, Any], field: str, choices: tuple[str, ...]) -> str:
    """One of these; the first if the body has none."""
    value = body.get(field)
    if value is None:
        return choices[0]
    if isinstance(value, bool):
        value = "true" if value else "false"
    if value not in choices:
        raise bad_config(f"{field} is {str(value)[:64]!r}", f"it is one of {', '.join(choices)}")
    return str(value)


def _number(body: Mapping[str, Any], field: str, old_name: str, least: int, most: int) -> int | None:
    value = body.get(field)
    if value is None:
        field, value = old_name, body.get(old_name)
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and re.fullmatch(NUMERAL_PATTERN, value) else whole(value)
    if number is None or not least <= number <= most:
        raise bad_config(f"{field} is {str(value)[:64]!r}", f"it is a whole number from {least} to {most}")
    return number


def whole(value: Any) -> int | None:
    """A whole number, which JSON may write as 5 or 5.0; None for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else None
