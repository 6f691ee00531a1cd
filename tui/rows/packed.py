"""Packs sentences into as few lines as the width allows. Pure."""

from collections.abc import Sequence

from rich.cells import cell_len

from yak.tui.rows.cells import Cell


def packed(cells: Sequence[Cell], width: int) -> list[list[Cell]]:
    """The cells in lines, in order, separated by a space. A cell wider than a line is wrapped at spaces."""
    lines: list[list[Cell]] = []
    room = 0
    for whole in cells:
        for cell in _broken(whole, width):
            length = cell_len(cell.text) + 1
            if not lines or length > room:
                lines.append([])
                room = width
            lines[-1].append(cell)
            room -= length
    return lines


def _broken(cell: Cell, width: int) -> list[Cell]:
    if width <= 0 or cell_len(cell.text) < width:
        return [cell]
    return [Cell(word, cell.tone) for word in cell.text.split()]
