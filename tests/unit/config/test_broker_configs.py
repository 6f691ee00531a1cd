"""`yak.config.broker_configs` and its table, `yak.config.broker_config_table`."""

from pathlib import Path

import pytest

from yak.config import broker_config_table
from yak.config.broker_config_table import RACK_AWARE_SELECTOR
from yak.config.broker_configs import BROKER_CONFIGS, BrokerConfig, dynamic_value, validate_broker_config
from yak.config.definitions import ConfigSource, Update
from yak.config.describe import describe_broker
from yak.config.topic_configs import TOPIC_CONFIGS
from yak.errors import ErrorCode, PeerError, UsageError
from yak.storage.offset_map import ENTRY_BYTES


def test_defaults_are_kafkas_but_for_those_that_say_so():
    config = BrokerConfig.from_settings()
    assert config.num_partitions == 3
    assert config.max_connections_per_ip == 1000
    assert config.auto_create_topics_enable is True
    assert config.fetch_max_bytes == 57_671_680
    assert config.socket_request_max_bytes == 104_857_600
    assert config.connections_max_idle_ms == 600_000
    assert config.producer_id_expiration_ms == 86_400_000
    assert config.static == {}


def test_replication_has_kafkas_defaults_but_for_those_that_say_so():
    config = BrokerConfig.from_settings()
    assert (config.broker_rack, config.replica_selector_class) == (None, None)
    assert config.controlled_shutdown_enable is config.auto_leader_rebalance_enable is True
    assert config.leader_imbalance_check_interval_seconds == 5
    assert config.replica_lag_time_max_ms == 10_000
    assert config.replica_fetch_max_bytes == 4 * 1024 * 1024
    assert config.replica_fetch_response_max_bytes == 5 * 1024 * 1024
    assert (config.replica_fetch_min_bytes, config.replica_fetch_wait_max_ms) == (1, 500)
    assert config.replica_fetch_backoff_ms == 100


def test_a_rack_and_a_selector_are_taken_as_given():
    config = BrokerConfig.from_settings({"broker.rack": " zone-a ", "replica.selector.class": RACK_AWARE_SELECTOR})
    assert (config.broker_rack, config.replica_selector_class) == ("zone-a", RACK_AWARE_SELECTOR)
    assert BrokerConfig.from_settings({"broker.rack": ""}).broker_rack is None


def test_a_throttle_in_force_is_this_brokers_then_all_brokers_then_the_files():
    name = "leader.replication.throttled.rate"
    assert dynamic_value(name, {name: "1"}, {name: "2"}, {name: "3"}) == 1
    assert dynamic_value(name, {name: "soon"}, {name: "2"}, {name: "3"}) == 2
    assert dynamic_value(name, {}, {}, {name: "3"}) == 3
    assert dynamic_value(name, {}, {}, {}) == 2**63 - 1


