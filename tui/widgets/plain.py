"""Wrapped text, and titles. Pure."""

import textwrap

from textual.content import Content

from yak.plain_text import one_line


def plain(text: str, width: int, lines_max: int) -> list[str]:
    """Text wrapped at spaces and line ends."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, width) or [""]
    return lines[: max(0, lines_max)]


def title(text: str) -> Content:
    """A frame's title as Content: in a string Textual would parse markup, and a group's name may be `[red]`."""
    return Content(one_line(text))
