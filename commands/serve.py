"""`yak serve`: resolves arguments to options with their origins, and runs one broker in the foreground.

The standard library's argparse parses a broker's command line. Typer would cost each broker 1.6 MB and 25 ms of
processor time at start. Arguments that argparse does not know (help, global options after the command, mistakes) go
through Typer, so options, help and errors are the same.
"""

import argparse
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from yak.commands.app import CONNECTION, OUTPUT, START, STOP, WHAT, Bundle, command, fields_by_option, flag
from yak.commands.listener_flags import ListenerFlags, check_one_form, has_named_listeners
from yak.commands.options import Globals
from yak.commands.settings import BY_NAME
from yak.commands.units import key_values, parse_duration_ms
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.commands.kafka_environment import KafkaEnvironment
    from yak.commands.settings import ResolvedSetting
    from yak.protocol.peer_proof import ClusterSecret
    from yak.quorum.voters import VoterSet
    from yak.server.options import ServeOptions


@dataclass(slots=True)
class ServeFlags(Bundle):
    """The options as typed; None means not given."""

    role: str | None = flag("--role", "Preferred role.  [leader]", WHAT, metavar="leader|follower")
    node_id: str | None = flag("--node-id", "Node id in the cluster; a name becomes a number.  [1]", WHAT, metavar="N")
    rack: str | None = flag("--rack", "Rack or zone; replicas are spread over racks.", WHAT, metavar="R")
    cores: str | None = flag(
        "--cores", "Run N brokers as one machine, or auto: one for each core.  [1]", WHAT, metavar="N"
    )
    data_dir: tuple[str, ...] = flag(
        "--data-dir", "Log directory; repeat for more disks.  [./yak-data]", WHAT, metavar="DIR", default=()
    )
    configs: tuple[str, ...] = flag(
        "--config-override, -c", "A Kafka broker config.", WHAT, metavar="NAME=VALUE", default=()
    )
    properties: str | None = flag("--properties", "Kafka broker configs, as server.properties.", WHAT, metavar="FILE")
    kafka_env: bool = flag("--kafka-env", "Take configs from KAFKA_* variables, as Kafka's image.", WHAT, default=False)
    min_insync_replicas: str | None = flag(
        "--min-insync-replicas", "Short for -c min.insync.replicas=N.", WHAT, metavar="N"
    )
    default_replication_factor: str | None = flag(
        "--default-replication-factor", "Short for -c default.replication.factor=N.", WHAT, metavar="N"
    )
    as_kafka: str | None = flag(
        "--as-kafka",
        "Short for -c yak.as.kafka=RELEASE: the APIs and versions of that Kafka, such as 2.8.",
        WHAT,
        metavar="RELEASE",
    )
    host: str | None = flag("--host", "Listen on this address.  [127.0.0.1]", CONNECTION, metavar="HOST")
    port: str | None = flag("--port", "Listen on this port; 0 for any.  [9092]", CONNECTION, metavar="N")
    http_port: str | None = flag(
        "--http-port", "Serve HTTP on this port; 0 for any.  [8080, or any free]", CONNECTION, metavar="N"
    )
    no_http: bool = flag("--no-http", "Answer no HTTP.", CONNECTION, default=False)
    advertised: str | None = flag("--advertised", "Address that clients connect to.", CONNECTION, metavar="HOST[:PORT]")
    listen: tuple[str, ...] = flag(
        "--listen",
        "A named listener; repeat for more. Instead of --host and --port.",
        CONNECTION,
        metavar="NAME://HOST:PORT",
        default=(),
    )
    advertise: tuple[str, ...] = flag(
        "--advertise",
        "Address for clients of that listener.  [as --listen]",
        CONNECTION,
        metavar="NAME://HOST:PORT",
        default=(),
    )
    metadata: str | None = flag(
        "--metadata",
        "Where the metadata are: redis, raft (a quorum of brokers), or both while they move.  [redis]",
        CONNECTION,
        metavar="redis|raft|both",
    )
    voters: str | None = flag(
        "--voters", "First voters of the quorum.  [this broker]", CONNECTION, metavar="ID@HOST:PORT,..."
    )
    cluster_secret_file: str | None = flag(
        "--cluster-secret-file", "Secret that the quorum's brokers share.", CONNECTION, metavar="FILE"
    )
    users_file: str | None = flag(
        "--users-file", "Users of this broker alone, NAME:PASSWORD a line; mode 0600.", CONNECTION, metavar="FILE"
    )
    project_redis: str | None = flag(
        "--project-redis", "With raft: also write ISR and offsets to this Redis, to look at.", CONNECTION, metavar="URL"
    )
    redis_url: str | None = flag(
        "--redis-url", "The metadata store.  [redis://127.0.0.1:6379/0]", CONNECTION, metavar="URL"
    )
    redis_timeout: str = flag(
        "--redis-timeout", "Time to wait for it at start.", CONNECTION, metavar="DURATION", default="30s"
    )
    allow_unsafe_redis: bool = flag(
        "--allow-unsafe-redis",
        "Also one with replicas: a failover to them may lose metadata.",
        CONNECTION,
        default=False,
    )
    followers: str | None = flag(
        "--followers",
        "The followers that this leader waits for before it creates replicated topics.",
        CONNECTION,
        metavar="HOST:PORT,...",
    )
    followers_timeout: str | None = flag(
        "--followers-timeout", "How long to wait for them.  [30s]", CONNECTION, metavar="DURATION"
    )
    lease_time: str | None = flag(
        "--lease-time", "Session timeout of brokers and controller lease.  [6s]", CONNECTION, metavar="DURATION"
    )
    renew_interval: str | None = flag("--renew-interval", "Heartbeat interval.  [0.5s]", CONNECTION, metavar="DURATION")
    ready_file: str | None = flag("--ready-file", "Write JSON here once the broker is ready.", START, metavar="PATH")
    dry_run: bool = flag("--dry-run", "Print the settings and their origins, and exit.", STOP, default=False)
    log_format: str | None = flag("--log-format", "Format of the log.  [text]", OUTPUT, metavar="text|json")
    log_level: str | None = flag("--log-level", "debug, info, warning or error.  [info]", OUTPUT, metavar="LEVEL")

    @property
    def short_configs(self) -> dict[str, str | None]:
        return {
            "min.insync.replicas": self.min_insync_replicas,
            "default.replication.factor": self.default_replication_factor,
            "yak.as.kafka": self.as_kafka,
        }

    @property
    def settings(self) -> dict[str, Any]:
        named = {each.removesuffix("_seconds"): each for each in BY_NAME}
        given = {named[each]: getattr(self, each) for each in self.__dataclass_fields__ if each in named}
        return given | {"data_dir": ",".join(self.data_dir) or None}


