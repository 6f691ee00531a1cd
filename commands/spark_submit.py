"""`yak spark submit FILE.py -- args`: runs spark-submit with the data source and the package."""

import os
import sys
from typing import Annotated

import typer

from yak.commands.app import STOP, WHAT, command
from yak.commands.options import Globals
from yak.commands.spark_options import SPARK, Conf, DriverMemory, Jars, Master, Packages, Ship, session_settings
from yak.commands.spark_run import followed, left_running


@command(
    examples=(
        "yak spark submit my_job.py -- --topic orders",
        "yak spark submit my_job.py --master spark://HOST:7077 --conf spark.executor.memory=2g",
        "yak spark submit my_job.py --master yarn --deploy-mode cluster --archives env.tar.gz#environment",
        "yak spark submit my_job.py --master spark://HOST:7077 --ship all --background",
    )
)
def submit(
    g: Globals,
    file: Annotated[str, typer.Argument(metavar="FILE.py", help="A PySpark program.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Its own arguments, after --.")] = None,
    background: Annotated[
        bool, typer.Option("--background", "-d", help="Leave it running; yak spark status shows it.", rich_help_panel=STOP)
    ] = False,
    py_files: Annotated[
        list[str] | None,
        typer.Option("--py-files", metavar="PATH", help="More Python to send along; repeatable.", rich_help_panel=WHAT),
    ] = None,
    archives: Annotated[
        list[str] | None,
        typer.Option(
            "--archives", metavar="PATH[#NAME]", rich_help_panel=WHAT,
            help="Archives to unpack on executors, such as a packed environment; repeatable.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--files", metavar="PATH", help="Files to send along; repeatable.", rich_help_panel=WHAT),
    ] = None,
    deploy_mode: Annotated[
        str, typer.Option("--deploy-mode", metavar="MODE", help="client, or cluster.", rich_help_panel=SPARK)
    ] = "client",
    master: Master = None,
    conf: Conf = None,
    driver_memory: DriverMemory = None,
    jars: Jars = None,
    packages: Packages = None,
    ship: Ship = "package",
) -> int | None:  # fmt: skip
    """Run a PySpark program with spark-submit, with format("yak") registered and the package shipped to executors.

    The program creates its session as usual (SparkSession.builder.getOrCreate()). In client mode, yak spark status shows
    its queries' progress. YAK_BOOTSTRAP_SERVERS has the brokers.
    """
    from yak.commands.spark_python import hand_over
    from yak.errors import UsageError
    from yak.local.spark_runs import new_run
    from yak.spark.driver.submitting import Submission, submit_command

    if not os.path.isfile(file):
        raise UsageError("spark-path", f"there is no file {file}", why=f"looked in {os.getcwd()}", try_=("ls *.py",))
    settings = session_settings(
        os.path.basename(file), master=master, conf=conf, driver_memory=driver_memory, jars=jars, packages=packages,
        ship=ship,
    )  # fmt: skip
    code = hand_over()
    if code is not None:
        return code
    submission = Submission(
        file=os.path.abspath(file),
        words=tuple(words or ()),
        settings=settings,
        py_files=tuple(py_files or ()),
        archives=tuple(archives or ()),
        files=tuple(files or ()),
        deploy_mode=deploy_mode,
    )
    arguments = submit_command(submission)
    stem = os.path.splitext(os.path.basename(file))[0]
    made = new_run(stem, [file, *(words or ())], master=settings.where, bootstrap=g.bootstrap_servers)
    command_line = [sys.executable, "-P", "-m", "yak.spark.driver.submitting", *arguments]
    return left_running(g, made, command_line) if background else followed(g, made, command_line)
