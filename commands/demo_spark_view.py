"""Prints `yak demo spark`: the steps, a live panel of the results on a terminal, and the report."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from yak.commands.demo_view import Printed, aligned, show_end

if TYPE_CHECKING:
    from yak.commands.options import Globals
    from yak.spark.demo.story import Look, SparkDemoResult
    from yak.spark.demo.totals import MetricVerdict

COLUMNS = ("metric", "sent", "counted", "in_stats", "windows", "differing")
_HEIGHT: Final = 13
_WINDOWS_SHOWN: Final = 24
_LINES_EVERY_S: Final = 5.0
"""Interval of progress lines without a terminal."""
_TOTALS: Final = {"sent": "sent", "counted": "counted", "in_stats": "in stats", "differing": "differing windows"}
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "red", "white")


class ShownSpark(Printed):
    """Reports the steps; on a terminal, a live panel is below them."""

    def __init__(self, g: "Globals", steps: int) -> None:
        super().__init__(g, steps)
        self._live_view: Any = None
        self._told_at = time.monotonic()

    @contextmanager
    def live(self) -> Iterator[object]:
        """Keep the panel below the printed lines."""
        if not self._live:
            yield self
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._out.stderr, no_color=not self._out.color, highlight=False)
        with Live(console=console, auto_refresh=False, transient=False) as view:
            self._live_view = view
            try:
                yield self
            finally:
                self._live_view = None

    def step(self, number: int, title: str) -> None:
        """Report the start of a step."""
        head = f"{number}/{self._steps}"
        if self._live_view is None:
            super().step(number, title)
        else:
            self._live_view.console.print(f"[bold cyan]{head}[/]   [bold]{_plain(title)}[/]")

    def say(self, text: str) -> None:
        """Print a line under the step."""
        if self._live_view is None:
            super().say(text)
        else:
            self._live_view.console.print(f"      {_plain(text)}")

    def look(self, look: "Look") -> None:
        """Redraw the panel; without a terminal, print a progress line at intervals."""
        if self._live_view is not None:
            self._live_view.update(panel(look, self._live_view.console.width), refresh=True)
        elif time.monotonic() - self._told_at >= _LINES_EVERY_S:
            self._told_at = time.monotonic()
            self.say(summary(look))


def summary(look: "Look") -> str:
    """The state of the pipeline in one line."""
    spark = f"Spark batch {look.batch}" if look.spark == "running" else f"Spark {look.spark or 'comes next'}"
    down = [str(node) for node, is_up in look.brokers if not is_up]
    brokers = f"broker {', '.join(down)} is dead" if down else f"{len(look.brokers)} brokers"
    return f"sent {look.sent}, counted {look.counted}; {spark}; {brokers}"


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


def verdict_rows(verdicts: "Sequence[MetricVerdict]") -> list[dict[str, object]]:
    """One row per metric."""
    return [{name: getattr(each, name) for name in COLUMNS} for each in verdicts]


def show_spark_verdict(g: "Globals", result: "SparkDemoResult") -> None:
    """Print the report for people: the table on stdout; the outcome, notes and next commands on stderr."""
    times, found = result.times, result.as_json()
    g.out.note("")
    g.out.table(verdict_rows(result.verdicts), COLUMNS)
    more = [
        ", ".join(f"{word} {found[name]}" for name, word in _TOTALS.items()),
        f"results read {found['results_read']}: a window is written anew when it changes, and after a crash",
        f"first results {_seconds(times.spark_start_ms)} after Spark's start, {_seconds(times.spark_resume_ms)} after the second",
        f"the whole demo {times.total_ms / 1000:.0f} s",
    ]
    good = "every window is exactly what the producer counted" if result.holds else None
    show_end(g, good, more=more, next_commands=_after(result))


def _after(result: "SparkDemoResult") -> list[str]:
    if not result.settings.keep:
        return aligned(
            [
                ("yak spark jobs", "what else there is"),
                ("yak demo spark --keep", "this again, and leave the cluster running"),
            ]
        )
    where = result.bootstrap.partition(",")[0]
    return aligned(
        [
            (f"yak spark run stats -t server_metrics --field value -b {where} --to latest --follow", ""),
            (f"yak down --data-dir {result.data_dir}", ""),
        ]
    )


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
