"""No output of a broker and its commands has a secret: logs, errors, answers over HTTP and Kafka, bundles, screens."""

import base64
import contextlib
import json
import os
import re
import ssl
import subprocess
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import redis as redis_py
from confluent_kafka.admin import AdminClient, ConfigResource
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from support.waiting import wait_until

from yak.local import ports, redis_child
from yak.local.spawn import yak_argv
from yak.security.certificates import create_certificates

SECRETS = {
    "users file": "odd-admin-Passw0rd",
    "user of the metadata": "odd-ann-Passw0rd",
    "wrong password": "odd-guessed-Passw0rd",
    "token": "odd-http-T0ken-17",
    "wrong token": "odd-guessed-T0ken-18",
    "password of the key": "odd-key-Passw0rd",
    "password of Redis": "odd-redis-Passw0rd",
    "password of a context": "odd-context-Passw0rd",
}
PARAMETERS = {"name": "orders", "topic": "orders", "partition": "0", "group": "g", "id": "1", "previous_offset": "0",
              "instance": "i"}  # fmt: skip


def encrypt_key(path: Path) -> None:
    """Encrypt the private key of a PEM file in place."""
    text = path.read_bytes()
    key = load_pem_private_key(text, None)
    password = BestAvailableEncryption(SECRETS["password of the key"].encode())
    chain = text[text.index(b"-----BEGIN CERTIFICATE") :]
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, password) + chain)


