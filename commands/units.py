"""Durations, sizes and times as users type them.

Durations and times are those of `yak.client.times`. Sizes: `64KiB 1MB 512`.
"""

import re

from yak.client.times import format_time, parse_duration_ms, parse_time_ms
from yak.errors import UsageError

__all__ = ["format_time", "parse_duration_ms", "parse_size_bytes", "parse_time_ms"]

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
