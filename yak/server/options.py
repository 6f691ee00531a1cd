"""What `yak serve` was asked to do, resolved: a plain value that the command line, `yak up` and tests can make."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from yak.errors import UsageError

Role = Literal["leader", "follower"]
ROLES: Final[tuple[Role, ...]] = ("leader", "follower")
LEASE_MS_DEFAULT: Final = 10_000
"""As `yak.cluster.member_state.MembershipSettings`; far above any delay of a busy loop."""
_RENEWALS_PER_LEASE: Final = 3
_ANY_ADDRESS: Final = ("0.0.0.0", "::", "[::]", "", "*")  # noqa: S104 - these are refused, not bound
_LOOPBACK: Final = ("127.", "::1", "[::1]", "localhost")


@dataclass(slots=True, frozen=True)
class ServeOptions:
    """All that one broker process is told. Times in ms; port 0 takes any free one."""

    node_id: int = 1
    role: Role = "leader"
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    redis_url: str = "redis://127.0.0.1:6379/0"
    redis_timeout_ms: int = 30_000
    data_dirs: tuple[str, ...] = ("./yak-data",)
    lease_ms: int = LEASE_MS_DEFAULT
    renew_ms: int | None = None
    log_format: str = "text"
    log_level: str = "info"
    configs: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker configs by name, as given; what the fields above say of the same wins."""
    ready_file: str | None = None

    @property
    def renew_interval_ms(self) -> int:
        """How often the lease is renewed; a third of the lease when not said."""
        return self.lease_ms // _RENEWALS_PER_LEASE if self.renew_ms is None else self.renew_ms

    def advertised(self, bound_port: int) -> tuple[str, int]:
        """Where clients are told to connect, once the port is bound."""
        return self.advertised_host or self.host, self.advertised_port or bound_port

    def broker_settings(self, bound_port: int) -> dict[str, str]:
        """The broker configs as they are in force: those given, and what the flags say in Kafka's words."""
        host, port = self.advertised(bound_port)
        return {
            **self.configs,
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{bracketed(self.host)}:{bound_port}",
            "advertised.listeners": f"PLAINTEXT://{bracketed(host)}:{port}",
            "log.dirs": ",".join(self.data_dirs),
        }

    def check(self) -> tuple[str, ...]:
        """Warnings about what works, but probably not as meant.

        Raises UsageError: `bad-node-id`, `bad-role`, `lease-config`, `bad-advertised`, `data-dir`.
        """
        if self.role not in ROLES:
            raise UsageError(
                "bad-role",
                f"no such role: {self.role}",
                why="roles are leader and follower",
                try_=("yak serve --role follower",),
            )
        if not 0 <= self.node_id < 2**31:
            raise UsageError(
                "bad-node-id",
                f"node id {self.node_id} cannot be",
                why="it is a number from 0 to 2^31-1",
                try_=("yak serve --node-id 1",),
            )
        if not self.data_dirs or len(set(self.data_dirs)) != len(self.data_dirs):
            raise UsageError(
                "data-dir",
                f"data directories: {', '.join(self.data_dirs) or 'none'}",
                why="name at least one, and each one once",
                try_=("yak serve --data-dir ./yak-data",),
            )
        self._check_lease()
        return self._check_advertised()

    def _check_lease(self) -> None:
        renew_ms = self.renew_interval_ms
        if 0 < renew_ms < self.lease_ms:
            return
        raise UsageError(
            "lease-config",
            "refusing to start",
            why=f"renew {renew_ms / 1000:g} s >= lease {self.lease_ms / 1000:g} s would flap"
            if renew_ms > 0
            else "the renew interval must be above 0",
            try_=(f"yak serve --renew-interval {self.lease_ms / _RENEWALS_PER_LEASE / 1000:g}s",),
        )

    def _check_advertised(self) -> tuple[str, ...]:
        host = self.advertised_host or self.host
        if host in _ANY_ADDRESS:
            raise UsageError(
                "bad-advertised",
                f'clients cannot be told to connect to "{host}"',
                why="it means every address of this machine, and no address to anybody else",
                try_=("yak serve --advertised THIS_HOST:9092   a name or address that clients can reach",),
            )
        if host.startswith(_LOOPBACK) and not self.host.startswith(_LOOPBACK):
            return (f"clients are told {host}, which only this machine can reach; --advertised HOST:PORT changes it",)
        return ()


def bracketed(host: str) -> str:
    """A host as it stands in front of `:port`."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def split_address(text: str, what: str) -> tuple[str, int | None]:
    """`host`, `host:port` or `[ipv6]:port`, also with Kafka's `PLAINTEXT://` in front.

    Raises UsageError (`bad-address`).
    """
    address = text
    if "://" in text:
        protocol, _, address = text.partition("://")
        if protocol.upper() != "PLAINTEXT":
            raise UsageError(
                "bad-address",
                f"{what}={text} cannot be used",
                why=f"the listener is PLAINTEXT; there is no {protocol} yet",
                try_=(f"PLAINTEXT://{address}",),
            )
    host, port_text = address, ""
    if address.startswith("["):
        host, _, port_text = address[1:].partition("]")
        port_text = port_text.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port_text = address.partition(":")
    if port_text and not (port_text.isascii() and port_text.isdigit() and int(port_text) <= 65_535):
        raise UsageError(
            "bad-address", f"{what}={text} cannot be used", why=f'"{port_text}" is not a port', try_=(f"{host}:9092",)
        )
    return host, int(port_text) if port_text else None


def parse_properties_file(text: str) -> dict[str, str]:
    """A Java properties file as Kafka's `server.properties` use it: `name=value` or `name: value`, `#` and `!` notes,
    a backslash at the end of a line goes on with the next."""
    settings: dict[str, str] = {}
    logical = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not logical and (not line or line[0] in "#!"):
            continue
        logical += line
        if (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]
            continue
        name, value = _split_property(logical)
        settings[name] = value
        logical = ""
    if logical:
        name, value = _split_property(logical)
        settings[name] = value
    return settings


def _split_property(line: str) -> tuple[str, str]:
    at = min((position for position in (line.find("="), line.find(":")) if position >= 0), default=len(line))
    return line[:at].strip(), line[at + 1 :].strip()
