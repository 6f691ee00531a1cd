"""Checks whether a Spark master is reachable; Spark itself would try for a minute and then print sixty lines."""

import os
import socket
from urllib.parse import urlsplit

from yak.errors import UsageError

_PORTS = {"spark": 7077, "sc": 15002, "https": 443, "http": 80}


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Host and port of each master in a URL; empty for masters without an address."""
    if not master.startswith(("spark://", "sc://", "k8s://")):
        return []
    scheme, _, rest = master.partition("://")
    if scheme == "k8s":
        scheme, _, rest = (rest if "://" in rest else f"https://{rest}").partition("://")
    found = []
    for each in rest.split("/")[0].split(";")[0].split(","):
        try:
            parts = urlsplit(f"//{each}")
            found.append((parts.hostname or "", parts.port or _PORTS.get(scheme, 443)))
        except ValueError:
            found.append(("", 0))
    return found


def check_answers(master: str, *, timeout_s: float) -> None:
    """Raise UsageError (`spark-master`) when no address of this master accepts a connection."""
    if master == "yarn" and not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise UsageError(
            "spark-master",
            "YARN cannot be found",
            why="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set, and they say where it is",
            try_=("HADOOP_CONF_DIR=/etc/hadoop/conf yak spark … --master yarn",),
        )
    master, reasons = master.partition(";")[0], []  # without a token
    for host, port in addresses_of(master):
        try:
            if not host:
                raise OSError("it names no host")
            socket.create_connection((host, port), timeout=timeout_s).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {(error.strerror or str(error)).lower()}")
        else:
            return
    if reasons:
        raise silent_master(master, "; ".join(reasons))


def silent_master(
    master: str,
    why: str = "it took the connection, but not the application: it may not be Spark, or of another version",
) -> UsageError:
    """The error for a master that does not answer."""
    try_ = ("--master 'local[*]'        run on this machine", f"check that {master.partition('://')[2]} is up")
    return UsageError("spark-master", f"the Spark master {master} does not answer", why=why, try_=try_)


def no_executor(master: str, waited_s: float) -> UsageError:
    """The error for a cluster without a free worker."""
    return UsageError(
        "spark-executors",
        f"the Spark master {master} gave no executor in {waited_s:g} s",
        why="no worker has joined it, or none has the cores and the memory that were asked for",
        try_=(
            "--conf spark.executor.memory=512m --conf spark.cores.max=1",
            "look at the master's web page, by default port 8080",
        ),
    )
