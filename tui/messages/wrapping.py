"""Wraps lines of spans to a width. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.cells import cell_len, get_character_cell_size

from yak.tui.messages.detail import DetailLine
from yak.tui.rows.cells import Tone

HANGING = 2
"""The indentation of a wrapped line's rest."""


def wrapped(lines: Iterable[DetailLine], width: int) -> Iterator[DetailLine]:
    """Lines of at most `width` cells. The rest of a wrapped line has the same path."""
    for line in lines:
        if sum(cell_len(text) for text, _ in line.spans) <= width:
            yield line
        else:
            yield from _broken(line, max(width, HANGING + 2))


def _broken(line: DetailLine, width: int) -> Iterator[DetailLine]:
    indent = len(line.text) - len(line.text.lstrip(" "))
    hanging = " " * min(indent + HANGING, width // 2)
    row: list[tuple[str, Tone]] = []
    room = width
    for text, tone in line.spans:
        rest = text
        while rest:
            head, rest = _split(rest, room)
            if head:
                row.append((head, tone))
                room -= cell_len(head)
            if rest:
                yield replace(line, spans=tuple(row))
                row, room = [(hanging, "")], width - len(hanging)
    if row:
        yield replace(line, spans=tuple(row))


def _split(text: str, width: int) -> tuple[str, str]:
    """The part that fits, and the rest."""
    if text.isascii():
        return text[:width], text[width:]
    used = 0
    for place, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > width:
            return text[:place], text[place:]
    return text, ""
