"""Options for Spark's master and settings, shared by `yak spark sql`, `shell` and `submit`."""

from typing import TYPE_CHECKING, Annotated

from yak.spark.jobs.options import CONF, CONNECTOR, DRIVER_MEMORY, JARS, MASTER, PACKAGES, SHIP, key_values

if TYPE_CHECKING:
    from yak.spark.driver.settings import SessionSettings

SPARK = "Spark"

Master = Annotated[str | None, MASTER]
Conf = Annotated[list[str] | None, CONF]
DriverMemory = Annotated[str | None, DRIVER_MEMORY]
Connector = Annotated[str, CONNECTOR]
Jars = Annotated[list[str] | None, JARS]
Packages = Annotated[list[str] | None, PACKAGES]
Ship = Annotated[str, SHIP]


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
    from yak.spark.driver.settings import SessionSettings

    made = SessionSettings(
        app_name=app_name,
        master=master,
        conf=key_values("--conf", tuple(conf or ())),
        driver_memory=driver_memory,
        connector=connector,
        jars=tuple(jars or ()),
        packages=tuple(packages or ()),
        ship=ship,
        ui=ui,
    )
    made.check()
    return made
