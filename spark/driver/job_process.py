"""Runs a job's process: its session, its run record, and a graceful end.

    with running("counts", SessionSettings(master="local[2]"), arguments=argv, checkpoint=folder) as job:
        query = build(job.spark, options).writeStream. … .start()
        job.wait(query)

SIGTERM and Ctrl+C make `wait` stop the queries in order, each after its batch; a job that reads once is cancelled. An
error is saved in the run's folder, printed in three lines, and becomes the exit code.
"""

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from yak.local import spark_runs
from yak.local.processes import identify
from yak.local.spark_runs import Run
from yak.spark.driver.errors import report, translate
from yak.spark.driver.make import make_session
from yak.spark.driver.progress import listen, wait_for_last
from yak.spark.driver.settings import SessionSettings

BATCH_END_S = 60.0
"""How long the current batch may take to end after a stop request."""


class StopRequest(threading.Event):
    """Set by the first SIGTERM or Ctrl+C."""

    exit_code = 128 + signal.SIGTERM
    """Of a job that the request cut."""


@dataclass(slots=True)
class RunningJob:
    """A running job and its session."""

    spark: Any
    run: Run
    stopping: StopRequest = field(default_factory=StopRequest)
    ended: threading.Event = field(default_factory=threading.Event)

    def cancel_on_stop(self) -> None:
        """Cancel Spark's work at a stop request: a job that reads once has no batches to stop between."""

        def cancel() -> None:
            self.stopping.wait()
            while not self.ended.is_set():  # the job may have more than one piece of work
                with suppress(Exception):
                    self.spark.sparkContext.cancelAllJobs()
                self.ended.wait(0.5)

        threading.Thread(target=cancel, name="cancel", daemon=True).start()

    def wait(self, *queries: Any) -> None:
        """Wait until every query has ended, or a stop was requested. Raises a query's exception."""
        while not self.stopping.is_set():
            active = [query for query in queries if query.isActive]
            for query in queries:
                if (error := query.exception()) is not None:
                    raise error
            if not active:
                return
            active[0].awaitTermination(1)
        stop_in_order(queries)


def stop_in_order(queries: Sequence[Any], timeout_s: float = BATCH_END_S) -> None:
    """Stop queries in the given order, each between two batches or after `timeout_s`."""
    for query in queries:
        deadline, last = time.monotonic() + timeout_s, query.lastProgress
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            if not query.status["isDataAvailable"] and "Waiting" in query.status["message"]:
                break
            if query.lastProgress != last:  # the next batch of a query that is behind begins at once
                break
            time.sleep(0.02)
        query.stop()


@contextmanager
def running(
    job: str,
    settings: SessionSettings | None = None,
    *,
    arguments: Sequence[str] = (),
    bootstrap: str | None = None,
    checkpoint: str | None = None,
) -> Iterator[RunningJob]:
    """A session and a run for the body. An error in it ends the process (SystemExit) with its exit code."""
    settings = settings or SessionSettings()
    run = _this_run(job, settings, arguments, bootstrap, checkpoint)
    stopping, ended = StopRequest(), threading.Event()
    _stop_by_signal(stopping)
    spark = None
    try:
        settings = replace(settings, log=settings.log or run.log)
        spark = make_session(settings)
        _stop_by_signal(stopping)  # again: PySpark has taken SIGINT for itself
        made = RunningJob(spark, replace(run, state="running", **_where(spark, settings)), stopping, ended)
        spark_runs.save(made.run)
        listener = listen(spark, lambda line: _keep(run.folder, line))
        yield made
        run = made.run
        wait_for_last(spark)
        spark.streams.removeListener(listener)
    except BaseException as error:  # noqa: BLE001 - the border of the process: every error is reported and becomes an exit code
        if spark is not None:
            wait_for_last(spark)
        code = _end_badly(run, error, stopping)
        ended.set()
        stop_quietly(spark)
        raise SystemExit(code) from None
    spark_runs.end(run, "stopped" if stopping.is_set() else "finished")
    ended.set()
    stop_quietly(spark)


def _this_run(
    job: str, settings: SessionSettings, arguments: Sequence[str], bootstrap: str | None, checkpoint: str | None
) -> Run:
    """The run that `yak spark` created for this process, or a new one."""
    given = os.environ.get(spark_runs.VARIABLE)
    found = spark_runs.load(Path(given)) if given else None
    if found is None:
        found = spark_runs.new_run(job, arguments, master=settings.where, bootstrap=bootstrap)
    run = replace(
        found,
        state="starting",
        ended_ms=None,
        process=identify(os.getpid()),
        master=settings.where,
        bootstrap=bootstrap or found.bootstrap,
        checkpoint=checkpoint or found.checkpoint,
    )
    spark_runs.save(run)
    return run


def _stop_by_signal(stopping: StopRequest) -> None:
    """The first signal requests a graceful stop; the second one ends the process."""

    def ask(number: int, _frame: object) -> None:
        if stopping.is_set():
            raise SystemExit(128 + number)
        stopping.exit_code = 128 + number
        stopping.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)


def _where(spark: Any, settings: SessionSettings) -> dict[str, Any]:
    if settings.is_connect:
        return {}
    return {"app_id": spark.sparkContext.applicationId, "ui": spark.sparkContext.uiWebUrl}


def _keep(folder: Path, line: Mapping[str, Any]) -> None:
    # A full disk must not end the listener's thread: the job goes on without visible progress.
    with suppress(OSError):
        spark_runs.add_progress(folder, line)


def _end_badly(run: Run, error: BaseException, stopping: StopRequest) -> int:
    """Report and save the error; return the exit code."""
    if isinstance(error, SystemExit) and not error.code:
        spark_runs.end(run, "stopped" if stopping.is_set() else "finished")
        return 0
    if stopping.is_set() and not isinstance(error, SystemExit):
        # A signal to the whole process group also ends Java.
        spark_runs.end(run, "stopped")
        return stopping.exit_code
    if isinstance(error, KeyboardInterrupt | SystemExit):
        spark_runs.end(run, "stopped")
        return error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 130
    _keep_trace(run, error)
    return report(run, translate(error, run.log))


def _keep_trace(run: Run, error: BaseException) -> None:
    import traceback

    with suppress(OSError), run.log.open("a", encoding="utf-8") as file:
        file.writelines(traceback.format_exception(error))


def stop_quietly(spark: Any) -> None:
    """End the session; Java may have ended already, as by a signal to the process group."""
    if spark is not None:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PySpark warns when Java has ended
            spark.stop()
