"""Translates errors of Spark and Java to a `YakError` with what, why and what to try. The trace stays in the log."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yak.errors import UsageError, YakError
from yak.local import spark_runs
from yak.local.spark_runs import Run
from yak.view.error_lines import error_lines

_LINE = re.compile(r"SourceError: \[([a-z]+(?:-[a-z]+)*)\] ([^\n]+)")
"""`yak.spark.source.errors.SourceError` in one line, which arrives in a worker's traceback or in SQL's `raise_error`."""
_QUOTES = {'"': '"', "{": "}", "[": "]"}
_LOG_END_BYTES = 200_000
_LINE_MAX = 300
_LONG = re.compile(r"^(.{500}).*(.{500})$", re.MULTILINE)
"""A long line, such as one with a record. The patterns of `_KNOWN` take the square of a line's length."""


def needs_pyspark(missing: list[str]) -> UsageError:
    """The error for a Python without PySpark."""
    return UsageError(
        "spark-missing",
        f"this Python has no {' and no '.join(missing)}",
        why="yak spark needs the spark extra; brokers and the other commands do not",
        try_=(
            "pip install 'yak-broker[spark]'",
            "YAK_SPARK_PYTHON=/path/to/python yak spark …        another Python that has it",
        ),
    )


def translate(error: BaseException, log: Path | None = None) -> YakError:
    """The `YakError` for an exception of PySpark or Py4J, or for one of ours that passed through them."""
    if isinstance(error, YakError):
        return error
    text = _text_of(error)
    carried = found_in(text)
    if carried is not None:
        return carried
    text = _LONG.sub(r"\1 … \2", text)
    for pattern, make in _KNOWN:
        found = re.search(pattern, text, re.DOTALL)
        if found:
            return _with_log(make(found, text), log)
    condition = _condition(error)
    kind = type(error).__name__
    if kind in ("Py4JNetworkError", "Py4JError") or "JAVA_GATEWAY_EXITED" in text or isinstance(error, OSError):
        return _java_ended(log)
    if kind in ("AnalysisException", "ParseException") or condition.startswith(_SQL_CONDITIONS):
        return _bad_query(condition, text)
    return _with_log(_failed(text), log)


def found_in(text: str) -> YakError | None:
    """The last `SourceError` in a text, `[slug] what: why. Try: this; or that`; None when there is none."""
    found = _LINE.findall(text)
    if not found:
        return None
    slug, text = found[-1]
    text, _, tries = re.sub(r"\s*SQLSTATE: .*", "", text).partition(". Try: ")
    message, why = parts_of(text)
    return UsageError(slug, message, why=why, try_=tuple(tries.split("; or ")) if tries else ())


def parts_of(text: str) -> tuple[str, str]:
    """Split `what: why`. Ignores a colon in quotes or brackets, and one after the first word (`orders-0: …`)."""
    closing: list[str] = []
    for index, sign in enumerate(text):
        if closing and sign == closing[-1]:
            closing.pop()
        elif sign in _QUOTES:
            closing.append(_QUOTES[sign])
        elif not closing and text.startswith(": ", index) and " " in text[:index]:
            return text[:index], text[index + 2 :]
    return text, ""


def report(run: Run | None, error: YakError) -> int:
    """Store and print the error that ended a run; return its exit code."""
    if run is not None:
        spark_runs.save_error(run.folder, error)
        spark_runs.end(run, "failed")
    sys.stderr.write("\n".join(error_lines(error)) + "\n")
    sys.stderr.flush()
    return error.exit_code


def is_of_spark(error: BaseException) -> bool:
    """Whether an exception comes from PySpark, Java or YAK, and not from the program that uses them."""
    return isinstance(error, YakError) or type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def _java_ended(log: Path | None) -> YakError:
    """The error for an ended Java process; the reason is taken from the end of the log, if it is there."""
    last = _LONG.sub(r"\1 … \2", end_of(log))
    for pattern, make in _KNOWN:
        found = re.search(pattern, last, re.DOTALL)
        if found:
            return _with_log(make(found, last), log)
    lines = [line for line in last.splitlines() if re.match(r"(Error|Exception|error:)", line)]
    why = _one_line(lines[-1]) if lines else "it was killed, or could not start; nothing in its log says why"
    return _with_log(YakError("spark-died", "Java, in which Spark runs, ended", why=why), log)


