"""The Spark sessions under measurement: both connectors in one, so that they share its JVM and its warmth."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORES = 2


def make_session(folder: Path, jars: Sequence[Path], master: str = f"local[{CORES}]", **more: str) -> Any:
    """A session with YAK's source and, by `jars`, Spark's own; executors of a cluster import YAK from this tree."""
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable, sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from yak.spark import YakDataSource

    (folder / "log4j2.properties").write_text("rootLogger.level = error\n")
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.jars": ",".join(map(str, jars)),
    }
    builder = SparkSession.builder.master(master).appName("yak-bench")
    for name, value in (conf | more).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(YakDataSource)
    return session


def end_session(session: Any) -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None and hasattr(gateway, "proc"):
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
        SparkContext._gateway = SparkContext._jvm = None


def reader(session: Any, format_: str, bootstrap: str, topic: str, **options: str) -> Any:
    """`session.read` of a whole topic; both formats take the same options."""
    return _with(session.read, format_, bootstrap, topic, options | {"endingOffsets": "latest"})


def stream_reader(session: Any, format_: str, bootstrap: str, topic: str, **options: str) -> Any:
    """`session.readStream`."""
    return _with(session.readStream, format_, bootstrap, topic, options)


def _with(builder: Any, format_: str, bootstrap: str, topic: str, options: dict[str, str]) -> Any:
    made = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | options
    return builder.format(format_).options(**made).load()
