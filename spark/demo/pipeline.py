"""`python -m yak.spark.demo.pipeline BOOTSTRAP FOLDER`: runs the demo's two jobs in one Spark, the process it kills.

Their checkpoints are in FOLDER; after a restart both jobs resume from there.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

from yak.spark.demo.metrics import FIELD, TOPIC
from yak.spark.demo.totals import WINDOW_MS
from yak.spark.jobs import load
from yak.spark.jobs.frame import start

COUNTS: Final = "metric_counts"
STATS: Final = "metric_stats"
_LATE: Final = "10m"
"""After its leader was killed, a partition lags for a while; its records must not be dropped as late."""


def job_options(bootstrap: str, folder: str) -> list[tuple[str, Any]]:
    """The two jobs with their options."""
    shared: dict[str, Any] = {
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "window": f"{WINDOW_MS}ms",
        "watermark": _LATE,
        "trigger": "500ms",
    }
    counts: Any = load("counts").options
    stats: Any = load("stats").options
    return [
        ("stats", stats(**shared, field=FIELD, sink=f"topic:{STATS}", checkpoint_dir=f"{folder}/stats")),
        ("counts", counts(**shared, sink=f"topic:{COUNTS}", checkpoint_dir=f"{folder}/counts")),
    ]


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM."""
    from yak.spark.driver.job_process import running
    from yak.spark.driver.settings import SessionSettings

    bootstrap, folder = arguments
    settings = SessionSettings(app_name="yak-demo", master="local[2]", driver_memory="1g")
    with running("demo", settings, arguments=arguments, bootstrap=bootstrap, checkpoint=folder) as process:
        started = [start(load(name), process.spark, options) for name, options in job_options(bootstrap, folder)]
        process.wait(*(each.query for each in started))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
