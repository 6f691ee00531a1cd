"""`yak serve`: one broker in the foreground."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from yak.commands.app import CONNECTION, OUTPUT, START, STOP, WHAT, command
from yak.commands.options import Globals
from yak.errors import UsageError

if TYPE_CHECKING:
    from yak.commands.settings import Resolved
    from yak.server.options import ServeOptions


@command(
    examples=(
        "yak serve",
        "yak serve --port 9093 --node-id 2 --data-dir ./yak-data-2 --redis-url redis://127.0.0.1:6379/0",
        "yak serve --host 0.0.0.0 --advertised broker1.example:9092 -c num.partitions=6",
        "yak serve --properties server.properties --dry-run",
    )
)
def serve(
    g: Globals,
    role: Annotated[
        str | None,
        typer.Option("--role", help="leader or follower: what this broker prefers.  [leader]", rich_help_panel=WHAT),
    ] = None,
    node_id: Annotated[
        str | None,
        typer.Option("--node-id", help="Its number in the cluster; a name is numbered.  [1]", rich_help_panel=WHAT),
    ] = None,
    data_dir: Annotated[
        list[str] | None,
        typer.Option("--data-dir", help="Keep logs here; repeat for more disks.  [./yak-data]", rich_help_panel=WHAT),
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option(
            "--config-override", "-c", metavar="NAME=VALUE", help="A Kafka broker config.", rich_help_panel=WHAT
        ),
    ] = None,
    properties: Annotated[
        str | None,
        typer.Option(
            "--properties", metavar="FILE", help="Kafka broker configs, as server.properties.", rich_help_panel=WHAT
        ),
    ] = None,
    min_insync_replicas: Annotated[
        int | None,
        typer.Option("--min-insync-replicas", min=1, help="Short for -c min.insync.replicas=N.", rich_help_panel=WHAT),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Listen on this address.  [127.0.0.1]", rich_help_panel=CONNECTION)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Listen on this port; 0 for any.  [9092]", rich_help_panel=CONNECTION
        ),
    ] = None,
    advertised: Annotated[
        str | None,
        typer.Option(
            "--advertised", metavar="HOST[:PORT]", help="Tell clients to connect here.", rich_help_panel=CONNECTION
        ),
    ] = None,
    redis_url: Annotated[
        str | None,
        typer.Option("--redis-url", help="The metadata store.  [redis://127.0.0.1:6379/0]", rich_help_panel=CONNECTION),
    ] = None,
    redis_timeout: Annotated[
        str, typer.Option("--redis-timeout", help="Wait for it at start.", rich_help_panel=CONNECTION)
    ] = "30s",
    lease_time: Annotated[
        str | None,
        typer.Option("--lease-time", help="How long the controller's lease lasts.", rich_help_panel=CONNECTION),
    ] = None,
    renew_interval: Annotated[
        str | None,
        typer.Option("--renew-interval", help="How often it is renewed.  [lease/3]", rich_help_panel=CONNECTION),
    ] = None,
    ready_file: Annotated[
        str | None,
        typer.Option(
            "--ready-file", metavar="PATH", help="Write JSON here once clients are served.", rich_help_panel=START
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be used, and from where; end.", rich_help_panel=STOP)
    ] = False,
    log_format: Annotated[
        str | None, typer.Option("--log-format", help="text or json.  [text]", rich_help_panel=OUTPUT)
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", help="debug, info, warning or error.  [info]", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Run one broker in the foreground."""
    flags: dict[str, Any] = {
        "role": role,
        "node_id": node_id,
        "data_dir": ",".join(data_dir) if data_dir else None,
        "host": host,
        "port": port,
        "redis_url": redis_url,
        "lease_time_seconds": lease_time,
        "renew_interval_seconds": renew_interval,
        "log_format": log_format,
        "log_level": log_level,
    }
    from yak.server.lean_imports import without_test_tools

    with without_test_tools():
        resolved = Resolution(g, flags)
        resolved.take_configs(properties, configs or [], min_insync_replicas)
        options = resolved.options(advertised, redis_timeout, ready_file)
    g.out.warn_once(g.settings.warnings)
    if dry_run:
        _print_resolved(g, options, resolved)
        return
    with without_test_tools():
        from yak.server.main import run_server

    run_server(options)


