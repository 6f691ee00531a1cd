"""Runs the demo's Spark as a process: start, observe, kill with all its child processes, start again."""

import os
import subprocess
import sys
import time
from typing import IO, Any

import psutil

from yak.errors import NothingInTime, YakError
from yak.local import spark_runs
from yak.local.broker_process import parse_error
from yak.local.spark_runs import Run


class SparkProcess:
    """One Spark process at a time; `work` holds its checkpoints and logs."""

    def __init__(self, bootstrap: str, work: str) -> None:
        self._bootstrap = bootstrap
        self._work = work
        self._child: subprocess.Popen[bytes] | None = None
        self._run: Run | None = None
        self._said: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of Spark's Python driver; None when it does not run."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    @property
    def log(self) -> str:
        """Path of Spark's log."""
        return "" if self._run is None else str(self._run.log)

    def start(self) -> None:
        """Start Spark on the existing checkpoints."""
        from pathlib import Path

        base = Path(self._work, "runs")
        self._run = spark_runs.new_run("demo", bootstrap=self._bootstrap, base=base)
        self._said = (self._run.folder / "errors.txt").open("wb")
        self._child = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [sys.executable, "-P", "-m", "yak.spark.demo.pipeline", self._bootstrap, f"{self._work}/checkpoints"],
            env={**os.environ, spark_runs.VARIABLE: str(self._run.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
        )

    def progress(self) -> list[dict[str, Any]]:
        """The progress of Spark's batches, the latest last."""
        if self._run is None:
            return []
        return [line for line in spark_runs.progress_of(self._run) if line.get("event") == "batch"]

    def batch(self) -> int | None:
        """The number of the latest batch."""
        progress = self.progress()
        return progress[-1].get("batch") if progress else None

    def state(self) -> str:
        """`starting`, `running` or `killed`; empty before the first start."""
        if self._run is None:
            return ""
        if self._child is None:
            return "killed"
        return "running" if self.progress() else "starting"

    def check(self) -> None:
        """Raise the YakError that Spark ended with, if it ended by itself."""
        if self._child is None or self._child.poll() is None:
            return
        assert self._run is not None, "it was started"
        said = (self._run.folder / "errors.txt").read_text(errors="replace")
        raise (
            spark_runs.error_of(self._run)
            or parse_error(said, self._child.returncode)
            or YakError(
                "demo-spark",
                "Spark ended",
                why=said.strip().rpartition("\n")[2] or f"exit code {self._child.returncode}",
            )
        )

    def kill(self) -> int:
        """`kill -9` Spark, Java and Python's workers, and wait until all have ended; return their number."""
        assert self._child is not None
        tree = psutil.Process(self._child.pid)
        doomed = [tree, *tree.children(recursive=True)]
        for process in doomed:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._child.wait()
        self._child = None
        psutil.wait_procs(doomed[1:], timeout=10)
        self._close()
        return len(doomed)

    def stop(self, timeout_seconds: float) -> None:
        """Stop Spark gracefully. If it does not end in time, kill it and raise NothingInTime."""
        if self._child is None or self._child.poll() is not None:
            self._close()
            return
        self._child.terminate()
        try:
            self._child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NothingInTime("demo-spark", f"Spark did not end within {timeout_seconds:.0f} s") from None
        self._close()

    def abandon(self) -> None:
        """Kill Spark and close its files."""
        if self.pid is not None:
            self.kill()
        self._close()

    def _close(self) -> None:
        if self._said is not None:
            self._said.close()
            self._said = None


def rate_of(progress: list[dict[str, Any]], *, since_s: float = 10.0) -> float:
    """Records per second in one query's batches of the last `since_s` seconds."""
    now_ms = time.time_ns() // 1_000_000
    recent = [line for line in progress if line["time_ms"] > now_ms - since_s * 1000 and line.get("query") == "counts"]
    return sum(line.get("input_rows") or 0 for line in recent) / since_s
