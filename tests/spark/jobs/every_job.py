"""Runs every streaming job at once, in small batches, until it is killed: `every_job.py BOOTSTRAP FOLDER WORDS`."""

import json
import sys
from pathlib import Path
from typing import Any

from yak.spark.jobs import load
from yak.spark.jobs.frame import start

ROWS_PER_BATCH = 60


def jobs_of(bootstrap: str, folder: Path, topic: str, other: str) -> dict[str, Any]:
    """Options of each job by a name, as if somebody had typed them."""
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "counts": ("counts", {"output_mode": "append"}),
        "sessions": ("counts", {"session_gap": "5s"}),
        "stats": ("stats", {"output_mode": "append", "field": "n"}),
        "top-k": ("top-k", {"k": 2}),
        "dedupe": ("dedupe", {}),
        "join": ("join", {"with_": other, "within": "30s"}),
        "sql": (
            "sql",
            {"query": "SELECT _key, n FROM t WHERE n > 3", "schema": ("t=n DOUBLE",), "topic": f"t={topic}"},
        ),
        "anomaly": ("anomaly", {"field": "n", "threshold": 2.0}),
        "archive": ("archive", {"into": str(folder / "archive")}),
    }
    shared = {"bootstrap": bootstrap, "max_offsets_per_trigger": ROWS_PER_BATCH, "trigger": "0s"}
    made = {}
    for name, (job, options) in found.items():
        own = {} if job == "archive" else {"sink": f"parquet:{folder}/{name}"}
        place = {"checkpoint_dir": f"{folder}/checkpoints/{name}"}
        made[name] = (load(job), {"topic": topic, **shared, **own, **place, **options})
    return made


def main() -> None:
    bootstrap, folder, settings = sys.argv[1:]
    from yak.spark.driver.make import make_session
    from yak.spark.driver.settings import SessionSettings

    conf = {"spark.sql.shuffle.partitions": "2"}
    spark = make_session(SessionSettings(master="local[2]", conf=conf, driver_memory="1g"))
    for job, options in jobs_of(bootstrap, Path(folder), *json.loads(settings)).values():
        start(job, spark, job.options(**options))
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
