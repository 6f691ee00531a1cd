"""`yak spark`: jobs, run, submit, sql, shell, status, stop."""

import datetime as dt
import decimal
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from yak.commands.app import OUTPUT, START, STOP, WHAT, Bundle, CommandGroup, command, flag, takes_value
from yak.commands.options import OPTIONS, Globals
from yak.commands.output import flat, to_json
from yak.commands.parameters import argument
from yak.errors import UsageError, YakError
from yak.plain_text import lines
from yak.spark.jobs.options import SparkOptions
from yak.view.error_lines import error_lines
from yak.view.formats import format_age, format_size, group_digits

if TYPE_CHECKING:
    from yak.commands.output import Progress
    from yak.local.spark_runs import Run
    from yak.spark.driver.settings import SessionSettings


@command(examples=("yak spark jobs", "yak spark run counts --help"))
def jobs(g: Globals) -> None:
    """List yak's built-in jobs."""
    from yak.spark.jobs import summaries

    g.out.table([{"job": name, "does": summary} for name, summary in summaries()], ("job", "does"))
    if g.out.for_people:
        g.out.note("")
        g.out.note("yak spark run JOB --help lists its options; yak spark submit FILE.py runs a program of yours.")


def show_progress(line: "Progress", run: "Run") -> None:
    """Redraw the progress line of a followed job with its latest progress."""
    from yak.local.spark_runs import batches_of, figures, progress_of

    progress = batches_of(progress_of(run))
    done = sum(batch.get("input_rows") or 0 for batch in progress)
    found = figures(progress)
    line.total = done + found["lag"] if found["lag"] else None
    if found["batch"] is None:
        line.update(0, "Spark is starting")
        return
    texts = [f"batch {found['batch']}"]
    if found["processed_per_s"] is not None:
        texts.append(f"now {group_digits(round(found['processed_per_s']))}/s")
    if found["lag"] is not None:
        texts.append(f"lag {found['lag']}")
    if found["state_bytes"]:
        texts.append(f"state {format_size(found['state_bytes'])}")
    line.update(done, "  ".join(texts))


_POLL_S = 0.2
_FIRST_BATCH_S = 8.0
_LINES_MAX = 200
_JOBS_OWN = ("-b", "-q", "-t")
"""Short options with another meaning for a job than for the rest of yak."""
NO_ZONE = "none"
"""The zone of a Spark timestamp that has none."""


def own_options_first(arguments: list[str]) -> list[str]:
    """Split the arguments of `run JOB …`: options of yak go before the job, the job's own options after `--`.

    A job has options of its own, some with names of yak's options, and its own help.
    """
    at = next((index for index, word in enumerate(arguments) if not word.startswith("-")), None)
    if at is None or arguments[at] != "run" or "--" in arguments[at:]:
        return arguments
    after = arguments[at + 1 :]
    place = _job_at(after)
    if place is None:
        return arguments
    ours, theirs = _split(after[place + 1 :])
    return [*arguments[: at + 1], *after[:place], *ours, after[place], "--", *theirs]


def _job_at(arguments: list[str]) -> int | None:
    """Index of the job's name: the first argument that is neither an option nor an option's value."""
    index = 0
    while index < len(arguments):
        if not arguments[index].startswith("-"):
            return index
        option = OPTIONS.get(arguments[index])
        index += 2 if option is not None and takes_value(option) else 1
    return None


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    ours: list[str] = []
    theirs: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name = word.partition("=")[0]
        option = None if name in _JOBS_OWN else OPTIONS.get(name)
        if word in ("--follow", "-f") or (option is not None and (not takes_value(option) or "=" in word)):
            ours.append(word)
        elif option is not None and rest:
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
    job: Annotated[str, argument("JOB", "One of yak spark jobs.")],
    options: Annotated[list[str] | None, argument("OPTIONS", "Options of the job: yak spark run JOB --help.")] = None,
    follow: bool = flag("--follow, -f", "Follow its output; Ctrl+C stops it.", STOP, default=False),
) -> int | None:
    """Run a job over topics, in the background or with --follow.

    Without --follow, the job continues in the background: see yak spark status and yak spark stop.
    """
    from yak.commands.spark_python import hand_over
    from yak.local.spark_runs import CLIENT_OPTIONS, new_run
    from yak.spark.jobs import load
    from yak.spark.jobs.frame import main

    load(job)
    given = options or []
    if {"-h", "--help"} & set(given):
        return main([job, *given])
    hand_over()
    if servers := _bootstrap_in(given):
        g.settings.flags["bootstrap_servers"] = servers
    made = new_run(job, given, bootstrap=g.bootstrap_servers)
    os.environ[CLIENT_OPTIONS] = json.dumps(client_options())
    arguments = [sys.executable, "-P", "-m", "yak.spark.jobs", job, *given]
    return followed(g, made, arguments) if follow else left_running(g, made, arguments)


