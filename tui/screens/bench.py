"""Benchmarks: choose one, watch it run, compare it with earlier runs."""

import asyncio

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.worker import Worker

from yak.errors import UsageError
from yak.tui.bench import history
from yak.tui.bench.plan import KINDS, Kind, arguments, command_line
from yak.tui.bench.run import BenchState, run_bench
from yak.tui.keys import keys
from yak.tui.rows import bench as rows
from yak.tui.screens.base import YakScreen
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormDialog, TextDialog
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.lines import Lines
from yak.tui.widgets.panel import Panel
from yak.tui.widgets.plot import LinePlot

_RUNNING = ("starting", "running")


class BenchScreen(YakScreen):
    """The benchmarks, the running one, and the earlier runs."""

    TITLE_WORDS = "bench"
    CLI_TWIN = "yak bench produce|consume|latency|e2e|failover"
    AUTO_FOCUS = "#kinds"
    BINDINGS = keys("bench.start", "bench.stop", "bench.again", "bench.copy")
    EXPLAINED = (
        ("records/s", "Acknowledged, or read, by all clients together, from the first client's start to the last one's end."),
        ("p50, p99", "Half of the acknowledgements, or 99 of 100, came sooner. Live figures are of the last half second and of the slowest client; those of the table are of the whole run."),
        ("before", "Against the last run of the same benchmark with the same choices on the same cluster."),
        ("wrong", "Records that failed; of failover also those that were lost, doubled, reordered or moved."),
        ("failover", "It starts three brokers of its own and kills only those: the cluster that is looked at here is left alone."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[history.BenchRun] = []
        self.state: BenchState | None = None
        self._command = ""
        self._worker: Worker[None] | None = None
        self._folder = history.state_dir()

    def body(self) -> ComposeResult:
        """Build the list or the running benchmark, and below it the earlier runs."""
        yield Panel("What to measure", Grid(id="kinds"), id="bench-kinds", subtitle="enter choose and start")
        with Panel("Now", id="bench-now"):
            yield Lines(id="bench-live")
            with Horizontal(id="bench-plots"):
                yield LinePlot("records/s, by second", id="plot-rate")
                yield LinePlot("latency in ms, by second", id="plot-latency")
        yield Panel(
            "Runs so far", Grid(id="runs"), id="bench-runs", subtitle="enter all of it and the one before   R repeat"
        )

    def on_mount(self) -> None:
        """Load the runs of earlier sessions."""
        super().on_mount()
        self._load()

    @work(group="bench-history")
    async def _load(self) -> None:
        self.runs = await asyncio.to_thread(history.load, self._folder)
        self.app.repaint()

    # drawing

    @property
    def is_measuring(self) -> bool:
        """Whether a benchmark runs."""
        return self.state is not None and self.state.phase in _RUNNING

    def paint(self, now_ms: int) -> None:
        """Draw; the plots appear only once this session has measured something."""
        look, state = self.look, self.state
        self.query_one("#kinds", Grid).show(rows.KIND_COLUMNS, rows.kind_rows())
        empty = "No run yet. Put the cursor on a benchmark above and press enter; results stay here for the next time."
        self.query_one("#runs", Grid).show(
            rows.COLUMNS, rows.run_rows(self.runs, look, now_ms), empty=empty, is_wide=look.is_wide
        )
        self.query_one("#bench-now").display = state is not None
        is_low = self.has_class("-low")
        self.query_one("#bench-kinds").display = state is None or not (self.is_measuring or is_low)
        if state is None:
            return
        live = self.query_one("#bench-live", Lines)
        lines = rows.live_lines(state, self._command, look, live.size.width or 76)
        live.styles.height = len(lines)
        live.show(lines)
        has_plots = bool(state.samples) and state.error is None and not look.is_ascii
        self.query_one("#bench-plots").display = has_plots
        if has_plots:
            seconds = [each.elapsed_s for each in state.samples]
            self.query_one("#plot-rate", LinePlot).show(seconds, [("", [each.rate for each in state.samples])])
            latency = self.query_one("#plot-latency", LinePlot)
            latency.display = any(each.p99_ms is not None for each in state.samples)
            latency.show(
                seconds,
                [("p50", [each.p50_ms for each in state.samples]), ("p99", [each.p99_ms for each in state.samples])],
            )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only one benchmark runs at a time."""
        if action == "stop":
            return False if not self.is_measuring else super().check_action(action, parameters)
        if action in ("start", "again") and self.is_measuring:
            return False
        return super().check_action(action, parameters)

    # actions

    @on(Grid.Opened, "#kinds")
    def choose(self, event: Grid.Opened) -> None:
        """Open the options of a benchmark."""
        if self.app.is_readonly:
            self.app.notice("read-only: a benchmark writes")
        elif not self.is_measuring:
            self._ask(KINDS[event.row.key])

    def go_back(self) -> bool:
        """Return from the results to the list; not while a benchmark runs."""
        if super().go_back():
            return True
        if self.state is None or self.is_measuring:
            return False
        self._show_kinds()
        return True

    def _show_kinds(self) -> None:
        self.state = None
        self.paint(self.app.now_ms())
        self.query_one("#kinds").focus()

    async def action_start(self) -> None:
        """Start the benchmark under the cursor; in a small window, first show the list."""
        if not self.query_one("#bench-kinds").display:
            self._show_kinds()
            return
        key = self.query_one("#kinds", Grid).cursor_key
        self._ask(KINDS[key or "produce"])

    @work(group="bench-ask", exclusive=True)
    async def _ask(self, kind: Kind) -> None:
        bootstrap = self.app.source.bootstrap
        if kind.is_on_cluster and not bootstrap:
            self.app.notice("the cluster is not up yet")
            return
        fields = [Field(each.name, each.label, each.value, each.hint, each.choices) for each in kind.options]
        words = kind.words[0].upper() + kind.words[1:] + "."
        if kind.is_on_cluster and kind.name != "consume":
            words += " It writes to this topic, for real: the records stay until retention takes them."
        values = await self.app.push_screen_wait(
            FormDialog(
                f"Benchmark: {kind.name}", fields, words=words, yes="Start",
                command=lambda given: command_line(arguments(kind, given, bootstrap)),
            )
        )  # fmt: skip
        if values is not None:
            self._begin(kind, values)

    def _begin(self, kind: Kind, values: dict[str, str]) -> None:
        words = arguments(kind, values, self.app.source.bootstrap)
        self._command = command_line(words)
        self.state = BenchState(kind.name)
        self._worker = self._measure(kind, values, words, self.state)
        self._changed()
        self.query_one("#runs").focus()

    @work(group="bench", exclusive=True)
    async def _measure(self, kind: Kind, values: dict[str, str], words: list[str], state: BenchState) -> None:
        command = self._command
        try:
            await run_bench(words, state, self.app.repaint)
        finally:
            self._changed()
            self.cli(command, state.phase)
        if state.error is not None:
            self.app.show_error(state.error)
        if state.result is not None:
            cluster = self.app.source.title if kind.is_on_cluster else ""
            run = history.run_of(self.app.now_ms(), kind.name, values, command, state.result, cluster)
            self.runs = [*self.runs, run][-history.KEPT :]
            self.paint(self.app.now_ms())
            self.query_one("#runs", Grid).move_to(str(run.time_ms))
            await asyncio.to_thread(history.save, self._folder, run)

    def _changed(self) -> None:
        self.app.repaint()
        self.refresh_bindings()
        self.app.forget_key_bar()

    @work(group="bench-ask", exclusive=True)
    async def action_stop(self) -> None:
        """Stop the running benchmark and discard its figures."""
        words = "Its clients end at once, and there is no result."
        if (
            await self.app.push_screen_wait(ConfirmDialog("Stop the benchmark", words, yes="Stop"))
            and self.is_measuring
        ):
            assert self._worker is not None, "something runs"
            self._worker.cancel()

    def _run_under_cursor(self) -> history.BenchRun | None:
        key = self.query_one("#runs", Grid).cursor_key
        return next((each for each in self.runs if str(each.time_ms) == key), None)

    @work(group="bench-ask", exclusive=True)
    async def action_again(self) -> None:
        """Run the same benchmark again, on this cluster."""
        run = self._run_under_cursor()
        kind = KINDS.get(run.kind) if run is not None else None
        if run is None or kind is None:
            self.app.notice("put the cursor on a run: R does the same once more")
            return
        try:
            command = command_line(arguments(kind, run.values, self.app.source.bootstrap))
        except UsageError as error:
            self.app.show_error(error)
            return
        if await self.app.push_screen_wait(
            ConfirmDialog(f"Again: {run.kind}", kind.words, command=command, yes="Start")
        ):
            self._begin(kind, run.values)

    @on(Grid.Opened, "#runs")
    def show_run(self) -> None:
        """Show all figures of the run, and of the one before."""
        run = self._run_under_cursor()
        if run is not None:
            text = rows.result_text(run, history.before(self.runs, run), self.look, self.app.now_ms())
            self.app.push_screen(TextDialog(f"Benchmark: {run.kind}", Text(text)))

    def action_copy(self) -> None:
        """Copy the command of the run under the cursor."""
        run = self._run_under_cursor()
        command = run.command if run is not None else self._command
        if command:
            self.app.copy(command, "the command")
