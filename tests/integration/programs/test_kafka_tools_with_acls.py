"""Kafka's tools with the properties of a client, on a listener of SASL_SSL and with ACLs: as a user with rights and one without."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from support.kafka_tools import (
    ACLS,
    CONFIGS,
    CONSUMER,
    CONSUMER_GROUPS,
    DELEGATION_TOKENS,
    PRODUCER,
    TOPICS,
    KafkaTools,
    Ran,
    inside_tls,
    password_login,
)
from support.login_broker import PROTOCOLS, LoginBroker
from test_logins import ADMIN, PASSWORD

pytestmark = pytest.mark.jvm
USERS = {ADMIN: PASSWORD, "ann": "ann-secret", "none": "none-secret"}
RIGHTS = (
    "--operation All --topic orders",
    "--operation All --topic made",
    "--operation All --group g",
    "--operation Alter --operation Describe --operation AlterConfigs --operation DescribeConfigs --cluster",
)
"""Of ann, in the words of kafka-acls."""
CLUSTER_DENIED = "ClusterAuthorizationException"


class Tool(NamedTuple):
    """One call of a tool, and regular expressions of what it prints."""

    java_class: str
    words: str
    allowed: str
    denied: str
    """What Kafka 4.3.1 answers, too, to a user without ACLs."""
    typed: str = ""
    config: str = "--command-config"
    statuses: tuple[int, int] = (0, 1)
    """With rights, and without."""


def alter(kind: str, name: str, config: str, denied: str = CLUSTER_DENIED) -> Tool:
    words = f"--alter --entity-type {kind} --entity-name {name} --add-config {config}"
    return Tool(CONFIGS, words, f"Completed updating config for {kind[:-1]} {name}", denied)


def describe(kind: str, name: str, allowed: str, denied: str = CLUSTER_DENIED, status: int = 1) -> Tool:
    words = f"--describe --entity-type {kind} --entity-name {name}"
    return Tool(CONFIGS, words, allowed, denied, statuses=(0, status))


CONSUME = "--topic orders --group g --from-beginning --max-messages 2 --timeout-ms 20000"
CALLS = [
    Tool(TOPICS, "--create --topic made", "Created topic made", "[Aa]uthorization failed"),
    Tool(TOPICS, "--list", r"^made\norders\n", r"^\n*$", statuses=(0, 0)),
    Tool(TOPICS, "--describe --topic orders", "PartitionCount: 1", "Topic 'orders' does not exist as expected"),
    Tool(
        PRODUCER,
        "--topic orders",
        r"^$",
        r"TopicAuthorizationException: Not authorized to access topics: \[orders\]",
        "one\n",
        "--command-config",
        (0, 0),
    ),
    Tool(
        PRODUCER,
        "--topic orders",
        "deprecated",
        r"Not authorized to access topics: \[orders\]",
        "two\n",
        "--producer.config",
        (0, 0),
    ),
    Tool(
        CONSUMER,
        CONSUME,
        r"one\ntwo\n.*Processed a total of 2",
        "GroupAuthorizationException|Not authorized to access",
        config="--consumer.config",
        statuses=(0, 0),
    ),
    Tool(CONSUMER_GROUPS, "--list", r"^g\n", r"^\n*$", statuses=(0, 0)),
    Tool(
        CONSUMER_GROUPS,
        "--describe --group g",
        r"g +orders +0 +2 +2 +0",
        "GroupAuthorizationException",
        statuses=(0, 0),
    ),
    Tool(
        CONSUMER_GROUPS,
        "--reset-offsets --group g --topic orders --to-earliest --execute",
        r"g +orders +0 +0",
        "GroupAuthorizationException",
        statuses=(0, 0),
    ),
    alter("users", "bob", "SCRAM-SHA-512=[password=bob-secret]"),
    alter("users", "bob", "producer_byte_rate=1000"),
    describe("users", "bob", r"producer_byte_rate=1000.*SCRAM-SHA-512=iterations=4096"),
    alter("brokers", "1", "message.max.bytes=2000000"),
    describe("brokers", "1", r"message\.max\.bytes=2000000"),
    alter("topics", "orders", "retention.ms=60000000", "TopicAuthorizationException"),
    describe("topics", "orders", "retention.ms=60000000", "The topic 'orders' doesn't exist", 0),
    Tool(ACLS, "--add --allow-principal User:x --operation Read --topic t", "principal=User:x, host=", CLUSTER_DENIED),
    Tool(ACLS, "--list --topic t", "principal=User:x, host=", CLUSTER_DENIED),
    Tool(ACLS, "--remove --force --topic t", r"^\s*$", CLUSTER_DENIED),
]
"""In this order: later calls use what earlier ones made."""


class Bench(NamedTuple):
    """The broker, the JVM of the tools, and the properties of each user."""

    broker: LoginBroker
    tools: KafkaTools
    properties: dict[str, str]

    def run(self, tool: Tool, user: str) -> Ran:
        words = [*tool.words.split(), tool.config, self.properties[user]]
        return self.tools.run(tool.java_class, self.broker.addresses[PROTOCOLS[1]], *words, typed=tool.typed)


@pytest.fixture(scope="module")
def bench(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    folder = tmp_path_factory.mktemp("tools-with-acls")
    with (
        LoginBroker(folder, authorizer_class_name=authorizer, super_users=f"User:{ADMIN}") as broker,
        KafkaTools(libs, folder) as tools,
    ):
        logins = {user: password_login("SCRAM-SHA-256", user, password) for user, password in USERS.items()}
        files = {user: tools.properties(inside_tls(login, broker.authority)) for user, login in logins.items()}
        made = Bench(broker, tools, files)
        for user in ("ann", "none"):
            broker.yak("users", "add", user, "--password-file", "-", stdin=f"{USERS[user]}\n")
        for words in RIGHTS:
            ran = made.run(Tool(ACLS, f"--add --allow-principal User:ann {words}", "", ""), ADMIN)
            assert ran.status == 0, ran.printed
        assert made.run(Tool(TOPICS, "--create --topic orders", "", ""), ADMIN).status == 0
        yield made


def test_tools_do_what_the_acls_allow_and_end_with_kafkas_error_otherwise(bench: Bench) -> None:
    for tool in CALLS:
        for user, pattern, status in zip(
            ("none", "ann"), (tool.denied, tool.allowed), tool.statuses[::-1], strict=True
        ):
            ran = bench.run(tool, user)
            said = f"{tool.java_class} {tool.words} as {user}: {ran}"
            assert re.search(pattern, ran.printed, re.DOTALL | re.MULTILINE), said
            assert ran.status == status, said


def test_delegation_token_of_another_user_needs_an_acl(bench: Bench) -> None:
    create = Tool(DELEGATION_TOKENS, "--create --max-life-time-period -1 --owner-principal User:ann", "", "")
    refused = bench.run(create, "none")
    assert (refused.status, "DelegationTokenAuthorizationException" in refused.printed) == (1, True), refused.printed
    own = bench.run(create, "ann")
    assert own.status == 0, own.printed
    described = Tool(DELEGATION_TOKENS, "--describe --owner-principal User:ann", "", "")
    assert "Total number of tokens : 1" in bench.run(described, "ann").printed
    assert "Total number of tokens : 0" in bench.run(described, "none").printed
    allowed = Tool(
        ACLS, "--add --allow-principal User:none --operation DescribeTokens --user-principal User:ann", "", ""
    )
    assert bench.run(allowed, ADMIN).status == 0
    assert "Total number of tokens : 1" in bench.run(described, "none").printed


def test_two_credentials_of_a_user_in_one_request_are_refused_as_by_kafka(bench: Bench) -> None:
    ran = bench.run(alter("users", "carl", "SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=x]"), ADMIN)
    assert "DuplicateResourceException: A user credential cannot be altered twice" in ran.printed
