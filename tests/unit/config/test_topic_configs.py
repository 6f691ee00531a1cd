"""`yak.config.topic_configs` and its table, `yak.config.topic_config_table`."""

from dataclasses import fields

import pytest

from yak.config.broker_configs import validate_broker_config
from yak.config.definitions import ConfigType
from yak.config.log_config import NEVER, LogConfig
from yak.config.topic_configs import (
    TOPIC_CONFIGS,
    check_topic_configs,
    resolve_log_config,
    topic_config_value,
    validate_topic_config,
)
from yak.errors import ErrorCode, PeerError


def test_log_config_without_any_setting_has_kafkas_defaults():
    assert resolve_log_config({}, {}, {}, {}) == LogConfig()


def test_every_log_setting_can_be_set_on_a_topic():
    for field in fields(LogConfig):
        assert TOPIC_CONFIGS[field.name.replace("_", ".")].has_effect


def test_every_topic_config_is_documented_and_its_default_is_valid():
    for name, definition in TOPIC_CONFIGS.items():
        assert definition.documentation.endswith("."), name
        validate_topic_config(name, definition.default)


def test_the_topic_wins_then_this_broker_then_all_brokers_then_the_file():
    levels = [{"retention.ms": "1"}, {"log.retention.ms": "2"}, {"log.retention.ms": "3"}, {"log.retention.ms": "4"}]
    for first in range(4):
        chosen = [{}] * first + levels[first:]
        assert resolve_log_config(*chosen).retention_ms == first + 1


def test_milliseconds_win_over_minutes_and_minutes_over_hours():
    file = {
        "log.retention.hours": "2",
        "log.retention.minutes": "3",
        "log.roll.hours": "1",
        "log.roll.jitter.hours": "1",
    }
    config = resolve_log_config({}, {}, {}, file)
    assert config.retention_ms == 180_000
    assert config.segment_ms == 3_600_000
    assert config.segment_jitter_ms == 3_600_000
    assert resolve_log_config({}, {}, {}, {**file, "log.retention.ms": "5"}).retention_ms == 5
    assert resolve_log_config({}, {}, {}, {"log.retention.hours": "-5"}).retention_ms == -1


def test_values_come_in_their_types():
    config = resolve_log_config(
        {"flush.messages": "1", "message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}, {}, {}, {}
    )
    assert (config.flush_messages, config.message_timestamp_type, config.compression_type) == (
        1,
        "LogAppendTime",
        "zstd",
    )
    assert config.flush_ms == NEVER
    assert config.cleanup_policy == "delete"


def test_a_stored_value_that_means_nothing_counts_as_not_set():
    config = resolve_log_config({"retention.ms": "soon", "cleanup.policy": "burn", "new.name": "1"}, {}, {}, {})
    assert config == LogConfig()
    assert resolve_log_config({"segment.bytes": "x"}, {}, {}, {"log.segment.bytes": "99"}).segment_bytes == 99


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.secs", "5", "Unknown config name"),
        ("retention.mss", "5", "Unknown config name: retention.mss; the closest is retention.ms"),
        ("z" * 30_000, "5", "Unknown config name"),
        ("retention.ms", "soon", "whole number"),
        ("retention.ms", "-2", "must be at least -1"),
        ("retention.ms", None, "Null"),
        ("cleanup.policy", "burn", "one of"),
        (
            "compression.type",
            "zip",
            "Invalid value zip for .*: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer$",
        ),
        ("min.insync.replicas", "0", "must be at least 1"),
        (
            "min.cleanable.dirty.ratio",
            "1.1",
            "^Invalid value 1.1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1$",
        ),
        ("remote.storage.enable", "true", "no effect"),
        ("compression.gzip.level", "5", "no effect"),
        ("unclean.leader.election.enable", "perhaps", "true nor false"),
        ("compression.gzip.level", "0", "must be at least 1"),
        ("flush.messages", "0", "must be at least 1"),
        ("leader.replication.throttled.replicas", "0", "PARTITION:BROKER"),
        ("follower.replication.throttled.replicas", "0:1,*", "PARTITION:BROKER"),
    ],
)
def test_wrong_topic_config_value_is_refused_with_a_message(name, value, words):
    with pytest.raises(PeerError, match=words) as caught:
        validate_topic_config(name, value)
    assert caught.value.error_code is ErrorCode.invalid_config


