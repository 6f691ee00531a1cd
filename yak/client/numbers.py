"""Whole numbers as users type them."""

from typing import Final

_LONG_MAX: Final = (1 << 63) - 1
_LONG_DIGITS: Final = len(str(_LONG_MAX))


def parse_long(digits: str) -> int | None:
    """A number of 64 bits from 0 on, such as an offset; None for any other text."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONG_DIGITS):
        return None  # int() takes other digits than isdigit, and refuses thousands of them
    number = int(digits)
    return number if number <= _LONG_MAX else None
