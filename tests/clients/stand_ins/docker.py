"""The part of the `docker` package that aiokafka's tests use: its container of Kafka is `yak serve`."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

_USERS: Final = "admin:admin\ntest:test\ntest2:test2\n"
"""Those of the container's JAAS file."""
_CONFIGS: Final = """\
num.partitions={NUM_PARTITIONS}
listeners={listeners}
advertised.listeners={listeners}
ssl.client.auth=required
ssl.keystore.type=PKCS12
ssl.keystore.location={certificates}/kafka.p12
ssl.keystore.password=abcdefgh
ssl.truststore.type=PEM
ssl.truststore.location={certificates}/ca.crt
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:admin;User:ANONYMOUS
"""
"""ANONYMOUS is who changes ACLs here; the tools of Kafka's container wrote them into ZooKeeper."""
_LISTENERS: Final = {
    "PLAINTEXT": "ADVERTISED_PORT",
    "SSL": "ADVERTISED_SSL_PORT",
    "SASL_PLAINTEXT": "ADVERTISED_SASL_PLAINTEXT_PORT",
    "SASL_SSL": "ADVERTISED_SASL_SSL_PORT",
}
_RENAMED: Final = {"--allow-principal": "--allow", "--deny-principal": "--deny"}


class Tools:
    """The container in which the tests make their certificates, in the folder that is mounted as /ssl_cert."""

    def __init__(self, volumes: dict[Any, dict[str, str]]) -> None:
        self._mounted = {volume["bind"]: str(path) for path, volume in volumes.items()}

    def exec_run(self, command: list[str], **_options: Any) -> tuple[int, bytes]:
        """Run a command in the folder of the certificates."""
        words = [self._mounted.get(word, word) for word in command]
        done = subprocess.run(words, cwd=self._mounted["/ssl_cert"], capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def stop(self) -> None:
        """Nothing runs."""


class Container:
    """A broker of YAK on the ports of the environment that the tests give the container."""

    def __init__(self, environment: dict[str, Any], volumes: dict[Any, dict[str, str]]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="yak-clients-"))
        self._address = f"127.0.0.1:{environment['ADVERTISED_PORT']}"
        certificates = next(path for path, volume in volumes.items() if volume["bind"] == "/ssl_cert")
        listeners = ",".join(f"{name}://127.0.0.1:{environment[port]}" for name, port in _LISTENERS.items())
        (self._folder / "users").write_text(_USERS)
        (self._folder / "users").chmod(0o600)
        (self._folder / "server.properties").write_text(
            _CONFIGS.format_map(environment | {"listeners": listeners, "certificates": certificates})
        )
        self._process = subprocess.Popen(
            [os.environ["YAK"], "serve", "--node-id", "0", "--metadata", "raft", "--no-http", "--data-dir", "data"]
            + ["--properties", "server.properties", "--users-file", "users"],
            cwd=self._folder,
        )

    def exec_run(self, command: str, **_options: Any) -> tuple[int, bytes]:
        """kafka-acls.sh and kafka-configs.sh by the command of YAK that does the same."""
        words = shlex.split(command)
        tool = os.path.basename(words[0])
        if tool == "kafka-acls.sh":
            return self._yak(*_acls(words))
        if tool == "kafka-configs.sh":
            arguments, password = _new_user(words)
            return self._yak(*arguments, input=password)
        return 1, f"not in YAK's container: {command}".encode()

    def stop(self) -> None:
        """Stop the broker, and delete its data."""
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder)

    def _yak(self, *arguments: str, **options: Any) -> tuple[int, bytes]:
        command = [os.environ["YAK"], *arguments, "-b", self._address, "--yes"]
        done = subprocess.run(command, capture_output=True, check=False, **options)
        return done.returncode, done.stdout + done.stderr


def _acls(words: list[str]) -> list[str]:
    """The words after `yak` that do what `kafka-acls.sh --add|--remove|--list` does."""
    (verb,) = {"--add", "--remove", "--list"} & set(words)
    options = words[words.index(verb) + 1 :]
    return ["acls", verb.lstrip("-"), *(_RENAMED.get(word, word) for word in options)]


def _new_user(words: list[str]) -> tuple[list[str], bytes]:
    """The words after `yak`, and its input, that add the user of `kafka-configs.sh --alter`."""
    name = words[words.index("--entity-name") + 1]
    password = re.search(r"password=([^\]]*)", words[words.index("--add-config") + 1])
    assert password
    return ["users", "add", name, "--password-file", "-"], password[1].encode()


class _Client:
    def __init__(self) -> None:
        self.containers = SimpleNamespace(run=self._run)

    def _run(self, volumes: dict[Any, dict[str, str]], environment: Any = None, **_options: Any) -> Container | Tools:
        return Tools(volumes) if environment is None else Container(environment, volumes)

    def close(self) -> None:
        pass


def from_env() -> _Client:
    """The client; it needs no daemon."""
    return _Client()


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