def test_compaction_lags_that_a_topic_does_not_set_are_not_checked():
    broker = {"log.cleaner.min.compaction.lag.ms": "6", "log.cleaner.max.compaction.lag.ms": "5"}
    check_topic_configs({"retention.ms": "1"}, broker, {}, {})
    with pytest.raises(PeerError, match=r"\(6\) is above max.compaction.lag.ms \(4\)"):
        check_topic_configs({"max.compaction.lag.ms": "4"}, broker, {}, {})


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        ("", ""),
        ("delete,delete", "delete"),
        (" delete , delete", "delete"),
        ("compact,delete,compact", "compact,delete"),
    ],
)
def test_cleanup_policy_empty_or_with_duplicates_is_accepted_as_in_kafka(value, policy):
    """KIP-1161: an empty list keeps all segments; KAFKA-19875: duplicates are ignored."""
    validate_topic_config("cleanup.policy", value)
    validate_broker_config("log.cleanup.policy", value, per_broker=False)
    assert resolve_log_config({"cleanup.policy": value}, {}, {}, {}).cleanup_policy == policy
    assert resolve_log_config({}, {}, {"log.cleanup.policy": value}, {}).cleanup_policy == policy


@pytest.mark.parametrize("value", ["delete,", ",", "compact,"])
def test_cleanup_policy_with_an_empty_name_is_refused(value):
    with pytest.raises(PeerError):
        validate_topic_config("cleanup.policy", value)


@pytest.mark.parametrize("value", ["", "*", "0:1", "0:1, 12:3"])
def test_throttled_replicas_are_all_or_a_list(value):
    for side in ("leader", "follower"):
        validate_topic_config(f"{side}.replication.throttled.replicas", value)


def test_throttled_replicas_come_as_they_are_named():
    name = "leader.replication.throttled.replicas"
    assert resolve_log_config({}, {}, {}, {}).leader_replication_throttled_replicas == ()
    assert resolve_log_config({name: "0:1, 2:3,"}, {}, {}, {}).leader_replication_throttled_replicas == ("0:1", "2:3")
    assert resolve_log_config({name: "*"}, {}, {}, {}).leader_replication_throttled_replicas == ("*",)


def test_topic_config_without_effect_may_be_set_to_its_default():
    validate_topic_config("compression.lz4.level", "9 ")
    validate_topic_config("preallocate", "FALSE")
    validate_topic_config("cleanup.policy", " delete ")


@pytest.mark.parametrize("value", ["compact", "compact, delete", "delete"])
def test_topics_may_be_compacted(value):
    validate_topic_config("cleanup.policy", value)
    config = resolve_log_config({"cleanup.policy": value}, {}, {}, {})
    assert config.cleanup_policy == value.replace(" ", "")
    assert config.is_compacted == ("compact" in value)


def test_a_broker_default_makes_topics_compacted():
    validate_broker_config("log.cleanup.policy", "compact", per_broker=False)
    assert resolve_log_config({}, {}, {"log.cleanup.policy": "compact"}, {}).is_compacted


def test_a_topic_may_prefer_any_leader_to_none():
    validate_topic_config("unclean.leader.election.enable", "true")


def test_types_are_kafkas_numbers():
    assert TOPIC_CONFIGS["cleanup.policy"].type == 7
    assert TOPIC_CONFIGS["retention.ms"].type is ConfigType.LONG
    assert TOPIC_CONFIGS["max.message.bytes"].type == 3


def test_an_inherited_value_is_in_the_topics_unit():
    assert topic_config_value(TOPIC_CONFIGS["retention.ms"], {"log.retention.hours": "1"}) == "3600000"
    assert topic_config_value(TOPIC_CONFIGS["retention.ms"], {}) == "604800000"
