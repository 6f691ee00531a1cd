"""The table of broker configs: Kafka 4's names, types, defaults and rules.

Sources: ServerConfigs, ServerLogConfigs, SocketServerConfigs, ReplicationConfigs, GroupCoordinatorConfig,
TransactionLogConfig and TransactionStateManagerConfig of Kafka. Notable defaults, most of them YAK's own:

- `num.partitions` is 3: an auto-created topic should spread its keys over partitions.
- `max.connections.per.ip` is 1000: one leaking client host must not take all file handles of a small machine.
- `num.recovery.threads.per.data.dir` is 2, as in Kafka 4.
- `leader.imbalance.check.interval.seconds` is 5 (Kafka: 300): a broker that rejoins becomes preferred leader again soon,
  and a check that finds no imbalance costs nothing.
- `replica.lag.time.max.ms` is 10,000 (Kafka: 30,000): a hung follower delays acks=all for at most that long.
- `replica.fetch.max.bytes` is 4 MiB (Kafka: 1 MiB): each round trip of a follower that catches up waits behind the
  clients' requests. `replica.fetch.response.max.bytes` is 5 MiB (Kafka: 10 MiB): more does not fit the CPU cache.
- `group.initial.rebalance.delay.ms` is 500 (Kafka: 3,000): members of a new group on one machine or in one network join
  within that time, and each join prolongs it.
- `offsets.topic.segment.bytes` is 16 MiB (Kafka: 100 MiB): only closed segments are compacted, and a coordinator reads
  the rest record by record before it serves its groups. `transaction.state.log.segment.bytes` is the same.
- `log.cleaner.dedupe.buffer.size` is 64 MiB (Kafka: 128 MiB), and counts about 200 bytes per key (Kafka: 24).
- `group.consumer.{min,max}.{heartbeat.interval,session.timeout}.ms` do not limit (Kafka: 5 to 15 s, 45 to 60 s): a
  broker for tests takes small values without other settings.
- `group.consumer.assignment.interval.ms` is 0 (Kafka 4.3: 1,000): a changed group gets its assignment at once.
- `group.coordinator.rebalance.protocols` is classic,consumer: YAK has no streams groups.
- `ssl.keystore.type` and `ssl.truststore.type` are PEM (Kafka: JKS).
- `replica.fetch.backoff.ms` is 100 (Kafka: 1,000): after a leader change, followers soon fetch from the new leader.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from yak.config.acl_configs import ACL_CONFIGS
from yak.config.definitions import (
    INT_MAX,
    LONG_MAX,
    Check,
    ConfigDef,
    ConfigType,
    Update,
    Value,
    at_least,
    between,
    one_of,
    subset_of,
    table_of,
)
from yak.config.kafka_releases import RELEASES
from yak.config.oauth_configs import OAUTH_CONFIGS
from yak.config.ssl_configs import SSL_CONFIGS, one_of_ignoring_case
from yak.config.topic_config_table import TOPIC_CONFIGS
from yak.limits import (
    COMPACTION_MAP_BYTES,
    CONNECTIONS_MAX,
    CONNECTIONS_PER_IP_MAX,
    FETCH_BYTES_MAX,
    FETCH_SESSIONS_MAX,
    IDLE_MS_MAX,
    LOGIN_REQUEST_BYTES_MAX,
    MIB,
    OFFSET_METADATA_BYTES_MAX,
    PARTITIONS_PER_TOPIC_MAX,
    REPLICAS_PER_BROKER_MAX,
    REQUEST_BYTES_MAX,
)

_BOOLEAN, _STRING, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST

METADATA_STORE_TARGET: Final = "yak.metadata.store.target"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _static(name: str, kind: ConfigType, default: object, documentation: str, check: Check | None = None) -> ConfigDef:
    return ConfigDef(name, kind, None if default is None else str(default), documentation, check)


def _dynamic(name: str, kind: ConfigType, default: object, documentation: str, check: Check | None = None) -> ConfigDef:
    """A config that can change while the broker runs, for one broker or for all (Kafka's DynamicBrokerConfig)."""
    return replace(_static(name, kind, default, documentation, check), update=Update.CLUSTER_WIDE)


def _per_broker(name: str, kind: ConfigType, default: object, documentation: str) -> ConfigDef:
    """A config that can change while the broker runs, for one broker only (Kafka's PER_BROKER_CONFIGS)."""
    return replace(_static(name, kind, default, documentation), update=Update.PER_BROKER)


def _no_linger(_name: str, value: Value) -> None:
    if value not in (-1, 0):
        raise ValueError("the coordinator writes without a delay; only -1 and 0 are accepted")


def _with_classic(name: str, value: Value) -> None:
    """KafkaConfig.groupCoordinatorRebalanceProtocols; YAK has no streams groups."""
    subset_of("classic", "consumer")(name, value)
    assert isinstance(value, list)
    if "classic" not in value:
        raise ValueError("disabling the classic protocol is not supported")


_WITH_EFFECT: Final = (
    _static("node.id", _INT, -1, "The broker id in the cluster.", at_least(-1)),
    _static("broker.id", _INT, -1, "The old name of node.id. If both are set, they must be equal.", at_least(-1)),
    _static("listeners", _LIST, "PLAINTEXT://:9092", "The addresses that the broker listens on: NAME://HOST:PORT,..."),
    _static("advertised.listeners", _LIST, None, "The addresses that clients connect to; default: listeners."),
    _static(
        "listener.security.protocol.map",
        _STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "The security protocol of each listener: NAME:PROTOCOL,...",
    ),
    _static(
        "inter.broker.listener.name",
        _STRING,
        None,
        "The listener that other brokers connect to; default: the first advertised one.",
    ),
    _static(
        "security.inter.broker.protocol",
        _STRING,
        None,
        "Selects the listener that other brokers connect to by its protocol's name, if it has no name of its own.",
    ),
    _static(
        "controller.listener.names",
        _LIST,
        None,
        "Listeners for the metadata quorum only: they are not advertised to clients.",
    ),
    _static(
        "yak.bootstrap.listeners",
        _LIST,
        None,
        "More addresses of these listeners, which brokers of one machine share (SO_REUSEPORT) and do not advertise. Only in YAK.",
    ),
    _static("yak.http.listeners", _LIST, None, "The broker's advertised HTTP address; empty: no HTTP. Only in YAK."),
    _static(
        "yak.http.security.protocol",
        _STRING,
        "PLAINTEXT",
        "PLAINTEXT, or SSL: HTTPS with the ssl.* configs, which listener.name.http. in front sets for it. Only in YAK.",
        one_of_ignoring_case("plaintext", "ssl"),
    ),
    _static(
        "yak.http.authentication",
        _STRING,
        "none",
        "none, or basic: every HTTP request needs a user and a password, the token, or a certificate. Only in YAK.",
        one_of_ignoring_case("none", "basic"),
    ),
    _static("log.dirs", _LIST, None, "Log directories of this broker, usually one per disk."),
    _static("log.dir", _STRING, "/tmp/kafka-logs", "The log directory if log.dirs is not set."),  # noqa: S108
    _static(
        "num.partitions", _INT, 3, "Default number of partitions of a new topic.", between(1, PARTITIONS_PER_TOPIC_MAX)
    ),
    _static(
        "yak.as.kafka",
        _STRING,
        None,
        "Answer clients as this Kafka release does, such as 2.8: its APIs, each up to its highest version. Only in YAK.",
        one_of(*RELEASES),
    ),
    _static(
        "yak.max.broker.partitions",
        _INT,
        REPLICAS_PER_BROKER_MAX,
        "Maximum number of replicas per broker; topics and partitions above it are rejected. Only in YAK, as in KIP-578.",
        at_least(1),
    ),
    _static("default.replication.factor", _INT, 1, "Default replication factor of a new topic.", at_least(1)),
    _static("auto.create.topics.enable", _BOOLEAN, "true", "Whether a request for an unknown topic creates it."),
    _static("delete.topic.enable", _BOOLEAN, "true", "Whether topics can be deleted."),
    _static(
        "yak.internal.topics.admin.enable",
        _BOOLEAN,
        "false",
        "Whether a client without a principal, on the same machine and with the client id __admin_client, may write and delete internal topics. Only in YAK.",
    ),
    _static(
        "yak.fault.injection.enable",
        _BOOLEAN,
        "false",
        "Whether clients that may alter the cluster can inject faults, for tests: errors, delays, disconnects. Only in YAK.",
    ),
    _static("fetch.max.bytes", _INT, FETCH_BYTES_MAX, "Largest fetch response.", at_least(1024)),
    _static(
        "socket.request.max.bytes",
        _INT,
        REQUEST_BYTES_MAX,
        "Largest request; a larger one closes its connection.",
        at_least(1),
    ),
    _static(
        "sasl.enabled.mechanisms",
        _LIST,
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "The mechanisms by which clients log in on listeners with SASL; PLAIN and OAUTHBEARER are others, and need encrypted "
        "connections.",
        subset_of("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
    ),
    _static(
        "sasl.server.max.receive.size",
        _INT,
        LOGIN_REQUEST_BYTES_MAX,
        "Largest request before the login; a larger one closes its connection.",
        at_least(1),
    ),
    _static(
        "connection.failed.authentication.delay.ms",
        _INT,
        100,
        "How long the answer to a failed login is delayed. The connection is closed then.",
        at_least(0),
    ),
    _static(
        "connections.max.reauth.ms",
        _LONG,
        0,
        "How long a login is valid before the client must log in again on the same connection (KIP-368); 0: forever.",
        at_least(0),
    ),
    ConfigDef(
        "delegation.token.secret.key",
        ConfigType.PASSWORD,
        None,
        "Secret from which the HMACs of delegation tokens come, the same on all brokers (KIP-48); not set: no tokens.",
    ),
    _static(
        "delegation.token.max.lifetime.ms",
        _LONG,
        604_800_000,
        "How long a delegation token lives at most; it cannot be renewed for longer.",
        at_least(1),
    ),
    _static(
        "delegation.token.expiry.time.ms",
        _LONG,
        86_400_000,
        "How long a delegation token is valid before it must be renewed.",
        at_least(1),
    ),
    _static(
        "delegation.token.expiry.check.interval.ms",
        _LONG,
        3_600_000,
        "How often the controller removes expired delegation tokens.",
        at_least(1),
    ),
    _static(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        FETCH_SESSIONS_MAX,
        "Maximum number of fetch sessions (KIP-227).",
        at_least(0),
    ),
    _static(
        "log.initial.task.delay.ms",
        _LONG,
        30000,
        "Delay after start before the first retention check and the first checkpoint; at most one interval of each.",
        at_least(0),
    ),
    _static("log.cleaner.enable", _BOOLEAN, "true", "Whether the logs of compacted topics are compacted."),
    _dynamic("log.cleaner.backoff.ms", _LONG, 15000, "How often logs are checked for compaction.", at_least(0)),
    _dynamic(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        COMPACTION_MAP_BYTES,
        "Memory for the keys of a log during compaction, about 200 bytes per key; a log with more keys needs more rounds.",
        at_least(1024),
    ),
    _static(
        "connections.max.idle.ms", _LONG, IDLE_MS_MAX, "A connection that is idle for longer is closed.", at_least(1)
    ),
    # at least 1, unlike Kafka's max.connections: with 0 no client could connect that sets it back
    _dynamic("max.connections", _INT, CONNECTIONS_MAX, "Maximum number of connections of all clients.", at_least(1)),
    _dynamic(
        "max.connections.per.ip",
        _INT,
        CONNECTIONS_PER_IP_MAX,
        "Maximum number of connections from one IP address.",
        at_least(1),
    ),
    _static(
        "queued.max.request.bytes",
        _LONG,
        -1,
        "Memory for requests during receipt; -1: a quarter of the memory of the machine, or of the container.",
        at_least(-1),
    ),
    _static("log.retention.check.interval.ms", _LONG, 300000, "How often retention is checked.", at_least(1)),
    _static(
        "log.flush.offset.checkpoint.interval.ms", _INT, 60000, "How often recovery points are written.", at_least(0)
    ),
    _static(
        "producer.id.expiration.check.interval.ms",
        _INT,
        600000,
        "How often idle idempotent producers are looked for.",
        at_least(1),
    ),
    _dynamic(
        "producer.id.expiration.ms",
        _INT,
        86400000,
        "How long a partition keeps the state of an idle idempotent producer.",
        at_least(1),
    ),
)


_GSSAPI_ONLY: Final = "Only listeners with GSSAPI (Kerberos) use it, and YAK has none."
_KERBEROS: Final = (
    _per_broker("sasl.kerberos.service.name", _STRING, None, f"The Kerberos principal of the brokers. {_GSSAPI_ONLY}"),
    _per_broker("sasl.kerberos.kinit.cmd", _STRING, "/usr/bin/kinit", f"Path of the kinit command. {_GSSAPI_ONLY}"),
    _per_broker(
        "sasl.kerberos.ticket.renew.window.factor",
        ConfigType.DOUBLE,
        0.8,
        f"The part of a ticket's lifetime after which it is renewed. {_GSSAPI_ONLY}",
    ),
    _per_broker(
        "sasl.kerberos.ticket.renew.jitter",
        ConfigType.DOUBLE,
        0.05,
        f"Random part of the time until a ticket is renewed. {_GSSAPI_ONLY}",
    ),
    _per_broker(
        "sasl.kerberos.min.time.before.relogin",
        _LONG,
        60_000,
        f"Minimum time between two attempts to renew a ticket, in ms. {_GSSAPI_ONLY}",
    ),
    _per_broker(
        "sasl.kerberos.principal.to.local.rules",
        _LIST,
        "DEFAULT",
        f"Rules that make a user's name from a Kerberos principal. {_GSSAPI_ONLY}",
    ),
)
"""As in a Kafka without Kerberos: tools and tests set them on any cluster (BrokerSecurityConfigs.CONFIG_DEF)."""


def _rate(name: str, documentation: str) -> ConfigDef:
    return _dynamic(name, _LONG, LONG_MAX, documentation, at_least(0))


_RATES: Final = (
    _rate(
        "leader.replication.throttled.rate", "Bytes a second that this broker sends as leader of throttled replicas."
    ),
    _rate(
        "follower.replication.throttled.rate",
        "Bytes a second that this broker fetches as follower of throttled replicas.",
    ),
    _rate(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "Bytes a second that this broker copies when it moves replicas between its log directories.",
    ),
)
RATES: Final = frozenset(each.name for each in _RATES)
"""Limits in bytes a second; as in Kafka, a broker that has none does not describe them (QuotaConfig.java)."""

_REPLICATION: Final = (
    _static(
        "broker.rack",
        _STRING,
        None,
        "The rack or zone of this broker; the replicas of a partition are spread over racks.",
    ),
    _static(
        "controlled.shutdown.enable",
        _BOOLEAN,
        "true",
        "Whether a stopping broker moves its partitions to other leaders first.",
    ),
    _static(
        "auto.leader.rebalance.enable",
        _BOOLEAN,
        "true",
        "Whether the controller elects the preferred leader again once it is in the ISR.",
    ),
    _static(
        "leader.imbalance.check.interval.seconds",
        _LONG,
        5,
        "How often the controller checks for partitions that need a preferred leader election.",
        at_least(1),
    ),
    _static(
        "replica.lag.time.max.ms", _LONG, 10000, "How long a follower may lag before it leaves the ISR.", at_least(1)
    ),
    _static("replica.fetch.max.bytes", _INT, 4194304, "Bytes that a follower fetches of one partition.", at_least(0)),
    _static(
        "replica.fetch.response.max.bytes",
        _INT,
        5242880,
        "Bytes that a follower fetches of all partitions of one leader.",
        at_least(0),
    ),
    _static(
        "replica.fetch.min.bytes",
        _INT,
        1,
        "Bytes that a leader collects before it answers a follower's fetch.",
        at_least(0),
    ),
    _static(
        "replica.fetch.wait.max.ms",
        _INT,
        500,
        "How long a leader delays a follower's fetch; below replica.lag.time.max.ms.",
        at_least(0),
    ),
    _static(
        "replica.socket.timeout.ms",
        _INT,
        30_000,
        "How long a follower waits for the answer to a fetch before it connects again; at least replica.fetch.wait.max.ms.",
        at_least(1),
    ),
    _static(
        "replica.fetch.backoff.ms",
        _INT,
        100,
        "How long a follower waits before it retries a failed fetch of a partition.",
        at_least(0),
    ),
    _static(
        "replica.selector.class",
        _STRING,
        None,
        f"The replica that a consumer reads: the leader, or with {RACK_AWARE_SELECTOR} a replica in its rack (KIP-392).",
        one_of(RACK_AWARE_SELECTOR),
    ),
    _dynamic(
        METADATA_STORE_TARGET,
        _STRING,
        None,
        "Where the metadata shall be: redis, or raft. Brokers started with both stores move them (yak cluster migrate). "
        "Only in YAK.",
        one_of("redis", "raft"),
    ),
    _static("quota.window.num", _INT, 11, "Samples over which the rates of client quotas are measured.", at_least(1)),
    _static("quota.window.size.seconds", _INT, 1, "Duration of a sample of client quotas.", at_least(1)),
    _static(
        "controller.quota.window.num",
        _INT,
        11,
        "Samples whose worth a burst of controller mutations may have.",
        at_least(1),
    ),
    _static(
        "controller.quota.window.size.seconds", _INT, 1, "Duration of a sample of controller mutations.", at_least(1)
    ),
    _static(
        "group.coordinator.rebalance.protocols",
        _LIST,
        "classic,consumer",
        "The protocols of groups; without consumer, members that use it (KIP-848) get UNSUPPORTED_VERSION.",
        _with_classic,
    ),
    _static(
        "group.consumer.assignors",
        _LIST,
        "uniform,range",
        "Server-side assignors for the consumer protocol (KIP-848); the first is the default.",
        subset_of("uniform", "range"),
    ),
    _static(
        "group.consumer.heartbeat.interval.ms",
        _INT,
        5000,
        "Heartbeat interval of members that use the consumer protocol (KIP-848).",
        at_least(1),
    ),
    _static(
        "group.consumer.min.heartbeat.interval.ms",
        _INT,
        1,
        "Minimum of group.consumer.heartbeat.interval.ms.",
        at_least(1),
    ),
    _static(
        "group.consumer.max.heartbeat.interval.ms",
        _INT,
        INT_MAX,
        "Maximum of group.consumer.heartbeat.interval.ms.",
        at_least(1),
    ),
    _dynamic(
        "group.consumer.assignment.interval.ms",
        _INT,
        0,
        "Minimum time between two assignments of a group that uses the consumer protocol; 0: each change is assigned at once.",
        at_least(0),
    ),
    _static(
        "group.consumer.min.assignment.interval.ms",
        _INT,
        0,
        "Minimum of group.consumer.assignment.interval.ms.",
        at_least(0),
    ),
    _static(
        "group.consumer.max.assignment.interval.ms",
        _INT,
        15_000,
        "Maximum of group.consumer.assignment.interval.ms.",
        at_least(0),
    ),
    _static(
        "group.consumer.min.session.timeout.ms", _INT, 1, "Minimum of group.consumer.session.timeout.ms.", at_least(1)
    ),
    _static(
        "group.consumer.max.session.timeout.ms",
        _INT,
        INT_MAX,
        "Maximum of group.consumer.session.timeout.ms.",
        at_least(1),
    ),
    ConfigDef(
        "group.coordinator.append.linger.ms",
        _INT,
        "-1",
        "How long a coordinator batches its writes. -1 and 0: each change is written at once.",
        _no_linger,
    ),
    _static(
        "group.consumer.max.size",
        _INT,
        INT_MAX,
        "Maximum size of a group that uses the consumer protocol.",
        at_least(1),
    ),
    _static(
        "group.consumer.migration.policy",
        _STRING,
        "bidirectional",
        "The direction in which a group with members may change its protocol.",
        one_of("disabled", "upgrade", "downgrade", "bidirectional"),
    ),
    _static(
        "group.consumer.regex.refresh.interval.ms",
        _INT,
        600000,
        "How often regex subscriptions are evaluated against all topics.",
        at_least(10000),
    ),
    _static(
        "group.consumer.session.timeout.ms",
        _INT,
        45000,
        "Session timeout of members that use the consumer protocol.",
        at_least(1),
    ),
    _static(
        "group.initial.rebalance.delay.ms",
        _INT,
        500,
        "How long a new classic group waits for more members.",
        at_least(0),
    ),
    _static(
        "group.max.session.timeout.ms",
        _INT,
        1800000,
        "Maximum session timeout of a member of a classic group.",
        at_least(1),
    ),
    _static("group.max.size", _INT, INT_MAX, "Maximum size of a classic group.", at_least(1)),
    _static(
        "group.min.session.timeout.ms",
        _INT,
        6000,
        "Minimum session timeout of a member of a classic group.",
        at_least(0),
    ),
    _static(
        "offset.metadata.max.bytes",
        _INT,
        4096,
        "Maximum size of the metadata of a committed offset.",
        between(0, OFFSET_METADATA_BYTES_MAX),
    ),
    _static("offsets.commit.timeout.ms", _INT, 5000, "How long an offset commit waits for the ISR.", at_least(1)),
    _static(
        "offsets.retention.check.interval.ms",
        _LONG,
        600000,
        "How often expired committed offsets are removed.",
        at_least(1),
    ),
    _static("offsets.retention.minutes", _INT, 10080, "How long the offsets of an empty group are kept.", at_least(1)),
    _static(
        "offsets.topic.num.partitions",
        _INT,
        50,
        "Partitions of __consumer_offsets; fixed when the topic is created.",
        between(1, PARTITIONS_PER_TOPIC_MAX),
    ),
    _static(
        "offsets.topic.replication.factor",
        _SHORT,
        3,
        "Replication factor of __consumer_offsets; lower if there are fewer brokers.",
        at_least(1),
    ),
    _static(
        "offsets.topic.compression.codec",
        _INT,
        0,
        "Codec of the batches that coordinators append to __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
    ),
    _static(
        "offsets.topic.segment.bytes",
        _INT,
        16 * MIB,
        "Segment size of __consumer_offsets; a smaller one shortens a coordinator's load.",
        at_least(14),
    ),
    _static(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        10_000,
        "How often transactions that are open for too long are looked for.",
        at_least(1),
    ),
    _static("transaction.max.timeout.ms", _INT, 900_000, "Longest timeout that a producer may ask for.", at_least(1)),
    _dynamic(
        "transaction.partition.verification.enable",
        _BOOLEAN,
        "true",
        "Whether the leader asks the coordinator before the first batch of a transaction (KIP-890).",
    ),
    _static(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        3_600_000,
        "How often expired transactional ids are looked for.",
        at_least(1),
    ),
    _static(
        "transaction.state.log.min.isr",
        _INT,
        2,
        "min.insync.replicas of __transaction_state; lower if there are fewer brokers.",
        at_least(1),
    ),
    _static(
        "transaction.state.log.num.partitions",
        _INT,
        50,
        "Partitions of __transaction_state; fixed when the topic is created.",
        between(1, PARTITIONS_PER_TOPIC_MAX),
    ),
    _static(
        "transaction.state.log.replication.factor",
        _SHORT,
        3,
        "Replication factor of __transaction_state; lower if there are fewer brokers.",
        at_least(1),
    ),
    _static(
        "transaction.state.log.segment.bytes",
        _INT,
        16 * MIB,
        "Segment size of __transaction_state; a smaller one shortens a coordinator's load.",
        at_least(14),
    ),
    _static(
        "transactional.id.expiration.ms",
        _INT,
        604_800_000,
        "How long an idle transactional id is kept.",
        at_least(1),
    ),
)


def _inert(name: str, kind: ConfigType, default: object, documentation: str, check: Check | None = None) -> ConfigDef:
    return ConfigDef(name, kind, None if default is None else str(default), documentation, check, has_effect=False)


_WITHOUT_EFFECT: Final = (
    _inert(
        "background.threads", _INT, 10, "Threads for background work; YAK has one pool per kind of job.", at_least(1)
    ),
    _inert(
        "group.streams.min.heartbeat.interval.ms",
        _INT,
        5000,
        "Minimum heartbeat interval of streams groups, which YAK does not support.",
        at_least(1),
    ),
    _inert(
        "group.streams.min.session.timeout.ms",
        _INT,
        45000,
        "Minimum session timeout of streams groups, which YAK does not support.",
        at_least(1),
    ),
    _inert(
        "group.streams.min.assignment.interval.ms",
        _INT,
        0,
        "Minimum assignment interval of streams groups, which YAK does not support.",
        at_least(0),
    ),
    _inert(
        "group.streams.num.standby.replicas",
        _INT,
        0,
        "Standby replicas of the tasks of streams groups, which YAK does not support.",
        at_least(0),
    ),
    _inert(
        "log.cleaner.threads", _INT, 1, "Logs that are compacted at a time; YAK compacts one at a time.", at_least(0)
    ),
    _inert(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        60000,
        "How often log start offsets are written; YAK writes them with recovery points.",
        at_least(0),
    ),
    _inert("metrics.num.samples", _INT, 2, "Samples per metric.", at_least(1)),
    _inert("num.io.threads", _INT, 8, "Threads that handle requests; YAK has one.", at_least(1)),
    _inert("num.network.threads", _INT, 3, "Threads that serve sockets; YAK has one.", at_least(1)),
    _inert(
        "num.recovery.threads.per.data.dir",
        _INT,
        2,
        "Threads that recover the logs of one directory; YAK recovers them one after the other.",
        at_least(1),
    ),
    _inert(
        "num.replica.fetchers", _INT, 1, "Fetcher threads per leader; YAK has one connection per leader.", at_least(1)
    ),
    _inert(
        "queued.max.requests",
        _INT,
        500,
        "Length of the request queue; YAK handles requests in order of arrival.",
        at_least(1),
    ),
    _inert(
        "request.timeout.ms",
        _INT,
        30000,
        "How long the broker waits for the controller; a YAK broker calls the metadata store itself.",
        at_least(1),
    ),
    _inert("socket.receive.buffer.bytes", _INT, 102400, "Size of the socket receive buffer.", at_least(-1)),
    _inert("socket.send.buffer.bytes", _INT, 102400, "Size of the socket send buffer.", at_least(-1)),
    _inert(
        "unclean.leader.election.interval.ms",
        _LONG,
        300_000,
        "How often the controller looks for unclean elections to hold; YAK's holds them as soon as a replica may lead.",
        at_least(1),
    ),
)

_DEFAULTS_IN_OTHER_UNITS: Final = {
    "log.retention.hours": (_INT, "168"),
    "log.retention.minutes": (_INT, None),
    "log.retention.ms": (_LONG, None),
    "log.roll.hours": (_INT, "168"),
    "log.roll.ms": (_LONG, None),
    "log.roll.jitter.hours": (_INT, "0"),
    "log.roll.jitter.ms": (_LONG, None),
    "log.flush.interval.ms": (_LONG, None),
    "log.flush.scheduler.interval.ms": (_LONG, str(LONG_MAX)),
}
"""Type and default where they are not the topic config's: if unset, another unit or name gives the value."""


def _retention(_name: str, value: Value) -> None:
    assert isinstance(value, int)
    if value < -1 or value == 0:
        raise ValueError("it must be -1, unlimited, or at least 1")


_CHECKS_OF_BROKERS: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("log.retention.ms", "log.retention.minutes", "log.retention.hours"), _retention),
    "log.roll.hours": at_least(1),
    "log.roll.jitter.hours": at_least(0),
}
"""The checks that are not the topic config's (AbstractKafkaConfig.CONFIG_DEF, KafkaConfig.validateValues)."""


def _behind_topics() -> tuple[ConfigDef, ...]:
    """The broker configs behind topic configs; those in the topic config's unit can change while the broker runs."""
    found: dict[str, ConfigDef] = {}
    for topic_config in TOPIC_CONFIGS.values():
        for synonym in topic_config.synonyms:
            kind, default = _DEFAULTS_IN_OTHER_UNITS.get(synonym.name, (topic_config.type, topic_config.default))
            found[synonym.name] = ConfigDef(
                synonym.name,
                kind,
                default,
                f"For topics that do not set {topic_config.name}: {topic_config.documentation}",
                _CHECKS_OF_BROKERS.get(synonym.name, topic_config.check),
                has_effect=topic_config.has_effect,
                update=Update.CLUSTER_WIDE if synonym.factor == 1 else Update.READ_ONLY,
            )
    return tuple(found.values())


BROKER_CONFIGS: Final[Mapping[str, ConfigDef]] = table_of(
    _WITH_EFFECT
    + _KERBEROS
    + _REPLICATION
    + _RATES
    + ACL_CONFIGS
    + SSL_CONFIGS
    + OAUTH_CONFIGS
    + _WITHOUT_EFFECT
    + _behind_topics()
)
"""Every broker config by name, in alphabetical order."""
