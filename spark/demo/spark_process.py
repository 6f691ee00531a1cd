"""Runs the demo's Spark as a process: start, observe, kill with all its child processes, start again."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from yak.errors import NothingInTime
from yak.local import spark_runs
from yak.local.demo.child import Child
from yak.local.spark_runs import Run


class SparkProcess:
    """One Spark process at a time; `work` holds its checkpoints and logs."""

    def __init__(self, bootstrap: str, work: str) -> None:
        self._bootstrap = bootstrap
        self._work = work
        self._child: Child | None = None
        self._run: Run | None = None

    @property
    def pid(self) -> int:
        """Process id of Spark's Python driver."""
        assert self._child is not None, "it runs"
        return self._child.pid

    def start(self) -> None:
        """Start Spark on the existing checkpoints."""
        self._run = spark_runs.new_run("demo", bootstrap=self._bootstrap, base=Path(self._work, "runs"))
        module = (sys.executable, "-P", "-m", "yak.spark.demo.pipeline")
        environment = {**os.environ, spark_runs.VARIABLE: str(self._run.folder)}
        self._child = Child((*module, self._bootstrap, f"{self._work}/checkpoints"), environment=environment)

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
        if self._child is not None and self._child.code is not None:
            assert self._run is not None, "it was started"
            raise spark_runs.error_of(self._run) or self._child.failure("Spark", "demo-spark")

    def kill(self) -> int:
        """`kill -9` Spark, Java and Python's workers, and wait until all have ended; return their number."""
        assert self._child is not None, "it runs"
        tree = psutil.Process(self._child.pid)
        doomed = [*tree.children(recursive=True), tree]
        for process in doomed:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._child.end()
        self._child = None
        psutil.wait_procs(doomed[:-1], timeout=10)
        return len(doomed)

    def stop(self, timeout_seconds: float) -> None:
        """Stop Spark gracefully. If it does not end in time, kill it and raise NothingInTime."""
        assert self._child is not None, "it runs"
        psutil.Process(self._child.pid).terminate()
        deadline = time.monotonic() + timeout_seconds
        while self._child.code is None:
            if time.monotonic() > deadline:
                self.kill()
                raise NothingInTime("demo-spark", f"Spark did not end within {timeout_seconds:.0f} s")
            time.sleep(0.1)

    def abandon(self) -> None:
        """Kill Spark if it runs."""
        if self._child is not None and self._child.code is None:
            self.kill()


def rate_of(progress: list[dict[str, Any]], *, since_s: float = 10.0) -> float:
    """Records per second in one query's batches of the last `since_s` seconds."""
    now_ms = time.time_ns() // 1_000_000
    recent = [line for line in progress if line["time_ms"] > now_ms - since_s * 1000 and line.get("query") == "counts"]
    return sum(line.get("input_rows") or 0 for line in recent) / since_s
