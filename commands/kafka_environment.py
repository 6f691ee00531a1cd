"""`yak serve --kafka-env`: the variables of the image apache/kafka, as broker configs and settings of YAK.

`KAFKA_NUM_PARTITIONS` is the config `num.partitions`: `_` is a dot, `__` an underscore, `___` a hyphen (Kafka's
KafkaDockerWrapper). Defaults of listeners and the files of `KAFKA_SSL_..._FILENAME` follow the image's script
`configure`. Each variable is taken, refused with its reason (UsageError `kafka-environment`), or ignored with a reason
that is printed.
"""

import hashlib
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.broker_configs import definition_of, quoted
from yak.errors import UsageError, closest

if TYPE_CHECKING:
    from yak.protocol.peer_proof import ClusterSecret

SECRETS_DIR: Final = "/etc/kafka/secrets"
_PREFIX: Final = "KAFKA_"
_SECRET_OF_ID: Final = b"yak-kafka-environment-secret:"
_TYPO: Final = 0.9
"""Similarity (difflib) from which an unknown name is taken for a mistyped one."""
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_KUBERNETES: Final = re.compile(r"KAFKA_(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT(?:_\d+_.*)?)")
"""Kubernetes sets these in every pod beside a service called kafka."""
_LEVELS: Final = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}

