"""Words in lines. Pure."""

import re
import textwrap

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def plain(text: str, width: int, lines_max: int) -> list[str]:
    """Text broken into lines at spaces and line ends."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, width) or [""]
    return lines[: max(0, lines_max)]


def printable(text: str) -> str:
    """Text without what would move the terminal's cursor or turn its direction: a dot in its place."""
    return text if text.isprintable() else _CONTROL.sub("·", text)
