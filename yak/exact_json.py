"""JSON with all digits of its numbers: a float would change 1.10, 1e400, and 20 digits with a fraction."""

import itertools
import json
from collections.abc import Callable
from typing import Any, Final, NoReturn


class Digits:
    """A number that a float would change, as its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def number(text: str) -> float | Digits:
    """For `parse_float` of `json.loads`."""
    found = float(text)
    return found if repr(found) == text else Digits(text)


def refuse_constant(word: str) -> NoReturn:
    """For `parse_constant` of `json.loads`, which accepts NaN and Infinity. Raises ValueError."""
    raise ValueError(f"{word} is not JSON")


plain: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""A value without `Digits`, without blanks. Raises ValueError for NaN."""
_plain_ascii: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def compact(value: Any, *, is_ascii: bool = False) -> str:
    """A value, which may contain `Digits`, without blanks. Raises ValueError for NaN, RecursionError."""
    try:
        return (_plain_ascii if is_ascii else plain)(value)
    except TypeError:  # it has `Digits`: a string that occurs nowhere stands for each of them
        found: list[str] = []

        def note(digits: Digits) -> str:
            found.append(digits.text)
            return ""

        text = _encode(value, note, is_ascii)
        mark = next(each for each in map("~{}~".format, itertools.count()) if each not in text)
        pieces = _encode(value, lambda _digits: mark, is_ascii).split(f'"{mark}"')
        return "".join(itertools.chain.from_iterable(zip(pieces, [*found, ""], strict=True)))


def _encode(value: Any, default: Callable[[Any], str], is_ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":"), allow_nan=False, default=default)
