"""Words in lines, and titles. Pure."""

import textwrap

from textual.content import Content

from yak.plain_text import one_line


def plain(text: str, width: int, lines_max: int) -> list[str]:
    """Text broken into lines at spaces and line ends."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, width) or [""]
    return lines[: max(0, lines_max)]


def title(text: str) -> Content:
    """The title of a frame. Textual would read markup in a string, and a group may be called `[red]`."""
    return Content(one_line(text))
