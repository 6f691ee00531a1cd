"""The wrapper that spark-submit runs: it runs the user's program, registers the data source, and records progress.

The program makes its own session; the wrapper acts only after that.
"""

import os
import runpy
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from yak.errors import YakError


def main(arguments: list[str]) -> None:
    """Run the program in the first argument with the remaining arguments."""
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
        _save_error(Path(folder), error)
        raise SystemExit(1) from None
    finally:
        _wait_for_progress()


def _wait_for_progress() -> None:
    """Wait for the progress of the last batches."""
    from pyspark.sql import SparkSession

    from yak.spark.driver.progress import wait_for_last

    spark = SparkSession.getActiveSession()
    if spark is not None:
        wait_for_last(spark)


def _when_made(folder: Path | None) -> None:
    """Make the first session register the data source and record its queries' progress."""
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
    from yak.spark.driver.make import quiet_python
    from yak.spark.driver.progress import listen

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


def _save_error(folder: Path, error: Exception) -> None:
    """Save the error for the process that started this one."""
    import traceback

    from yak.local import spark_runs
    from yak.spark.driver.errors import is_of_spark, translate

    if is_of_spark(error):
        translated = translate(error, folder / "spark.log")
    else:
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = os.path.basename(sys.argv[0])
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        why = f"{said}, at {where.filename}:{where.lineno}"
        translated = YakError("spark-program", f"{name} failed", why=why, try_=(f"less {folder / 'stderr.txt'}",))
    spark_runs.save_error(folder, translated)
    with suppress(OSError), (folder / "stderr.txt").open("a", encoding="utf-8") as file:
        file.writelines(traceback.format_exception(error))


if __name__ == "__main__":
    main(sys.argv[1:])
