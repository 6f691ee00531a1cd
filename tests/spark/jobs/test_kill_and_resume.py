"""Spark is killed with all jobs in the middle of it; started again, each ends with what a run without a kill has."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from yak.spark.jobs.frame import start

pytestmark = [pytest.mark.timeout(1800), pytest.mark.thorough]
PROGRAM = Path(__file__).with_name("every_job.py")
ROOT = Path(__file__).resolve().parents[3]
COUNT = 480


def program() -> Any:
    spec = importlib.util.spec_from_file_location("every_job", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def readings(count: int) -> list[tuple[str, object, float, int]]:
    keys = ("a", "b", "c", "d")
    return [(keys[i % 4], {"n": float(i * i % 11) + i // 240 * 30}, i / 2, i % 2) for i in range(count)]


def commits(folder: Path) -> dict[str, int]:
    """Batches that each query has committed."""
    found = {}
    for place in (folder / "checkpoints").glob("*"):
        found[place.name] = len([path for path in (place / "commits").glob("*") if path.name.isdigit()])
    return found


def kill_in_the_middle(bootstrap: str, folder: Path, settings: list[str]) -> None:
    """Start all jobs, and kill that process and its children when each query has done a batch and none has done all."""
    with (folder / "child.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), bootstrap, str(folder), json.dumps(settings)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 600
            while len(done := commits(folder)) < 9 or min(done.values()) < 1:
                assert child.poll() is None, (folder / "child.log").read_text()[-3000:]
                assert time.monotonic() < deadline, f"no batch of every job: {done}"
                time.sleep(0.02)
        finally:
            kill_tree(child)
    assert sum(done.values()) < 9 * COUNT / program().ROWS_PER_BATCH, f"they were done before the kill: {done}"


def kill_tree(child: "subprocess.Popen[bytes]") -> None:
    """The process with Java and Python's workers; what is gone already is well."""
    with contextlib.suppress(psutil.NoSuchProcess):
        doomed = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(doomed[1:], timeout=20)
    child.wait()


def rows_of(spark: Any, path: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in spark.read.parquet(str(path)).collect())


def test_every_killed_job_resumes_from_its_checkpoint_with_the_result_of_a_whole_run(bench, tmp_path):
    end = [("end", {"n": 0.0}, 7_200.0, partition) for partition in (0, 1)]
    topic = bench.send(readings(COUNT) + end)
    other = bench.send([(key, {"m": number}, 20.0 * number, 0) for number, key in enumerate("abcd")] + end)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    kill_in_the_middle(bench.bootstrap, killed, [topic, other])
    # Spark's Parquet sink lists what counts in _spark_metadata. Where one batch ends and the next begins must not
    # matter: the rest is done in larger ones, and the run to compare with in one.
    for folder, pace in ((killed, 4 * program().ROWS_PER_BATCH), (whole, None)):
        queries = []
        for job, options in program().jobs_of(bench.bootstrap, folder, topic, other).values():
            resumed = job.options(**{**options, "available_now": True, "max_offsets_per_trigger": pace})
            query = start(job, bench.spark, resumed).query
            assert query is not None
            queries.append(query)
        for query in queries:
            assert query.awaitTermination(400)
    for name in ("counts", "sessions", "stats", "top-k", "dedupe", "join", "sql", "anomaly", "archive"):
        found, expected = rows_of(bench.spark, killed / name), rows_of(bench.spark, whole / name)
        assert expected, name
        assert found == expected, f"{name}: {found - expected} too much, {expected - found} missing"
        assert name in {"join", "sql"} or max(found.values()) == 1, name
    assert sum(rows_of(bench.spark, killed / "archive").values()) == COUNT + 2
