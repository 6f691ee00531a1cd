"""The jobs of `yak spark run`: one module each, with Options, JOB and `build`.

Importing a job does not import pyspark, so its options and help work without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yak.spark.jobs.frame import Job

MODULES = {
    "counts": "yak.spark.jobs.counts",
    "stats": "yak.spark.jobs.stats",
    "top-k": "yak.spark.jobs.top_k",
    "lag": "yak.spark.jobs.lag",
    "archive": "yak.spark.jobs.archive",
    "replay": "yak.spark.jobs.replay",
    "dedupe": "yak.spark.jobs.dedupe",
    "join": "yak.spark.jobs.join",
    "sql": "yak.spark.jobs.sql",
    "anomaly": "yak.spark.jobs.anomaly",
}


def load(name: str) -> "Job":
    """The job of that name. Raises UsageError (`spark-job`) for an unknown name."""
    if name not in MODULES:
        from yak.errors import UsageError

        raise UsageError(
            "spark-job",
            f'there is no job "{name}"',
            why=f"the jobs are {', '.join(MODULES)}",
            try_=("yak spark jobs", "yak spark submit FILE.py     for a program of your own"),
        )
    job: Job = import_module(MODULES[name]).JOB
    return job


def summaries() -> list[tuple[str, str]]:
    """(name, summary) of every job, in the order of the list."""
    return [(name, load(name).summary) for name in MODULES]
