"""Makes a SparkSession for topics: finds Java, sets up the log, registers the data source, ships code.

Waiting for a master that does not answer, or for an executor, is bounded.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from yak.attempts import attempts
from yak.errors import UsageError, YakError
from yak.spark.driver.errors import needs_pyspark, translate
from yak.spark.driver.executor_code import executor_path, ship
from yak.spark.driver.java import use_java
from yak.spark.driver.master import check_answers, no_executor, silent_master
from yak.spark.driver.settings import SessionSettings

_LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's default starts a process, `readlink`, for each local path that it asks about."""
_WORKER_PYTHON = Path(__file__).with_name("worker_python.sh")


def make_session(settings: SessionSettings | None = None) -> Any:
    """A new SparkSession. Raises UsageError: `spark-missing`, `spark-options`, `spark-master`, `spark-memory`, …"""
    settings = settings or SessionSettings()
    settings.check()
    require_pyspark()
    if not settings.is_connect:
        use_java()
    check_answers(settings.where, timeout_s=min(5.0, settings.answer_s))
    _set_environment(settings)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(settings.app_name)
    builder = builder.remote(settings.where) if settings.is_connect else builder.master(settings.where)
    for name, value in configuration(settings).items():
        builder = builder.config(name, value)
    try:
        with _java_output_in(settings.log), _started_java_or_none():
            spark = builder.getOrCreate()
    except Exception as error:
        if settings.log is not None:
            quiet_python(settings.log)
        raise failure(error, settings) from error
    if settings.log is not None:
        quiet_python(settings.log)
    if settings.connector == "yak":
        from yak.spark import YakDataSource

        spark.dataSource.register(YakDataSource)
    if settings.is_local:
        _write_no_checksum_files(spark)
    else:
        ship(spark, settings)
        wait_for_executor(spark, settings)
    return spark


def _write_no_checksum_files(spark: Any) -> None:
    """Write no `.NAME.crc` beside the files of this machine: Hadoop starts a process, `chmod`, for each file that it makes.

    A file and its checksum are renamed one after the other. A kill between the two left a checksum of other bytes beside
    a file that replaced one, and Spark refuses to read that.
    """
    context = spark.sparkContext
    files = context._jvm.org.apache.hadoop.fs.FileSystem  # noqa: SLF001  (PySpark has no public way)
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)  # noqa: SLF001


def failure(error: Exception, settings: SessionSettings) -> YakError:
    """The error for a session that could not be made."""
    # Spark gives up a master after a minute, stops its context, and then fails on the stopped context.
    if "stopped SparkContext" in str(error) and not settings.is_local:
        return silent_master(settings.where)
    return translate(error, settings.log)


def require_pyspark() -> None:
    """Raise UsageError (`spark-missing`) if PySpark, or its Arrow dependencies, are not installed."""
    missing = [name for name in ("pyspark", "pyarrow", "numpy", "pandas") if find_spec(name) is None]
    if missing:
        raise needs_pyspark(missing)


def configuration(settings: SessionSettings) -> dict[str, str]:
    """Spark's settings for a session: the defaults of YAK, overridden by the user's settings."""
    conf = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.redaction.options.regex": "(?i)url|key[.]pem|keystore[.]key",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    if settings.is_connect:
        return conf | dict(settings.conf)
    conf |= {
        "spark.ui.enabled": "true" if settings.ui else "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"yak-spark-{os.getuid()}"),
    }
    if settings.is_local:
        # Spark's default, 200 shuffle partitions, would create 200 state stores on one machine.
        conf["spark.sql.shuffle.partitions"] = str(min(os.cpu_count() or 2, 8))
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
        conf["spark.sql.streaming.checkpointFileManagerClass"] = _CHECKPOINT_FILES
    elif settings.ship != "nothing":
        conf["spark.executorEnv.PYTHONPATH"] = executor_path(settings.ship)
    if settings.driver_memory:
        conf["spark.driver.memory"] = settings.driver_memory
    if settings.jars:
        conf["spark.jars"] = ",".join(settings.jars)
    packages = list(settings.packages)
    if settings.connector == "kafka" and not settings.jars and not packages:
        packages.append(kafka_connector())
    if packages:
        conf["spark.jars.packages"] = ",".join(packages)
    merged = conf | dict(settings.conf)
    if settings.log is not None:
        ours = log_option(settings.log)
        merged["spark.driver.extraJavaOptions"] = f"{merged.get('spark.driver.extraJavaOptions', '')} {ours}".strip()
    return merged


