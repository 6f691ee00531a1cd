"""Admin clients that probe for features that YAK lacks get an answer, not an unsupported API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.errors import LogDirNotFoundError, NoError
from support.kafka_tools import KafkaTools

PATIENCE_SECONDS = 20.0
SESSION_MS = 31_000


@pytest.fixture(scope="module")
def bootstrap(borrowed_broker: Any) -> Iterator[str]:
    with borrowed_broker() as broker:
        yield broker.start(group_consumer_session_timeout_ms=SESSION_MS).bootstrap


@pytest.fixture
def librdkafka(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def error_of(future: Any) -> str:
    with pytest.raises(KafkaException) as refused:
        future.result(PATIENCE_SECONDS)
    name: str = refused.value.args[0].name()
    return name


def test_librdkafka_receives_security_disabled_for_acl_changes(librdkafka):
    topic = (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:ann", "*")
    rule = (AclOperation.READ, AclPermissionType.ALLOW)
    (created,) = librdkafka.create_acls([AclBinding(*topic, *rule)]).values()
    (deleted,) = librdkafka.delete_acls([AclBindingFilter(*topic, *rule)]).values()
    described = librdkafka.describe_acls(AclBindingFilter(*topic, *rule))
    assert [error_of(future) for future in (created, deleted)] == ["SECURITY_DISABLED"] * 2
    assert described.result(PATIENCE_SECONDS) == []  # this client drops the error, also Apache Kafka's


def test_librdkafka_finds_no_scram_users(librdkafka):
    assert librdkafka.describe_user_scram_credentials().result(PATIENCE_SECONDS) == {}
    (ann,) = librdkafka.describe_user_scram_credentials(["ann"]).values()
    assert error_of(ann) == "RESOURCE_NOT_FOUND"


def test_librdkafka_reads_the_configs_of_a_group(librdkafka):
    resource = ConfigResource(ConfigResource.Type.GROUP, "any")
    (described,) = librdkafka.describe_configs([resource]).values()
    assert described.result(PATIENCE_SECONDS)["consumer.session.timeout.ms"].value == str(SESSION_MS)


def test_librdkafka_sets_a_config_of_a_group(librdkafka):
    name, value = "consumer.session.timeout.ms", str(SESSION_MS + 1)
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, "mine", incremental_configs=[entry])
    (altered,) = librdkafka.incremental_alter_configs([resource]).values()
    assert altered.result(PATIENCE_SECONDS) is None
    (described,) = librdkafka.describe_configs([ConfigResource(ConfigResource.Type.GROUP, "mine")]).values()
    assert described.result(PATIENCE_SECONDS)[name].value == value


def test_kafka_python_reads_quorum_features_transactions_and_resources(kafka_python):
    quorum = kafka_python.describe_metadata_quorum()["topics"][0]["partitions"][0]
    (voter,) = quorum["current_voters"]
    assert (quorum["leader_id"], voter["replica_id"], quorum["observers"]) == (1, 1, [])
    assert voter["log_end_offset"] == quorum["high_watermark"] > 0
    assert kafka_python.describe_features()["group.version"]["finalized"] == (1, 1)
    assert kafka_python.list_transactions() == {1: []}
    assert kafka_python.list_config_resources()["broker"] == ["1"]


def test_kafka_python_leaves_a_replica_in_the_log_directory_that_it_is_in(kafka_python, unique_topic):
    kafka_python.create_topics({unique_topic: {"num_partitions": 1, "replication_factor": 1}})
    kafka_python.wait_for_topics([unique_topic])
    (described,) = kafka_python.describe_log_dirs()
    (directory,) = described["log_dirs"]
    (error,) = kafka_python.alter_replica_log_dirs({(unique_topic, 0, 1): directory["log_dir"]}).values()
    assert error is NoError
    (error,) = kafka_python.alter_replica_log_dirs({(unique_topic, 0, 1): "/nowhere"}).values()
    assert error is LogDirNotFoundError


@pytest.fixture(scope="module")
def tools(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """Kafka's tools in one JVM."""
    with KafkaTools(libs, tmp_path_factory.mktemp("tools")) as made:
        yield made


TOOLS = "org.apache.kafka.tools"
CONFIGS = ("kafka.admin.ConfigCommand", "--describe", "--entity-type")


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ([f"{TOOLS}.FeatureCommand", "describe"], "Feature: group.version"),
        ([f"{TOOLS}.MetadataQuorumCommand", "describe", "--status"], "MaxFollowerLag:         0"),
        ([f"{TOOLS}.AclCommand", "--list"], "SecurityDisabledException"),
        ([f"{TOOLS}.TransactionsCommand", "list"], "TransactionalId"),
        ([*CONFIGS, "groups", "--entity-name", "any", "--all"], f"consumer.session.timeout.ms={SESSION_MS}"),
        ([*CONFIGS, "users"], ""),
        ([*CONFIGS, "broker-loggers", "--entity-name", "1"], "Dynamic configs for broker-logger 1"),
        ([*CONFIGS, "client-metrics"], ""),
    ],
)
def test_kafkas_tools_find_no_unsupported_api(tools, bootstrap, command, expected):
    name, *words = command
    printed = tools.run(name, bootstrap, *words).printed
    assert expected in printed, printed[-2000:]
    assert "UnsupportedVersion" not in printed, printed[-2000:]
