"""The Spark jobs started from this machine: progress, submission, cancellation."""

import asyncio
import signal
from pathlib import Path
from typing import Final

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult

from yak.errors import UsageError, YakError
from yak.local.spark_runs import stop
from yak.local.spawn import yak_argv
from yak.tui.keys import keys
from yak.tui.rows import spark as rows
from yak.tui.screens.asking import AskingScreen
from yak.tui.state.spark_jobs import JOBS, SparkJob, find_spark_jobs, run_command, submit_command, submit_words
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormDialog, TextDialog
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.lines import Lines
from yak.tui.widgets.panel import Panel

_NONE: Final = (
    "No Spark job was started from here. A job computes something from topics as they grow: counts, statistics, joins, "
    "an archive. Press a to start one; yak spark jobs tells what there is."
)
_NONE_RUNS: Final = "No Spark job runs now. Press a to start one, e to see those that ended."
_HINT: Final = "a submit   X cancel   enter all of it and its log"
_FIELDS: Final = (
    Field("job", "Job", JOBS[0], choices=JOBS),
    Field("topic", "Topic", "", "orders, or several with commas"),
    Field("sink", "Result to", "console", "console, topic:NAME, parquet:FOLDER"),
    Field("checkpoint_dir", "Checkpoint", "", "a folder; topic: and parquet: need one"),
    Field("trigger", "Between batches", "1s"),
    Field("master", "Master", "", "local[*], spark://HOST:7077"),
    Field("more", "Other options", "", "--window 1m --key-field user"),
)
_LOG_BYTES: Final = 8_000


