"""`yak spark shell`."""

from typing import Annotated

import typer

from yak.commands.app import WHAT, command
from yak.commands.options import Globals
from yak.commands.spark_options import (
    Conf,
    Connector,
    DriverMemory,
    Jars,
    Master,
    Packages,
    Ship,
    session_settings,
)


@command(
    examples=(
        "yak spark shell",
        "yak spark shell --master spark://HOST:7077",
        "echo 'print(topic(\"orders\").count())' | yak spark shell",
        'yak spark shell -c \'topic("orders").groupBy("partition").count().show()\'',
    )
)
def shell(
    g: Globals,
    code: Annotated[
        str | None, typer.Option("--command", "-c", metavar="CODE", help="Run this and end.", rich_help_panel=WHAT)
    ] = None,
    connector: Connector = "yak",
    master: Master = None,
    conf: Conf = None,
    driver_memory: DriverMemory = None,
    jars: Jars = None,
    packages: Packages = None,
    ship: Ship = "package",
) -> int | None:
    """Start a Python shell with a Spark session for topics.

    Names: spark is the session; F is pyspark.sql.functions; topic("orders") is a topic as a DataFrame with key and
    value as text; stream("orders") is the same as a stream. Uses IPython if it is installed.
    """
    from dataclasses import replace

    from yak.commands.spark_python import hand_over
    from yak.local.spark_runs import scratch_log

    settings = session_settings(
        "yak-shell", master=master, conf=conf, driver_memory=driver_memory, connector=connector, jars=jars,
        packages=packages, ship=ship, ui=True,
    )  # fmt: skip
    handed = hand_over()
    if handed is not None:
        return handed
    from yak.spark.driver.make import make_session
    from yak.spark.driver.shell import interact

    settings = replace(settings, log=scratch_log("shell"))
    with g.out.progress("starting Spark"):
        spark = make_session(settings)
    try:
        return interact(spark, g.bootstrap_servers, settings, code=code, say=g.out.note)
    finally:
        spark.stop()
