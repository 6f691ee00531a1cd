import pytest
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.serial import entity_reader

from tests.unit.response_bodies import encode_response_body
from yak.config.broker_config_table import RATES
from yak.config.broker_configs import BROKER_CONFIGS
from yak.config.definitions import ConfigSource, ConfigType
from yak.config.describe import SynonymRow, describe_broker, describe_default_broker, describe_topic
from yak.config.topic_configs import TOPIC_CONFIGS


def one(rows):
    (row,) = rows
    return row


def test_all_configs_come_in_alphabetical_order_unless_some_are_named():
    rows = describe_topic({}, {}, {}, {})
    assert [row.name for row in rows] == sorted(TOPIC_CONFIGS)
    rows = describe_topic({}, {}, {}, {}, names=["segment.ms", "nonsense", "cleanup.policy"])
    assert [row.name for row in rows] == ["cleanup.policy", "segment.ms"]
    assert len(describe_broker({}, {}, {})) == len(BROKER_CONFIGS) - len(RATES)


def test_a_default_says_so_and_names_the_broker_config_behind_it():
    row = one(describe_topic({}, {}, {}, {}, names=["retention.bytes"]))
    assert (row.value, row.source, row.is_default, row.read_only) == ("-1", ConfigSource.DEFAULT, True, False)
    assert row.synonyms == (SynonymRow("log.retention.bytes", "-1", ConfigSource.DEFAULT),)
    assert row.type is ConfigType.LONG


def test_a_default_in_another_unit_is_not_named_as_in_kafka():
    row = one(describe_topic({}, {}, {}, {}, names=["retention.ms"]))
    assert (row.value, row.source, row.synonyms) == ("604800000", ConfigSource.DEFAULT, ())


