"""Spark jobs as rows and lines. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from yak.local.spark_runs import batches_of, latest_of_each
from yak.tui.look import Look, span
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.spark_jobs import SparkJob, run_command
from yak.tui.widgets.plain import plain

COLUMNS: Final = (
    Column("JOB", 10, most=40),
    Column("STATE", 10, most=12),
    Column("BATCH", 5, is_right=True),
    Column("INPUT/s", 7, is_right=True),
    Column("PROCESSED/s", 11, is_right=True, rank=1),
    Column("LAG", 6, is_right=True),
    Column("STATE SIZE", 10, is_right=True, rank=3),
    Column("LAST BATCH", 10, is_right=True, rank=2),
    Column("CHECKPOINT", 10, most=200, flex=1, rank=2),
)
_STATES: Final[dict[str, tuple[str, Tone]]] = {
    "starting": ("warn", "warn"),
    "running": ("up", "good"),
    "finished": ("good", "dim"),
    "stopped": ("down", "dim"),
    "failed": ("bad", "bad"),
    "killed": ("bad", "bad"),
}
_TREND: Final = 24


def job_rows(jobs: Sequence[SparkJob], look: Look, now_ms: float) -> list[Row]:
    """Rows in the given order: running jobs first, then the latest."""
    return [_row(job, look, now_ms) for job in jobs]


def _row(job: SparkJob, look: Look, now_ms: float) -> Row:
    found, is_active = job.figures, job.run.is_active
    last_ms = found.get("last_ms")
    return Row(
        job.run.id,
        (
            Cell(job.run.id, "strong" if is_active else "dim"),
            state_cell(job, look),
            _number(found.get("batch"), look),
            _number(found.get("input_per_s") if is_active else None, look),
            _number(found.get("processed_per_s") if is_active else None, look),
            _lag(found.get("lag"), look),
            Cell(look.size(found.get("state_bytes")), "", found.get("state_bytes") or -1),
            Cell(
                look.sign("none") if last_ms is None else f"{span(max(0, now_ms - last_ms))} ago", "dim", last_ms or -1
            ),
            Cell(job.run.checkpoint or look.sign("none"), "dim"),
        ),
    )


def state_cell(job: SparkJob, look: Look) -> Cell:
    """The state as a sign and a word."""
    sign, tone = _STATES[job.run.state]
    return Cell(f"{look.sign(sign)} {job.run.state}", tone, job.run.state)


def _number(value: float | None, look: Look) -> Cell:
    return Cell(look.sign("none"), "dim", -1) if value is None else Cell(look.number(round(value)), order=value)


def _lag(lag: int | None, look: Look) -> Cell:
    return (
        Cell(look.sign("none"), "dim", -1) if lag is None else Cell(look.number(lag), "good" if lag == 0 else "", lag)
    )


def title(jobs: Sequence[SparkJob]) -> str:
    """The numbers of running and ended jobs."""
    running = sum(job.run.is_active for job in jobs)
    ended = len(jobs) - running
    return f"Spark jobs: {running} running" + (f", {ended} ended" if ended else "")


def detail_lines(job: SparkJob, look: Look, now_ms: float, width: int) -> list[list[Cell]]:
    """The job's arguments, location, queries, and the error that ended it."""
    run = job.run
    lines = [[Cell(line, "dim")] for line in plain(f"$ {run_command(run)}", max(20, width - 2), 3)]
    since = "since" if run.is_active else "begun"
    lines.append([state_cell(job, look), Cell(f"{since} {look.day_and_time(run.started_ms, now_ms)}"), *_where(job)])
    if run.is_active and run.ui:
        lines.append([Cell(f"Spark UI {run.ui}", "dim")])
    for line in latest_of_each(batches_of(job.progress)):
        lines += _query(line, look)
    trend = [float(line.get("processed_per_s") or 0) for line in batches_of(job.progress)][-60:]
    if len(trend) > 1:
        lines.append([Cell("rows/s", "dim"), Cell(look.spark(trend, min(_TREND, len(trend))), "accent")])
    if job.error is not None:
        lines += [[Cell(line, "bad")] for line in plain(f"{look.sign('bad')} {job.error.message}", width - 2, 3)]
        lines += [[Cell(line)] for line in plain(f"why: {job.error.why}", width - 2, 3)] if job.error.why else []
        lines += [[Cell(f"try: {each}", "dim")] for each in job.error.try_[:2]]
    elif run.state == "killed":
        lines.append([Cell(f"{look.sign('bad')} its process is gone and did not say why", "bad")])
    if run.checkpoint:
        lines.append([Cell(f"checkpoint {run.checkpoint}", "dim")])
    lines.append([Cell(f"log {run.log}", "dim")])
    return lines


def _where(job: SparkJob) -> list[Cell]:
    run = job.run
    cells = [Cell(f"on {run.master}")] if run.master else []
    if run.is_active and run.process is not None:
        cells.append(Cell(f"process {run.process.pid}", "dim"))
    return cells


def _query(line: Mapping[str, Any], look: Look) -> list[list[Cell]]:
    """The latest batch of one query, in two short lines."""
    name = line.get("query") or str(line.get("query_id"))[:8]
    first = [
        Cell(str(name), "accent"),
        Cell(f"batch {line.get('batch')}"),
        Cell(f"{look.number(line.get('input_rows'))} rows"),
        Cell(f"in {look.number(line.get('duration_ms'))} ms"),
    ]
    second = []
    if line.get("lag") is not None:
        second.append(Cell(f"lag {look.number(line['lag'])}", "good" if line["lag"] == 0 else ""))
    if line.get("state_rows") is not None:
        second.append(Cell(f"state {look.number(line['state_rows'])} rows, {look.size(line.get('state_bytes'))}"))
    if line.get("dropped_late"):
        second.append(Cell(f"{look.sign('warn')} {look.number(line['dropped_late'])} too late", "warn"))
    if line.get("watermark"):
        second.append(Cell(f"watermark {str(line['watermark'])[:19].replace('T', ' ')}Z", "dim"))
    return [first, second] if second else [first]


def detail_text(job: SparkJob, log_end: str, look: Look, now_ms: float) -> str:
    """All details of a job and the end of its log, for a dialog."""
    lines = [" ".join(cell.text for cell in line) for line in detail_lines(job, look, now_ms, 76)]
    return "\n".join([*lines, "", log_end.rstrip() or "The log is empty."])