def write_secret(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker with TLS, an encrypted key, SCRAM users, a token, HTTPS with logins, and a Redis with a password."""
    tmp_path = tmp_path_factory.mktemp("secrets")
    certs, data = tmp_path / "certs", tmp_path / "data"
    create_certificates(str(certs), ["localhost", "127.0.0.1"], 9, [], force=False, now=datetime.now(UTC))
    encrypt_key(certs / "broker.pem")
    running = redis_child.start(str(tmp_path / "redis"), ports.find_free("127.0.0.1"), str(tmp_path / "redis.log"))
    with redis_py.Redis.from_url(running.url) as client:
        client.config_set("requirepass", SECRETS["password of Redis"])
    redis_file = write_secret(tmp_path / "redis.password", SECRETS["password of Redis"])
    users = write_secret(tmp_path / "users", f"admin:{SECRETS['users file']}\n")
    properties = write_secret(
        tmp_path / "server.properties",
        "listeners=SASL_SSL://127.0.0.1:0\n"
        f"log.dirs={data}\nssl.keystore.location={certs}/broker.pem\nssl.truststore.location={certs}/ca.pem\n"
        f"ssl.key.password={SECRETS['password of the key']}\n"
        f"listener.name.sasl_ssl.ssl.key.password={SECRETS['password of the key']}\n"
        "yak.http.security.protocol=SSL\nyak.http.authentication=basic\nsasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN\n",
    )
    redis_url = f"{running.url}?password_file={redis_file}"
    ready, log = tmp_path / "ready.json", tmp_path / "broker.log"
    words = ["serve", "--properties", str(properties), "--users-file", str(users), "--http-port", "0"]
    words += ["--redis-url", redis_url, "--ready-file", str(ready), "--log-level", "debug"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("YAK_")}
    environment = {**kept, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "YAK_HTTP_TOKEN": SECRETS["token"]}
    with open(log, "ab") as stream:
        process = subprocess.Popen(yak_argv(*words), cwd=tmp_path, env=environment, stdout=stream, stderr=stream)
    wait_until(lambda: ready.exists() or process.poll() is not None, "the broker is ready")
    try:
        assert process.poll() is None, log.read_text()
        found = json.loads(ready.read_text())
        yield SimpleNamespace(
            process=process, address=found["address"], http=f"https://localhost:{found['http_port']}", folder=tmp_path,
            data=data, ca=str(certs / "ca.pem"), environment=environment, redis_url=redis_url, log=log,
        )  # fmt: skip
    finally:
        process.kill()
        process.wait()
        redis_child.stop(running.process)


class Gathered:
    """All outputs, by where they came from."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self.texts: dict[str, str] = {}

    def run(
        self, *words: str, login: bool = True, stdin: str = "", seconds: float = 90.0, **variables: str
    ) -> int | None:
        """Run a command; its exit code, None when it was ended after `seconds`."""
        broker = self._broker
        connect = {
            "YAK_SECURITY_PROTOCOL": "SASL_SSL",
            "YAK_SSL_CA_LOCATION": broker.ca,
            "YAK_REDIS_URL": broker.redis_url,
        }
        if login:
            connect |= {"YAK_SASL_USERNAME": "admin", "YAK_SASL_PASSWORD": SECRETS["users file"]}
        child = subprocess.Popen(
            yak_argv(*words), env={**broker.environment, **connect, **variables}, cwd=broker.folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        code: int | None
        try:
            out, code = child.communicate(stdin, timeout=seconds)[0], child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            out, code = child.communicate()[0], None
        self.texts[f"yak {' '.join(words)} {sorted(variables)}"] = out
        return code

    def of_http(self) -> None:
        """Every GET route, with and without a login, and requests that change something."""
        admin, wrong = ("admin", SECRETS["users file"]), ("admin", SECRETS["wrong password"])
        with httpx.Client(
            verify=ssl.create_default_context(cafile=self._broker.ca), trust_env=False, timeout=20
        ) as client:
            paths = client.get(f"{self._broker.http}/openapi.json", auth=admin).json()["paths"]
            for number, (path, operations) in enumerate(paths.items()):
                if "get" not in operations:
                    continue
                url = self._broker.http + re.sub(r"\{(\w+)\}", lambda found: PARAMETERS[found[1]], path)
                needed = {
                    each["name"]: PARAMETERS.get(each["name"], "1")
                    for each in operations["get"]["parameters"]
                    if each["required"] and each["in"] == "query"
                }
                for auth in (admin, wrong, None) if number < 4 else (admin,):  # the guard is the same for all
                    self.texts[f"GET {path} {auth and auth[0]}"] = _read(client, url, needed, auth)
            for token in (SECRETS["token"], SECRETS["wrong token"]):
                answer = client.post(f"{self._broker.http}/topics", json={"name": "more"},
                                     headers={"authorization": f"Bearer {token}"})  # fmt: skip
                self.texts[f"POST {token == SECRETS['token']}"] = f"{answer.headers} {answer.text}"

    def of_processes(self) -> None:
        """The command line of the broker, which other users of the machine see."""
        self.texts["cmdline"] = Path(f"/proc/{self._broker.process.pid}/cmdline").read_text()

    def leaks(self, forms: dict[str, list[str]]) -> list[str]:
        return [f"{what} in {where}" for where, text in self.texts.items() for what, many in forms.items()
                if any(form in text for form in many)]  # fmt: skip


def _read(client: httpx.Client, url: str, parameters: dict[str, str], auth: Any) -> str:
    """Headers and body; of a stream what comes within two seconds."""
    body = b""
    with (
        contextlib.suppress(httpx.ReadTimeout),
        client.stream("GET", url, params=parameters, auth=auth, timeout=httpx.Timeout(20, read=2)) as answer,
    ):
        for index, piece in enumerate(answer.iter_raw()):
            body += piece
            if index > 2_000 or (b"event" in answer.headers.get("content-type", "").encode() and index > 3):
                break
        return f"{answer.status_code} {answer.headers} {body.decode(errors='replace')}"
    return body.decode(errors="replace")


def forms_of(broker: Any) -> dict[str, list[str]]:
    """Each secret as text, as base64, as hex and in a URL; also keys that only the disk has."""
    raw = {name: text.encode() for name, text in SECRETS.items()}
    raw["header of a login"] = f"admin:{SECRETS['users file']}".encode()
    cluster_secret = (broker.data / "__yak_metadata" / "cluster-secret").read_text().strip()
    raw["cluster secret"] = bytes.fromhex(cluster_secret)
    forms = {}
    for name, data in raw.items():
        plain = base64.b64encode(data).decode().rstrip("=")
        forms[name] = [plain, plain.replace("+", "-").replace("/", "_"), data.hex(), data.hex().upper(), quote(data)]
        with contextlib.suppress(UnicodeDecodeError):
            forms[name].append(data.decode())
    for file in ("ca.key", "broker.pem"):
        text = (broker.folder / "certs" / file).read_text().partition("-----BEGIN CERTIFICATE")[0]
        forms[f"private key {file}"] = [line for line in text.splitlines() if line and "-----" not in line][:-1]
    stored = b"".join(path.read_bytes() for path in broker.data.rglob("*") if path.is_file())
    for field in ("salt", "stored_key", "server_key"):
        found = {each.decode() for each in re.findall(field.encode() + rb"=([A-Za-z0-9+/]{20,}=*)", stored)}
        assert found, f"the disk has the {field} of ann"
        forms[field] = sorted(found)
    return forms


def add_ann(gathered: Gathered, broker: Any) -> None:
    """A user of the metadata, so that the keys of a credential are on the disk."""
    words = ("users", "add", "ann", "--password-file", "-", "-b", broker.address)
    assert gathered.run(*words, stdin=SECRETS["user of the metadata"]) == 0


def commands_that_change(b: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        ("quotas", "set", "--user", "ann", "producer_byte_rate=1000000", *b),
        ("topics", "create", "orders", "-p", "1", *b),
        ("produce", "orders", "-m", "hello", "-vv", *b),
        ("context", "add", "prod", *b, "--login", "ann", "--password-file", "context.secret"),
    ]


def commands_that_look(b: tuple[str, ...], data: str) -> list[tuple[str, ...]]:
    return [
        ("consume", "orders", "--exit", "--from-beginning", "-vv", *b),
        ("users", "list", "-o", "json", *b),
        ("quotas", "list", "-o", "json", *b),
        ("brokers", "describe", "1", "--all-configs", "-o", "json", *b),
        ("cluster", "-o", "json", "-v", *b),
        ("isr", "-o", "json", *b),
        ("metadata", "log", "-o", "json", "--data-dir", data),
        ("metadata", "snapshot", "-o", "json", "--data-dir", data),
        ("metadata", "log"),
        ("config", "show", "--origin", "-o", "json"),
        ("context", "show", "prod", "-o", "json"),
        ("context", "list", "-o", "json"),
        ("doctor", "-o", "json", "--bundle", "bundle.zip", *b),
        ("serve", "--properties", "server.properties", "--users-file", "users", "--dry-run"),
    ]


def described(broker: Any) -> str:
    """The answer to DescribeConfigs."""
    config = {"bootstrap.servers": broker.address, "security.protocol": "SASL_SSL", "ssl.ca.location": broker.ca,
              "sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": SECRETS["users file"]}  # fmt: skip
    admin = AdminClient(config)  # without a name its end would end the request
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    return " ".join(f"{row.name}={row.value} {row.synonyms}" for row in future.result(20).values())


@pytest.mark.timeout(400)
def test_no_output_has_a_secret(broker: Any) -> None:
    gathered, b = Gathered(broker), ("-b", broker.address)
    write_secret(broker.folder / "context.secret", SECRETS["password of a context"])
    add_ann(gathered, broker)
    for words in commands_that_change(b):
        assert gathered.run(*words) == 0, words
    looks = commands_that_look(b, str(broker.data))
    wrong = {"YAK_SASL_PASSWORD": SECRETS["wrong password"]}
    with ThreadPoolExecutor(4) as threads:
        codes = threads.map(lambda words: gathered.run(*words), looks)
        threads.submit(gathered.run, "topics", "list", *b, **wrong)
        threads.submit(gathered.run, "topics", "list", "-vv", *b, YAK_SASL_MECHANISM="PLAIN", **wrong)
        threads.submit(gathered.run, "isr", *b, **wrong)
        threads.submit(gathered.run, "ui", "--plain", *b, seconds=15)
        gathered.of_http()
    assert {words[0]: code for words, code in zip(looks, codes, strict=True) if code not in (0, 4)} == {}
    gathered.of_processes()
    gathered.texts["describe configs"] = described(broker)
    assert "listener.name.sasl_ssl.ssl.key.password" in gathered.texts["describe configs"]
    with zipfile.ZipFile(broker.folder / "bundle.zip") as bundle:
        gathered.texts |= {f"bundle {name}": bundle.read(name).decode() for name in bundle.namelist()}
    gathered.texts["log"] = broker.log.read_text()
    gathered.texts["log of Redis"] = (broker.folder / "redis.log").read_text()
    assert "login-refused" in gathered.texts["log"]
    assert "http-login-refused" in gathered.texts["log"]
    assert len(gathered.texts) > 60
    assert gathered.leaks(forms_of(broker)) == []


def test_search_itself_finds_each_secret(broker: Any) -> None:
    gathered = Gathered(broker)
    add_ann(gathered, broker)
    forms = forms_of(broker)
    for what, many in forms.items():
        gathered.texts = {"here": f"before {many[0]} behind"}
        assert f"{what} in here" in gathered.leaks(forms)


def test_files_with_secrets_are_for_their_owner_alone(broker: Any) -> None:
    write_secret(broker.folder / "context.secret", SECRETS["password of a context"])
    gathered, b = Gathered(broker), ("-b", broker.address)
    assert gathered.run("context", "add", "kept", *b, "--login", "ann", "--password-file", "context.secret") == 0
    gathered.run("doctor", "--bundle", "modes.zip", *b)
    certs, contexts = broker.folder / "certs", broker.folder / "yak"
    private = [*broker.data.rglob("*"), broker.data, certs, certs / "ca.key", contexts, *contexts.rglob("*")]
    private.append(broker.folder / "modes.zip")
    assert {"cluster-secret", "config.toml", "modes.zip"} <= {path.name for path in private}
    modes = {str(path): path.stat().st_mode & 0o777 for path in private}
    assert {path: mode for path, mode in modes.items() if mode & 0o077} == {}
