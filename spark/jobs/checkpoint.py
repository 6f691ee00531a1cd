"""Whose a checkpoint is: the job and the options that shape its state, in a file beside Spark's own.

Spark finds out by itself only in part, and says so by a failed assertion in Java.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from yak.errors import UsageError
from yak.spark.jobs.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from yak.spark.jobs.frame import Job

NAME: Final = "yak-job.json"


def claim(spark: "SparkSession", job: "Job", options: Any, folder: str) -> None:
    """Take an empty checkpoint, or find it to be this job's. Raises UsageError (`spark-checkpoint`).

    The topic and the sink belong to it as much as the job's own options do; brokers and pace do not.
    """
    names = [name for name in ("topic", "sink", *job.identity) if hasattr(options, name)]
    mine = {"job": job.name, **{name: getattr(options, name) for name in names}}
    files = Files(spark, folder)
    path = files.at(NAME)
    text = json.dumps(mine, indent=1, default=list) + "\n"
    if files.exists(path):
        theirs = json.loads(files.read(path))
        mine = json.loads(text)
        differing = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if differing:
            raise UsageError(
                "spark-checkpoint",
                f"{folder} is the checkpoint of another query",
                why="; ".join(f"{name} was {_said(theirs, name)} and is {_said(mine, name)}" for name in differing),
                try_=(
                    f"--checkpoint-dir {folder}-2     a folder of its own",
                    "or the options that it was started with",
                ),
            )
        return
    if files.exists(files.at("metadata")) or files.exists(files.at("offsets")):
        raise UsageError(
            "spark-checkpoint",
            f"{folder} is the checkpoint of another query",
            why="a program of Spark made it, not a job of yak",
            try_=(f"--checkpoint-dir {folder}-2     a folder of its own",),
        )
    files.write_new(path, text)


def _said(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return "not set" if value is None else str(value)
