"""Numbers, sizes, rates and durations as text, alike in the command line and the terminal UI. Pure.

Sizes have binary units (1 KiB = 1024 B). Durations are in milliseconds. Points in time are those of `yak.client.times`.
"""

from collections.abc import Collection
from typing import Final

_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def group_digits(number: int, separator: str = " ") -> str:
    """`612 004`: groups of three digits."""
    return f"{number:,}".replace(",", separator)


def counted(number: int, noun: str, separator: str = " ") -> str:
    """`1 record`, `1 842 records`."""
    return f"{group_digits(number, separator)} {noun}{'' if number == 1 else 's'}"


def numbered(noun: str, numbers: Collection[int]) -> str:
    """`broker 1`, `brokers 1, 2, 3`."""
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def format_count(number: float) -> str:
    """`840`, `12.4k`, `1.2M`: at most three digits before the letter."""
    for limit, divisor, letter in ((999.5, 1.0, ""), (999_500.0, 1e3, "k"), (999_500_000.0, 1e6, "M")):
        if abs(number) < limit:
            amount = number / divisor
            return f"{amount:.0f}{letter}" if not letter or amount >= 99.95 else f"{amount:.1f}{letter}"
    return f"{number / 1e9:.1f}G"


def format_rate(per_second: float) -> str:
    """`840/s`, `12.4k/s`."""
    return f"{format_count(per_second)}/s"


def format_size(size_bytes: float) -> str:
    """`512 B`, `1.4 MiB`, `120 MiB`."""
    amount, unit = float(size_bytes), 0
    while amount >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_SIZE_UNITS[unit]}" if unit == 0 or amount >= 99.95 else f"{amount:.1f} {_SIZE_UNITS[unit]}"


def format_duration(duration_ms: float) -> str:
    """`143 ms`, `4.8 s`, `1 min 5 s`, `12 min`, `2 h 5 min`, `3 d`."""
    if duration_ms < 1000:
        return f"{max(0, round(duration_ms))} ms"
    seconds = duration_ms / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{hours // 24} d"


def format_age(age_ms: float) -> str:
    """`now`, `4 s ago`; `in 3 s` for a time to come."""
    if abs(age_ms) < 1000:
        return "now"
    text = format_duration(round(abs(age_ms) / 1000) * 1000).replace(".0 s", " s")
    return f"{text} ago" if age_ms > 0 else f"in {text}"
