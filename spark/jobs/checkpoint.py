"""The owner of a checkpoint: the job and the options that shape its state, in a file beside Spark's own.

Spark detects a wrong checkpoint only in part, and reports it as a failed assertion in Java.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from yak.errors import UsageError
from yak.spark.jobs.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from yak.spark.jobs.frame import Job

NAME: Final = "yak-job.json"
_OWNER: Final = "_checkpoint.json"
"""In a folder of Spark's file sink: the path of its checkpoint."""


def claim(spark: "SparkSession", job: "Job", options: Any, folder: str) -> None:
    """Claim a checkpoint without a batch, or check that it belongs to this job. Raises UsageError (`spark-checkpoint`).

    The owner includes the topic, the sink and the job's own options, but not brokers and pace.
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
        if not differing:
            return
        if files.names(files.at("offsets")):
            why = "; ".join(f"{name} was {_said(theirs, name)} and is {_said(mine, name)}" for name in differing)
            raise of_another(folder, why, "or the options that it was started with")
        files.delete(path)  # its query ended before the first batch: there is nothing to go on from
    elif files.exists(files.at("metadata")) or files.exists(files.at("offsets")):
        raise of_another(folder, "a program of Spark made it, not a job of yak")
    files.write_new(path, text)


def claim_folder(spark: "SparkSession", folder: str, checkpoint: str) -> None:
    """Bind a folder to one checkpoint: Spark's file sink skips a batch whose number it has, from any writer.

    Raises UsageError (`spark-checkpoint`) for another checkpoint.
    """
    files, place = Files(spark, folder), Files(spark, checkpoint)
    path = files.at(_OWNER)
    if place.names(place.at("offsets")) or not files.names(files.at("_spark_metadata")):
        if not files.exists(path):
            files.write_new(path, json.dumps({"checkpoint": place.folder}) + "\n")
        if json.loads(files.read(path))["checkpoint"] == place.folder:
            return
    raise UsageError(
        "spark-checkpoint",
        f"{files.folder} was written with another checkpoint",
        why="only that one knows what is in it; another one would leave records out or store them twice",
        try_=("the --checkpoint-dir that it was begun with", "another folder"),
    )


def of_another(folder: str, why: str, *try_: str) -> UsageError:
    """The error for the checkpoint of another query."""
    return UsageError(
        "spark-checkpoint",
        f"{folder} is the checkpoint of another query",
        why=why,
        try_=(f"--checkpoint-dir {folder}-2     a folder of its own", *try_),
    )


def _said(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    return "not set" if value is None else str(value)