class SparkScreen(AskingScreen):
    """The same as `yak spark status`, from the files in which jobs report their progress."""

    TITLE_WORDS = "spark"
    CLI_TWIN = "yak spark status, yak spark run JOB, yak spark stop ID"
    EVERY_S = 1.0
    BINDINGS = keys("spark.submit", "spark.cancel", "spark.ended", "spark.copy")
    EXPLAINED = (
        ("Batch", "Spark reads what is new, a batch at a time; the number of the last one. After a restart it goes on from there."),
        ("Input/s, processed/s", "Records that came a second, and that Spark can do a second. Where the first is larger for long, the lag grows."),
        ("Lag", "Records that are in the topics and were in no batch yet, when the last batch ended. Spark keeps its offsets in its checkpoint, not in a group: 6 shows nothing of it."),
        ("State size", "What the job remembers between batches: open windows, keys seen. A watermark lets old ones go."),
        ("Checkpoint", "The folder with a job's offsets and state. Started again with it, a job goes on where it was; without, it begins anew."),
        ("Killed", "Its process is gone and did not say why: kill -9, the kernel for memory, or the machine went down."),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[SparkJob] | None = None
        self._with_ended = True

    def body(self) -> ComposeResult:
        """Build the list, and the details of the job under the cursor."""
        yield Panel("Spark jobs", Grid(id="jobs"), id="spark-jobs", subtitle=_HINT)
        with Panel("Job", id="spark-job"):
            yield Lines(id="spark-lines")

    def paint(self, now_ms: int) -> None:
        """Draw the known jobs."""
        jobs = self.jobs or []
        shown = [job for job in jobs if self._with_ended or job.run.is_active]
        empty = _NONE_RUNS if jobs else _NONE
        if self.jobs is None:
            empty = self.trouble_words() or "looking for jobs ..."
        self.query_one("#jobs", Grid).show(
            rows.COLUMNS, rows.job_rows(shown, self.look, now_ms), empty=empty, is_wide=self.look.is_wide
        )
        self.query_one("#spark-jobs", Panel).entitle(rows.title(jobs), self.trouble_words() or _HINT)
        self._paint_job(now_ms)

    @on(Grid.Moved, "#jobs")
    def moved(self) -> None:
        """Show the job under the cursor."""
        self._paint_job(self.app.now_ms())

    def _paint_job(self, now_ms: int) -> None:
        job = self.chosen()
        panel, lines = self.query_one("#spark-job", Panel), self.query_one("#spark-lines", Lines)
        panel.display = job is not None
        if job is not None:
            panel.entitle(job.run.id)
            lines.show(rows.detail_lines(job, self.look, now_ms, lines.size.width or 76))

    def chosen(self) -> SparkJob | None:
        """The job under the cursor."""
        key = self.query_one("#jobs", Grid).cursor_key
        return next((job for job in self.jobs or () if job.run.id == key), None)

    async def ask(self) -> None:
        """Read the files."""
        self.jobs = await self.app.source.kafka(find_spark_jobs)

    def opened(self, what: object) -> None:
        """Select the job of an id after `:spark`."""
        self.query_one("#jobs", Grid).move_to(str(what))

    @on(Grid.Opened, "#jobs")
    async def open_job(self) -> None:
        """Show the job and the end of its log."""
        job = self.chosen()
        if job is not None:
            log = await asyncio.to_thread(_log_end, job.run.log)
            text = rows.detail_text(job, log, self.look, self.app.now_ms())
            self.app.push_screen(TextDialog(job.run.id, Text(text)))

    def action_ended(self) -> None:
        """Show or hide ended jobs."""
        self._with_ended = not self._with_ended
        self.paint(self.app.now_ms())

    def action_copy(self) -> None:
        """Copy the command that started the job."""
        job = self.chosen()
        if job is not None:
            self.app.copy(run_command(job.run), "the command")

    @work(exclusive=True, group="spark-submit")
    async def action_submit(self) -> None:
        """Ask, and start a job by `yak spark run`; it outlives this program."""
        bootstrap = self.app.source.bootstrap
        form = await self.app.push_screen_wait(
            FormDialog(
                "Start a Spark job", _FIELDS, yes="Start",
                words="It runs in a process of its own, and goes on when yak ui ends.",
                command=lambda given: submit_command(given, bootstrap),
            )
        )  # fmt: skip
        if form is not None:
            self._start(submit_words(form, bootstrap), submit_command(form, bootstrap))

    @work(group="spark-start")
    async def _start(self, words: list[str], command: str) -> None:
        self.app.notice("Spark is starting: some seconds")
        child = await asyncio.create_subprocess_exec(
            *yak_argv(*words, "-o", "json"), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        _out, said = await child.communicate()
        self.cli(command, "" if child.returncode == 0 else "failed")
        if child.returncode:
            self.app.show_error(_error_in(said.decode(errors="replace")))
        self.ask_again()

    @work(exclusive=True, group="spark-cancel")
    async def action_cancel(self) -> None:
        """SIGTERM the job: its queries stop after the present batch."""
        job = self.chosen()
        if job is None or not job.run.is_active:
            self.app.notice("put the cursor on a job that runs")
            return
        goes_on = "It goes on from its checkpoint when it is started again." if job.run.checkpoint else (
            "It has no checkpoint that lasts: started again, it begins anew."
        )  # fmt: skip
        command = f"yak spark stop {job.run.id}"
        words = f"It ends after the batch under way. {goes_on}"
        if await self.app.push_screen_wait(
            ConfirmDialog(f"Cancel {job.run.id}?", words, command=command, yes="Cancel it")
        ):
            is_there = await asyncio.to_thread(stop, job.run)
            self.cli(command, signal.Signals.SIGTERM.name if is_there else "it was gone")
            self.ask_again()


def _error_in(said: str) -> YakError:
    """The error in the output of `yak -o json`."""
    import json

    for line in reversed(said.splitlines()):
        try:
            error = json.loads(line)["error"]
            return UsageError(error["code"], error["message"], why=error["why"], try_=tuple(error["try"]))
        except (ValueError, KeyError, TypeError):
            continue
    lines = [line for line in said.splitlines() if line.strip()]
    return YakError("spark-failed", lines[0] if lines else "the job could not be started")


def _log_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
