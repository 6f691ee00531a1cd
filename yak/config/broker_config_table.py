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
- `log.cleaner.dedupe.buffer.size` is 64 MiB (Kafka: 128 MiB), and counts about 280 bytes per key (Kafka: 24).
- `group.consumer.{min,max}.{heartbeat.interval,session.timeout}.ms` do not limit (Kafka: 5 to 15 s, 45 to 60 s): a
  broker for tests takes small values without other settings.
- `group.consumer.assignment.interval.ms` is 0 (Kafka 4.3: 1,000): a changed group gets its assignment at once.
- `group.coordinator.rebalance.protocols` is classic,consumer: YAK has no streams groups.
- `ssl.keystore.type` and `ssl.truststore.type` are PEM (Kafka: JKS).
- `replica.fetch.backoff.ms` is 100 (Kafka: 1,000): after a leader change, followers soon fetch from the new leader.
"""

from collections.abc import Mapping
from functools import partial
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
    define,
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


_dynamic: Final = partial(define, update=Update.CLUSTER_WIDE)
"""A config that can change while the broker runs, for one broker or for all (Kafka's DynamicBrokerConfig)."""
_per_broker: Final = partial(define, update=Update.PER_BROKER)
"""A config that can change while the broker runs, for one broker only (Kafka's PER_BROKER_CONFIGS)."""
_inert: Final = partial(define, has_effect=False)


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
    define("node.id", _INT, -1, at_least(-1))("The broker id in the cluster."),
    define("broker.id", _INT, -1, at_least(-1))("The old name of node.id. If both are set, they must be equal."),
    define("listeners", _LIST, "PLAINTEXT://:9092")("The addresses that the broker listens on: NAME://HOST:PORT,..."),
    define("advertised.listeners", _LIST, None)("The addresses that clients connect to; default: listeners."),
    define(
        "listener.security.protocol.map",
        _STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    )("The security protocol of each listener: NAME:PROTOCOL,..."),
    define("inter.broker.listener.name", _STRING, None)(
        "The listener that other brokers connect to; default: the first advertised one."
    ),
    define("security.inter.broker.protocol", _STRING, None)(
        "Selects the listener that other brokers connect to by its protocol's name, if it has no name of its own."
    ),
    define("controller.listener.names", _LIST, None)(
        "Listeners for the metadata quorum only: they are not advertised to clients."
    ),
    define("yak.bootstrap.listeners", _LIST, None)(
        "More addresses of these listeners, which brokers of one machine share (SO_REUSEPORT) and do not advertise. Only in YAK."
    ),
    define("yak.http.listeners", _LIST, None)("The broker's advertised HTTP address; empty: no HTTP. Only in YAK."),
    define("yak.http.security.protocol", _STRING, "PLAINTEXT", one_of_ignoring_case("plaintext", "ssl"))(
        "PLAINTEXT, or SSL: HTTPS with the ssl.* configs, which listener.name.http. in front sets for it. Only in YAK."
    ),
    define("yak.http.authentication", _STRING, "none", one_of_ignoring_case("none", "basic"))(
        "none, or basic: every HTTP request needs a user and a password, the token, or a certificate. Only in YAK."
    ),
    define("log.dirs", _LIST, None)("Log directories of this broker, usually one per disk."),
    define("log.dir", _LIST, "/tmp/kafka-logs")("The log directory if log.dirs is not set."),  # noqa: S108
    define("num.partitions", _INT, 3, between(1, PARTITIONS_PER_TOPIC_MAX))(
        "Default number of partitions of a new topic."
    ),
    define("yak.as.kafka", _STRING, None, one_of(*RELEASES))(
        "Answer clients as this Kafka release does, such as 2.8: its APIs, each up to its highest version. Only in YAK."
    ),
    define("yak.max.broker.partitions", _INT, REPLICAS_PER_BROKER_MAX, at_least(1))(
        "Maximum number of replicas per broker; topics and partitions above it are rejected. Only in YAK, as in KIP-578."
    ),
    define("default.replication.factor", _INT, 1, at_least(1))("Default replication factor of a new topic."),
    define("auto.create.topics.enable", _BOOLEAN, "true")("Whether a request for an unknown topic creates it."),
    define("delete.topic.enable", _BOOLEAN, "true")("Whether topics can be deleted."),
    define("yak.internal.topics.admin.enable", _BOOLEAN, "false")(
        "Whether a client without a principal, on the same machine and with the client id __admin_client, may write and delete internal topics. Only in YAK."
    ),
    define("yak.fault.injection.enable", _BOOLEAN, "false")(
        "Whether clients that may alter the cluster can inject faults, for tests: errors, delays, disconnects. Only in YAK."
    ),
    define("fetch.max.bytes", _INT, FETCH_BYTES_MAX, at_least(1024))("Largest fetch response."),
    define("socket.request.max.bytes", _INT, REQUEST_BYTES_MAX, at_least(1))(
        "Largest request; a larger one closes its connection."
    ),
    define(
        "sasl.enabled.mechanisms",
        _LIST,
        "SCRAM-SHA-256,SCRAM-SHA-512",
        subset_of("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
    )(
        "The mechanisms by which clients log in on listeners with SASL; PLAIN and OAUTHBEARER are others, and need encrypted "
        "connections."
    ),
    define("sasl.server.max.receive.size", _INT, LOGIN_REQUEST_BYTES_MAX, at_least(1))(
        "Largest request before the login; a larger one closes its connection."
    ),
    define("connection.failed.authentication.delay.ms", _INT, 100, at_least(0))(
        "How long the answer to a failed login is delayed. The connection is closed then."
    ),
    define("connections.max.reauth.ms", _LONG, 0, at_least(0))(
        "How long a login is valid before the client must log in again on the same connection (KIP-368); 0: forever."
    ),
    define("delegation.token.secret.key", ConfigType.PASSWORD, None)(
        "Secret from which the HMACs of delegation tokens come, the same on all brokers (KIP-48); not set: no tokens."
    ),
    define("delegation.token.max.lifetime.ms", _LONG, 604_800_000, at_least(1))(
        "How long a delegation token lives at most; it cannot be renewed for longer."
    ),
    define("delegation.token.expiry.time.ms", _LONG, 86_400_000, at_least(1))(
        "How long a delegation token is valid before it must be renewed."
    ),
    define("delegation.token.expiry.check.interval.ms", _LONG, 3_600_000, at_least(1))(
        "How often the controller removes expired delegation tokens."
    ),
    define("max.incremental.fetch.session.cache.slots", _INT, FETCH_SESSIONS_MAX, at_least(0))(
        "Maximum number of fetch sessions (KIP-227)."
    ),
    define("log.initial.task.delay.ms", _LONG, 30000, at_least(0))(
        "Delay after start before the first retention check and the first checkpoint; at most one interval of each."
    ),
    define("log.cleaner.enable", _BOOLEAN, "true")("Whether the logs of compacted topics are compacted."),
    _dynamic("log.cleaner.backoff.ms", _LONG, 15000, at_least(0))("How often logs are checked for compaction."),
    _dynamic("log.cleaner.dedupe.buffer.size", _LONG, COMPACTION_MAP_BYTES, at_least(1024))(
        "Memory for the keys of a log during compaction, about 280 bytes per key; a log with more keys needs more rounds."
    ),
    define("connections.max.idle.ms", _LONG, IDLE_MS_MAX, at_least(1))(
        "A connection that is idle for longer is closed."
    ),
    # at least 1, unlike Kafka's max.connections: with 0 no client could connect that sets it back
    _dynamic("max.connections", _INT, CONNECTIONS_MAX, at_least(1))("Maximum number of connections of all clients."),
    _dynamic("max.connections.per.ip", _INT, CONNECTIONS_PER_IP_MAX, at_least(1))(
        "Maximum number of connections from one IP address."
    ),
    define("queued.max.request.bytes", _LONG, -1, at_least(-1))(
        "Memory for requests during receipt; -1 or 0: a quarter of the memory of the machine, or of the container."
    ),
    define("log.retention.check.interval.ms", _LONG, 300000, at_least(1))("How often retention is checked."),
    define("log.flush.offset.checkpoint.interval.ms", _INT, 60000, at_least(0))(
        "How often recovery points are written."
    ),
    define("producer.id.expiration.check.interval.ms", _INT, 600000, at_least(1))(
        "How often idle idempotent producers are looked for."
    ),
    _dynamic("producer.id.expiration.ms", _INT, 86400000, at_least(1))(
        "How long a partition keeps the state of an idle idempotent producer."
    ),
)


_GSSAPI_ONLY: Final = "Only listeners with GSSAPI (Kerberos) use it, and YAK has none."
_KERBEROS: Final = (
    _per_broker("sasl.kerberos.service.name", _STRING, None)(f"The Kerberos principal of the brokers. {_GSSAPI_ONLY}"),
    _per_broker("sasl.kerberos.kinit.cmd", _STRING, "/usr/bin/kinit")(f"Path of the kinit command. {_GSSAPI_ONLY}"),
    _per_broker("sasl.kerberos.ticket.renew.window.factor", ConfigType.DOUBLE, 0.8)(
        f"The part of a ticket's lifetime after which it is renewed. {_GSSAPI_ONLY}"
    ),
    _per_broker("sasl.kerberos.ticket.renew.jitter", ConfigType.DOUBLE, 0.05)(
        f"Random part of the time until a ticket is renewed. {_GSSAPI_ONLY}"
    ),
    _per_broker("sasl.kerberos.min.time.before.relogin", _LONG, 60_000)(
        f"Minimum time between two attempts to renew a ticket, in ms. {_GSSAPI_ONLY}"
    ),
    _per_broker("sasl.kerberos.principal.to.local.rules", _LIST, "DEFAULT")(
        f"Rules that make a user's name from a Kerberos principal. {_GSSAPI_ONLY}"
    ),
)
"""As in a Kafka without Kerberos: tools and tests set them on any cluster (BrokerSecurityConfigs.CONFIG_DEF)."""


def _rate(name: str, documentation: str) -> ConfigDef:
    return _dynamic(name, _LONG, LONG_MAX, at_least(0))(documentation)


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
    define("broker.rack", _STRING, None)(
        "The rack or zone of this broker; the replicas of a partition are spread over racks."
    ),
    define("controlled.shutdown.enable", _BOOLEAN, "true")(
        "Whether a stopping broker moves its partitions to other leaders first."
    ),
    define("auto.leader.rebalance.enable", _BOOLEAN, "true")(
        "Whether the controller elects the preferred leader again once it is in the ISR."
    ),
    define("leader.imbalance.check.interval.seconds", _LONG, 5, at_least(1))(
        "How often the controller checks for partitions that need a preferred leader election."
    ),
    define("replica.lag.time.max.ms", _LONG, 10000, at_least(1))(
        "How long a follower may lag before it leaves the ISR."
    ),
    define("replica.fetch.max.bytes", _INT, 4194304, at_least(0))("Bytes that a follower fetches of one partition."),
    define("replica.fetch.response.max.bytes", _INT, 5242880, at_least(0))(
        "Bytes that a follower fetches of all partitions of one leader."
    ),
    define("replica.fetch.min.bytes", _INT, 1, at_least(0))(
        "Bytes that a leader collects before it answers a follower's fetch."
    ),
    define("replica.fetch.wait.max.ms", _INT, 500, at_least(0))(
        "How long a leader delays a follower's fetch; below replica.lag.time.max.ms."
    ),
    define("replica.socket.timeout.ms", _INT, 30_000, at_least(1))(
        "How long a follower waits for the answer to a fetch before it connects again; at least replica.fetch.wait.max.ms."
    ),
    define("replica.fetch.backoff.ms", _INT, 100, at_least(0))(
        "How long a follower waits before it retries a failed fetch of a partition."
    ),
    define("replica.selector.class", _STRING, None, one_of(RACK_AWARE_SELECTOR))(
        f"The replica that a consumer reads: the leader, or with {RACK_AWARE_SELECTOR} a replica in its rack (KIP-392)."
    ),
    _dynamic(METADATA_STORE_TARGET, _STRING, None, one_of("redis", "raft"))(
        "Where the metadata shall be: redis, or raft. Brokers started with both stores move them (yak cluster migrate). "
        "Only in YAK."
    ),
    define("quota.window.num", _INT, 11, at_least(1))("Samples over which the rates of client quotas are measured."),
    define("quota.window.size.seconds", _INT, 1, at_least(1))("Duration of a sample of client quotas."),
    define("controller.quota.window.num", _INT, 11, at_least(1))(
        "Samples whose worth a burst of controller mutations may have."
    ),
    define("controller.quota.window.size.seconds", _INT, 1, at_least(1))(
        "Duration of a sample of controller mutations."
    ),
    define("group.coordinator.rebalance.protocols", _LIST, "classic,consumer", _with_classic)(
        "The protocols of groups; without consumer, members that use it (KIP-848) get UNSUPPORTED_VERSION."
    ),
    define("group.consumer.assignors", _LIST, "uniform,range", subset_of("uniform", "range"))(
        "Server-side assignors for the consumer protocol (KIP-848); the first is the default."
    ),
    define("group.consumer.heartbeat.interval.ms", _INT, 5000, at_least(1))(
        "Heartbeat interval of members that use the consumer protocol (KIP-848)."
    ),
    define("group.consumer.min.heartbeat.interval.ms", _INT, 1, at_least(1))(
        "Minimum of group.consumer.heartbeat.interval.ms."
    ),
    define("group.consumer.max.heartbeat.interval.ms", _INT, INT_MAX, at_least(1))(
        "Maximum of group.consumer.heartbeat.interval.ms."
    ),
    _dynamic("group.consumer.assignment.interval.ms", _INT, 0, at_least(0))(
        "Minimum time between two assignments of a group that uses the consumer protocol; 0: each change is assigned at once."
    ),
    define("group.consumer.min.assignment.interval.ms", _INT, 0, at_least(0))(
        "Minimum of group.consumer.assignment.interval.ms."
    ),
    define("group.consumer.max.assignment.interval.ms", _INT, 15_000, at_least(0))(
        "Maximum of group.consumer.assignment.interval.ms."
    ),
    define("group.consumer.min.session.timeout.ms", _INT, 1, at_least(1))(
        "Minimum of group.consumer.session.timeout.ms."
    ),
    define("group.consumer.max.session.timeout.ms", _INT, INT_MAX, at_least(1))(
        "Maximum of group.consumer.session.timeout.ms."
    ),
    define("group.coordinator.append.linger.ms", _INT, "-1", _no_linger)(
        "How long a coordinator batches its writes. -1 and 0: each change is written at once."
    ),
    define("group.consumer.max.size", _INT, INT_MAX, at_least(1))(
        "Maximum size of a group that uses the consumer protocol."
    ),
    define(
        "group.consumer.migration.policy",
        _STRING,
        "bidirectional",
        one_of("disabled", "upgrade", "downgrade", "bidirectional"),
    )("The direction in which a group with members may change its protocol."),
    define("group.consumer.regex.refresh.interval.ms", _INT, 600000, at_least(10000))(
        "How often regex subscriptions are evaluated against all topics."
    ),
    define("group.consumer.session.timeout.ms", _INT, 45000, at_least(1))(
        "Session timeout of members that use the consumer protocol."
    ),
    define("group.initial.rebalance.delay.ms", _INT, 500, at_least(0))(
        "How long a new classic group waits for more members."
    ),
    define("group.max.session.timeout.ms", _INT, 1800000, at_least(1))(
        "Maximum session timeout of a member of a classic group."
    ),
    define("group.max.size", _INT, INT_MAX, at_least(1))("Maximum size of a classic group."),
    define("group.min.session.timeout.ms", _INT, 6000, at_least(0))(
        "Minimum session timeout of a member of a classic group."
    ),
    define("offset.metadata.max.bytes", _INT, 4096, between(0, OFFSET_METADATA_BYTES_MAX))(
        "Maximum size of the metadata of a committed offset."
    ),
    define("offsets.commit.timeout.ms", _INT, 5000, at_least(1))("How long an offset commit waits for the ISR."),
    define("offsets.retention.check.interval.ms", _LONG, 600000, at_least(1))(
        "How often expired committed offsets are removed."
    ),
    define("offsets.retention.minutes", _INT, 10080, at_least(1))("How long the offsets of an empty group are kept."),
    define("offsets.topic.num.partitions", _INT, 50, between(1, PARTITIONS_PER_TOPIC_MAX))(
        "Partitions of __consumer_offsets; fixed when the topic is created."
    ),
    define("offsets.topic.replication.factor", _SHORT, 3, at_least(1))(
        "Replication factor of __consumer_offsets; lower if there are fewer brokers."
    ),
    define("offsets.topic.compression.codec", _INT, 0, between(0, 4))(
        "Codec of the batches that coordinators append to __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    define("offsets.topic.segment.bytes", _INT, 16 * MIB, at_least(14))(
        "Segment size of __consumer_offsets; a smaller one shortens a coordinator's load."
    ),
    define("transaction.abort.timed.out.transaction.cleanup.interval.ms", _INT, 10_000, at_least(1))(
        "How often transactions that are open for too long are looked for."
    ),
    define("transaction.max.timeout.ms", _INT, 900_000, at_least(1))("Longest timeout that a producer may ask for."),
    _dynamic("transaction.partition.verification.enable", _BOOLEAN, "true")(
        "Whether the leader asks the coordinator before the first batch of a transaction (KIP-890)."
    ),
    define("transaction.remove.expired.transaction.cleanup.interval.ms", _INT, 3_600_000, at_least(1))(
        "How often expired transactional ids are looked for."
    ),
    define("transaction.state.log.min.isr", _INT, 2, at_least(1))(
        "min.insync.replicas of __transaction_state; lower if there are fewer brokers."
    ),
    define("transaction.state.log.num.partitions", _INT, 50, between(1, PARTITIONS_PER_TOPIC_MAX))(
        "Partitions of __transaction_state; fixed when the topic is created."
    ),
    define("transaction.state.log.replication.factor", _SHORT, 3, at_least(1))(
        "Replication factor of __transaction_state; lower if there are fewer brokers."
    ),
    define("transaction.state.log.segment.bytes", _INT, 16 * MIB, at_least(14))(
        "Segment size of __transaction_state; a smaller one shortens a coordinator's load."
    ),
    define("transactional.id.expiration.ms", _INT, 604_800_000, at_least(1))(
        "How long an idle transactional id is kept."
    ),
)


