"""The part of the `docker` package that aiokafka's tests use: its container of Kafka is `yak up`."""

import os
import subprocess
import tempfile
from types import SimpleNamespace
from typing import Any


class Tools:
    """The container in which the tests make their certificates: it makes none, so tests with TLS fail."""

    def exec_run(self, *_command: Any, **_options: Any) -> tuple[int, bytes]:
        """Do nothing."""
        return 0, b""

    def stop(self) -> None:
        """Nothing runs."""


class Container:
    """A cluster of YAK on the ports of the environment that the tests give the container."""

    def __init__(self, environment: dict[str, Any]) -> None:
        self._folder = tempfile.mkdtemp(prefix="yak-clients-")
        port, partitions = environment["ADVERTISED_PORT"], environment["NUM_PARTITIONS"]
        self._yak("up", "-d", "--no-http", "--port", str(port), "-c", f"num.partitions={partitions}")

    def exec_run(self, command: str, **_options: Any) -> tuple[int, bytes]:
        """No shell, and none of Kafka's tools: what needs them fails with this text."""
        return 1, f"not in YAK's container: {command}".encode()

    def stop(self) -> None:
        """Stop the cluster, and delete its data."""
        self._yak("down", "--purge", "--yes")

    def _yak(self, command: str, *arguments: str) -> None:
        subprocess.run([os.environ["YAK"], command, "--data-dir", self._folder, *arguments], check=True)


class _Client:
    def __init__(self) -> None:
        self.containers = SimpleNamespace(run=self._run)

    def _run(self, environment: dict[str, Any] | None = None, **_options: Any) -> Container | Tools:
        return Tools() if environment is None else Container(environment)

    def close(self) -> None:
        pass


def from_env() -> _Client:
    """The client; it needs no daemon."""
    return _Client()


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
