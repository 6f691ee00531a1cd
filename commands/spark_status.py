"""`yak spark status` and `yak spark stop`: the jobs that were started on this machine."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import STOP, WHAT, command
from yak.commands.options import Globals
from yak.errors import YakError
from yak.view.formats import format_age, format_size

if TYPE_CHECKING:
    from yak.local.spark_runs import Run

_COLUMNS = ("job", "state", "batch", "input/s", "processed/s", "lag", "checkpoint")
_WIDE = ("state size", "batch ms", "last batch", "master", "pid", "folder")
_STOP_S = 90.0


@command(
    examples=(
        "yak spark status",
        "yak spark status counts-1",
        "yak spark status --all -o wide",
        "yak spark status -o json",
    )
)
def status(
    g: Globals,
    job: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="One job, with its queries and its last error.", show_default=False),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include ended jobs.", rich_help_panel=WHAT)] = False,
) -> int | None:
    """Show the Spark jobs started here, and their progress."""
    from yak.local.spark_runs import all_runs, find_run

    if job is not None:
        return _one(g, find_run(job))
    runs = [run for run in all_runs() if all_ or run.is_active]
    rows = [_row(g, run) for run in runs] if g.out.format not in ("json", "yaml") else [_document(run) for run in runs]
    empty = "No Spark job runs. yak spark run JOB starts one; --all shows those that ended."
    if all_:
        empty = "No Spark job was started from here. yak spark jobs lists what there is."
    g.out.table(rows, _COLUMNS, _WIDE, empty=empty)
    return None


@command(examples=("yak spark stop counts-1", "yak spark stop --all", "yak spark stop counts-1 --now"))
def stop(
    g: Globals,
    jobs: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Job ids of yak spark status.")] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="All that run.", rich_help_panel=WHAT)] = False,
    now: Annotated[
        bool,
        typer.Option("--now", help="kill -9: the active batch is repeated at the next start.", rich_help_panel=STOP),
    ] = False,
) -> int | None:
    """Stop Spark jobs after the active batch. A job restarted with its checkpoint continues from there."""
    from yak.errors import UsageError
    from yak.local.spark_runs import all_runs, find_run

    if not jobs and not all_:
        raise UsageError(
            "usage", "which job?", why="no ID was given", try_=("yak spark status", "yak spark stop --all")
        )
    found = [run for run in all_runs() if run.is_active] if all_ else [find_run(job) for job in jobs or ()]
    if not found:
        g.out.note("No Spark job runs.")
    failed = 0
    for run in found:
        if not run.is_active:
            g.out.note(f"{run.id}: {run.state} already")
        elif not _stopped(g, run, hard=now):
            failed += 1
    return 1 if failed else None


def _stopped(g: Globals, run: "Run", *, hard: bool) -> bool:
    """Request a job's end and wait for it; return whether it has ended."""
    from yak.local.processes import wait_gone
    from yak.local.spark_runs import load
    from yak.local.spark_runs import stop as ask

    timeout_s = g.timeout_ms / 1000 if g.timeout_given else _STOP_S
    ask(run, hard=hard)
    if run.process is not None and not wait_gone(run.process, timeout_s):
        error = YakError(
            "spark-stop",
            f"{run.id} did not end in {timeout_s:g} s",
            why="its batch is still under way, or Java hangs",
            try_=(f"yak spark stop {run.id} --now", f"less {run.log}"),
        )
        g.out.error(error)
        return False
    ended = load(run.folder)
    g.out.line(f"{run.id}: {ended.state if ended else 'gone'}")
    return True


def _row(g: Globals, run: "Run") -> dict[str, Any]:
    from yak.local.spark_runs import figures, progress_of

    found = figures(progress_of(run))

    def rate(name: str) -> int | None:
        return round(found[name]) if run.is_active and found[name] is not None else None

    return {
        "job": run.id,
        "state": run.state,
        "batch": found["batch"],
        "input/s": rate("input_per_s"),
        "processed/s": rate("processed_per_s"),
        "lag": found["lag"],
        "checkpoint": run.checkpoint,
        "state size": _size(found["state_bytes"]),
        "batch ms": found["duration_ms"],
        "last batch": _ago(g, found["last_ms"]),
        "master": run.master or None,
        "pid": run.process.pid if run.process and run.is_active else None,
        "folder": str(run.folder),
    }


def _ago(g: Globals, time_ms: int | None) -> str | None:
    return None if time_ms is None else format_age(max(0, g.now_ms() - time_ms))


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else format_size(size_bytes)


def _document(run: "Run") -> dict[str, Any]:
    """The document for scripts, whose keys are a contract."""
    from yak.local.spark_runs import batches_of, error_of, figures, latest_of_each, progress_of

    progress = progress_of(run)
    error = error_of(run) if run.state == "failed" else None
    return {
        **run.as_json(),
        "progress": figures(progress),
        "queries": [dict(line) for line in latest_of_each(batches_of(progress))],
        "error": None if error is None else {"code": error.code, "message": error.message, "why": error.why},
    }


def _one(g: Globals, run: "Run") -> int | None:
    from yak.commands.output import error_lines
    from yak.local.spark_runs import batches_of, error_of, latest_of_each, progress_of

    if not g.out.for_people:
        g.out.object(_document(run))
        return None
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.started_ms / 1000))
    facts = {
        "job": f"{run.id}  {' '.join(run.words)}".rstrip(),
        "state": run.state,
        "started": started,
        "master": run.master,
        "process": str(run.process.pid) if run.process and run.is_active else None,
        "Spark UI": run.ui if run.is_active else None,
        "checkpoint": run.checkpoint,
        "log": str(run.log),
    }
    for name, value in facts.items():
        if value:
            g.out.line(f"{name:<11} {value}")
    rows = [
        {
            "query": line.get("query") or str(line.get("query_id"))[:8],
            "batch": line.get("batch"),
            "rows": line.get("input_rows"),
            "input/s": line.get("input_per_s"),
            "processed/s": line.get("processed_per_s"),
            "took ms": line.get("duration_ms"),
            "lag": line.get("lag"),
            "state rows": line.get("state_rows"),
            "state": _size(line.get("state_bytes")),
            "watermark": line.get("watermark"),
        }
        for line in latest_of_each(batches_of(progress_of(run)))
    ]
    if rows:
        g.out.line()
        g.out.table(rows, tuple(rows[0]))
    error = error_of(run)
    if error is not None and run.state == "failed":
        g.out.line()
        for line in error_lines(error):
            g.out.line(line)
    return None
