"""`yak spark run JOB`: runs a job in a process of its own, followed or in the background."""

import os
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import STOP, command
from yak.commands.options import OPTIONS, Globals
from yak.errors import YakError
from yak.plain_text import lines

if TYPE_CHECKING:
    from yak.local.spark_runs import Run

_LOOK_S = 0.2
_FIRST_BATCH_S = 8.0
_JOBS_OWN = ("-b", "-q", "-t")
"""Short options with another meaning for a job than for the rest of yak."""


def own_words_first(words: list[str]) -> list[str]:
    """Split the arguments of `run JOB …`: options of yak go before the job, the job's own options after `--`.

    A job has options of its own, some with names of yak's options, and its own help.
    """
    at = next((index for index, word in enumerate(words) if not word.startswith("-")), None)
    if at is None or words[at] != "run" or "--" in words[at:]:
        return words
    after = words[at + 1 :]
    place = _job_at(after)
    if place is None:
        return words
    ours, theirs = _split(after[place + 1 :])
    return [*words[: at + 1], *after[:place], *ours, after[place], "--", *theirs]


def _job_at(words: list[str]) -> int | None:
    """Index of the job's name: the first argument that is neither an option nor an option's value."""
    with_value = {name for option in OPTIONS if option.kind == "value" for name in option.declarations}
    index = 0
    while index < len(words):
        if not words[index].startswith("-"):
            return index
        index += 2 if words[index] in with_value else 1
    return None


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    ours: list[str] = []
    theirs: list[str] = []
    kinds = {name: option.kind for option in OPTIONS for name in option.declarations if name not in _JOBS_OWN}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        kind = kinds.get(word.partition("=")[0])
        if word in ("--follow", "-f") or (kind is not None and (kind != "value" or "=" in word)):
            ours.append(word)
        elif kind == "value" and rest:
            ours += [word, rest.pop(0)]
        else:
            theirs.append(word)
    return ours, theirs


@command(
    examples=(
        "yak spark run counts --topic orders --window 1m",
        "yak spark run archive --topic orders --into ./archive --follow",
        "yak spark run stats --help                        # the options of one job",
        "yak spark run lag --topic orders --master spark://HOST:7077",
    ),
    allow_unknown=True,
)
def run(
    g: Globals,
    job: Annotated[str, typer.Argument(metavar="JOB", help="One of yak spark jobs.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="OPTIONS", help="Options of the job: yak spark run JOB --help.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow its output; Ctrl+C stops it.", rich_help_panel=STOP),
    ] = False,
) -> int | None:
    """Run a job over topics, in the background or with --follow.

    Without --follow, the job continues in the background: see yak spark status and yak spark stop.
    """
    from yak.commands.spark_python import hand_over
    from yak.local.spark_runs import new_run
    from yak.spark.jobs import load
    from yak.spark.jobs.frame import main

    load(job)
    given = words or []
    if {"-h", "--help"} & set(given):
        return main([job, *given])
    code = hand_over()
    if code is not None:
        return code
    made = new_run(job, given, bootstrap=g.bootstrap_servers)
    arguments = [sys.executable, "-P", "-m", "yak.spark.jobs", job, *given]
    return followed(g, made, arguments) if follow else left_running(g, made, arguments)


def environment_of(g: Globals, run: "Run") -> dict[str, str]:
    """The environment variables for a job's process."""
    from yak.local.spark_runs import VARIABLE

    return {**os.environ, VARIABLE: str(run.folder), "YAK_BOOTSTRAP_SERVERS": g.bootstrap_servers}


def followed(g: Globals, run: "Run", arguments: list[str]) -> int:
    """Run the job to its end; return its exit code. The first Ctrl+C stops it gracefully, the second kills it."""
    from yak.commands.interrupts import held
    from yak.commands.spark_progress import Shown
    from yak.local import spark_runs

    g.out.note(f"{run.id}: Spark's own log is in {run.log}")
    with (
        held() as asked,
        subprocess.Popen(  # noqa: S603 - ourselves
            arguments, env=environment_of(g, run), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        ) as child,
        Shown(g, run) as shown,
    ):  # fmt: skip
        said = _Errors(child.stderr)
        has_asked = False
        try:
            while child.poll() is None:
                if asked.signal is not None and not has_asked:
                    has_asked = True
                    child.terminate()
                shown.update()
                time.sleep(_LOOK_S)
        except BaseException:
            child.kill()
            raise
        shown.update()
    _tell_errors(g, run, said.text())
    if asked.signal is not None and child.returncode == 0:
        ended = spark_runs.load(run.folder)
        g.out.note(
            f"{run.id}: {ended.state if ended else 'stopped'}; it goes on from its checkpoint when it is run again"
        )
    return int(child.returncode) if child.returncode >= 0 else 128 - child.returncode


def left_running(g: Globals, run: "Run", arguments: list[str]) -> int | None:
    """Start the job and return when Spark has started; an earlier error is printed here."""
    from yak.local import spark_runs

    with (run.folder / "output.txt").open("wb") as output, (run.folder / "errors.txt").open("wb") as errors:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            arguments, env=environment_of(g, run), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
    with g.out.progress(f"{run.id}: starting Spark") as progress:
        started = time.monotonic()
        while child.poll() is None:
            now = spark_runs.load(run.folder)
            if now is not None and now.state == "running" and _has_begun(spark_runs.progress_of(now)):
                break
            progress.update(int(time.monotonic() - started))
            time.sleep(_LOOK_S)
    if child.returncode:
        _tell_errors(g, run, (run.folder / "errors.txt").read_text(errors="replace"))
        return int(child.returncode) if child.returncode > 0 else 128 - child.returncode
    now = spark_runs.load(run.folder) or run
    if not g.out.for_people:
        g.out.object(now.as_json())
        return None
    if child.returncode == 0:
        text = (run.folder / "output.txt").read_text(errors="replace")
        g.out.stdout.write(lines(text) if g.out.escapes else text)
        g.out.note(f"{run.id}: {now.state}")
        return None
    g.out.line(f"{run.id} runs in process {child.pid}")
    g.out.note(f"  log       {now.log}")
    g.out.note(f"  output    {run.folder / 'output.txt'}")
    if now.ui:
        g.out.note(f"  Spark UI  {now.ui}")
    g.out.note(f"  next      yak spark status {run.id}        yak spark stop {run.id}")
    return None


def _has_begun(progress: list[dict[str, Any]]) -> bool:
    """Whether a query ran its first batch, or had time for it. An error in the job shows up in its first batch."""
    if any(line.get("event") in ("batch", "idle") for line in progress):
        return True
    return bool(progress) and time.time() - progress[0]["time_ms"] / 1000 > _FIRST_BATCH_S


def _tell_errors(g: Globals, run: "Run", said: str) -> None:
    """Print a job's stderr; with -o json its error as JSON."""
    from yak.local import spark_runs

    error: YakError | None = spark_runs.error_of(run)
    if error is not None and g.output == "json":
        g.out.error(error)
    elif g.quiet < 2:
        g.out.stderr.write(lines(said))
        g.out.stderr.flush()


class _Errors:
    """Reads a child's stderr in a thread, so that a full pipe does not block the child."""

    def __init__(self, stream: IO[str] | None) -> None:
        import threading

        self._lines: list[str] = []
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._stream or ():
            self._lines.append(line)
            del self._lines[:-200]

    def text(self) -> str:
        """The last 200 lines; waits up to 5 s for the end of the output."""
        self._thread.join(5)
        return "".join(self._lines)
