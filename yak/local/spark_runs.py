"""The Spark jobs started from this machine, each in its folder `$XDG_STATE_HOME/yak/spark/<id>/`.

    run.json        the job, its process and its state; written by that process, replaced as a whole
    progress.jsonl  a line for each batch of each query, the latest last; old lines are dropped
    spark.log       the output of Spark and Java
    error.json      the last error: code, message, why, try, exit code
    output.txt      the output of a background job

This module imports no PySpark: `yak spark status`, `yak ui` and the job itself share it.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from yak.errors import UsageError, YakError
from yak.local.processes import ProcessId, identify, is_running, send_signal
from yak.private_files import replace_file, user_folder

State = Literal["starting", "running", "finished", "failed", "stopped", "killed"]
"""`stopped`: on request, in order. `killed`: the process is gone without a final state."""
ACTIVE = ("starting", "running")
RUNS_MAX = 50
PROGRESS_BYTES = 1 << 20
PROGRESS_LINES_MAX = 500
LOG_BYTES = 8 << 20
VARIABLE = "YAK_SPARK_RUN"
"""Passes the run's folder to a child process."""
CLIENT_OPTIONS = "YAK_SPARK_CLIENT_OPTIONS"
"""Passes the TLS and login of the command to a job, as JSON; a command line would show a password."""
_SECRET = re.compile(r"(?is)((?:password|secret|token|jaas\.config|key\.pem|keystore\.key)[\w.-]*=).*")


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as stored in run.json. Times are milliseconds since 1970."""

    id: str
    job: str
    words: tuple[str, ...]
    """The arguments after the job's name."""
    master: str
    started_ms: int
    state: State = "starting"
    ended_ms: int | None = None
    process: ProcessId | None = None
    app_id: str | None = None
    ui: str | None = None
    bootstrap: str | None = None
    checkpoint: str | None = None
    folder: Path = field(default_factory=Path)

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def as_json(self) -> dict[str, Any]:
        """The JSON contract for scripts: these keys stay."""
        return {
            "id": self.id,
            "job": self.job,
            "state": self.state,
            "words": list(self.words),
            "master": self.master,
            "app_id": self.app_id,
            "ui": self.ui,
            "bootstrap": self.bootstrap,
            "checkpoint": self.checkpoint,
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "pid": self.process.pid if self.process else None,
            "folder": str(self.folder),
        }


def runs_dir() -> Path:
    """`~/.local/state/yak/spark`, or under XDG_STATE_HOME."""
    return Path(user_folder("XDG_STATE_HOME", ".local/state"), "spark")


def new_run(
    job: str,
    arguments: Sequence[str] = (),
    *,
    master: str = "",
    bootstrap: str | None = None,
    now_ms: int | None = None,
    base: Path | None = None,
) -> Run:
    """Make a run's folder, and delete the oldest ended runs. Raises YakError (`spark-state`) when that fails."""
    base = base or runs_dir()
    started_ms = int(time.time() * 1000) if now_ms is None else now_ms
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", job).strip("-.") or "job"
    try:
        base.mkdir(parents=True, exist_ok=True)
        for number in range(1, 10_000):
            folder = base / f"{name}-{number}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                break
    except OSError as error:
        raise cannot_write(base, error) from None
    run = Run(folder.name, job, tuple(arguments), master, started_ms, bootstrap=bootstrap, folder=folder)
    run = replace(run, process=identify(os.getpid()))
    save(run)
    _drop_oldest(base)
    return run


def scratch_log(name: str, base: Path | None = None) -> Path:
    """A log for work that is no job, such as one SQL query. Raises YakError (`spark-state`) when that fails."""
    path = (base or runs_dir()) / f"{name}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.write_bytes(b"")
        path.touch()
    except OSError as error:
        raise cannot_write(path.parent, error) from None
    return path


def cannot_write(path: Path, error: OSError) -> YakError:
    """The error for a state folder that cannot be written."""
    return UsageError(
        "spark-state",
        f"the state of Spark jobs cannot be stored in {path}",
        why=error.strerror or str(error),
        try_=("XDG_STATE_HOME=/a/folder/of/yours yak spark …",),
    )


def save(run: Run) -> None:
    """Replace run.json, with `(set)` in place of secrets. Raises YakError (`spark-state`)."""
    document = asdict(run)
    del document["folder"]
    document["words"] = [_SECRET.sub(r"\1(set)", word) for word in run.words]
    document["master"] = _SECRET.sub(r"\1(set)", run.master)
    try:
        replace_file(str(run.folder / "run.json"), json.dumps(document).encode())
    except OSError as error:
        raise cannot_write(run.folder, error) from None