def _bootstrap_in(arguments: list[str]) -> str | None:
    """The brokers that a job's own options name: their TLS and login are those of `yak -b`."""
    found = None
    for word, following in itertools.pairwise([*arguments, ""]):
        if word in ("-b", "--bootstrap"):
            found = following
        elif word.startswith("--bootstrap="):
            found = word.partition("=")[2]
    return found


def client_options() -> dict[str, str]:
    """TLS and login of this process as options of the data source, whose processes do not read the settings."""
    from yak.client.connection import security_settings

    return {f"kafka.{name}": value for name, value in security_settings().items() if isinstance(value, str)}


def environment_of(g: Globals, run: "Run") -> dict[str, str]:
    """The environment variables for a job's process."""
    from yak.local.spark_runs import VARIABLE

    return {**os.environ, VARIABLE: str(run.folder), "YAK_BOOTSTRAP_SERVERS": g.bootstrap_servers}


def followed(g: Globals, run: "Run", arguments: list[str]) -> int:
    """Run the job to its end; return its exit code. The first Ctrl+C stops it gracefully, the second kills it."""
    from yak.commands.interrupts import held
    from yak.local import spark_runs

    g.out.note(f"{run.id}: Spark's own log is in {run.log}")
    with (
        held() as interrupt,
        (run.folder / "errors.txt").open("wb") as errors,
        subprocess.Popen(  # noqa: S603 - ourselves
            arguments, env=environment_of(g, run), stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True
        ) as child,
        g.out.progress(run.id) as line,
    ):
        has_terminated = False
        try:
            while child.poll() is None:
                if interrupt.signal is not None and not has_terminated:
                    has_terminated = True
                    child.terminate()
                show_progress(line, run)
                time.sleep(_POLL_S)
        except BaseException:
            spark_runs.kill_group(child.pid)
            raise
        show_progress(line, run)
    _print_errors(g, run)
    if interrupt.signal is not None and child.returncode == 0:
        ended = spark_runs.load(run.folder)
        g.out.note(f"{run.id}: {ended.state if ended else 'stopped'}; the next run continues from its checkpoint")
    code = int(child.returncode) if child.returncode >= 0 else 128 - child.returncode
    return interrupt.exit_code if interrupt.signal is not None and code == 128 + signal.SIGTERM else code


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
        try:
            while child.poll() is None:
                now = spark_runs.load(run.folder)
                if now is not None and now.state == "running" and _has_begun(spark_runs.progress_of(now)):
                    break
                progress.update(int(time.monotonic() - started))
                time.sleep(_POLL_S)
        except BaseException:
            child.terminate()  # the user has not been told of a job in the background yet
            raise
    if child.returncode:
        _print_errors(g, run)
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


def _print_errors(g: Globals, run: "Run") -> None:
    """Print the last lines of a job's stderr; with -o json its error as JSON."""
    from yak.local import spark_runs

    error: YakError | None = spark_runs.error_of(run)
    if error is not None and g.out.format == "json":
        g.out.error(error)
    elif g.out.quiet < 2:
        said = (run.folder / "errors.txt").read_text(errors="replace").splitlines(keepends=True)
        g.out.stderr.write(lines("".join(said[-_LINES_MAX:])))
        g.out.stderr.flush()


