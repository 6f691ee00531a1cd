"""A broker's own settings: `name=value` pairs or a properties file become typed values, or are refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from yak import errors  # ErrorCode is resolved on use, so that `yak up` and tests do not import kio
from yak.config import oauth_configs, ssl_configs
from yak.config.acl_configs import principals_of
from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.definitions import ConfigDef, Update, Value, validate
from yak.errors import PeerError, UsageError, closest

__all__ = ["BROKER_CONFIGS", "BrokerConfig", "validate_broker_config"]


@dataclass(slots=True, frozen=True)
class BrokerConfig:
    """The parsed broker configs that the broker core and the server read. Names are Kafka's, dots as underscores."""

    node_id: int
    num_partitions: int
    yak_as_kafka: str | None
    """The Kafka release whose APIs and versions clients get; None: all of YAK's."""
    yak_max_broker_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    yak_internal_topics_admin_enable: bool
    yak_fault_injection_enable: bool
    min_insync_replicas: int
    fetch_max_bytes: int
    socket_request_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    connections_max_reauth_ms: int
    """0: a login has no end."""
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int
    sasl_enabled_mechanisms: tuple[str, ...]
    authorizer_class_name: str | None
    """None: no authorizer, so every client may do everything."""
    super_users: tuple[str, ...]
    """Principals, such as `User:admin`."""
    allow_everyone_if_no_acl_found: bool
    sasl_server_max_receive_size: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_request_bytes: int
    """-1 or 0: a quarter of the memory of the machine, or of the container (`yak.server.memory_limit.request_memory_bytes`)."""
    log_retention_check_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    broker_rack: str | None
    controlled_shutdown_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_enable: bool
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_wait_max_ms: int
    replica_socket_timeout_ms: int
    replica_fetch_backoff_ms: int
    replica_selector_class: str | None
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_assignors: tuple[str, ...]
    group_consumer_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_compression_codec: int
    offsets_topic_segment_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The given settings, as strings: STATIC_BROKER in DescribeConfigs."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, str] | None = None) -> "BrokerConfig":
        """Parse `name=value` settings; missing ones have their defaults. Raises UsageError (slug `bad-config`)."""
        static = dict(settings or {})
        for name, text in static.items():
            _refuse_bad(name, text)
        for name in _BOUNDED:
            _refuse_outside(static, name)
        for name, other, more_ms in _LONGER_THAN:
            _refuse_short(static, name, other, more_ms)
        values: dict[str, Any] = {
            each.name: _field_value(static, each.name.replace("_", "."), each.type)
            for each in fields(cls)
            if each.name not in ("node_id", "super_users", "static")
        }
        super_users, node_id = principals_of(static.get("super.users", "")), _node_id(static)
        for given, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
            if given in static:
                static.setdefault(other, static[given])  # KafkaConfig.populateSynonyms
        return cls(node_id=node_id, super_users=super_users, static=static, **values)

    def in_force(self, this_broker: Mapping[str, str], all_brokers: Mapping[str, str]) -> "BrokerConfig":
        """These configs with the values that were set while the brokers run, for this one and for all."""
        values: dict[str, Any] = {
            field: dynamic_value(field.replace("_", "."), this_broker, all_brokers, self.static)
            for field in _DYNAMIC_FIELDS
        }
        return replace(self, **values)


_DYNAMIC_FIELDS: Final = (
    "group_consumer_assignment_interval_ms",
    "log_cleaner_backoff_ms",
    "log_cleaner_dedupe_buffer_size",
    "max_connections",
    "max_connections_per_ip",
    "producer_id_expiration_ms",
    "transaction_partition_verification_enable",
)
"""Fields that change while the broker runs; other dynamic configs are topics' defaults, rates, or of one listener."""
_BOUNDED: Final = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
"""Consumer group protocol configs with a minimum and a maximum config (Kafka's GroupCoordinatorConfig)."""
_LONGER_THAN: Final = (
    ("replica.socket.timeout.ms", "replica.fetch.wait.max.ms", 0),
    ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms", 1),
)
"""A timeout, a wait of the other side, and by how much the timeout is longer: else each wait would count as a failure."""


