"""Kafka's command line tools in one JVM, with the properties of a client that logs in."""

import json
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

SOURCE = Path(__file__).parent / "KafkaTools.java"
TOOLS = "org.apache.kafka.tools."
TOPICS, ACLS = f"{TOOLS}TopicCommand", f"{TOOLS}AclCommand"
CONFIGS, DELEGATION_TOKENS = "kafka.admin.ConfigCommand", f"{TOOLS}DelegationTokenCommand"
CONSUMER_GROUPS = f"{TOOLS}consumer.group.ConsumerGroupCommand"
PRODUCER, CONSUMER = f"{TOOLS}ConsoleProducer", f"{TOOLS}consumer.ConsoleConsumer"
_MODULES = "org.apache.kafka.common.security."
_FLAGS = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Ran(NamedTuple):
    """How one tool ended."""

    status: int
    printed: str


class KafkaTools:
    """The JVM. A context manager; `folder` gets its log and the properties of clients."""

    def __init__(self, libs: Path, folder: Path, *flags: str) -> None:
        self._folder = folder
        command = ["java", *_FLAGS, *flags, "-cp", f"{_compiled(libs)}:{libs}/*", SOURCE.stem]
        with (folder / "tools.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )

    def run(self, java_class: str, address: str, *words: str, typed: str = "") -> Ran:
        """Run one tool to its end, with the brokers at an address."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({"class": java_class, "words": ["--bootstrap-server", address, *words], "typed": typed}) + "\n"
        )
        line = self._process.stdout.readline()
        assert line, (self._folder / "tools.log").read_text()
        answer = json.loads(line)
        return Ran(answer["status"], answer["printed"])

    def properties(self, login: Mapping[str, str]) -> str:
        """The path of a file with a client's properties."""
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".properties", delete=False) as file:
            file.writelines(f"{name}={value}\n" for name, value in login.items())
        return file.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def _compiled(libs: Path) -> Path:
    """The folder with the class, kept beside the jars: javac takes more processor time than most tools."""
    folder = libs.parent / f"tools-{zlib.crc32(SOURCE.read_bytes())}"
    if not folder.exists():
        made = tempfile.mkdtemp(dir=libs.parent)
        subprocess.run(["javac", *(f"-J{flag}" for flag in _FLAGS), "-cp", f"{libs}/*", "-d", made, SOURCE], check=True)
        try:
            os.rename(made, folder)
        except OSError:  # another worker of the tests was faster
            shutil.rmtree(made)
    return folder


def password_login(mechanism: str, user: str, password: str, more: str = "") -> dict[str, str]:
    """The properties of a login with a password, on SASL_PLAINTEXT."""
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    jaas = f'{_MODULES}{module}LoginModule required username="{user}" password="{password}"{more};'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def token_file_login(path: Path) -> dict[str, str]:
    """The properties of a login by the access token of a file, on SASL_PLAINTEXT."""
    package = f"{_MODULES}oauthbearer."
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{package}OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{package}OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": f"file://{path}",
    }


def inside_tls(login: Mapping[str, str], authority: Path) -> dict[str, str]:
    """A login inside TLS with a broker of this authority."""
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    return {**login, **store, "security.protocol": "SASL_SSL"}