FIELDS_BY_OPTION = fields_by_option(ServeFlags)
"""Every name of every option of `yak serve`, with the field that it sets."""


class _Refuses(argparse.ArgumentParser):
    """An argparse parser that reports mistakes as an exception, so that Typer handles them."""

    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def parse_arguments(arguments: list[str]) -> ServeFlags | None:
    """The flags, or None when Typer must parse the arguments."""
    parser = _Refuses(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for option, each in FIELDS_BY_OPTION.items():
        if each.type is bool:
            parser.add_argument(option, dest=each.name, action="store_true")
        else:
            parser.add_argument(option, dest=each.name, action="append" if each.default == () else "store")
    try:
        given = vars(parser.parse_args(arguments))
    except argparse.ArgumentError:
        return None
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
    return ServeFlags(**values)


def run(g: Globals, flags: ServeFlags) -> None:
    """Run the broker, or with `--dry-run` print the options. Raises YakError."""
    from yak.lean_imports import import_crc32c, import_kio

    import_kio()
    import_crc32c()
    resolved = Resolution(g, flags)
    environment = _kafka_environment(g, flags) if flags.kafka_env else None
    resolved.take_configs(environment)
    options = resolved.options()
    if environment is not None:
        from yak.commands.kafka_environment import refuse_known_secret

        if options.cluster_secret is None and environment.secret is not None:
            refuse_known_secret(resolved.configs)
        options = replace(
            options,
            cluster_secret=options.cluster_secret or environment.secret,
            cluster_id=options.cluster_id or environment.cluster_id,
            says_ready_as_kafka=True,
        )
    g.out.warn_once(g.settings.warnings)
    if flags.dry_run:
        _check_as_a_start(options)
    cores = str(resolved.value("cores"))
    if cores != "1":
        from yak.commands.serve_cores import run_cores  # a broker starts faster without what it does not use

        if run_cores(g, flags, options, resolved, cores):
            return
    if flags.dry_run:
        print_resolved(g, options, resolved)
        return
    refuse_core_data(options.data_dirs)
    from yak.server.main import run_server

    run_server(options)


def _check_as_a_start(options: "ServeOptions") -> None:
    """Check in a dry run what a start checks later.

    Raises UsageError (`log-format`, `log-level`, `bad-redis-url`, `redis-password`).
    """
    from yak.server import log
    from yak.server.redis_client import RedisAddress

    log.set_up(options.log_format, options.log_level)
    if options.metadata != "raft":
        RedisAddress.parse(options.redis_url)


def refuse_core_data(data_dirs: Sequence[str]) -> None:
    """Refuse the data directories of several brokers for one. Raises StartRefused (`cores-data`)."""
    if any(os.path.isdir(os.path.join(folder, "core-0")) for folder in data_dirs):
        from yak.local.cores.plan import check_data

        check_data(data_dirs, 1)


def _kafka_environment(g: Globals, flags: ServeFlags) -> "KafkaEnvironment":
    """The variables of Kafka's image; a line on stderr for each that is ignored. Raises UsageError."""
    from yak.commands.kafka_environment import read_kafka_environment

    is_named = any(g.settings.get(name).origin != "default" for name in ("metadata", "redis_url", "voters"))
    has_store = is_named or any((flags.metadata, flags.redis_url, flags.voters))
    found = read_kafka_environment(os.environ, has_store=has_store)
    g.out.warn_once(found.ignored)
    return found


class Resolution:
    """Resolves flags, `-c`, the properties file, variables and files to one `ServeOptions`, each value with its origin.

    Precedence: the command line's flags, `-c`, the properties file, then the order of all settings. A Kafka config that
    corresponds to a flag of yak (`node.id`, `listeners`, `log.dirs`) sets that flag.
    """

    def __init__(self, g: Globals, flags: ServeFlags) -> None:
        self._g = g
        self._flags = flags
        self._settings = flags.settings
        self._from_configs: dict[str, tuple[object, str]] = {}
        self.configs: dict[str, tuple[str, str]] = {}
        self.values: list[ResolvedSetting] = []
        self.has_named_listeners = False

    def take_configs(self, environment: "KafkaEnvironment | None") -> None:
        """Read the broker configs. Variables of Kafka's image come before the properties file, as there.

        Raises UsageError (`config-file`, `bad-config`, `bad-listeners`, `usage`).
        """
        flags = self._flags
        if flags.properties is not None:
            for name, value in _read_properties(flags.properties).items():
                self.configs[name] = (value, f"file {flags.properties}")
        if environment is not None:
            self.configs |= environment.configs
            self._from_configs |= environment.settings
        for name, value in key_values(flags.configs, "yak serve -c num.partitions=6", code="bad-config").items():
            self.configs[name] = (value.strip(), "flag -c")
        for name, given in flags.short_configs.items():
            if given is not None:
                self.configs[name] = (given, f"flag --{name.removeprefix('yak.').replace('.', '-')}")
        listen = ListenerFlags(flags.listen, flags.advertise)
        for name, text in listen.configs({name: value for name, (value, _) in self.configs.items()}).items():
            self.configs[name] = (text, "flag --listen")
        self.has_named_listeners = bool(listen.listen) or has_named_listeners(self.configs)
        self._take_names_of_ours()

    def _take_names_of_ours(self) -> None:
        from yak.config.broker_configs import check_node_id
        from yak.server.options import split_address

        check_node_id({name: value for name, (value, _) in self.configs.items()})

        def say(setting: str, value: object, origin: str) -> None:
            if value not in (None, ""):
                self._from_configs.setdefault(setting, (value, origin))

        for name, settings in (("listeners", ("host", "port")), ("advertised.listeners", _ADVERTISED)):
            if name in self.configs and not self.has_named_listeners:
                value, origin = self.configs[name]
                host, port = split_address(value, name)
                say(settings[0], host or "0.0.0.0", origin)  # noqa: S104 - what an empty host means in Kafka
                say(settings[1], port, origin)
        for name, setting in (
            ("node.id", "node_id"),
            ("broker.id", "node_id"),
            ("broker.rack", "rack"),
            ("controller.quorum.voters", "voters"),
            ("log.dirs", "data_dir"),
            ("log.dir", "data_dir"),
        ):
            if name in self.configs:
                say(setting, *self.configs[name])

    def value(self, name: str) -> Any:
        """The value of one setting; its origin is recorded in `values`."""
        from yak.commands.settings import ResolvedSetting

        given = self._settings.get(name)
        if given is None and name in self._from_configs:
            value, origin = self._from_configs[name]
            parsed = self._g.settings.get(name, str(value))
            found = ResolvedSetting(name, parsed.value, origin)
        else:
            found = self._g.settings.get(name, given)
        self.values.append(found)
        return found.value

    def _http_port(self) -> tuple[int, bool]:
        """The port, and whether it is the default: then the broker may use another port if it is taken."""
        port = self.value("http_port")
        return port, self.values[-1].origin == "default"

    def options(self) -> "ServeOptions":
        """The complete options. Raises UsageError for invalid values."""
        from yak.config.broker_configs import BrokerConfig
        from yak.config.listeners import Listeners, bracketed
        from yak.server.options import ServeOptions, parse_followers, split_address

        flags = self._flags
        if "listeners" in self.configs and self.has_named_listeners:
            check_one_form(host=flags.host, port=flags.port, advertised=flags.advertised)
        if flags.advertised is not None:
            advertised_host, advertised_port = split_address(flags.advertised, "--advertised")
            self._settings["advertised_host"] = advertised_host or None
            self._settings["advertised_port"] = advertised_port
        renew_seconds = self.value("renew_interval_seconds")
        http_port, http_is_usual = (None, False) if flags.no_http else self._http_port()
        secret_file = self.value("cluster_secret_file")
        secret, cluster_id = _secret(secret_file)
        options = ServeOptions(
            node_id=self.value("node_id"),
            role=self.value("role"),
            host=self.value("host"),
            port=self.value("port"),
            http_port=http_port,
            http_port_may_move=http_is_usual,
            http_token=os.environ.get("YAK_HTTP_TOKEN") or None,
            advertised_host=self.value("advertised_host"),
            advertised_port=self.value("advertised_port"),
            metadata=self.value("metadata"),
            voters=_voters(self.value("voters")),
            cluster_secret=secret,
            cluster_id=cluster_id,
            joins_cluster=bool(cluster_id),
            users=_users(flags.users_file),
            users_file=flags.users_file,
            project_redis=self.value("project_redis"),
            redis_url=self.value("redis_url"),
            redis_timeout_ms=parse_duration_ms(flags.redis_timeout, bare_unit="s"),
            allow_unsafe_redis=flags.allow_unsafe_redis,
            data_dirs=tuple(part.strip() for part in str(self.value("data_dir")).split(",") if part.strip()),
            rack=self.value("rack"),
            followers=parse_followers(str(self.value("followers"))),
            followers_timeout_ms=round(self.value("followers_timeout_seconds") * 1000),
            lease_ms=round(self.value("lease_time_seconds") * 1000),
            renew_ms=None if renew_seconds is None else round(renew_seconds * 1000),
            log_format=self.value("log_format"),
            log_level=self.value("log_level"),
            configs={name: value for name, (value, _) in self.configs.items() if name not in _SAID_BY_OPTIONS},
            ready_file=flags.ready_file,
        )
        if self.has_named_listeners:
            host, port = options.advertised(options.port)
            one = {"listeners": f"PLAINTEXT://{bracketed(options.host)}:{options.port}"}
            if "listeners" not in self.configs:
                one["advertised.listeners"] = f"PLAINTEXT://{bracketed(host)}:{port}"
            settings = one | {name: value for name, (value, _) in self.configs.items()}
            options = options.of_listeners(Listeners.from_settings(settings))
        for warning in options.check():
            self._g.out.warn_once([warning])
        BrokerConfig.from_settings(options.broker_settings())
        self._g.out.warn_once(self._exposed_secrets(secret_file))
        return options

    def _exposed_secrets(self, secret_file: str | None) -> list[str]:
        """A warning for each secret on the command line, and for each file with one that any user may read."""
        from yak.config.broker_configs import is_sensitive

        hint = "other users of this machine see it; use --properties FILE"
        secrets = {name: origin for name, (_, origin) in self.configs.items() if is_sensitive(name)}
        files = {origin.removeprefix("file ") for origin in secrets.values() if origin.startswith("file ")}
        readable = sorted(file for file in files | {secret_file} if file and _any_user_reads(file))
        return [
            *(f"-c {name} has a secret: {hint}" for name, origin in secrets.items() if origin == "flag -c"),
            *(f"{file} has a secret, and any user of this machine can read it: chmod 600 {file}" for file in readable),
        ]


def _any_user_reads(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:  # it was replaced meanwhile
        return False


_SECRET_FIELDS_MAX = 2
_ADVERTISED = ("advertised_host", "advertised_port")
_SAID_BY_OPTIONS = (
    "node.id",
    "broker.id",
    "broker.rack",
    "listeners",
    "advertised.listeners",
    "controller.quorum.voters",
    "log.dirs",
    "log.dir",
)


def _voters(text: str) -> "VoterSet | None":
    """The first voters of the quorum. Raises UsageError (`quorum-voters`)."""
    if not text:
        return None
    from yak.quorum.voters import VoterSet

    return VoterSet.parse(text)


def _secret(path: str | None) -> "tuple[ClusterSecret | None, str]":
    """The secret in a file, and the cluster id that the file may name behind it. Raises UsageError (`cluster-secret`)."""
    if not path:
        return None, ""
    from yak.protocol.peer_proof import ClusterSecret

    try:
        with open(path, encoding="ascii") as file:
            parts = file.read().split()
        secret = ClusterSecret.parse(parts[0]) if 1 <= len(parts) <= _SECRET_FIELDS_MAX else None
        why = "it must hold 64 hexadecimal digits, and may name the cluster id behind them"
    except (OSError, UnicodeDecodeError) as error:
        parts, secret, why = [], None, str(error)
    if secret is None:
        raise UsageError(
            "cluster-secret",
            f"{path} holds no cluster secret",
            why=why,
            try_=("yak quorum secret > cluster.secret",),
        )
    return secret, "".join(parts[1:])


def _users(path: str | None) -> Mapping[str, Mapping[str, str]]:
    """The users of this broker alone. Raises UsageError (`users-file`)."""
    if not path:
        return {}
    from yak.server.users_file import read_users_file

    return read_users_file(path)


def _read_properties(path: str) -> dict[str, str]:
    from yak.server.options import parse_properties_file

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties_file(file.read())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError("config-file", f"{path} cannot be read", why=why, try_=(f"ls -l {path}",)) from None


def print_resolved(
    g: Globals, options: "ServeOptions", resolved: Resolution, more: Sequence[dict[str, object]] = ()
) -> None:
    """Print every value with its origin, but no password; computed values replace missing defaults."""
    from yak.commands.settings import printable
    from yak.config.broker_configs import is_sensitive

    host, port = options.advertised(options.port)
    computed: dict[str, object] = {
        "renew_interval_seconds": options.renew_interval_ms / 1000,
        "advertised_host": host,
        "advertised_port": port,
        "followers": ",".join(options.followers),
    }
    said: tuple[str, ...] = _SAID_BY_OPTIONS
    unused: tuple[str, ...] = ()
    if resolved.has_named_listeners:
        said = tuple(name for name in said if name not in ("listeners", "advertised.listeners"))
        unused = ("host", "port", *_ADVERTISED)
    rows = [
        {"name": each.name, "value": computed.get(each.name, printable(each.name, each.value)), "origin": each.origin}
        for each in sorted(resolved.values, key=lambda each: each.name)
        if each.name not in unused
    ]
    rows += [
        {"name": name, "value": "(set)" if is_sensitive(name) else value, "origin": origin}
        for name, (value, origin) in sorted(resolved.configs.items())
        if name not in said
    ]
    rows += more
    if not g.out.document({str(row["name"]): {"value": row["value"], "origin": row["origin"]} for row in rows}):
        g.out.table(rows, ("name", "value", "origin"))


@command(
    examples=(
        "yak serve",
        "yak serve --role follower --node-id 2 --port 9093 --data-dir ./yak-data-2",
        "yak serve --host 0.0.0.0 --advertised broker1.example:9092 -c num.partitions=6",
        "yak serve --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",
        "yak serve --cores auto --port 9092",
        "yak serve --properties server.properties --dry-run",
    )
)
def serve(g: Globals, flags: ServeFlags) -> None:
    """Run one broker in the foreground."""
    run(g, flags)