def kafka_connector() -> str:
    """Maven coordinates of Spark's own Kafka connector for the installed PySpark."""
    import pyspark

    return _CONNECTOR.format(version=pyspark.__version__)


def wait_for_executor(spark: Any, settings: SessionSettings) -> None:
    """Wait for the first executor, for which a query waits for ever. Raises UsageError (`spark-executors`)."""
    if settings.is_connect or settings.conf.get("spark.dynamicAllocation.enabled") == "true":
        return
    scala_context = spark.sparkContext._jsc.sc()  # noqa: SLF001  (PySpark has no public way to ask)
    for _ in attempts(settings.answer_s, 0.1):
        if scala_context.getExecutorMemoryStatus().size() > 1:  # the status includes the driver
            return
    spark.stop()
    raise no_executor(settings.where, settings.answer_s)


_LOG_HANDLER = "yak-spark"
"""The name of `quiet_python`'s handler, which another session of the process replaces."""


def quiet_python(log: Path) -> None:
    """Redirect what PySpark and Py4J print to stderr to the log: traces, as JSON or when Java ends by a signal."""
    import logging

    def log_error(*_: object) -> None:
        logging.getLogger("pyspark").error("Java has closed a connection", exc_info=sys.exc_info())

    with suppress(ImportError, OSError):
        from pyspark import accumulators

        for old in [each for each in logging.root.handlers if each.name == _LOG_HANDLER]:
            logging.root.removeHandler(old)
        to_log = logging.FileHandler(log)
        to_log.name = _LOG_HANDLER
        logging.root.addHandler(to_log)
        for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
            server.handle_error = log_error  # type: ignore[method-assign, assignment]
    with suppress(ImportError, OSError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            logger = PySparkLogger.getLogger(name)
            for handler in list(logger.handlers):
                logger.removeHandler(handler)
            logger.addHandler(logging.FileHandler(log))
            logger.propagate = False


def _set_environment(settings: SessionSettings) -> None:
    """Set what Spark reads only from environment variables: the workers' Python and the listen address."""
    if settings.is_local:
        os.environ["PYSPARK_PYTHON"] = worker_python(os.environ)
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif not settings.is_connect:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Scripts of another installation would start another version of Spark than the imported PySpark.
    home = os.environ.get("SPARK_HOME")
    if home and not Path(home, "bin", "spark-submit").exists():
        raise UsageError(
            "spark-options",
            f"SPARK_HOME={home} holds no Spark",
            why=f"{home}/bin/spark-submit is not there",
            try_=("unset SPARK_HOME        PySpark brings its own",),
        )


def worker_python(environment: MutableMapping[str, str]) -> str:
    """The Python of workers on this machine: `worker_python.sh` if the installed PySpark runs and Java hears of this Python.

    Adds to the environment with which Java starts.
    """
    import pyspark

    home = os.path.realpath(os.path.dirname(pyspark.__file__))
    if os.path.realpath(environment.get("SPARK_HOME", home)) != home or not os.access(_WORKER_PYTHON, os.X_OK):
        return sys.executable
    if pyspark.SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in environment:  # noqa: SLF001
        environment["YAK_SPARK_WORKER_PYTHON"] = sys.executable  # Java, which starts the workers, has not begun
    return str(_WORKER_PYTHON) if environment.get("YAK_SPARK_WORKER_PYTHON") == sys.executable else sys.executable


def log_option(log: Path) -> str:
    """The JVM option that makes Java write its log to this file."""
    path = log.with_name(f"{log.stem}-log4j2.properties")
    path.write_text(_LOG4J.format(path=json.dumps(str(log))[1:-1]))  # Java reads it as Latin-1, with JSON's escapes
    return f'"-Dlog4j2.configurationFile=file:{path}"'


@contextmanager
def _started_java_or_none() -> Iterator[None]:
    """Kill Java if Ctrl+C or SIGTERM cuts its start: it cannot name its port to PySpark any more, and would run for ever."""
    import psutil
    from pyspark import SparkContext

    before = psutil.Process().children()
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for each in psutil.Process().children():
            if each not in before and SparkContext._gateway is None:  # noqa: SLF001 - no public way
                each.kill()
        raise


@contextmanager
def _java_output_in(log: Path | None) -> Iterator[None]:
    """Redirect stderr to the log while Java starts: the JVM inherits it permanently; Python's is restored."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