def is_sensitive(name: str) -> bool:
    """Whether the value of a broker config, also with the prefix of a listener, is never disclosed."""
    definition = definition_of(name)
    return definition is not None and definition.is_sensitive


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a broker config, also with the prefix of a listener."""
    return BROKER_CONFIGS.get(name) or ssl_configs.of_one_listener(name) or oauth_configs.of_one_listener(name)


def dynamic_value(
    name: str, this_broker: Mapping[str, str], all_brokers: Mapping[str, str], static: Mapping[str, str]
) -> Value:
    """The value in force of a broker config that can change while the broker runs.

    In order: set for this broker, for all, at start, the default. A stored value that does not parse counts as not set.
    """
    definition = BROKER_CONFIGS[name]
    for level in (this_broker, all_brokers):
        if name in level:
            try:
                return definition.accept(level[name])
            except ValueError:
                continue
    return _value(static, name)


def validate_broker_config(name: str, value: str | None, *, per_broker: bool) -> None:
    """Raise PeerError unless a running broker may take this value, for itself (`per_broker`) or for all brokers.

    Of the configs of one listener, only the stores' places and types can change (Kafka's DynamicSecurityConfigs).
    INVALID_CONFIG for an unknown name or a bad value, INVALID_REQUEST for a config that needs a restart (Kafka's
    ConfigAdminManager.validateBrokerConfigChange).
    """
    definition = definition_of(name)
    table = BROKER_CONFIGS if definition is None else {name: definition}
    if definition is not None and definition.update is Update.READ_ONLY:
        raise PeerError(errors.ErrorCode.invalid_request, f"Cannot update these configs dynamically: {name}")
    validate(table, name, value)
    if definition is not None and definition.update is Update.PER_BROKER and not per_broker:
        raise PeerError(errors.ErrorCode.invalid_request, f"Cannot update this config for all brokers at once: {name}")


def check_bounds(name: str, value: str, static: Mapping[str, str]) -> None:
    """Raise PeerError(INVALID_CONFIG) if a value is outside of what its minimum and maximum config allow."""
    short = name.removeprefix("group.consumer.")
    if short not in _BOUNDED:
        return
    least, most = (int(str(_value(static, f"group.consumer.{bound}.{short}"))) for bound in ("min", "max"))
    if not least <= int(value) <= most:
        message = f"it is not between group.consumer.min.{short}={least} and group.consumer.max.{short}={most}"
        raise PeerError(errors.ErrorCode.invalid_config, f"Invalid value {value} for configuration {name}: {message}")


def _refuse_bad(name: str, text: str) -> None:
    definition = definition_of(name)
    if definition is None:
        near = _nearest(name)
        raise UsageError(
            "bad-config",
            f"There is no broker config {name!r}.",
            why="YAK takes Kafka's broker configs by their names.",
            try_=(f"-c {near}={quoted(near, text)}",) if near else ("yak config show",),
        )
    try:
        definition.accept(text)
    except ValueError as error:
        default = definition.default
        raise UsageError(
            "bad-config",
            f"{name}={'(set)' if definition.is_sensitive else text} cannot be used.",
            why=f"{str(error)[:1].upper()}{str(error)[1:]}.".replace("..", "."),
            try_=(f"-c {name}={default}",) if default is not None else (f"leave {name} out",),
        ) from None


def _nearest(name: str) -> str:
    """The config that a misspelt name may mean, else empty; Kafka's names, with those of listeners in front, have no capitals."""
    if definition_of(name.lower()) is not None:
        return name.lower()
    return closest(name, BROKER_CONFIGS)


def quoted(name: str, text: str) -> str:
    """A value for a config as an error shows it: not one that may be a secret."""
    definition = definition_of(name)
    assert definition is not None, "it is one of the configs"
    try:
        definition.accept(text)
    except ValueError:
        return "VALUE"
    return "VALUE" if definition.is_sensitive else text


def _refuse_outside(static: Mapping[str, str], name: str) -> None:
    value, least, most = (int(str(_value(static, f"group.consumer.{bound}{name}"))) for bound in ("", "min.", "max."))
    if not least <= value <= most:
        raise UsageError(
            "bad-config",
            f"group.consumer.{name}={value} cannot be used.",
            why=f"It is not between group.consumer.min.{name}={least} and group.consumer.max.{name}={most}.",
            try_=(f"-c group.consumer.{name}={min(max(value, least), max(least, most))}",),
        )


def _refuse_short(static: Mapping[str, str], name: str, other: str, more_ms: int) -> None:
    timeout_ms, other_ms = (int(str(_value(static, each))) for each in (name, other))
    if timeout_ms < other_ms + more_ms:
        raise UsageError(
            "bad-config",
            f"{name}={timeout_ms} cannot be used.",
            why=f"It must be at least {other_ms + more_ms}, because {other} is {other_ms}.",
            try_=(f"-c {name}={other_ms + more_ms}",),
        )


def _value(static: Mapping[str, str], name: str) -> Value:
    definition = BROKER_CONFIGS[name]
    text = static.get(name, definition.default)
    assert text is not None, name
    return definition.accept(text)


def _field_value(static: Mapping[str, str], name: str, kind: object) -> object:
    """A config's value as a field of `BrokerConfig` has it: an empty text is none, a list is a tuple."""
    if kind == str | None:
        return static.get(name, "").strip() or None
    value = _value(static, name)
    return tuple(value) if isinstance(value, list) else value


def check_node_id(given: Mapping[str, str]) -> None:
    """Raise UsageError (slug `bad-config`) if the two names of the node id have different values."""
    if len({given[name].strip() for name in ("node.id", "broker.id") if name in given}) > 1:
        raise UsageError(
            "bad-config",
            f"node.id={given['node.id']} and broker.id={given['broker.id']} differ.",
            why="They are two names of the same config.",
            try_=("leave broker.id out",),
        )


def _node_id(static: Mapping[str, str]) -> int:
    check_node_id(static)
    return int(str(_value(static, "node.id" if "node.id" in static else "broker.id")))
