"""A standalone Spark cluster of processes on this machine: a master, and workers of one core each."""

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from versus.brokers import free_port, stop_process

from yak.attempts import attempts

START_S = 300


@contextlib.contextmanager
def standalone(folder: Path, workers: int, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """The master's address while the cluster runs. Raises TimeoutError when its workers do not come."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
    }
    environment |= {"SPARK_NO_DAEMONIZE": "1", "SPARK_WORKER_DIR": str(folder / "work")}
    run = [str(home / "bin" / "spark-class")]
    port, web_port = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(subprocess.Popen([*run, *arguments], env=environment, stdout=log, stderr=log))

    try:
        ports = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web_port))
        start("master", "org.apache.spark.deploy.master.Master", *ports)
        for number in range(workers):
            sizes = ("--host", "127.0.0.1", "--cores", str(cores), "--memory", memory, "--webui-port", str(free_port()))
            start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *sizes, address)
        _wait_for_workers(web_port, workers)
        yield address
    finally:
        for process in reversed(processes):
            stop_process(process)


def _wait_for_workers(web_port: int, workers: int) -> None:
    for _ in attempts(START_S, 0.3):
        with contextlib.suppress(OSError):
            page = urllib.request.urlopen(f"http://127.0.0.1:{web_port}/json/", timeout=2).read().decode()
            if page.count('"state" : "ALIVE"') + page.count('"state":"ALIVE"') >= workers:
                return
    raise TimeoutError(f"the standalone cluster has no {workers} workers after {START_S} s")