_Maker = Callable[[re.Match[str], str], YakError]


def _error(slug: str, message: str, *try_: str, said: str = "") -> _Maker:
    """A function that makes an error whose reason is Spark's own text, with `said` before it."""

    def make(found: re.Match[str], _text: str) -> YakError:
        return UsageError(slug, message, why=said + _one_line(found[0]), try_=try_)

    return make


def _memory(found: re.Match[str], _text: str) -> YakError:
    had, least = int(found["had"]) >> 20, -(-int(found["least"]) >> 20)
    which = "driver" if "river" in found[0] or "ystem" in found[0] else "executor"
    return UsageError(
        "spark-memory",
        f"{had} MiB are too little memory for Spark's {which}",
        why=f"it needs {least} MiB before it does anything",
        try_=(f"--{which}-memory 1g" if which == "driver" else "--conf spark.executor.memory=1g",),
    )


def _other_checkpoint(found: re.Match[str], text: str) -> YakError:
    place = re.search(r"(?:checkpoint(?: location)?|state info|file)[ :\[]+((?:file:)?/[^\s,\])]+)", text)
    return UsageError(
        "spark-checkpoint",
        "the checkpoint is of another query" + (f": {place[1]}" if place else ""),
        why=_one_line(found[0]),
        try_=("choose another --checkpoint-dir", "run the job that the checkpoint is of, with the options it had"),
    )


def _no_source(found: re.Match[str], _text: str) -> YakError:
    return UsageError(
        "spark-package",
        f'Spark has no data source "{found["name"]}"',
        why="its jar was not given to the session",
        try_=("--connector kafka        for Spark's own Kafka connector", "--packages GROUP:NAME:VERSION"),
    )


def _no_path(found: re.Match[str], _text: str) -> YakError:
    return UsageError(
        "spark-path", f"there is nothing at {found['path']}", why="the query reads it", try_=("check the path",)
    )


_STATE = (
    r"[^\n]*(?:STATE_STORE_(?:KEY|VALUE)_(?:ROW_FORMAT|SCHEMA)|STATE_STORE_UNSUPPORTED|STATE_STORE_COLUMN_FAMILY_SCHEMA"
    r"|STATE_SCHEMA|Provided schema doesn't match|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|STREAM_[A-Z_]*CHECKPOINT"
    r"|INCOMPATIBLE_[A-Z_]*CHECKPOINT|CANNOT_LOAD_STATE_STORE|STATE_REPARTITION)[^\n]*"
)
_SQL_CONDITIONS = ("PARSE_", "UNRESOLVED_", "TABLE_OR_VIEW", "DATATYPE_", "MISSING_", "CAST_", "DIVIDE_", "INVALID_")
_no_room = _error(
    "spark-memory", "this machine has too little free memory for Spark", "--driver-memory 1g", said="Java said: "
)
_KNOWN: tuple[tuple[str, _Maker], ...] = (
    (r"(?:[Ss]ystem|[Ee]xecutor) memory \"?(?P<had>\d+)\"? must be at least \"?(?P<least>\d+)", _memory),
    (r"java\.lang\.OutOfMemoryError: [^\n]*|GC overhead limit exceeded",
     _error("spark-memory", "Spark ran out of memory", "--driver-memory 4g",
           "--conf spark.sql.shuffle.partitions=64        smaller parts at a time", said="Java said: ")),
    (r"[^\n]*(?:Could not reserve enough space|insufficient memory|Cannot allocate memory)[^\n]*", _no_room),
    (r"(?:Invalid (?:maximum|initial) heap size|Initial heap size set to a larger|Too small maximum heap)[^\n]*", _no_room),
    (r"All masters are unresponsive[^\n]*|Failed to connect to master [^\n]*",
     _error("spark-master", "the Spark master does not answer", "--master 'local[*]'        run on this machine")),
    (r"[^\n]*(?:Multiple streaming queries are concurrently using|CONCURRENT_(?:STREAM_LOG|QUERY)[^\n]*)[^\n]*",
     _error("spark-checkpoint-used", "another query is using this checkpoint",
           "yak spark status", "choose another --checkpoint-dir")),
    (r"There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\][^\n]*", _other_checkpoint),
    (_STATE, _other_checkpoint),
    (r"[^\n]*UnsupportedClassVersionError[^\n]*",
     _error("spark-missing", "this Java is too old for Spark", "JAVA_HOME=/path/to/java17 yak spark …")),
    (r"unresolved dependency[^\n]*|Server access error[^\n]*|DEPENDENCY_RESOLUTION[^\n]*",
     _error("spark-package", "a jar that the session needs could not be had",
           "--jars /path/to/the.jar        a copy of your own", "check that a Maven repository can be reached")),
    (r"DATA_SOURCE_NOT_FOUND\] Failed to find the data source: (?P<name>[^\s.,]+)", _no_source),
    (r"PATH_NOT_FOUND\] Path does not exist: (?P<path>\S+?)[.,]? ", _no_path),
    (r"[^\n]*(?:java\.nio\.file\.AccessDeniedException|Permission denied|Mkdirs failed to create)[^\n]*",
     _error("spark-path", "Spark may not write there", "choose another place")),
    (r"[^\n]*(?:MALFORMED_RECORD_IN_PARSING|Malformed records are detected)[^\n]*",
     _error("spark-json", "a record is not JSON of the schema that was given",
           "mode=permissive        such records get NULL columns", "mode=dropmalformed    such records are left out")),
)  # fmt: skip


