"""Kafka's Java clients and tools: logins by OAUTHBEARER, and delegation tokens from their creation to their end."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from test_logins import ADMIN, PASSWORD, start

from tests.unit.security.issuer import key_set_of, member, token

SECONDS = 60.0
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOOLS = "org.apache.kafka.tools."


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("java-tokens")
    (folder / "keys.json").write_bytes(key_set_of(member("RS256", "one")))
    started = start(
        folder,
        *("--metadata", "raft", "-c", "num.partitions=1", "-c", "delegation.token.secret.key=secret"),
        *("-c", "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"),
        *("-c", f"sasl.oauthbearer.jwks.endpoint.url=file://{folder}/keys.json"),
    )
    yield started
    started.process.kill()
    started.process.wait()


def run(java: list[str], broker: SimpleNamespace, java_class: str, words: str, login: dict[str, str], typed: str = "",
        *flags: str) -> str:  # fmt: skip
    """The output of a tool that logs in with these properties."""
    path = broker.folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
    command = [java[0], *flags, *java[1:], java_class, "--bootstrap-server", broker.address, *words.split(), str(path)]
    ran = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=SECONDS, check=False)
    return ran.stdout + ran.stderr


def scram_login(user: str, password: str, mechanism: str = "SCRAM-SHA-256", more: str = "") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}"{more};',
    }


def test_java_client_logs_in_by_oauthbearer_with_a_token_of_a_file(java: list[str], broker: SimpleNamespace) -> None:
    path = broker.folder / "access.token"
    path.write_text(token(key_id="one", now_ms=time.time_ns() // 1_000_000, scope="kafka"))
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": f"file://{path}",
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{path}"
    said = run(java, broker, f"{TOOLS}TopicCommand", "--create --topic by-oauth --command-config", login, "", allowed)
    assert "Created topic by-oauth" in said, said
    path.write_text(token(key_id="one", number=1, now_ms=time.time_ns() // 1_000_000, scope="kafka"))
    said = run(java, broker, f"{TOOLS}TopicCommand", "--list --command-config", login, "", allowed)
    assert "SaslAuthenticationException" in said, said
    assert "invalid_token" in said, said


def test_java_tools_create_use_renew_and_expire_a_delegation_token(java: list[str], broker: SimpleNamespace) -> None:
    admin, tool = scram_login(ADMIN, PASSWORD), f"{TOOLS}DelegationTokenCommand"
    said = run(java, broker, tool, "--create --max-life-time-period -1 --renewer-principal User:bob --command-config",
               admin)  # fmt: skip
    found = re.search(r"^(\S{22})\s+(\S+==)\s+User:admin\s+User:admin\s+\[User:bob\]", said, re.MULTILINE)
    assert found is not None, said
    token_id, hmac = found.groups()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = scram_login(token_id, hmac, mechanism, ' tokenauth="true"')
        said = run(java, broker, f"{TOOLS}TopicCommand", "--list --command-config", login)
        assert "Exception" not in said, said
        said = run(java, broker, tool, "--describe --command-config", login)
        assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in said or "UnsupportedByAuthentication" in said, said
    assert token_id in run(java, broker, tool, "--describe --owner-principal User:admin --command-config", admin)
    said = run(java, broker, tool, f"--renew --renew-time-period 3600000 --hmac {hmac} --command-config", admin)
    assert "Completed renew operation" in said, said
    said = run(java, broker, tool, f"--expire --expiry-time-period -1 --hmac {hmac} --command-config", admin)
    assert "Completed expire operation" in said, said
    said = run(java, broker, f"{TOOLS}TopicCommand", "--list --command-config",
               scram_login(token_id, hmac, more=' tokenauth="true"'))  # fmt: skip
    assert "SaslAuthenticationException" in said, said
    said = run(java, broker, tool, f"--renew --renew-time-period -1 --hmac {hmac} --command-config", admin)
    assert "DelegationTokenNotFoundException" in said, said