def test_the_value_in_force_comes_first_among_its_synonyms():
    row = one(
        describe_topic(
            {"retention.ms": "1"},
            {"log.retention.ms": "2"},
            {"log.retention.ms": "3"},
            {"log.retention.minutes": "4"},
            names=["retention.ms"],
        )
    )
    assert (row.value, row.source, row.is_default) == ("1", ConfigSource.DYNAMIC_TOPIC, False)
    assert [(synonym.name, synonym.value, int(synonym.source)) for synonym in row.synonyms] == [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "2", 2),
        ("log.retention.ms", "3", 3),
        ("log.retention.minutes", "4", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_value_from_the_file_is_described_in_the_unit_of_the_topic_config():
    row = one(describe_topic({}, {}, {}, {"log.retention.minutes": "4"}, names=["retention.ms"]))
    assert (row.value, row.source) == ("240000", ConfigSource.STATIC_BROKER)


def test_a_broker_shows_what_is_read_only_and_where_it_comes_from():
    row = one(describe_broker({}, {}, {"num.partitions": "4"}, names=["num.partitions"]))
    assert (row.value, row.source, row.read_only) == ("4", ConfigSource.STATIC_BROKER, True)
    row = one(describe_broker({"log.retention.ms": "9"}, {}, {}, names=["log.retention.ms"]))
    assert (row.value, row.source, row.read_only) == ("9", ConfigSource.DYNAMIC_BROKER, False)
    row = one(describe_broker({}, {}, {}, names=["log.retention.ms"]))
    assert (row.value, row.source) == (None, ConfigSource.DEFAULT)


@pytest.mark.parametrize(
    "config", ["ssl.client.auth", "sasl.oauthbearer.expected.issuer", "oauthbearer.sasl.oauthbearer.scope.claim.name"]
)
def test_a_broker_shows_the_configs_of_one_listener(config):
    name = f"listener.name.external.{config}"
    row = one(describe_broker({}, {}, {name: "required"}, names=[name]))
    assert (row.value, row.source, row.read_only) == ("required", ConfigSource.STATIC_BROKER, True)


def test_a_rate_is_described_only_where_it_is_set_and_has_no_default():
    """As Kafka's ConfigHelper: its KafkaConfig does not have these configs."""
    name = "leader.replication.throttled.rate"
    assert describe_broker({}, {}, {}, names=[name]) == []
    for settings in ({}, {name: "1"}, {}), ({name: "1"}, {}, {}):
        row = one(describe_broker(*settings, names=[name]))
        assert (row.value, row.type, row.synonyms) == ("1", ConfigType.LONG, (SynonymRow(name, "1", row.source),))


def test_the_default_of_all_brokers_shows_only_what_is_set():
    row = one(describe_default_broker({"log.retention.ms": "9"}, None))
    assert (row.name, row.value, row.source) == ("log.retention.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_rows_fit_every_version_of_the_answer():
    rows = describe_topic({"retention.ms": "1"}, {}, {}, {}) + describe_broker({}, {}, {})
    fields = [row.as_fields(include_synonyms=True, include_documentation=True) for row in rows]
    for version in range(1, 5):
        encode_response_body(32, version, {"results": [{"configs": fields}]})
    body = encode_response_body(32, 4, {"results": [{"configs": fields}]})
    found = entity_reader(DescribeConfigsResponse)(body, 0)[0].results[0].configs
    assert [config.name for config in found] == [row.name for row in rows]
    assert all(config.documentation for config in found)
    bare = rows[0].as_fields(include_synonyms=False, include_documentation=False)
    assert (bare["synonyms"], bare["documentation"]) == ([], None)


def test_a_list_is_described_as_it_counts():
    [row] = describe_topic({"cleanup.policy": " delete , delete"}, {}, {}, {}, names=["cleanup.policy"])
    assert (row.value, row.source) == ("delete", ConfigSource.DYNAMIC_TOPIC)


@pytest.mark.parametrize(
    ("name", "given", "described"),
    [
        ("unclean.leader.election.enable", " TRUE ", "true"),
        ("retention.ms", "007", "7"),
        ("retention.ms", "+5", "5"),
        ("retention.ms", "-1", "-1"),
        ("compression.type", " zstd ", "zstd"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", ".50", "0.5"),
        ("min.cleanable.dirty.ratio", "0", "0.0"),
        ("min.cleanable.dirty.ratio", "0.00125", "0.00125"),
        ("min.cleanable.dirty.ratio", "1e-9", "1.0E-9"),
        ("min.cleanable.dirty.ratio", "0.000123", "1.23E-4"),
    ],
)
def test_value_is_described_as_kafka_writes_it(name, given, described):
    [row] = describe_topic({name: given}, {}, {}, {}, names=[name])
    assert (row.value, row.synonyms[0].value) == (described, described)


def test_value_of_a_broker_is_described_as_kafka_writes_it_and_its_synonym_as_it_was_set():
    name = "unclean.leader.election.enable"
    row = one(describe_broker({name: "TRUE"}, {}, {}, names=[name]))
    assert (row.value, row.synonyms[0].value) == ("true", "TRUE")


def test_a_broker_config_lists_its_fallbacks_behind_its_own_value():
    settings = {"log.retention.ms": "9", "log.roll.ms": "8"}, {}, {"log.retention.hours": "24"}
    names = ["log.retention.minutes", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"]
    rows = {row.name: row for row in describe_broker(*settings, names=names)}
    retention = rows["log.retention.ms"]
    assert (retention.value, retention.source) == ("9", ConfigSource.DYNAMIC_BROKER)
    assert retention.synonyms == (
        SynonymRow("log.retention.ms", "9", ConfigSource.DYNAMIC_BROKER),
        SynonymRow("log.retention.hours", "24", ConfigSource.STATIC_BROKER),
        SynonymRow("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    assert [row.name for row in rows["log.roll.ms"].synonyms] == ["log.roll.ms", "log.roll.hours"]
    for name in ("log.retention.minutes", "log.roll.jitter.ms"):  # not set: Kafka shows neither value nor synonyms
        assert (rows[name].value, rows[name].source, rows[name].synonyms) == (None, ConfigSource.DEFAULT, ())
