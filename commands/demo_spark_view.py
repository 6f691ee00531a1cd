"""The live panel of `yak demo spark` below its steps, on a terminal."""

import time
from typing import TYPE_CHECKING, Any, Final, Self

from yak.commands.demo_view import Terminal

if TYPE_CHECKING:
    from yak.commands.options import Globals
    from yak.spark.demo.scenario import Look

_HEIGHT: Final = 13
_WINDOWS_SHOWN: Final = 24
_LINES_EVERY_S: Final = 5.0
"""Interval of progress lines without a terminal."""
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "red", "white")


class SparkTerminal(Terminal):
    """Reports the steps; on a terminal, a live panel is below them while this context is open."""

    def __init__(self, g: "Globals") -> None:
        super().__init__(g)
        self._view: Any = None
        self._told_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._out.stderr, no_color=not self._out.color, highlight=False)
            self._view = Live(console=console, auto_refresh=False, transient=False)
            self._view.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._view is not None:
            self._view.stop()

    def step(self, number: int, steps: int, title: str) -> None:
        """Report the start of a step."""
        if self._view is None:
            super().step(number, steps, title)
        else:
            self._view.console.print(f"[bold cyan]{number}/{steps}[/]   [bold]{_plain(title)}[/]")

    def say(self, text: str) -> None:
        """Print a line under the step."""
        if self._view is None:
            super().say(text)
        else:
            self._view.console.print(f"      {_plain(text)}")

    def progress(self, text: str, state: Any = None) -> None:
        """Redraw the panel; without a terminal, print a progress line at intervals."""
        if self._view is not None:
            self._view.update(panel(state, self._view.console.width), refresh=True)
        elif time.monotonic() - self._told_at >= _LINES_EVERY_S:
            self._told_at = time.monotonic()
            self.say(text)


def panel(look: "Look", width: int) -> Any:
    """The panel: the state of all parts, a plot of each metric's mean, and a table of the latest windows."""
    from rich.panel import Panel
    from rich.table import Table

    grid = Table.grid(expand=True, padding=(0, 1))
    wide = width >= 78
    plot_width = max(30, width - 46) if wide else max(30, width - 6)
    grid.add_column(ratio=1)
    if wide:
        grid.add_column(width=38)
        grid.add_row(plot(look, plot_width), latest(look))
    else:
        grid.add_row(plot(look, plot_width))
    totals = f" sent {look.sent}   counted {look.counted}   in stats {look.in_stats} "
    return Panel(
        grid, title=_state(look), title_align="left", subtitle=totals, subtitle_align="left", border_style="cyan"
    )


def _state(look: "Look") -> str:
    spark = {
        "": "Spark comes next",
        "starting": "[yellow]◐ Spark starting[/]",
        "running": f"[green]● Spark[/] batch {look.batch}, {look.records_per_second:.0f} records/s",
        "killed": "[bold red]○ Spark killed[/]",
    }[look.spark]
    brokers = " ".join(
        f"[green]●{node}[/]" if is_up else f"[bold red]○{node} killed[/]" for node, is_up in look.brokers
    )
    return f" {spark}   brokers {brokers} "


def plot(look: "Look", width: int) -> Any:
    """A plot of each metric's mean per window, from the `stats` topic."""
    import plotext
    from rich.text import Text

    plotext.clear_figure()
    plotext.plotsize(width, _HEIGHT)
    plotext.theme("clear")
    plotext.ylim(0, 100)
    windows = sorted({start for _, start in look.stats})[-_WINDOWS_SHOWN:]
    metrics = sorted({metric for metric, _ in look.stats})
    for number, metric in enumerate(metrics):
        points = [(start, look.stats[metric, start]["mean"]) for start in windows if (metric, start) in look.stats]
        xs = [(start - windows[0]) / 1000.0 for start, _ in points]
        plotext.plot(xs, [mean for _, mean in points], label=metric, color=_COLOURS[number % len(_COLOURS)])
    plotext.title("mean of each window, % (topic metric_stats)")
    return Text.from_ansi(plotext.build())


def latest(look: "Look") -> Any:
    """The counts of the newest windows: one row per window, one column per metric."""
    from rich.table import Table

    table = Table(box=None, title="records (topic metric_counts)", title_style="", pad_edge=False)
    metrics = sorted({metric for metric, _ in look.counts})[:4] or ["nothing yet"]
    table.add_column("window", style="dim")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for start in sorted({start for _, start in look.counts}, reverse=True)[: _HEIGHT - 3]:
        clock = time.strftime("%H:%M:%S", time.localtime(start / 1000))
        table.add_row(clock, *[str(look.counts.get((metric, start), "")) for metric in metrics])
    return table


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
