"""Durations, sizes, times and pairs as users type them.

Durations and times are those of `yak.client.times`. Sizes: `64KiB 1MB 512`.
"""

import re
from collections.abc import Iterable

from yak.client.times import format_time, parse_duration_ms, parse_time_ms
from yak.errors import UsageError

__all__ = ["format_time", "key_values", "parse_duration_ms", "parse_size_bytes", "parse_time_ms"]

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE | re.ASCII)
_SIZE_BYTES_MAX = 2**63 - 1
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_size_bytes(text: str) -> int:
    """Bytes of `64KiB` (1024s) or `1MB` (1000s). Raises UsageError (`bad-size`)."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            "bad-size",
            f'"{text}" is not a size',
            why="a size is a number, with or without a unit: B, KB, MB, GB (1000) or KiB, MiB, GiB (1024)",
            try_=("512, 64KiB, 1MB",),
        )
    number, prefix, binary = match.groups()
    base = 1024 if binary else 1000
    size_bytes = round(float(number) * float(base ** _POWER[prefix.lower()]))
    if size_bytes > _SIZE_BYTES_MAX:
        raise UsageError(
            "bad-size", f'"{text}" is too much', why="a size is less than 8192 PiB", try_=("512, 64KiB, 1MB",)
        )
    return size_bytes


def key_values(texts: Iterable[str] | None, *try_: str, code: str = "usage") -> dict[str, str]:
    """`NAME=VALUE` texts as a dict; `try_` is advised for others. Raises UsageError (`code`)."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            why = "a name, an equals sign and a value are needed"
            raise UsageError(code, f'"{text}" is not NAME=VALUE', why=why, try_=try_)
        text.encode()  # librdkafka's binding would crash on text that is not UTF-8
        pairs[name.strip()] = value
    return pairs
