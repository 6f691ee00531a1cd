"""Runs a user's PySpark program under spark-submit, as a run.

Started as a process (`python -m yak.spark.driver.submission ARGUMENTS OF SPARK-SUBMIT`), it starts spark-submit as its
child, writes Spark's output to the log, and records how the run ended. In client mode spark-submit gets the file of
`yak.spark.driver.submit_wrapper` instead of the program; that wrapper runs the program with the data source registered
and its queries' progress recorded.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from yak.errors import UsageError, YakError
from yak.local import spark_runs
from yak.local.processes import identify
from yak.spark.driver.errors import end_of, report, translate
from yak.spark.driver.executor_code import submit_arguments
from yak.spark.driver.java import use_java
from yak.spark.driver.make import log_option, require_pyspark, worker_python
from yak.spark.driver.master import check_answers
from yak.spark.driver.settings import SessionSettings, one_of

DEPLOY_MODES = ("client", "cluster")
_WRAPPER = Path(__file__).with_name("submit_wrapper.py")


@dataclass(frozen=True, slots=True)
class Submission:
    """A program to submit, with its settings."""

    file: str
    arguments: tuple[str, ...]
    settings: SessionSettings
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    deploy_mode: str = "client"


def submit_command(submission: Submission) -> list[str]:
    """The arguments for spark-submit. Raises UsageError (`spark-options`, `spark-master`, `spark-missing`)."""
    settings = submission.settings
    one_of("--deploy-mode", submission.deploy_mode, DEPLOY_MODES)
    if settings.is_connect:
        raise UsageError(
            "spark-options",
            "a program cannot be submitted to Spark Connect",
            why="spark-submit needs a master; a Connect server only takes sessions",
            try_=(f"SPARK_REMOTE={settings.where} python {submission.file}",),
        )
    require_pyspark()
    check_answers(settings.where, timeout_s=5.0)
    options = ["--master", settings.where, "--deploy-mode", submission.deploy_mode, "--name", settings.app_name]
    shipped = submit_arguments("nothing" if settings.is_local else settings.ship)
    for flag, given in (
        ("--py-files", submission.py_files),
        ("--archives", submission.archives),
        ("--files", submission.files),
        ("--jars", settings.jars),
        ("--packages", settings.packages),
    ):
        ours = [shipped[at + 1] for at, word in enumerate(shipped) if word == flag]
        if given or ours:
            options += [flag, ",".join((*ours, *given))]
    options += [word for at, word in enumerate(shipped) if word == "--conf" or shipped[at - 1] == "--conf"]
    if settings.driver_memory:
        options += ["--driver-memory", settings.driver_memory]
    conf = {"spark.sql.python.filterPushdown.enabled": "true", "spark.ui.showConsoleProgress": "false"}
    for name, value in {**conf, **settings.conf}.items():
        options += ["--conf", f"{name}={value}"]
    if submission.deploy_mode == "client":
        return [*options, str(_WRAPPER), submission.file, *submission.arguments]
    return [*options, submission.file, *submission.arguments]


def main(arguments: Sequence[str]) -> int:
    """Run spark-submit to its end; return 0, or the exit code of its error."""
    folder = os.environ.get(spark_runs.VARIABLE)
    run = spark_runs.load(Path(folder)) if folder else None
    if run is None:
        run = spark_runs.new_run("submit", arguments)
        os.environ[spark_runs.VARIABLE] = str(run.folder)
    run = replace(run, state="starting", process=identify(os.getpid()))
    spark_runs.save(run)
    try:
        use_java()
        return _run(run, arguments)
    except YakError as error:
        return report(run, error)


def _run(run: spark_runs.Run, arguments: Sequence[str]) -> int:
    import pyspark

    program = os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit")
    environment = dict(os.environ)
    environment.pop("SPARK_HOME", None)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if any(each.startswith("local") for each in arguments[1:2]):
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = worker_python(environment)
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = ["--driver-java-options", log_option(run.log), *arguments]
    stopping = threading.Event()
    errors = run.folder / "stderr.txt"
    with errors.open("ab") as file:
        child = subprocess.Popen([program, *options], env=environment, stdin=subprocess.DEVNULL, stderr=file)  # noqa: S603

        def pass_on(_number: int, _frame: object) -> None:
            (child.kill if stopping.is_set() else child.terminate)()
            stopping.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, pass_on)
        code = child.wait()
    now = spark_runs.load(run.folder) or run
    if stopping.is_set():
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)  # the program, which outlives its Java while it does something else
        spark_runs.end(now, "stopped")
        return 0
    if code == 0:
        spark_runs.end(now, "finished")
        return 0
    error = spark_runs.error_of(run) or translate(RuntimeError(end_of(errors)), run.log)
    return report(now, error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
