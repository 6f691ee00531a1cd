"""Kafka's Java clients and tools: logins by each mechanism, with TLS and without, and delegation tokens from their
creation to their end.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from support.kafka_tools import (  # fmt: skip
    CONSUMER,
    DELEGATION_TOKENS,
    PRODUCER,
    TOPICS,
    KafkaTools,
    inside_tls,
    password_login,
    token_file_login,
)
from support.login_broker import OAUTHBEARER, PASSWORDS, PROTOCOLS, LoginBroker, access_token
from test_logins import ADMIN, PASSWORD

pytestmark = pytest.mark.jvm
PLAINTEXT, TLS = PROTOCOLS


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with LoginBroker(tmp_path_factory.mktemp("java-logins")) as started:
        yield started


@pytest.fixture(scope="module")
def access_token_file(broker: LoginBroker) -> Path:
    return broker.folder / "access.token"


@pytest.fixture(scope="module")
def tools(libs: Path, broker: LoginBroker, access_token_file: Path) -> Iterator[KafkaTools]:
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{access_token_file}"
    with KafkaTools(libs, broker.folder, allowed) as started:
        yield started


def config(tools: KafkaTools, broker: LoginBroker, protocol: str, login: dict[str, str]) -> list[str]:
    return [
        "--command-config",
        tools.properties(login if protocol == PLAINTEXT else inside_tls(login, broker.authority)),
    ]


def round_trip(tools: KafkaTools, broker: LoginBroker, protocol: str, topic: str, login: dict[str, str]) -> None:
    """A record is produced and consumed."""
    words = ["--topic", topic, *config(tools, broker, protocol, login)]
    produced = tools.run(PRODUCER, broker.addresses[protocol], *words, typed="hello\n")
    assert (produced.status, "rror" in produced.printed) == (0, False), produced.printed
    once = ("--partition", "0", "--offset", "0", "--max-messages", "1", "--timeout-ms", "20000")
    consumed = tools.run(CONSUMER, broker.addresses[protocol], *words, *once)
    assert "hello\n" in consumed.printed, consumed.printed


def refusal(tools: KafkaTools, broker: LoginBroker, login: dict[str, str]) -> str:
    """What a tool prints whose login is refused."""
    ran = tools.run(TOPICS, broker.addresses[PLAINTEXT], "--list", *config(tools, broker, PLAINTEXT, login))
    assert ran.status == 1, ran.printed
    return ran.printed


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_java_client_logs_in_with_a_password(tools, broker, mechanism, protocol):
    round_trip(tools, broker, protocol, f"{mechanism}-{protocol}", password_login(mechanism, ADMIN, PASSWORD))
    assert "Authentication failed" in refusal(tools, broker, password_login(mechanism, ADMIN, "wrong"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_java_client_logs_in_by_oauthbearer_with_a_token_of_a_file(tools, broker, access_token_file, protocol):
    access_token_file.write_text(access_token())
    round_trip(tools, broker, protocol, f"{OAUTHBEARER}-{protocol}", token_file_login(access_token_file))
    access_token_file.write_text(access_token(number=1))
    assert "invalid_token" in refusal(tools, broker, token_file_login(access_token_file))


def test_java_tools_create_use_renew_and_expire_a_delegation_token(tools, broker):
    admin = password_login("SCRAM-SHA-256", ADMIN, PASSWORD)

    def said(*words: str, login: dict[str, str] = admin, protocol: str = TLS) -> str:
        given = config(tools, broker, protocol, login)
        return tools.run(DELEGATION_TOKENS, broker.addresses[protocol], *words, *given).printed

    created = said("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^(\S{22})\s+(\S+==)\s+User:admin\s+User:admin\s+\[User:bob\]", created, re.MULTILINE)
    assert found is not None, created
    token_id, hmac = found.groups()
    for mechanism in PASSWORDS[1:]:
        login = password_login(mechanism, token_id, hmac, ' tokenauth="true"')
        for protocol in PROTOCOLS:
            round_trip(tools, broker, protocol, f"token-{mechanism}-{protocol}", login)
            words = said("--describe", login=login, protocol=protocol)
            assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in words or "UnsupportedByAuthentication" in words, words
    assert token_id in said("--describe", "--owner-principal", "User:admin")
    assert "Completed renew operation" in said("--renew", "--renew-time-period", "3600000", "--hmac", hmac)
    assert "Completed expire operation" in said("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    login = password_login("SCRAM-SHA-256", token_id, hmac, ' tokenauth="true"')
    assert "Authentication failed" in refusal(tools, broker, login)
    assert "DelegationTokenNotFoundException" in said("--renew", "--renew-time-period", "-1", "--hmac", hmac)