_COLUMNS = ("job", "state", "batch", "input/s", "processed/s", "lag", "checkpoint")
_FLAT = (
    *("id", "state", "batch", "input_per_s", "processed_per_s", "lag", "checkpoint", "state_bytes", "duration_ms"),
    *("last_ms", "master", "pid", "folder"),
)
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
        str | None, argument("ID", "One job, with its queries and its last error.", show_default=False)
    ] = None,
    all_: bool = flag("--all, -a", "Include ended jobs.", WHAT, default=False),
) -> None:
    """Show the Spark jobs started here, and their progress."""
    from yak.local.spark_runs import all_runs, figures, find_run, progress_of

    if job is not None:
        _one(g, find_run(job))
        return
    runs = [run for run in all_runs() if all_ or run.is_active]
    empty = "No Spark job runs. yak spark run JOB starts one; --all shows those that ended."
    if all_:
        empty = "No Spark job was started from here. yak spark jobs lists the jobs."
    if g.out.for_people:
        g.out.table([_row(g, run) for run in runs], _COLUMNS, _WIDE, empty=empty)
    elif g.out.format in ("json", "yaml"):
        g.out.object([_document(run) for run in runs])
    else:
        g.out.table([{**run.as_json(), **figures(progress_of(run))} for run in runs], _FLAT)