_WITHOUT_EFFECT: Final = (
    _inert("background.threads", _INT, 10, at_least(1))(
        "Threads for background work; YAK has one pool per kind of job."
    ),
    _inert("cordoned.log.dirs", _LIST, "")(
        "Log directories that get no new replicas (KIP-1066), which YAK does not support."
    ),
    _inert("group.streams.min.heartbeat.interval.ms", _INT, 5000, at_least(1))(
        "Minimum heartbeat interval of streams groups, which YAK does not support."
    ),
    _inert("group.streams.min.session.timeout.ms", _INT, 45000, at_least(1))(
        "Minimum session timeout of streams groups, which YAK does not support."
    ),
    _inert("group.streams.min.assignment.interval.ms", _INT, 0, at_least(0))(
        "Minimum assignment interval of streams groups, which YAK does not support."
    ),
    _inert("group.streams.num.standby.replicas", _INT, 0, at_least(0))(
        "Standby replicas of the tasks of streams groups, which YAK does not support."
    ),
    _inert("log.cleaner.threads", _INT, 1, at_least(0))(
        "Logs that are compacted at a time; YAK compacts one at a time."
    ),
    _inert("log.flush.start.offset.checkpoint.interval.ms", _INT, 60000, at_least(0))(
        "How often log start offsets are written; YAK writes them with recovery points."
    ),
    _inert("metrics.num.samples", _INT, 2, at_least(1))("Samples per metric."),
    _inert("num.io.threads", _INT, 8, at_least(1))("Threads that handle requests; YAK has one."),
    _inert("num.network.threads", _INT, 3, at_least(1))("Threads that serve sockets; YAK has one."),
    _inert("num.recovery.threads.per.data.dir", _INT, 2, at_least(1))(
        "Threads that recover the logs of one directory; YAK recovers them one after the other."
    ),
    _inert("num.replica.fetchers", _INT, 1, at_least(1))(
        "Fetcher threads per leader; YAK has one connection per leader."
    ),
    _inert("queued.max.requests", _INT, 500, at_least(1))(
        "Length of the request queue; YAK handles requests in order of arrival."
    ),
    _inert("request.timeout.ms", _INT, 30000, at_least(1))(
        "How long the broker waits for the controller; a YAK broker calls the metadata store itself."
    ),
    _inert("socket.receive.buffer.bytes", _INT, 102400, at_least(-1))("Size of the socket receive buffer."),
    _inert("socket.send.buffer.bytes", _INT, 102400, at_least(-1))("Size of the socket send buffer."),
    _inert("unclean.leader.election.interval.ms", _LONG, 300_000, at_least(1))(
        "How often the controller looks for unclean elections to hold; YAK's holds them as soon as a replica may lead."
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
    """The broker configs behind topic configs; the first of each can change while the broker runs."""
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
                update=Update.CLUSTER_WIDE if synonym is topic_config.synonyms[0] else Update.READ_ONLY,
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
