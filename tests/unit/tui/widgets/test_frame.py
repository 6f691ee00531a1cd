"""Cells side by side, as they are drawn."""

import asyncio

import pytest
from textual.app import App, ComposeResult

from yak.tui.rows.cells import Cell
from yak.tui.widgets.frame import Line, Lines

WIDE = "注文 3 件"


class LinesAndLine(App[None]):
    def compose(self) -> ComposeResult:
        yield Lines(id="lines")
        yield Line(id="line")


@pytest.mark.parametrize(("text", "drawn"), [(WIDE, WIDE), ("a\x1bb", "a\\x1bb"), ("plain", "plain")])
def test_lines_and_a_line_draw_all_of_a_text_with_wide_or_control_characters(text: str, drawn: str) -> None:
    async def scenario() -> tuple[str, str]:
        app = LinesAndLine()
        async with app.run_test(size=(40, 4)):
            lines, single = app.query_one("#lines", Lines), app.query_one("#line", Line)
            lines.show([[Cell(text), Cell("end")]])
            single.show([Cell(text), Cell("end")])
            return lines.render_line(0).text, single.render_line(0).text

    line, single = asyncio.run(scenario())
    assert line.split() == [*drawn.split(), "end"]
    assert single.split() == [*drawn.split(), "end"]