class Resolution:
    """From flags, `-c`, the properties file, variables and files to one `ServeOptions`, each value with its origin.

    The order is the command line's flags, `-c`, the properties file, and then as for every setting. A Kafka name that
    says the same as a flag of ours (`node.id`, `listeners`, `log.dirs`) stands for that flag.
    """

    def __init__(self, g: Globals, flags: dict[str, Any]) -> None:
        self._g = g
        self._flags = flags
        self._from_configs: dict[str, tuple[object, str]] = {}
        self.configs: dict[str, tuple[str, str]] = {}
        self.values: list[Resolved] = []

    def take_configs(self, properties: str | None, pairs: list[str], min_insync_replicas: int | None) -> None:
        """Read the broker configs. Raises UsageError (`config-file`, `bad-config`)."""
        if properties is not None:
            for name, value in _read_properties(properties).items():
                self.configs[name] = (value, f"file {properties}")
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals or not name.strip():
                raise UsageError("bad-config", f'"{pair}" is not NAME=VALUE', try_=("yak serve -c num.partitions=6",))
            self.configs[name.strip()] = (value.strip(), "flag -c")
        if min_insync_replicas is not None:
            self.configs["min.insync.replicas"] = (str(min_insync_replicas), "flag --min-insync-replicas")
        self._take_names_of_ours()

    def _take_names_of_ours(self) -> None:
        from yak.server.options import split_address

        def say(setting: str, value: object, origin: str) -> None:
            if value not in (None, ""):
                self._from_configs.setdefault(setting, (value, origin))

        for name, settings in (("listeners", ("host", "port")), ("advertised.listeners", _ADVERTISED)):
            if name in self.configs:
                value, origin = self.configs[name]
                if "," in value:
                    raise UsageError("bad-config", f"{name}={value} cannot be used", why="there is one listener")
                host, port = split_address(value, name)
                say(settings[0], host or "0.0.0.0", origin)  # noqa: S104 - what an empty host means in Kafka
                say(settings[1], port, origin)
        for name, setting in (
            ("node.id", "node_id"),
            ("broker.id", "node_id"),
            ("log.dirs", "data_dir"),
            ("log.dir", "data_dir"),
        ):
            if name in self.configs:
                say(setting, *self.configs[name])

    def value(self, name: str) -> Any:
        """One setting, and a note of where it came from."""
        from yak.commands.settings import Resolved

        flag = self._flags.get(name)
        if flag is None and name in self._from_configs:
            value, origin = self._from_configs[name]
            parsed = self._g.settings.get(name, str(value))
            found = Resolved(name, parsed.value, origin)
        else:
            found = self._g.settings.get(name, flag)
        self.values.append(found)
        return found.value

    def options(self, advertised: str | None, redis_timeout: str, ready_file: str | None) -> "ServeOptions":
        """All together. Raises UsageError for what cannot be."""
        from yak.commands.units import parse_duration_ms
        from yak.config.broker_configs import BrokerConfig
        from yak.server.options import LEASE_MS_DEFAULT, ServeOptions, split_address

        if advertised is not None:
            advertised_host, advertised_port = split_address(advertised, "--advertised")
            self._flags["advertised_host"] = advertised_host or None
            self._flags["advertised_port"] = advertised_port
        lease = self._g.settings.get("lease_time_seconds", self._flags["lease_time_seconds"])
        renew_seconds = self.value("renew_interval_seconds")
        options = ServeOptions(
            node_id=self.value("node_id"),
            role=self.value("role"),
            host=self.value("host"),
            port=self.value("port"),
            advertised_host=self.value("advertised_host"),
            advertised_port=self.value("advertised_port"),
            redis_url=self.value("redis_url"),
            redis_timeout_ms=parse_duration_ms(redis_timeout, bare_unit="s"),
            data_dirs=tuple(part.strip() for part in str(self.value("data_dir")).split(",") if part.strip()),
            lease_ms=LEASE_MS_DEFAULT if lease.origin == "default" else round(lease.value * 1000),
            renew_ms=None if renew_seconds is None else round(renew_seconds * 1000),
            log_format=self.value("log_format"),
            log_level=self.value("log_level"),
            configs={name: value for name, (value, _) in self.configs.items() if name not in _SAID_BY_OPTIONS},
            ready_file=ready_file,
        )
        self.values.append(type(lease)("lease_time_seconds", options.lease_ms / 1000, lease.origin))
        for warning in options.check():
            self._g.out.warn_once([warning])
        BrokerConfig.from_settings(options.broker_settings(options.port))
        return options


_ADVERTISED = ("advertised_host", "advertised_port")
_SAID_BY_OPTIONS = ("node.id", "broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir")


def _read_properties(path: str) -> dict[str, str]:
    from yak.server.options import parse_properties_file

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties_file(file.read())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError("config-file", f"{path} cannot be read", why=why) from None


def _print_resolved(g: Globals, options: "ServeOptions", resolved: Resolution) -> None:
    """Every value and where it came from; without a default there is nothing to print."""
    host, port = options.advertised(options.port)
    shown: dict[str, object] = {
        "renew_interval_seconds": options.renew_interval_ms / 1000,
        "advertised_host": host,
        "advertised_port": port,
    }
    rows = [
        {"name": each.name, "value": shown.get(each.name, each.value), "origin": each.origin}
        for each in sorted(resolved.values, key=lambda each: each.name)
    ]
    rows += [
        {"name": name, "value": value, "origin": origin}
        for name, (value, origin) in sorted(resolved.configs.items())
        if name not in _SAID_BY_OPTIONS
    ]
    if g.output in ("json", "yaml"):
        g.out.object({str(row["name"]): {"value": row["value"], "origin": row["origin"]} for row in rows})
    else:
        g.out.table(rows, ("name", "value", "origin"))
