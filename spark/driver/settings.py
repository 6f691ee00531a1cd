"""The settings of a Spark session."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from yak.errors import UsageError

CONNECTORS = ("yak", "kafka")
SHIP = ("package", "all", "nothing")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The defaults are a session on this machine."""

    app_name: str = "yak"
    master: str | None = None
    """`local[*]`, `spark://host:7077`, `yarn`, `k8s://…`, or `sc://host:15002` for Spark Connect. None: SPARK_REMOTE or
    MASTER, otherwise `local[*]`."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings; they override the defaults of YAK."""
    driver_memory: str | None = None
    log: Path | None = None
    """Log file of Spark and Java; None leaves their output on stderr."""
    ui: bool = False
    """Enable Spark's web UI, on 127.0.0.1 unless the master is remote."""
    connector: str = "yak"
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    ship: str = "package"
    """What remote executors receive: the package, also its dependencies, or nothing (they have yak[spark])."""
    answer_s: float = 60.0
    """Bound for a master's answer, and then for its first executor."""

    @property
    def where(self) -> str:
        """The master, with defaults applied."""
        return self.master or os.environ.get("SPARK_REMOTE") or os.environ.get("MASTER") or "local[*]"

    @property
    def is_local(self) -> bool:
        """Whether driver and executors run in one local process."""
        return self.where.startswith("local")

    @property
    def is_connect(self) -> bool:
        """Whether the master is a Spark Connect server, which needs no local Java."""
        return self.where.startswith("sc://")

    def check(self) -> None:
        """Raise UsageError (`spark-options`) for settings that are known to be invalid."""
        if not re.fullmatch(r"local(\[(\*|\d+)(,\d+)?\])?|local-cluster\[.+\]|(spark|k8s|sc)://.+|yarn", self.where):
            raise UsageError(
                "spark-options",
                f'"{self.where}" is no Spark master',
                why="it is local[*], local[4], spark://HOST:7077, yarn, k8s://https://HOST:PORT or sc://HOST:15002",
                try_=("--master 'local[*]'",),
            )
        if self.driver_memory is not None and not re.fullmatch(r"(?i)\d+[kmgt]b?", self.driver_memory):
            raise UsageError(
                "spark-options",
                f'"{self.driver_memory}" is no amount of memory for Spark',
                why="it is a whole number with k, m, g or t",
                try_=("--driver-memory 2g",),
            )
        one_of("--connector", self.connector, CONNECTORS)
        one_of("--ship", self.ship, SHIP)


def one_of(flag: str, value: str, known: tuple[str, ...]) -> None:
    """Raise UsageError (`spark-options`) for a value that is not known."""
    if value not in known:
        why, remedy = f"it is {' or '.join(known)}", f"{flag} {known[0]}"
        raise UsageError("spark-options", f'{flag} cannot be "{value}"', why=why, try_=(remedy,))