def end(run: Run, state: State) -> None:
    """Store that a run has ended, and when; a write error, such as a full disk, is ignored."""
    with contextlib.suppress(YakError):
        save(replace(run, state=state, ended_ms=time.time_ns() // 1_000_000))


def load(folder: Path) -> Run | None:
    """The run in a folder; None when it holds none. An active run whose process is gone is `killed`."""
    try:
        document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        known = {each.name for each in fields(Run)}
        values = {name: value for name, value in document.items() if name in known}
        process = values.get("process")
        values["process"] = ProcessId(**process) if process else None
        values["words"] = tuple(values["words"])
        run = Run(**values, folder=folder)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if run.is_active and (run.process is None or not is_running(run.process)):
        # It may have written its final state after the first read and before the process check.
        with contextlib.suppress(OSError, ValueError, KeyError):
            state = json.loads((folder / "run.json").read_text(encoding="utf-8"))["state"]
            if state not in ACTIVE:
                return replace(run, state=state)
        return replace(run, state="killed", ended_ms=run.ended_ms or _changed_ms(folder))
    return run


def all_runs(base: Path | None = None) -> list[Run]:
    """Every stored run: active ones first, then the latest first."""
    base = base or runs_dir()
    try:
        folders = [entry for entry in base.iterdir() if entry.is_dir()]
    except OSError:
        return []
    found = [run for run in map(load, folders) if run is not None]
    return sorted(found, key=lambda run: (not run.is_active, -run.started_ms, run.id))


def find_run(name: str, base: Path | None = None) -> Run:
    """The run with this id, or the latest run of this job. Raises UsageError (`unknown-run`)."""
    runs = all_runs(base)
    for run in runs:
        if run.id == name:
            return run
    for run in runs:
        if run.job == name:
            return run
    raise UsageError(
        "unknown-run",
        f'no Spark job "{name}" was started from here',
        why=f"there are {', '.join(run.id for run in runs[:8])}" if runs else "none was started yet",
        try_=("yak spark status",),
    )


def stop(run: Run, *, hard: bool = False) -> bool:
    """Signal a run's process to end. Its queries stop in order after the current batch, unless `hard`. False when it is
    gone."""
    if run.process is None:
        return False
    if hard and is_running(run.process):
        kill_group(run.process.pid)
    return send_signal(run.process, signal.SIGKILL if hard else signal.SIGTERM)


def kill_group(pid: int) -> None:
    """`kill -9` the group that a process leads, if it leads one: spark-submit would outlive the process that started it."""
    with contextlib.suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)


def add_progress(folder: Path, line: Mapping[str, Any]) -> None:
    """Append one batch; a file over its size limit keeps only the latest lines."""
    path = folder / "progress.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(dict(line)) + "\n")
        length = file.tell()
    if length > PROGRESS_BYTES:
        lines = _latest_lines(path)
        replace_file(str(path), ("\n".join(lines) + "\n").encode())


def _latest_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-PROGRESS_LINES_MAX:]


def progress_of(run: Run) -> list[dict[str, Any]]:
    """The latest batches, oldest first; an incomplete or damaged line is left out."""
    try:
        lines = _latest_lines(run.folder / "progress.jsonl")
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def latest_of_each(progress: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The latest batch of each query, in the order of the queries' first batches."""
    latest: dict[str, Mapping[str, Any]] = {}
    for line in progress:
        latest[str(line.get("query_id"))] = line
    return list(latest.values())


def batches_of(progress: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines of batch events."""
    return [line for line in progress if line.get("event") == "batch"]


def figures(progress: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The latest batches of all queries, summed: batch (the highest), rates, lag, state. None without data."""
    latest = latest_of_each(batches_of(progress))

    def total(name: str) -> Any:
        values = [line[name] for line in latest if line.get(name) is not None]
        return sum(values) if values else None

    return {
        "batch": max((line["batch"] for line in latest if line.get("batch") is not None), default=None),
        "input_per_s": total("input_per_s"),
        "processed_per_s": total("processed_per_s"),
        "lag": total("lag"),
        "state_rows": total("state_rows"),
        "state_bytes": total("state_bytes"),
        "dropped_late": total("dropped_late"),
        "duration_ms": max((line["duration_ms"] or 0 for line in latest), default=None),
        "last_ms": max((line["time_ms"] for line in progress), default=None),
    }


def save_error(folder: Path, error: YakError) -> None:
    """Store an error in the run's folder."""
    document = {**error.as_json(), "exit_code": error.exit_code}
    with contextlib.suppress(OSError):
        (folder / "error.json").write_text(json.dumps(document), encoding="utf-8")


def error_of(run: Run) -> YakError | None:
    """The error that ended a run; None without one."""
    try:
        found = json.loads((run.folder / "error.json").read_text(encoding="utf-8"))
        kind = UsageError if found["exit_code"] == UsageError.exit_code else YakError
        error = kind.from_json(found)
        error.exit_code = found["exit_code"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return error


def _changed_ms(folder: Path) -> int | None:
    with contextlib.suppress(OSError):
        return max(entry.stat().st_mtime_ns for entry in folder.iterdir()) // 1_000_000
    return None


def _drop_oldest(base: Path) -> None:
    ended = [run for run in all_runs(base) if not run.is_active]
    for run in ended[RUNS_MAX:]:
        shutil.rmtree(run.folder, ignore_errors=True)