_JVM: Final = "YAK has no JVM"
_VARIABLES: Final = {
    "KAFKA_VERSION": "it describes an image",
    "KAFKA_HOME": "it describes an image",
    **dict.fromkeys(
        (
            "KAFKA_DEBUG",
            "KAFKA_GC_LOG_OPTS",
            "KAFKA_HEAP_OPTS",
            "KAFKA_JMX_HOSTNAME",
            "KAFKA_JMX_OPTS",
            "KAFKA_JMX_PORT",
            "KAFKA_JVM_PERFORMANCE_OPTS",
            "KAFKA_LOG4J_LOGGERS",
            "KAFKA_LOG4J_OPTS",
            "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        ),
        _JVM,
    ),
}
"""Variables that are no configs, and are ignored."""

_REFUSED: Final = {
    "alter.config.policy.class.name": "it names a Java class, which YAK cannot run",
    "advertised.host.name": "Kafka removed it: use KAFKA_ADVERTISED_LISTENERS",
    "advertised.port": "Kafka removed it: use KAFKA_ADVERTISED_LISTENERS",
    "client.quota.callback.class": "it names a Java class, which YAK cannot run",
    "connections.max.reauth.ms": "it counts for all listeners: KAFKA_CONNECTIONS_MAX_REAUTH_MS",
    "create.topic.policy.class.name": "it names a Java class, which YAK cannot run",
    "principal.builder.class": "it names a Java class, which YAK cannot run",
    "sasl.enabled.mechanisms": "it counts for all listeners: KAFKA_SASL_ENABLED_MECHANISMS",
    "sasl.jaas.config": "users are created with `yak users add`, the first one with YAK_USERS_FILE",
    "sasl.kerberos.": "YAK has no logins with GSSAPI",
    "sasl.server.callback.handler.class": "it names a Java class, which YAK cannot run",
    "ssl.engine.factory.class": "it names a Java class, which YAK cannot run",
}
"""Configs, and prefixes with a dot at the end, without which a broker would do something else than was meant."""

_QUORUM: Final = "YAK's metadata quorum has its own times and sizes"
_INTERNAL: Final = "it tunes a part of Kafka that YAK does not have"
_IGNORED: Final = {
    "broker.heartbeat.interval.ms": "yak serve --renew-interval (YAK_RENEW_INTERVAL_SECONDS) is its counterpart",
    "broker.id.generation.enable": "node ids are given",
    "broker.session.timeout.ms": "yak serve --lease-time (YAK_LEASE_TIME_SECONDS) is its counterpart",
    "confluent.": "it is for Confluent's software",
    "control.plane.listener.name": _INTERNAL,
    "controller.": _QUORUM,
    "controlled.shutdown.": "a stop moves the leaders for at most 10 s",
    "early.start.listeners": _INTERNAL,
    "eligible.leader.replicas.enable": "it is always on",
    "group.coordinator.": _INTERNAL,
    "group.share.": "YAK has no share groups",
    "initial.broker.registration.timeout.ms": _QUORUM,
    "inter.broker.protocol.version": "Kafka 4 removed it",
    "kafka.metrics.": "metrics are at GET /metrics",
    "leader.imbalance.per.broker.percentage": "YAK moves every leader back",
    "log.message.format.version": "Kafka 4 removed it",
    "max.connection.creation.rate": "YAK has the quota connection_creation_rate of ips (`yak quotas`)",
    "max.connections.per.ip.overrides": "max.connections.per.ip applies to every address",
    "metadata.": _QUORUM,
    "metric.reporters": "metrics are at GET /metrics",
    "num.replica.alter.log.dirs.threads": _INTERNAL,
    "offsets.load.buffer.size": _INTERNAL,
    "password.encoder.": _INTERNAL,
    "producer.purgatory.purge.interval.requests": _INTERNAL,
    "fetch.purgatory.purge.interval.requests": _INTERNAL,
    "delete.records.purgatory.purge.interval.requests": _INTERNAL,
    "remote.": "YAK has no tiered storage",
    "replica.": _INTERNAL,
    "reserved.broker.max.id": "node ids are given",
    "sasl.login.": "it is for clients",
    "sasl.mechanism.controller.protocol": "brokers authenticate each other by the cluster's secret",
    "sasl.mechanism.inter.broker.protocol": "brokers authenticate each other by the cluster's secret",
    "server.max.startup.time.ms": _QUORUM,
    "share.": "YAK has no share groups",
    "socket.listen.backlog.size": _INTERNAL,
    "ssl.keymanager.algorithm": _JVM,
    "ssl.protocol": "ssl.enabled.protocols says which versions of TLS there are",
    "ssl.provider": _JVM,
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
    "telemetry.": "YAK has no client telemetry",
    "transaction.state.log.load.buffer.size": _INTERNAL,
    "unstable.": "YAK serves no unstable version of an API or a feature",
    "zookeeper.": "YAK has no ZooKeeper",
}
"""Kafka's configs, and prefixes with a dot at the end, that YAK lacks and can do without."""

_DEFAULT_ONLY: Final = {
    "group.streams.num.standby.replicas": "YAK has no streams groups",
    "log.cleaner.threads": "YAK compacts one log at a time",
    "unclean.leader.election.interval.ms": "YAK holds an unclean election as soon as a replica may lead",
}
"""Configs of which YAK has the default; a broker can do without another value."""
_PROTOCOLS: Final = "group.coordinator.rebalance.protocols"
_ABSENT_PROTOCOLS: Final = ("share", "streams")


@dataclass(slots=True)
class KafkaEnvironment:
    """What the variables say."""

    configs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Broker configs by Kafka's names, each with its value and the variable."""
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Settings of `yak serve` that follow, in the same form."""
    ignored: list[str] = field(default_factory=list)
    """One sentence for each variable without effect."""
    secret: "ClusterSecret | None" = None
    """The secret of a quorum of several brokers, if the environment gives none: it follows from CLUSTER_ID."""
    cluster_id: str = ""

    def take(self, name: str, value: str, variable: str) -> None:
        self.configs[name] = (value, f"env {variable}")

    def value(self, name: str) -> str:
        """A config's value; empty if it is not given."""
        return self.configs.get(name, ("", ""))[0]


def read_kafka_environment(
    environment: Mapping[str, str],
    *,
    has_store: bool,
    secrets_dir: str = SECRETS_DIR,
    host_name: Callable[[], str] = socket.gethostname,
) -> KafkaEnvironment:
    """The broker that the variables describe. Raises UsageError (`kafka-environment`, `quorum-voters`).

    `has_store`: another setting says where the metadata are. Otherwise they are in a quorum: of the voters in
    `KAFKA_CONTROLLER_QUORUM_VOTERS`, or of this broker alone.
    """
    found = KafkaEnvironment()
    for variable in sorted(name for name in environment if name.startswith(_PREFIX)):
        _take_variable(found, variable, environment[variable])
    _take_roles(found)
    _take_tls_files(found, secrets_dir)
    _take_listeners(found, host_name)
    _take_store(found, environment, has_store=has_store)
    return found


def config_name(variable: str) -> str:
    """The config of a variable `KAFKA_...`, as Kafka's image reads it."""
    name = variable.removeprefix(_PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def variable_of(name: str) -> str:
    """The variable of a config: the inverse of `config_name`."""
    return _PREFIX + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _take_variable(found: KafkaEnvironment, variable: str, value: str) -> None:
    if _KUBERNETES.fullmatch(variable):
        found.ignored.append(f"{variable} is ignored: Kubernetes sets it for a service called kafka")
    elif variable == "KAFKA_LOG4J_ROOT_LOGLEVEL":
        level = _LEVELS.get(value.strip().upper())
        if level is None:
            raise _refused(variable, f"{value} is no level", f"levels are {', '.join(_LEVELS)}")
        found.settings["log_level"] = (level, f"env {variable}")
    elif variable == "KAFKA_OPTS":
        if "java.security.auth.login.config" in value:
            raise _refused(variable, "it names a JAAS file", _REFUSED["sasl.jaas.config"])
        found.ignored.append(f"{variable} is ignored: {_JVM}")
    elif variable in _VARIABLES:
        found.ignored.append(f"{variable} is ignored: {_VARIABLES[variable]}")
    else:
        _take_config(found, variable, config_name(variable), value)


def _take_config(found: KafkaEnvironment, variable: str, name: str, value: str) -> None:
    own = ("process.roles", "controller.quorum.voters", "controller.quorum.bootstrap.servers", "zookeeper.connect")
    if name == _PROTOCOLS:
        value = _protocols(found, value, variable)
    definition = definition_of(name)
    if name in _DEFAULT_ONLY and definition is not None and value.strip() != definition.default:
        found.ignored.append(f"{variable} is ignored: {_DEFAULT_ONLY[name]}")
        return
    # a broker may keep Kerberos' configs, which no listener uses; who describes a broker with them wants the logins
    is_known = definition is not None and not name.startswith("sasl.kerberos.")
    if name in own or is_known or _is_tls_file(name):
        found.take(name, value, variable)
        return
    bare = re.sub(r"^listener\.name\.[^.]+\.(?:(?:plain|gssapi|oauthbearer|scram-sha-\d+)\.)?", "", name)
    why = _among(_REFUSED, bare)
    if why is not None:
        raise _refused(variable, f"YAK cannot follow {name}", why)
    why = _among(_IGNORED, bare)
    if why is None:
        if near := closest(name, BROKER_CONFIGS, _TYPO):
            guess = f"{variable_of(near)}={quoted(near, value)}"
            raise _refused(variable, f"there is no config {name}", f"closest: {near}", guess)
        why = "YAK has no such config"
    found.ignored.append(f"{variable} is ignored: {why}")


def _protocols(found: KafkaEnvironment, value: str, variable: str) -> str:
    """The protocols without those that YAK does not have, which Kafka 4 had to list before clients could use them."""
    named = [each.strip() for each in value.split(",")]
    absent = [each for each in named if each in _ABSENT_PROTOCOLS]
    if absent:
        found.ignored.append(f"{' and '.join(absent)} of {variable} is ignored: YAK has no such groups")
    return ",".join(each for each in named if each not in absent)


def _among(table: Mapping[str, str], name: str) -> str | None:
    """The reason in a table of names and of prefixes that end with a dot."""
    if name in table:
        return table[name]
    return next((why for prefix, why in table.items() if prefix.endswith(".") and name.startswith(prefix)), None)


def _take_roles(found: KafkaEnvironment) -> None:
    roles, origin = found.configs.pop("process.roles", ("", ""))
    if roles and "broker" not in [role.strip() for role in roles.split(",")]:
        raise _refused(
            origin.removeprefix("env "),
            f"a process with the roles {roles} is no broker",
            "YAK has no controllers apart from brokers: the brokers are the voters of the metadata quorum",
            "leave this service out, and name the brokers in KAFKA_CONTROLLER_QUORUM_VOTERS",
        )


def _is_tls_file(name: str) -> bool:
    return name in {f"ssl.{what}" for kind in _TLS_FILES.values() for what in kind}


_TLS_FILES: Final = {
    "keystore": ("keystore.filename", "keystore.credentials", "key.credentials"),
    "truststore": ("truststore.filename", "truststore.credentials"),
}


def _take_tls_files(found: KafkaEnvironment, secrets_dir: str) -> None:
    """Files in the folder of secrets: a store by its name, and its passwords in files of their own."""
    for store, names in _TLS_FILES.items():
        for what in names:
            value, origin = found.configs.pop(f"ssl.{what}", ("", ""))
            if not value:
                continue
            variable, path = origin.removeprefix("env "), os.path.join(secrets_dir, value)
            if what.endswith(".filename"):
                found.take(f"ssl.{store}.location", path, variable)
                if f"ssl.{store}.type" not in found.configs:
                    found.take(f"ssl.{store}.type", _store_type(variable, path), variable)
                continue
            try:
                with open(path, encoding="utf-8") as file:
                    password = file.read().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise _refused(variable, f"{path} cannot be read", str(error)) from None
            found.take("ssl." + what.replace("credentials", "password"), password, variable)
    if found.value("ssl.keystore.type") == "PKCS12":  # its key has no password of its own
        found.configs.pop("ssl.key.password", None)


def _store_type(variable: str, path: str) -> str:
    """The type of a store by the ending of its name; Kafka's default, JKS, is not read."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".p12", ".pfx", ".pkcs12"):
        return "PKCS12"
    if suffix in (".pem", ".crt", ".cer", ".key"):
        return "PEM"
    convert = (
        f"keytool -importkeystore -srckeystore {os.path.basename(path)} -destkeystore store.p12 -deststoretype PKCS12"
    )
    raise _refused(variable, f"{path} is neither PKCS12 nor PEM", "YAK reads no JKS; .p12 and .pem are known", convert)


def _take_listeners(found: KafkaEnvironment, host_name: Callable[[], str]) -> None:
    """The image's defaults: port 9092 on every address, which clients on this machine reach as localhost."""
    advertised, listeners = found.value("advertised.listeners"), found.value("listeners")
    default = "the image's default"
    if not listeners and not advertised:
        found.configs["advertised.listeners"] = ("PLAINTEXT://localhost:9092", default)
        found.configs["listeners"] = ("PLAINTEXT://0.0.0.0:9092", default)
    elif not listeners:
        everywhere = re.sub(r"://(\[[^\]]*\]|[^:,]*):", "://0.0.0.0:", advertised)
        found.configs["listeners"] = (everywhere, found.configs["advertised.listeners"][1])
    elif not advertised:
        controllers = [name.strip().upper() for name in found.value("controller.listener.names").split(",")]
        each = [one.strip() for one in listeners.split(",")]
        clients = [one for one in each if one.partition("://")[0].upper() not in controllers]
        named = ",".join(one.replace("://:", f"://{host_name()}:", 1) for one in clients)
        found.configs["advertised.listeners"] = (named, found.configs["listeners"][1])


def _take_store(found: KafkaEnvironment, environment: Mapping[str, str], *, has_store: bool) -> None:
    """Where the metadata are: as another setting says, or in a quorum of the voters."""
    voters, voters_origin = found.configs.pop("controller.quorum.voters", ("", ""))
    servers, servers_origin = found.configs.pop("controller.quorum.bootstrap.servers", ("", ""))
    zookeeper, zookeeper_origin = found.configs.pop("zookeeper.connect", ("", ""))
    if has_store:
        for each in filter(None, (voters_origin, servers_origin, zookeeper_origin)):
            found.ignored.append(f"{each.removeprefix('env ')} is ignored: other settings name the metadata store")
        return
    if zookeeper:
        if any(part.partition("/")[0].rpartition(":")[0] not in _LOCAL for part in zookeeper.split(",") if part):
            raise _refused(
                "KAFKA_ZOOKEEPER_CONNECT",
                f"YAK has no ZooKeeper, and other brokers may use {zookeeper}",
                "brokers of one cluster need one metadata store",
                "YAK_REDIS_URL=redis://redis:6379/0   or KAFKA_CONTROLLER_QUORUM_VOTERS",
            )
        found.ignored.append("KAFKA_ZOOKEEPER_CONNECT is ignored: this broker keeps the metadata itself")
    if servers and not voters and "," in servers:
        raise _refused(
            "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS",
            "the voters of the metadata quorum are not known",
            "YAK needs their node ids",
            "KAFKA_CONTROLLER_QUORUM_VOTERS=1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093",
        )
    found.settings["metadata"] = ("raft", voters_origin or "the image's default")
    found.cluster_id = environment.get("CLUSTER_ID", "").strip()
    if not voters:
        return
    from yak.quorum.voters import VoterSet

    node_id = found.value("node.id") or found.value("broker.id") or environment.get("YAK_NODE_ID", "1")
    if [str(each) for each in VoterSet.parse(voters).node_ids] == [node_id.strip()]:
        return
    found.settings["voters"] = (voters, voters_origin)
    if not environment.get("YAK_CLUSTER_SECRET_FILE"):
        found.secret = _secret_of(found.cluster_id)


_CHECKS: Final = ("authorizer.class.name", "sasl.enabled.mechanisms", "ssl.client.auth")
"""Configs, of the broker or of a listener, by which not every client may do everything."""


def refuse_known_secret(configs: Mapping[str, tuple[str, str]]) -> None:
    """Refuse the secret that follows from CLUSTER_ID beside configs that check clients, each with its value and origin.

    Raises UsageError (`kafka-environment`).
    """
    for name, (value, origin) in configs.items():
        if name.endswith(_CHECKS) and value.strip().lower() not in ("", "none"):
            raise _refused(
                f"{name} ({origin})",
                "the brokers' secret would follow from CLUSTER_ID, which clients can read",
                "a client that knows the secret is a broker: without a login, and whatever the ACLs say",
                "YAK_CLUSTER_SECRET_FILE=FILE   of `yak quorum secret`, the same for each broker",
            )


def _secret_of(cluster_id: str) -> "ClusterSecret":
    """The secret that brokers with one CLUSTER_ID share. It keeps out brokers of other clusters, not attackers."""
    from yak.protocol.peer_proof import ClusterSecret

    if not cluster_id:
        raise _refused(
            "KAFKA_CONTROLLER_QUORUM_VOTERS",
            "several brokers need CLUSTER_ID or YAK_CLUSTER_SECRET_FILE",
            "brokers of one cluster authenticate each other by a secret",
            "CLUSTER_ID=$(yak quorum secret | cut -c 1-22)   the same for each broker",
        )
    secret = ClusterSecret.parse(hashlib.sha256(_SECRET_OF_ID + cluster_id.encode()).hexdigest())
    assert secret is not None
    return secret


def _refused(variable: str, message: str, why: str, *try_: str) -> UsageError:
    return UsageError("kafka-environment", f"{variable}: {message}", why=why, try_=try_)
