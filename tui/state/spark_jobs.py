"""The Spark jobs started from this machine, and the command that starts one."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from yak.errors import UsageError, YakError
from yak.local.spark_runs import Run, all_runs, error_of, figures, progress_of

JOBS: Final = ("counts", "stats", "top-k", "lag", "archive", "dedupe", "sql", "anomaly", "join", "replay")
"""The same jobs as in `yak spark jobs`; a test compares them."""
_PROGRESS_MAX: Final = 120
_NO_TOPIC: Final = ("replay",)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One run with its latest batches, oldest first, and the error that ended it."""

    run: Run
    progress: Sequence[Mapping[str, Any]] = ()
    error: YakError | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


def find_spark_jobs(_bootstrap: str = "") -> list[SparkJob]:
    """All known runs, running ones first. Reads files: call it in a thread."""
    found = []
    for run in all_runs():
        progress = progress_of(run, _PROGRESS_MAX)
        error = error_of(run) if run.state == "failed" else None
        found.append(SparkJob(run, progress, error, figures(progress)))
    return found


def submit_words(form: Mapping[str, str], bootstrap: str) -> list[str]:
    """The arguments for `yak` that start the job of a form. Raises UsageError."""
    job = form["job"]
    words = ["spark", "run", "-b", bootstrap, job]
    if form["topic"]:
        words += ["--topic", form["topic"]]
    elif job not in _NO_TOPIC:
        raise UsageError("usage", f"{job} reads a topic", try_=("name one, or several with commas",))
    for name in ("sink", "checkpoint_dir", "trigger", "master"):
        if form[name]:
            words += ["--" + name.replace("_", "-"), form[name]]
    try:
        return words + shlex.split(form["more"])
    except ValueError as error:
        raise UsageError("usage", "the other options cannot be read", why=str(error).lower()) from None


def submit_command(form: Mapping[str, str], bootstrap: str) -> str:
    """The same as a shell command. Raises UsageError."""
    return shlex.join(["yak", *submit_words(form, bootstrap)])


def run_command(run: Run) -> str:
    """The command that started a run."""
    return shlex.join(["yak", "spark", "run", run.job, *run.words])