def test_settings_are_parsed_and_stored_as_they_were_given():
    config = BrokerConfig.from_settings(
        {"num.partitions": " 4", "group.consumer.assignors": "range, uniform", "node.id": "7"}
    )
    assert (config.num_partitions, config.group_consumer_assignors, config.node_id) == (4, ("range", "uniform"), 7)
    assert config.static["num.partitions"] == " 4"
    assert BrokerConfig.from_settings({"broker.id": "3"}).node_id == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num.partition": "4"}, "no broker config"),
        ({"num.partitions": "many"}, "cannot be used"),
        ({"num.partitions": "0"}, "cannot be used"),
        ({"num.io.threads": "3"}, "cannot be used"),
        ({"log.cleanup.policy": "compress"}, "cannot be used"),
        ({"log.retention.hours": "x"}, "cannot be used"),
        ({"replica.selector.class": "com.example.Mine"}, "cannot be used"),
        ({"leader.imbalance.check.interval.seconds": "0"}, "cannot be used"),
        ({"node.id": "1", "broker.id": "2"}, "differ"),
        ({"group.consumer.min.heartbeat.interval.ms": "5001"}, "heartbeat.interval.ms=5000 cannot be used"),
        ({"group.consumer.max.heartbeat.interval.ms": "4999"}, "heartbeat.interval.ms=5000 cannot be used"),
        ({"group.consumer.min.session.timeout.ms": "50000"}, "session.timeout.ms=45000 cannot be used"),
        ({"group.coordinator.append.linger.ms": "5"}, "cannot be used"),
        ({"group.consumer.assignment.interval.ms": "15001"}, "interval.ms=15001 cannot be used"),
        ({"offsets.topic.compression.codec": "5"}, "cannot be used"),
        ({"group.consumer.session.timeout.ms": "5000"}, "session.timeout.ms=5000 cannot be used"),
        ({"group.consumer.heartbeat.interval.ms": "45000"}, "session.timeout.ms=45000 cannot be used"),
        ({"replica.socket.timeout.ms": "499"}, "socket.timeout.ms=499 cannot be used"),
        ({"replica.fetch.wait.max.ms": "30001"}, "socket.timeout.ms=30000 cannot be used"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "cannot be used"),
        ({"group.coordinator.rebalance.protocols": "classic,streams"}, "cannot be used"),
        ({"group.streams.min.session.timeout.ms": "1"}, "cannot be used"),
        ({"log.cleaner.threads": "2"}, "cannot be used"),
        ({"cordoned.log.dirs": "/data"}, "no effect in this version of YAK"),
        ({"unclean.leader.election.interval.ms": "50"}, "cannot be used"),
        ({"log.initial.task.delay.ms": "-1"}, "cannot be used"),
        # KafkaConfig.validateValues
        ({"log.retention.ms": "0"}, "cannot be used"),
        ({"log.retention.minutes": "0"}, "cannot be used"),
        ({"log.retention.hours": "0"}, "cannot be used"),
        ({"log.roll.hours": "0"}, "cannot be used"),
        ({"log.roll.hours": "-1"}, "cannot be used"),
        ({"log.roll.jitter.hours": "-1"}, "cannot be used"),
    ],
)
def test_a_bad_setting_says_what_why_and_what_to_try(settings, words):
    with pytest.raises(UsageError, match=words) as caught:
        BrokerConfig.from_settings(settings)
    assert caught.value.code == "bad-config"
    assert caught.value.why
    assert caught.value.try_


