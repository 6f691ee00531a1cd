"""The part of the `trivup` package that confluent-kafka-python's tests use: its Kafka with SASL is `yak serve`."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

_CONFIGS: Final = """\
listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://{address}
sasl.enabled.mechanisms=PLAIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
"""
_START_SECONDS: Final = 60


class KafkaCluster:
    """One broker. `sasl_users` is NAME=PASSWORD; other options are of Kafka's processes."""

    def __init__(self, *, sasl_users: str, **_options: Any) -> None:
        self._user, _, self._password = sasl_users.partition("=")
        self._folder = Path(tempfile.mkdtemp(prefix="yak-clients-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        (self._folder / "users").write_text(f"{self._user}:{self._password}\n")
        (self._folder / "users").chmod(0o600)
        (self._folder / "server.properties").write_text(_CONFIGS.format(address=self._address))
        self._process = subprocess.Popen(
            [os.environ["YAK"], "serve", "--node-id", "1", "--metadata", "raft", "--no-http", "--data-dir", "data"]
            + ["--properties", "server.properties", "--users-file", "users", "--ready-file", "ready"],
            cwd=self._folder,
        )

    def wait_operational(self) -> None:
        """Wait for the broker."""
        deadline = time.monotonic() + _START_SECONDS
        while not (self._folder / "ready").exists():
            assert self._process.poll() is None, "yak serve ended"
            assert time.monotonic() < deadline, f"yak serve is not ready after {_START_SECONDS} s"
            time.sleep(0.1)

    def client_conf(self) -> dict[str, str]:
        """How clients log in."""
        login = {"sasl.mechanism": "PLAIN", "sasl.username": self._user, "sasl.password": self._password}
        return {"bootstrap.servers": self._address, "security.protocol": "SASL_PLAINTEXT", **login}

    def stop(self, **_options: Any) -> None:
        """Stop the broker, and delete its data."""
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder)