def _bad_query(condition: str, text: str) -> YakError:
    """The error for a query that Spark's analyzer or parser refused."""
    text = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", text.strip())
    head = re.split(r"\s*SQLSTATE: |;\s*line \d+|\n== SQL|\n'", text)[0]
    place = re.search(r"\(?line (\d+),? pos (\d+)\)?", text)
    why = f"at line {place[1]}, column {int(place[2]) + 1}" if place else "Spark's analyzer refused it"
    return UsageError(
        "spark-sql",
        _one_line(head),
        why=f"{why} ({condition})" if condition else why,
        try_=("yak spark sql --help        how topics are seen as tables",),
    )


def _failed(text: str) -> YakError:
    """The error for everything else: the last line of a Python traceback, or the innermost cause's text."""
    if "Traceback (most recent call last)" in text:
        lines = [line.strip() for line in text.splitlines()]
        ends = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Loss)\b.*", line)]
        said = ends[-1] if ends else lines[0]
    else:
        causes = re.findall(r"Caused by: ([^\n]+)", text)
        said = causes[-1] if causes else text.strip().splitlines()[0] if text.strip() else "nothing was said"
    return YakError("spark-failed", "the Spark job failed", why=_one_line(said))


def _text_of(error: BaseException) -> str:
    """The text of an exception and of its causes; PySpark keeps Java's in `desc`, Py4J in `java_exception`."""
    parts = []
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and len(seen) < 10 and id(each) not in seen:
        seen.add(id(each))
        parts.append(str(getattr(each, "desc", None) or each))
        cause: Any = getattr(each, "cause", None)
        if cause is not None and not isinstance(cause, BaseException):
            parts.append(str(cause))
        each = each.__cause__ or (cause if isinstance(cause, BaseException) else None)
    return "\n".join(parts)


def _condition(error: BaseException) -> str:
    ask = getattr(error, "getCondition", None)
    try:
        return str(ask() or "") if callable(ask) else ""
    except Exception:  # noqa: BLE001  (asking Java, which may be gone)
        return ""


def _one_line(text: str) -> str:
    """A trace's text on one line, shortened and without package names of exception classes."""
    line = " ".join(text.split())
    line = re.sub(r"\b(?:[a-z_][\w$]*\.){2,}([A-Z]\w*)", r"\1", line)
    line = re.sub(r"\s*SQLSTATE: \w+", "", line).rstrip(". ")
    return line if len(line) <= _LINE_MAX else line[: _LINE_MAX - 1] + "…"


def end_of(log: Path | None) -> str:
    """The last 200 kB of a log; empty when there is none."""
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_END_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _with_log(error: YakError, log: Path | None) -> YakError:
    if log is not None and log.exists():
        error.try_ = (*error.try_[:2], f"less {log}")
    return error
