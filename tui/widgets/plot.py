"""A line plot in characters, redrawn only when its values change."""

import math
from collections.abc import Sequence

from textual_plotext import PlotextPlot

from yak.tui.look import short


class LinePlot(PlotextPlot):
    """Lines over time, from zero; `show` names each."""

    def __init__(self, title: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._title = title
        self._drawn: object = None

    def show(self, x: Sequence[float], lines: Sequence[tuple[str, Sequence[float | None]]]) -> None:
        """Draw at most two lines. None in a line is a gap."""
        drawn = (tuple(x), tuple((name, tuple(values)) for name, values in lines))
        if drawn == self._drawn:
            return
        self._drawn = drawn
        plot = self.plt
        plot.clear_data()
        plot.title(self._title)
        top = 0.0
        for (name, values), colour in zip(lines, ("cyan+", "orange+"), strict=False):
            points = [(at, value) for at, value in zip(x, values, strict=True) if value is not None]
            if points:
                plot.plot(
                    [at for at, _ in points], [value for _, value in points], label=name, color=colour, marker="braille"
                )
                top = max(top, *(value for _, value in points))
        marks = marks_up_to(top)
        plot.ylim(0, marks[-1])
        plot.yticks(marks, [short(mark) for mark in marks])
        self.refresh()


def marks_up_to(top: float) -> list[float]:
    """Three to six round values from zero to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(top / 3))
    step = next(each * power for each in (1, 2, 5, 10) if top / (each * power) <= 5)
    return [step * number for number in range(math.ceil(top / step) + 1)]
