"""Spark jobs as they were when the cluster was recorded: one of each kind that a screen must show well."""

from pathlib import Path
from typing import Any

from yak.errors import UsageError
from yak.local.processes import ProcessId
from yak.local.spark_runs import Run, figures
from yak.tui.state.spark_jobs import SparkJob

_FOLDER = Path("/state/yak/spark")


def _batches(query: str, now_ms: int, rates: list[int], **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "time_ms": now_ms - 1_000 * (len(rates) - number) + 300,
            "event": "batch",
            "query": query,
            "query_id": f"{query}-id",
            "batch": 410 + number,
            "input_rows": rate,
            "input_per_s": float(rate),
            "processed_per_s": rate * 2.5,
            "duration_ms": 412,
            "lag": 0,
            "state_rows": None,
            "state_bytes": None,
            "dropped_late": None,
            "watermark": None,
            **more,
        }
        for number, rate in enumerate(rates)
    ]


def _job(run: Run, progress: list[dict[str, Any]], error: UsageError | None = None) -> SparkJob:
    return SparkJob(run, progress, error, figures(progress))


def recorded_jobs(now_ms: int) -> list[SparkJob]:
    """Two that run, one that starts, and three that ended in three ways."""

    def run(name: str, words: str, age_s: int, **more: Any) -> Run:
        job = name.rpartition("-")[0]
        values = {"master": "local[*]", "state": "running", "process": ProcessId(4242, "mark"), **more}
        return Run(name, job, tuple(words.split()), started_ms=now_ms - age_s * 1000, folder=_FOLDER / name, **values)

    counts = _batches(
        "counts", now_ms, [1180, 1204, 1190, 1166, 1240, 980, 1310, 1204], state_rows=1_840, state_bytes=412_000,
        watermark="2026-11-20T00:22:40.000Z", dropped_late=3,
    )  # fmt: skip
    archive = _batches("archive", now_ms - 4_000, [5_200, 5_100, 5_400], lag=18_204)
    refused = UsageError(
        "spark-checkpoint",
        "./ck/stats is the checkpoint of another query",
        why="topic was payments and is orders",
        try_=("--checkpoint-dir ./ck/stats-2     a folder of its own",),
    )
    return [
        _job(run("counts-3", "--topic orders --window 1m", 512, checkpoint="./ck/counts", ui="http://127.0.0.1:4040"), counts),
        _job(run("archive-1", "--topic orders,payments --into ./archive", 95, checkpoint="./ck/archive",
                 master="spark://10.0.0.7:7077"), archive),
        _job(run("lag-1", "--topic orders", 4, state="starting"), []),
        _job(run("stats-2", "--topic orders --field total", 640, state="failed", process=None), [], refused),
        _job(run("top-k-1", "--topic orders --sink topic:top", 1_800, state="killed", process=None,
                 checkpoint="./ck/top"), _batches("top-k", now_ms - 900_000, [40, 42])),
        _job(run("counts-2", "--topic orders --available-now", 4_000, state="finished", process=None),
             _batches("counts", now_ms - 3_900_000, [200])),
    ]  # fmt: skip
