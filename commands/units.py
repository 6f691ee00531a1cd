"""Parses durations, sizes and times, and formats numbers.

Durations and times are those of `yak.client.times`. Sizes: `64KiB 1MB 512`.
"""

import re

from yak.client.times import format_time, parse_duration_ms, parse_time_ms
from yak.errors import UsageError

__all__ = [
    "counted",
    "format_duration",
    "format_size",
    "format_time",
    "group_digits",
    "parse_duration_ms",
    "parse_size_bytes",
    "parse_time_ms",
]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
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
    return round(float(number) * float(base ** _POWER[prefix.lower()]))


def format_duration(duration_ms: float) -> str:
    """`850 ms`, `3.1 s`, `2 m 05 s`, `1 h 02 m`."""
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"


def format_size(size_bytes: float) -> str:
    """`512 B`, `1.4 MiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the loop returns")


def group_digits(number: int) -> str:
    """`612 004`: thousands are separated by a space."""
    return f"{number:,}".replace(",", " ")


def counted(number: int, noun: str) -> str:
    """`1 record`, `1 842 records`."""
    return f"{group_digits(number)} {noun}{'' if number == 1 else 's'}"
