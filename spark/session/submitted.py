"""What spark-submit runs in place of a program: the program itself, once its session knows topics and tells its progress.

The session stays the program's own: this only acts when the program has made it.
"""

import os
import runpy
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> None:
    """Run the program named first with the rest as its arguments."""
    from yak.local import spark_runs

    folder = os.environ.get(spark_runs.VARIABLE)
    _when_made(Path(folder) if folder else None)
    program = arguments[0]
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    try:
        runpy.run_path(program, run_name="__main__")
    except Exception as error:
        if not folder:
            raise
        _tell(Path(folder), error)
        raise SystemExit(1) from None
    finally:
        _told_all()


def _told_all() -> None:
    """Wait for what the last batches have to tell."""
    from pyspark.sql import SparkSession

    from yak.spark.session.progress import wait_for_last

    spark = SparkSession.getActiveSession()
    if spark is not None:
        wait_for_last(spark)


def _when_made(folder: Path | None) -> None:
    """Have the first session that is made register the data source, and keep its queries' progress."""
    from pyspark.sql import SparkSession

    original = SparkSession.Builder.getOrCreate
    seen: list[Any] = []

    def get_or_create(builder: Any) -> Any:
        spark = original(builder)
        if not seen:
            seen.append(spark)
            _prepare(spark, folder)
        return spark

    SparkSession.Builder.getOrCreate = get_or_create  # type: ignore[method-assign,assignment]


def _prepare(spark: Any, folder: Path | None) -> None:
    from yak.local import spark_runs
    from yak.spark import YakDataSource
    from yak.spark.session.make import quiet_python
    from yak.spark.session.progress import listen

    spark.dataSource.register(YakDataSource)
    if folder is None:
        return
    run = spark_runs.load(folder)
    if run is not None:
        context = spark.sparkContext
        spark_runs.save(replace(run, state="running", app_id=context.applicationId, ui=context.uiWebUrl))
        quiet_python(run.log)

    def keep(line: Any) -> None:
        with suppress(OSError):
            spark_runs.add_progress(folder, line)

    keep({"time_ms": time.time_ns() // 1_000_000, "event": "session"})
    listen(spark, keep)


def _tell(folder: Path, error: Exception) -> None:
    """Leave the error in words for who started us."""
    import traceback

    from yak.errors import YakError
    from yak.local import spark_runs
    from yak.spark.session.errors import is_of_spark, translate

    if is_of_spark(error):
        shown = translate(error, folder / "spark.log")
    else:
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = os.path.basename(sys.argv[0])
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        why = f"{said}, at {where.filename}:{where.lineno}"
        shown = YakError("spark-program", f"{name} failed", why=why, try_=(f"less {folder / 'stderr.txt'}",))
    spark_runs.save_error(folder, shown)
    with suppress(OSError), (folder / "stderr.txt").open("a", encoding="utf-8") as file:
        file.writelines(traceback.format_exception(error))


if __name__ == "__main__":
    main(sys.argv[1:])
