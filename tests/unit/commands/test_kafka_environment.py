"""`yak serve --kafka-env`: the variables of testcontainers and of Kafka's compose files, and those that make no sense."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.commands.kafka_environment import (
    _IGNORED,
    _REFUSED,
    KafkaEnvironment,
    config_name,
    read_kafka_environment,
    refuse_known_secret,
    variable_of,
)
from yak.commands.main import run
from yak.config.broker_config_table import BROKER_CONFIGS
from yak.errors import UsageError

TESTCONTAINERS_JAVA = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32789,BROKER://8c1:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_NODE_ID": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
}
"""What org.testcontainers.kafka.KafkaContainer sets (modules/kafka, KafkaHelper.java)."""


def read(has_store: bool = False, secrets_dir: str = "/none", **variables: str) -> KafkaEnvironment:
    return read_kafka_environment(
        variables, has_store=has_store, secrets_dir=secrets_dir, host_name=lambda: "container"
    )


def values(found: KafkaEnvironment) -> dict[str, str]:
    return {name: value for name, (value, _) in found.configs.items()}


def refused(**variables: str) -> UsageError:
    with pytest.raises(UsageError) as error:
        read(**variables)
    assert error.value.why
    return error.value


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_LISTENER_NAME_MY__NAME_SSL_CLIENT_AUTH", "listener.name.my_name.ssl.client.auth"),
        ("KAFKA_LISTENER_NAME_A___B_SSL_CLIENT_AUTH", "listener.name.a-b.ssl.client.auth"),
    ],
)
def test_variable_name_becomes_the_config_that_kafkas_image_makes_of_it(variable, name):
    assert config_name(variable) == name


@given(st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,4}", fullmatch=True))
def test_variable_of_a_config_is_read_as_that_config(name):
    assert config_name(variable_of(name)) == name


@given(
    st.dictionaries(
        st.sampled_from([*BROKER_CONFIGS, *_REFUSED, *_IGNORED, "process.roles", "controller.quorum.voters"]).map(
            variable_of
        )
        | st.from_regex(r"KAFKA_[A-Z0-9_]{0,20}", fullmatch=True),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
        | st.sampled_from(["broker", "controller", "1@a:1,2@b:2", "PLAINTEXT://:1", "localhost:2181"]),
        max_size=6,
    )
)
def test_any_environment_is_taken_or_refused_with_a_reason(variables):
    try:
        found = read(**variables)
    except UsageError as error:
        reasons = [error.why]
    else:
        reasons = found.ignored
        assert all(line.partition(" ")[0] in variables for line in reasons)
    assert all(reasons)


def test_variables_of_testcontainers_are_all_taken():
    found = read(**TESTCONTAINERS_JAVA)
    assert found.ignored == []
    assert values(found)["listeners"] == TESTCONTAINERS_JAVA["KAFKA_LISTENERS"]
    assert values(found)["log.flush.interval.messages"] == str(2**63 - 1)
    assert "process.roles" not in values(found)
    # The only voter is this broker: it needs no secret, and its cluster id is the container's.
    assert found.settings == {"metadata": ("raft", "env KAFKA_CONTROLLER_QUORUM_VOTERS")}
    assert found.secret is None
    assert found.cluster_id == "4L6g3nShT-eMCtK--X86sw"


def test_no_variable_gives_the_defaults_of_the_image():
    found = read()
    assert values(found) == {
        "listeners": "PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners": "PLAINTEXT://localhost:9092",
    }
    assert found.settings["metadata"][0] == "raft"


def test_advertised_listeners_alone_are_listened_on_at_every_address():
    found = read(KAFKA_ADVERTISED_LISTENERS="A://host:1,B://[::1]:2,C://:3")
    assert values(found)["listeners"] == "A://0.0.0.0:1,B://0.0.0.0:2,C://0.0.0.0:3"


def test_listeners_alone_are_advertised_with_the_hosts_name_without_the_controllers():
    found = read(
        KAFKA_LISTENERS="PLAINTEXT://:9092, CONTROLLER://:9093,X://x:1", KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER"
    )
    assert values(found)["advertised.listeners"] == "PLAINTEXT://container:9092,X://x:1"


def test_several_voters_share_the_secret_of_their_cluster_id():
    voters = {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"}
    one, two, other = (
        read(CLUSTER_ID=cluster, KAFKA_NODE_ID=node, **voters) for cluster, node in (("x", "1"), ("x", "2"), ("y", "1"))
    )
    assert one.secret is not None
    assert one.secret == two.secret
    assert one.secret != other.secret
    assert one.settings["voters"][0] == voters["KAFKA_CONTROLLER_QUORUM_VOTERS"]
    assert read(YAK_CLUSTER_SECRET_FILE="/file", **voters).secret is None
    assert "CLUSTER_ID" in refused(**voters).message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("sasl.enabled.mechanisms", "SCRAM-SHA-512"),
        ("listener.name.external.ssl.client.auth", "required"),
    ],
)
def test_secret_that_clients_can_compute_is_refused_where_clients_are_checked(name, value):
    with pytest.raises(UsageError) as caught:
        refuse_known_secret({name: (value, "file server.properties")})
    assert caught.value.message.startswith(f"{name} (file server.properties): ")
    assert "YAK_CLUSTER_SECRET_FILE" in str(caught.value.try_)
    refuse_known_secret({name: ("none", "env")})


def test_another_metadata_store_takes_the_place_of_the_quorum():
    found = read(has_store=True, KAFKA_CONTROLLER_QUORUM_VOTERS="1@a:1,2@b:1", KAFKA_ZOOKEEPER_CONNECT="zookeeper:2181")
    assert found.settings == {}
    assert len(found.ignored) == 2


def test_zookeeper_on_this_host_is_ignored_and_one_that_others_may_use_is_refused():
    assert "itself" in read(KAFKA_ZOOKEEPER_CONNECT="localhost:2181/kafka").ignored[0]
    assert "YAK_REDIS_URL" in str(refused(KAFKA_ZOOKEEPER_CONNECT="localhost:2181,zookeeper:2181").try_)


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("KAFKA_HEAP_OPTS", "-Xmx1G", "JVM"),
        ("KAFKA_OPTS", "-Dx=y", "JVM"),
        ("KAFKA_PORT", "tcp://10.0.0.1:9092", "Kubernetes"),
        ("KAFKA_PORT_9092_TCP_ADDR", "10.0.0.1", "Kubernetes"),
        ("KAFKA_EXTERNAL_SERVICE_HOST", "10.0.0.1", "Kubernetes"),
        ("KAFKA_SHARE_COORDINATOR_THREADS", "1", "share groups"),
        ("KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE", "false", "Confluent"),
        ("KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL", "PLAIN", "secret"),
        ("KAFKA_LOG_CLEANER_THREADS", "2", "one log at a time"),
        ("KAFKA_UNCLEAN_LEADER_ELECTION_INTERVAL_MS", "1000", "as soon as"),
        ("KAFKA_GROUP_STREAMS_NUM_STANDBY_REPLICAS", "1", "streams groups"),
        ("KAFKA_MY_OWN_PLUGIN", "x", "no such config"),
    ],
)
def test_variable_without_effect_is_named_with_its_reason(variable, value, word):
    (line,) = read(**{variable: value}).ignored
    assert line.startswith(f"{variable} is ignored: ")
    assert word in line


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("KAFKA_PROCESS_ROLES", "controller", "roles"),
        ("KAFKA_PRINCIPAL_BUILDER_CLASS", "org.example.Builder", "principal.builder.class"),
        ("KAFKA_OPTS", "-Djava.security.auth.login.config=/jaas", "JAAS"),
        ("KAFKA_LISTENER_NAME_X_PLAIN_SASL_JAAS_CONFIG", "…", "sasl.jaas.config"),
        ("KAFKA_LISTENER_NAME_X_SASL_ENABLED_MECHANISMS", "SCRAM-SHA-512", "sasl.enabled.mechanisms"),
        ("KAFKA_LISTENER_NAME_X_SCRAM___SHA___512_CONNECTIONS_MAX_REAUTH_MS", "60000", "connections.max.reauth.ms"),
        ("KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS", "a:1,b:1", "voters"),
        ("KAFKA_SASL_KERBEROS_SERVICE_NAME", "kafka", "sasl.kerberos.service.name"),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL", "LOUD", "level"),
        ("KAFKA_SSL_KEYSTORE_FILENAME", "kafka.jks", "PKCS12"),
        ("KAFKA_SSL_KEY_CREDENTIALS", "missing", "read"),
    ],
)
def test_variable_that_would_change_what_the_broker_does_is_refused(variable, value, word):
    error = refused(**{variable: value})
    assert error.code == "kafka-environment"
    assert error.message.startswith(f"{variable}: ")
    assert word in error.message


def test_authorizer_and_logins_are_taken():
    configs = read(
        KAFKA_AUTHORIZER_CLASS_NAME="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        KAFKA_SUPER_USERS="User:admin",
        KAFKA_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL="https://issuer/keys",
        KAFKA_LISTENER_NAME_SSL_SASL_OAUTHBEARER_EXPECTED_AUDIENCE="yak",
    ).configs
    assert configs["super.users"][0] == "User:admin"
    assert configs["sasl.oauthbearer.jwks.endpoint.url"][0] == "https://issuer/keys"
    assert configs["listener.name.ssl.sasl.oauthbearer.expected.audience"][0] == "yak"
    assert "authorizer.class.name" in configs


def test_group_protocols_that_yak_does_not_have_are_left_out():
    variable, config = "KAFKA_GROUP_COORDINATOR_REBALANCE_PROTOCOLS", "group.coordinator.rebalance.protocols"
    found = read(**{variable: "classic, consumer,share"})
    assert (found.configs[config][0], len(found.ignored)) == ("classic,consumer", 1)
    assert f"share of {variable} is ignored" in found.ignored[0]
    assert read(**{variable: "classic"}).configs[config][0] == "classic"


def test_mistyped_name_is_refused_with_the_closest_one():
    assert refused(KAFKA_NUM_PARTITONS="3").try_ == ("KAFKA_NUM_PARTITIONS=3",)


def test_mistyped_name_of_a_password_does_not_show_the_password():
    assert refused(KAFKA_SSL_KEYSTORE_PASWORD="open sesame").try_ == ("KAFKA_SSL_KEYSTORE_PASSWORD=VALUE",)


def test_tls_files_are_taken_from_the_folder_of_secrets(tmp_path):
    (tmp_path / "password").write_text("s3cret\n")
    found = read(
        secrets_dir=str(tmp_path),
        KAFKA_SSL_KEYSTORE_FILENAME="broker.p12",
        KAFKA_SSL_KEYSTORE_CREDENTIALS="password",
        KAFKA_SSL_KEY_CREDENTIALS="password",
        KAFKA_SSL_TRUSTSTORE_FILENAME="ca.pem",
    )
    assert {name: value for name, value in values(found).items() if name.startswith("ssl.")} == {
        "ssl.keystore.location": f"{tmp_path}/broker.p12",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "s3cret",
        "ssl.truststore.location": f"{tmp_path}/ca.pem",
        "ssl.truststore.type": "PEM",
    }


def test_dry_run_shows_where_each_value_comes_from(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in {**TESTCONTAINERS_JAVA, "KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_NUM_PARTITIONS": "7"}.items():
        monkeypatch.setenv(name, value)
    assert run(["serve", "--kafka-env", "--dry-run", "-o", "json", "-c", "num.partitions=8"]) == 0
    ran = capsys.readouterr()
    printed = json.loads(ran.out)
    assert "KAFKA_HEAP_OPTS is ignored: YAK has no JVM" in ran.err
    assert printed["metadata"] == {"value": "raft", "origin": "env KAFKA_CONTROLLER_QUORUM_VOTERS"}
    assert printed["node_id"] == {"value": 1, "origin": "env KAFKA_NODE_ID"}
    assert printed["offsets.topic.num.partitions"] == {"value": "1", "origin": "env KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS"}
    assert printed["num.partitions"] == {"value": "8", "origin": "flag -c"}
    assert printed["inter.broker.listener.name"]["value"] == "BROKER"


def test_bad_value_is_refused_by_its_config(capsys, monkeypatch):
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "many")
    assert run(["serve", "--kafka-env", "--dry-run"]) == 2
    assert "num.partitions=many cannot be used" in capsys.readouterr().err


def test_secret_that_clients_can_compute_is_refused_beside_an_authorizer_of_the_properties_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTER_ID", "x")
    monkeypatch.setenv("KAFKA_NODE_ID", "1")
    monkeypatch.setenv("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@a:9093,2@b:9093,3@c:9093")
    file = tmp_path / "server.properties"
    file.write_text("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n")
    assert run(["serve", "--kafka-env", "--dry-run", "--properties", str(file)]) == 2
    assert "the brokers' secret would follow from CLUSTER_ID" in capsys.readouterr().err
