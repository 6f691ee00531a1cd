"""Options for Spark's master and settings, shared by `yak spark sql`, `shell` and `submit`. Jobs define their own."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from yak.spark.driver.settings import SessionSettings

SPARK = "Spark"

Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", rich_help_panel=SPARK, show_default=False,
        help="local[4], spark://HOST:7077, yarn, k8s://..., sc://HOST.  [local[*]]",
    ),
]  # fmt: skip
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable.", rich_help_panel=SPARK),
]
DriverMemory = Annotated[
    str | None,
    typer.Option("--driver-memory", metavar="SIZE", help="Of the driver: 2g.", rich_help_panel=SPARK),
]
Connector = Annotated[
    str,
    typer.Option("--connector", metavar="NAME", help="yak, or kafka: Spark's own jar.", rich_help_panel=SPARK),
]
Jars = Annotated[
    list[str] | None,
    typer.Option("--jars", metavar="PATH", help="Java code to load; repeatable.", rich_help_panel=SPARK),
]
Packages = Annotated[
    list[str] | None,
    typer.Option("--packages", metavar="GROUP:NAME:VERSION", help="The same from Maven.", rich_help_panel=SPARK),
]
Ship = Annotated[
    str,
    typer.Option(
        "--ship", metavar="WHAT", help="Sent to remote executors: package, all, nothing.",
        rich_help_panel=SPARK,
    ),
]  # fmt: skip


def session_settings(
    app_name: str,
    *,
    master: str | None,
    conf: list[str] | None,
    driver_memory: str | None,
    connector: str = "yak",
    jars: list[str] | None = None,
    packages: list[str] | None = None,
    ship: str = "package",
    ui: bool = False,
) -> "SessionSettings":
    """The validated settings. Raises UsageError (`spark-options`)."""
    from yak.spark.driver.settings import SessionSettings, parse_conf

    made = SessionSettings(
        app_name=app_name,
        master=master,
        conf=parse_conf(conf or []),
        driver_memory=driver_memory,
        connector=connector,
        jars=tuple(jars or ()),
        packages=tuple(packages or ()),
        ship=ship,
        ui=ui,
    )
    made.check()
    return made