@command(examples=("yak spark stop counts-1", "yak spark stop --all", "yak spark stop counts-1 --now"))
def stop(
    g: Globals,
    jobs: Annotated[list[str] | None, argument("ID", "Job ids of yak spark status.")] = None,
    all_: bool = flag("--all, -a", "All that run.", WHAT, default=False),
    now: bool = flag("--now", "kill -9: the active batch is repeated at the next start.", STOP, default=False),
) -> int | None:
    """Stop Spark jobs after the active batch. A job restarted with its checkpoint continues from there.

    A job that reads once is cancelled, as is a program of yours.
    """
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

    timeout_s = g.timeout_s if g.timeout_given else _STOP_S
    ask(run, hard=hard)
    if run.process is not None and not wait_gone(run.process, timeout_s):
        error = YakError(
            "spark-stop",
            f"{run.id} did not end in {timeout_s:g} s",
            why="its batch is still running, or Java is stuck",
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


def _one(g: Globals, run: "Run") -> None:
    from yak.local.spark_runs import batches_of, error_of, latest_of_each, progress_of

    if not g.out.for_people:
        g.out.object(_document(run))
        return
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


SPARK = "Spark"


@dataclass(frozen=True, kw_only=True)
class SessionOptions(SparkOptions, Bundle):
    """The options of a Spark session, as those of jobs."""

    def checked(self, app_name: str, *, connector: str = "yak", ui: bool = False) -> "SessionSettings":
        """The validated settings. Raises UsageError (`spark-options`)."""
        made = self.settings(app_name, conf={}, connector=connector, ui=ui)
        made.check()
        return made


def print_rows(g: "Globals", schema: Any, rows: Iterator[Any]) -> None:
    """Print rows of a DataFrame with this schema in the chosen format."""
    columns = list(schema.names)
    zones = [NO_ZONE if each.dataType.typeName() == "timestamp_ntz" else g.zone for each in schema.fields]

    def values_of(row: Any) -> list[Any]:
        return [plain(value, zone) for value, zone in zip(row, zones, strict=True)]

    if g.out.format == "json":
        for row in rows:
            g.out.line(to_json(dict(zip(columns, values_of(row), strict=True))))
    elif g.out.format == "csv":
        if g.out.headers:
            g.out.csv_row(columns)
        for row in rows:
            g.out.csv_row([_cell(value) for value in values_of(row)])
    elif g.out.format == "raw":
        for row in rows:
            g.out.line("\t".join(flat(_cell(value)) for value in values_of(row)))
    else:
        names = _names_apart(columns)
        made = [dict(zip(names, map(_cell, values_of(row)), strict=True)) for row in rows]
        g.out.table(made, names, empty="No rows.")


def plain(value: Any, zone: dt.tzinfo | str | None = dt.UTC) -> Any:
    """A Spark value for JSON: bytes as text or hex, times in ISO-8601, rows and maps as objects.

    A decimal is a number, or a text where no double has its digits.

    PySpark returns instants as this machine's local time without a zone; NO_ZONE leaves a time unchanged.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value).hex()
    if isinstance(value, dt.datetime):
        digits = "microseconds" if value.microsecond % 1000 else "milliseconds"
        if isinstance(zone, str):
            return value.isoformat(timespec=digits)
        return value.astimezone(zone).isoformat(timespec=digits).replace("+00:00", "Z")
    if isinstance(value, decimal.Decimal):
        if not value.as_tuple().exponent:
            return int(value)
        return float(value) if decimal.Decimal(repr(float(value))) == value else str(value)
    if hasattr(value, "asDict"):
        return {name: plain(each, zone) for name, each in value.asDict().items()}
    if hasattr(value, "toPython"):  # a VARIANT
        return plain(value.toPython(), zone)
    if isinstance(value, dict):
        return {str(plain(key, zone)): plain(each, zone) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, zone) for each in value]
    return str(value)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _names_apart(names: list[str]) -> list[str]:
    """Unique column names for a dictionary: a repeated name gets a number."""
    seen: dict[str, int] = {}
    apart = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        apart.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return apart


_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)


@command(
    examples=(
        "yak spark sql 'SELECT key, count(*) FROM orders GROUP BY key'",
        "yak spark sql 'SELECT json:user::string AS user, sum(json:total::double) FROM orders GROUP BY 1' -o csv",
        "yak spark sql 'SELECT * FROM orders JOIN payments USING (key)' --from -1h --max-rows 20",
        "yak spark sql --schema 'orders=user STRING, total DOUBLE' 'SELECT user, max(total) FROM orders GROUP BY user'",
        "yak spark sql -f report.sql -o json",
    )
)
def sql(
    g: Globals,
    query: Annotated[str | None, argument("QUERY", "One query; - reads it from stdin.")] = None,
    file: str | None = flag("--file, -f", "The query is in this file.", WHAT, metavar="FILE"),
    schema: list[str] | None = flag(
        "--schema", "Values of a topic are JSON with these columns; repeatable.", WHAT, metavar="TABLE=COLUMNS"
    ),
    mode: str = flag(
        "--mode",
        "Values that are not such JSON: permissive, dropmalformed or failfast.",
        WHAT,
        default="permissive",
        metavar="MODE",
    ),
    from_: str = flag(
        "--from", "earliest, a time (-15m), or offsets as JSON.", START, default="earliest", metavar="WHERE"
    ),
    to: str = flag("--to", "latest, a time, or offsets as JSON.", STOP, default="latest", metavar="WHERE"),
    max_rows: int | None = flag("--max-rows, -n", "Stop after N rows.", OUTPUT, metavar="N", min=1),
    isolation: str = flag("--isolation", "Or read_committed.", WHAT, default="read_uncommitted", metavar="LEVEL"),
    option: list[str] | None = flag(
        "--option", "Of the data source, kafka.… of the client; repeatable.", WHAT, metavar="NAME=VALUE"
    ),
    connector: str = flag("--connector", "yak, or kafka: Spark's own jar.", SPARK, default="yak", metavar="NAME"),
    *,
    session: SessionOptions,
) -> None:
    """Run one SQL query over topics as tables.

    Each topic in the query is a table with the columns key, value (both text), json (the value as a VARIANT,
    NULL if it is not JSON), topic, partition, offset, timestamp and timestampType. A field of JSON is json:user::string or
    json:items[0].price::double. --schema replaces them with typed columns, and adds _key, _offset and _timestamp. Write
    a topic name with other characters as `my-topic` or my_topic.
    """
    from yak.client.metadata import topic_names
    from yak.commands.spark_python import hand_over

    text = _query(query, file)
    settings = session.checked("yak-sql", connector=connector)
    hand_over()
    tables, text = tables_named(text, topic_names(g.bootstrap_servers, timeout_s=g.timeout_s))
    client = client_options() if connector == "yak" else {}
    reading = {
        "topic": ",".join(f"{table}={topic}" for table, topic in tables.items()),
        "bootstrap": g.bootstrap_servers,
        "from_": from_,
        "to": to,
        "isolation": isolation,
        "connector": connector,
        "option": (*(f"{name}={value}" for name, value in client.items()), *(option or ())),
        "schema": tuple(schema or ()),
        "mode": mode,
        "query": text,
    }
    _answer(g, settings, reading, max_rows)


def _query(query: str | None, file: str | None) -> str:
    """The text of the query. Raises UsageError (`usage`)."""
    if (query is None) == (file is None):
        raise UsageError("usage", "give one query" if query is None else "give a query or a file, not both",
                         try_=("yak spark sql 'SELECT count(*) FROM orders'",))  # fmt: skip
    try:
        if file is not None:
            with open(file, encoding="utf-8") as opened:
                text = opened.read()
        else:
            text = sys.stdin.read() if query == "-" else query or ""
    except UnicodeDecodeError as error:
        raise UsageError("usage", "the query cannot be read", why=f"{file or 'stdin'} is not UTF-8: {error}") from None
    text = text.strip().rstrip(";").strip()
    if not text:
        raise UsageError("usage", "the query is empty", try_=("yak spark sql 'SELECT count(*) FROM orders'",))
    return text


def tables_named(query: str, topics: Iterable[str]) -> tuple[dict[str, str], str]:
    """Topics by table name, for those that a query names; and the query with table names instead of topic names.

    A table has its topic's name, with _ for characters other than letters and digits. In backticks, the topic's own
    name is valid too; if another topic has the same table, its table gets a number. Of topics with the same table, for
    which letters count alike in either case, the one is preferred that is named in its own case, then the one whose own
    name it is.
    """
    found: dict[str, tuple[tuple[bool, bool], str, str]] = {}
    names = sorted(topics)
    taken = [re.sub(r"\W", "_", topic).lower() for topic in names]
    for topic in names:
        table = re.sub(r"\W", "_", topic)
        if topic != table and f"`{topic}`" in query:
            if taken.count(table.lower()) > 1:
                numbered = (f"{table}_{number}" for number in itertools.count(2))
                table = next(each for each in numbered if each.lower() not in taken)
                taken.append(table.lower())
            query = query.replace(f"`{topic}`", f"`{table}`")
        plain = _QUOTED.sub(" ", query)
        name = rf"(?<!\w){re.escape(table)}(?!\w)"
        rank = (re.search(name, plain) is not None, topic == table)
        key = table.lower()
        if re.search(name, plain, re.IGNORECASE) and (key not in found or rank > found[key][0]):
            found[key] = rank, table, topic
    return {table: topic for _, table, topic in found.values()}, query


def _answer(g: Globals, settings: "SessionSettings", reading: dict[str, Any], max_rows: int | None) -> None:
    """Run the query, and print rows as they arrive."""
    from dataclasses import replace

    from yak.local.spark_runs import scratch_log
    from yak.spark.driver.errors import translate
    from yak.spark.driver.job_process import stop_quietly
    from yak.spark.driver.make import make_session
    from yak.spark.jobs.sql import Options, build

    options = Options(**reading)
    if options.topic:
        options.check()
    settings = replace(settings, log=scratch_log("sql"))
    g.out.detail(f"Spark's own log is in {settings.log}")
    with g.out.progress("starting Spark"):
        spark = make_session(settings)
    try:
        frame = build(spark, options) if options.topic else spark.sql(options.query)
        if max_rows is not None:
            frame = frame.limit(max_rows)
        print_rows(g, frame.schema, frame.toLocalIterator(prefetchPartitions=True))
    except BrokenPipeError:
        raise
    except Exception as error:
        raise unknown_topic_of(g, translate(error, settings.log)) from error
    finally:
        stop_quietly(spark)


def unknown_topic_of(g: Globals, error: Exception) -> Exception:
    """The error for a missing topic, if Spark does not know its table; otherwise `error`."""
    found = re.match(r"[Tt]he table or view `([^`]+)` cannot be found", str(error))
    if found is None:
        return error
    from yak.client.metadata import topic_names, unknown_topic

    known = unknown_topic(found[1], topic_names(g.bootstrap_servers, timeout_s=g.timeout_s))
    return UsageError(known.code, known.message, why=known.why, try_=known.try_)


@command(
    examples=(
        "yak spark shell",
        "yak spark shell --master spark://HOST:7077",
        "echo 'print(topic(\"orders\").count())' | yak spark shell",
        'yak spark shell -c \'topic("orders").groupBy("partition").count().show()\'',
    )
)
def shell(
    g: Globals,
    code: str | None = flag("--command, -c", "Run this and end.", WHAT, metavar="CODE"),
    connector: str = flag("--connector", "yak, or kafka: Spark's own jar.", SPARK, default="yak", metavar="NAME"),
    *,
    session: SessionOptions,
) -> int | None:
    """Start a Python shell with a Spark session for topics.

    Names: spark is the session; F is pyspark.sql.functions; topic("orders") is a topic as a DataFrame with key and
    value as text; stream("orders") is the same as a stream. Uses IPython if it is installed.
    """
    from dataclasses import replace

    from yak.commands.spark_python import hand_over
    from yak.local.spark_runs import scratch_log

    settings = session.checked("yak-shell", connector=connector, ui=True)
    hand_over()
    from yak.spark.driver.job_process import stop_quietly
    from yak.spark.driver.make import make_session
    from yak.spark.driver.shell import interact

    settings = replace(settings, log=scratch_log("shell"))
    with g.out.progress("starting Spark"):
        spark = make_session(settings)
    try:
        servers = g.bootstrap_servers  # which secures the connection
        client = client_options() if connector == "yak" else {}
        return interact(spark, servers, settings, client, code=code, say=g.out.note)
    finally:
        stop_quietly(spark)


@command(
    examples=(
        "yak spark submit my_job.py -- --topic orders",
        "yak spark submit my_job.py --master spark://HOST:7077 --conf spark.executor.memory=2g",
        "yak spark submit my_job.py --master yarn --deploy-mode cluster --archives env.tar.gz#environment",
        "yak spark submit my_job.py --master spark://HOST:7077 --ship all --background",
    )
)
def submit(
    g: Globals,
    file: Annotated[str, argument("FILE.py", "A PySpark program.")],
    args: Annotated[list[str] | None, argument("ARGS", "Its own arguments, after --.")] = None,
    background: bool = flag("--background, -d", "Leave it running; yak spark status shows it.", STOP, default=False),
    py_files: list[str] | None = flag("--py-files", "More Python to send along; repeatable.", WHAT, metavar="PATH"),
    archives: list[str] | None = flag(
        "--archives",
        "Archives to unpack on executors, such as a packed environment; repeatable.",
        WHAT,
        metavar="PATH[#NAME]",
    ),
    files: list[str] | None = flag("--files", "Files to send along; repeatable.", WHAT, metavar="PATH"),
    deploy_mode: str = flag("--deploy-mode", "client, or cluster.", SPARK, default="client", metavar="MODE"),
    *,
    session: SessionOptions,
) -> int | None:
    """Run a PySpark program with spark-submit, with format("yak") registered and the package shipped to executors.

    The program creates its session as usual (SparkSession.builder.getOrCreate()). In client mode, yak spark status shows
    its queries' progress. YAK_BOOTSTRAP_SERVERS has the brokers.
    """
    from yak.commands.spark_python import hand_over
    from yak.local.spark_runs import new_run
    from yak.spark.driver.submission import Submission, submit_command

    if not os.path.isfile(file):
        raise UsageError("spark-path", f"there is no file {file}", why=f"looked in {os.getcwd()}", try_=("ls *.py",))
    settings = session.checked(os.path.basename(file))
    hand_over()
    submission = Submission(
        file=os.path.abspath(file),
        arguments=tuple(args or ()),
        settings=settings,
        py_files=tuple(py_files or ()),
        archives=tuple(archives or ()),
        files=tuple(files or ()),
        deploy_mode=deploy_mode,
    )
    arguments = submit_command(submission)
    stem = os.path.splitext(os.path.basename(file))[0]
    made = new_run(stem, [file, *(args or ())], master=settings.where, bootstrap=g.bootstrap_servers)
    command_line = [sys.executable, "-P", "-m", "yak.spark.driver.submission", *arguments]
    return left_running(g, made, command_line) if background else followed(g, made, command_line)


spark = CommandGroup(
    "spark",
    examples=(
        "yak spark jobs",
        "yak spark run counts --topic orders --follow",
        "yak spark sql 'SELECT key, count(*) FROM orders GROUP BY key'",
        "yak spark submit my_job.py --master spark://HOST:7077 -- --topic orders",
        "yak spark status",
    ),
    rewrite=own_options_first,
    leaves={"jobs": jobs, "run": run, "submit": submit, "sql": sql, "shell": shell, "status": status, "stop": stop},
)
