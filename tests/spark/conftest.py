"""One Spark session and one YAK cluster for all tests of a process in this folder: starting either takes seconds.

Tests use topics and folders of their own (`new_name`, `tmp_path`), and stop the queries they start.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clusters import running_cluster
from yak.local.cluster import LocalCluster, UpSettings

_names = itertools.count(1)

# A test's Spark lives for a minute or two, in which the JVM's second compiler takes more than it gives. Several threads that
# collect garbage take more as well, where several workers share the processors.
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_name, "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker with topics of one replica; a test that kills it starts it again."""
    # records have timestamps of days that retention would delete
    configs = ("offsets.topic.num.partitions=1", "log.retention.ms=-1")
    settings = UpSettings(port=0, brokers=1, leaders=1, configs=configs)
    with running_cluster(tmp_path_factory.mktemp("spark-cluster"), settings) as local:
        yield local


@pytest.fixture
def bootstrap(cluster: LocalCluster) -> str:
    """The brokers' addresses."""
    return ",".join(broker.address for broker in cluster.status().brokers)


@pytest.fixture
def new_name() -> Callable[[], str]:
    """A name that no topic, query or table of this process has."""
    return lambda: f"spark-{os.getpid()}-{next(_names)}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two cores of this machine, with `format("yak")` and filters pushed down."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java")
    from yak.spark.driver.make import make_session
    from yak.spark.driver.settings import SessionSettings

    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    session = make_session(SessionSettings(master="local[2]", app_name="yak-tests", conf=conf, driver_memory="1g"))
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        _end_gateway()


def _end_gateway() -> None:
    """The JVM ends with this process's pipe to it; tests end it at once and wait, so that none is left behind."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None and hasattr(gateway, "proc"):
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
        SparkContext._gateway = SparkContext._jvm = None