@pytest.mark.parametrize(
    "settings",
    [
        {"group.consumer.assignment.interval.ms": "0"},
        {"group.consumer.assignment.interval.ms": "15000"},
        {"group.coordinator.rebalance.protocols": "classic"},
        {"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "500"},
        {
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "1000",
            "group.consumer.heartbeat.interval.ms": "999",
        },
        {"group.coordinator.append.linger.ms": "-1"},
        {"group.coordinator.append.linger.ms": "0"},
        {"group.streams.min.heartbeat.interval.ms": "5000", "group.streams.min.session.timeout.ms": "45000"},
        {"group.streams.min.assignment.interval.ms": "0", "group.streams.num.standby.replicas": "0"},
        {"log.cleaner.threads": "1", "unclean.leader.election.interval.ms": "300000"},
        {"log.initial.task.delay.ms": "100"},
    ],
)
def test_configs_of_kafka_4_3_are_known_by_name(settings):
    assert dict(BrokerConfig.from_settings(settings).static) == settings


def test_a_misspelt_name_is_met_with_the_right_one():
    with pytest.raises(UsageError) as caught:
        BrokerConfig.from_settings({"num.partition": "4"})
    assert caught.value.try_ == ("-c num.partitions=4",)


@pytest.mark.parametrize("name", ["ssl.keystore.pasword", "delegation.token.secret.ke", "ssl.keystore.password.x"])
def test_misspelt_password_config_does_not_show_the_password(name):
    with pytest.raises(UsageError) as refused:
        BrokerConfig.from_settings({name: "open sesame"})
    assert "open sesame" not in repr((refused.value.message, refused.value.why, refused.value.try_))
    assert refused.value.try_


@pytest.mark.parametrize("config", ["ssl.client.auth=required", "sasl.oauthbearer.expected.issuer=me"])
def test_config_of_a_listener_in_capitals_is_refused_with_the_name_that_counts(config):
    name, _, value = config.partition("=")
    with pytest.raises(UsageError) as refused:
        BrokerConfig.from_settings({f"listener.name.EXTERNAL.{name}": value})
    assert refused.value.try_ == (f"-c listener.name.external.{config}",)


def test_broker_configs_behind_topic_configs_can_change_while_the_broker_runs():
    for topic_config in TOPIC_CONFIGS.values():
        for synonym in topic_config.synonyms:
            expected = Update.CLUSTER_WIDE if synonym is topic_config.synonyms[0] else Update.READ_ONLY
            assert BROKER_CONFIGS[synonym.name].update is expected
    validate_broker_config("log.retention.ms", "5", per_broker=False)
    validate_broker_config("log.retention.ms", "5", per_broker=True)


def test_throttle_rates_can_change_while_the_broker_runs_for_one_or_for_all():
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        for per_broker in (True, False):
            validate_broker_config(name, "1000000", per_broker=per_broker)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("num.partitions", "4", ErrorCode.invalid_request),
        ("log.retention.hours", "4", ErrorCode.invalid_request),
        ("log.flush.scheduler.interval.ms", "4", ErrorCode.invalid_request),
        ("log.retention.ms", "x", ErrorCode.invalid_config),
        ("log.retention.ms", None, ErrorCode.invalid_config),
        ("no.such.config", "x", ErrorCode.invalid_config),
    ],
)
def test_a_running_broker_refuses_what_it_cannot_take(name, value, code):
    with pytest.raises(PeerError) as caught:
        validate_broker_config(name, value, per_broker=False)
    assert caught.value.error_code is code


def test_every_broker_config_is_documented():
    for name, definition in BROKER_CONFIGS.items():
        assert definition.documentation.endswith("."), name


def test_every_config_that_claims_an_effect_is_read_outside_the_table():
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (Path(__file__).resolve().parents[3] / "yak").rglob("*.py")
        if path.parent.name != "config" or path.name == "listeners.py"
    )
    behind_topics = {synonym.name for topic_config in TOPIC_CONFIGS.values() for synonym in topic_config.synonyms}
    own = [name for name, each in BROKER_CONFIGS.items() if each.has_effect and name not in behind_topics]
    constants = {value: name for name, value in vars(broker_config_table).items() if isinstance(value, str)}
    unread = [
        name
        for name in own
        if f".{name.replace('.', '_')}" not in sources
        and f'"{name}"' not in sources
        and constants.get(name, f'"{name}"') not in sources
    ]
    # the first two are other names, the others are compared with what is set beside them when a broker starts
    checked = {name for name in own if name.startswith(("group.consumer.min.", "group.consumer.max."))}
    # as in a Kafka without GSSAPI listeners, where these may be set too; their documentation says so
    without_listeners = {name for name in own if "Only listeners with GSSAPI" in BROKER_CONFIGS[name].documentation}
    assert all(name.startswith("sasl.kerberos.") for name in without_listeners)
    assert set(unread) <= {"broker.id", "log.dir", "group.coordinator.append.linger.ms"} | checked | without_listeners


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_node_id_has_both_of_its_names_as_in_kafka(name):
    config = BrokerConfig.from_settings({name: "7"})
    assert config.node_id == 7
    assert dict(config.static) == {"node.id": "7", "broker.id": "7"}
    rows = describe_broker({}, {}, config.static, names=("node.id", "broker.id"))
    assert [(row.name, row.value, row.source) for row in rows] == [
        ("broker.id", "7", ConfigSource.STATIC_BROKER),
        ("node.id", "7", ConfigSource.STATIC_BROKER),
    ]


def test_dedupe_buffer_names_the_memory_of_one_key():
    about = BROKER_CONFIGS["log.cleaner.dedupe.buffer.size"].documentation
    assert f"about {ENTRY_BYTES} bytes per key" in about
