"""What is kept of a batch, and how a job ends."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from yak.attempts import attempts
from yak.local import spark_runs
from yak.local.processes import identify, kill, wait_gone
from yak.spark.driver.job_process import RunningJob, stop_in_order
from yak.spark.driver.progress import lag_of, line_of, offsets_in

PROGRESS: dict[str, Any] = {
    "id": "q-1",
    "name": "counts",
    "batchId": 7,
    "numInputRows": 120,
    "inputRowsPerSecond": 60.04,
    "processedRowsPerSecond": float("inf"),
    "durationMs": {"triggerExecution": 410},
    "stateOperators": [
        {"numRowsTotal": 5, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1},
        {"numRowsTotal": 2},
    ],
    "eventTime": {"watermark": "2026-11-20T00:00:00.000Z"},
    "sources": [
        {"endOffset": '{"orders": {"0": 10, "1": 4}}', "latestOffset": '{"orders": {"0": 12, "1": 4, "2": 3}}'}
    ],
    "sink": {"description": "noop"},
}


def test_a_batch_is_a_line_of_numbers() -> None:
    line = line_of(PROGRESS)
    expected = {
        "query": "counts", "query_id": "q-1", "batch": 7, "input_rows": 120, "input_per_s": 60.0, "processed_per_s": None,
        "duration_ms": 410, "lag": 5, "state_rows": 7, "state_bytes": 100, "dropped_late": 1,
        "watermark": "2026-11-20T00:00:00.000Z",
    }  # fmt: skip
    assert {name: line[name] for name in expected} == expected
    assert json.loads(json.dumps(line, allow_nan=False)) == line


def test_a_query_without_state_has_none() -> None:
    line = line_of({"id": "q", "batchId": 0, "inputRowsPerSecond": float("nan")})
    assert (line["state_rows"], line["state_bytes"], line["lag"], line["input_per_s"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([], None),
        ([{"endOffset": None, "latestOffset": None}], None),
        ([{"endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":5}}'}], 0),
        ([{"endOffset": '{"t":{"0":9}}', "latestOffset": '{"t":{"0":5}}'}], 0),
        ([{"metrics": {"recordsBehindLatest": "12"}}, {"metrics": {"recordsBehindLatest": "1"}}], 13),
        (
            [
                {"endOffset": {"t": {"0": 1}}, "latestOffset": {"t": {"0": 4}}},
                {"endOffset": None, "latestOffset": None},
            ],
            None,
        ),
    ],
)
def test_lag_is_what_is_in_the_topics_and_not_yet_in_a_batch(sources: list[dict[str, Any]], lag: int | None) -> None:
    assert lag_of({"sources": sources}) == lag


def test_offsets_are_found_in_doubly_encoded_json_and_other_values_are_none() -> None:
    assert offsets_in(json.dumps('{"t": {"3": 9}}')) == {("t", "3"): 9}
    assert offsets_in("no json") is None
    assert offsets_in([1]) is None
    assert offsets_in({"version": 1, "t": {"0": 2, "x": 3}}) == {("t", "0"): 2}


class Query:
    """A query that is in a batch for so many looks."""

    lastProgress: dict[str, Any] | None = None  # noqa: N815 - PySpark's name

    def __init__(self, name: str, polls: int, stopped: list[str]) -> None:
        self.name, self.polls, self.stopped, self.isActive = name, polls, stopped, True

    @property
    def status(self) -> dict[str, Any]:
        self.polls -= 1
        return {"isTriggerActive": self.polls > 0, "isDataAvailable": True, "message": "Processing new data"}

    def stop(self) -> None:
        assert self.polls <= 0, "it was cut in its batch"
        self.stopped.append(self.name)


def test_queries_are_stopped_in_order_each_after_its_batch() -> None:
    stopped: list[str] = []
    stop_in_order([Query("a", 3, stopped), Query("b", 1, stopped)], timeout_s=5)  # type: ignore[list-item]
    assert stopped == ["a", "b"]


def test_a_batch_that_does_not_end_is_not_waited_for_for_ever() -> None:
    stopped: list[str] = []
    query = Query("a", 10**9, stopped)
    query.stop = lambda: stopped.append("cut")  # type: ignore[method-assign]
    stop_in_order([query], timeout_s=0.1)
    assert stopped == ["cut"]


def test_query_whose_batches_follow_each_other_is_stopped_after_one() -> None:
    class Busy(Query):
        """Each batch takes three looks."""

        @property
        def status(self) -> dict[str, Any]:
            status = super().status
            self.lastProgress = {"batchId": -self.polls // 3}
            return status | {"isTriggerActive": True}

        def stop(self) -> None:
            self.stopped.append(str(self.lastProgress))

    stopped: list[str] = []
    query = Busy("a", 0, stopped)
    query.lastProgress = {"batchId": 0}
    stop_in_order([query], timeout_s=0.5)
    assert stopped == ["{'batchId': 1}"]


SUBMISSION = """
import sys
from types import SimpleNamespace
from yak.spark.driver import submission
sys.modules["pyspark"] = SimpleNamespace(__file__=sys.argv[1] + "/__init__.py")
submission.use_java = lambda: None
sys.exit(submission.main(["--master", "yarn"]))
"""


def test_stop_of_a_submission_ends_the_program_that_java_leaves_behind(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\nsleep 60 &\necho $!. > {tmp_path}/pid\nwait\n")
    submit.chmod(0o755)
    run = spark_runs.new_run("mine", base=tmp_path / "runs")
    command = [sys.executable, "-c", SUBMISSION, str(tmp_path)]
    environment = {**os.environ, spark_runs.VARIABLE: str(run.folder)}
    with subprocess.Popen(command, env=environment, start_new_session=True) as child:
        for _ in attempts(60, 0.05):
            if (tmp_path / "pid").exists() and (said := (tmp_path / "pid").read_text()).endswith(".\n"):
                break
        program = identify(int(said[:-2]))
        assert program is not None
        try:
            child.terminate()
            assert child.wait(30) == 0
            assert wait_gone(program, 5)
        finally:
            kill(program)
    ended = spark_runs.load(run.folder)
    assert ended is not None
    assert ended.state == "stopped"


def job_with(**session: Any) -> RunningJob:
    return RunningJob(SimpleNamespace(**session), run=None)  # type: ignore[arg-type]


def test_query_that_failed_before_it_is_waited_for_raises_its_error() -> None:
    failed = SimpleNamespace(isActive=False, exception=lambda: ValueError("at once"))
    job = job_with(streams=SimpleNamespace(active=[]))
    with pytest.raises(ValueError, match="at once"):
        job.wait(failed)


def test_stop_request_cancels_the_work_of_a_job_that_reads_once() -> None:
    cancelled = threading.Event()
    job = job_with(sparkContext=SimpleNamespace(cancelAllJobs=cancelled.set))
    job.cancel_on_stop()
    assert not cancelled.wait(0.05)
    job.stopping.set()
    assert cancelled.wait(10)
    job.ended.set()
