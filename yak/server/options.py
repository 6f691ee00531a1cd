"""The resolved options of `yak serve`, as a plain value for the command line, `yak up` and tests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from yak.config.listeners import ANY_HOST, PLAINTEXT_LISTENER, Listener, Listeners, bracketed, parse_bootstrap_listeners
from yak.errors import UsageError

if TYPE_CHECKING:  # the command line has no use for them
    from yak.protocol.peer_proof import ClusterSecret
    from yak.quorum.voters import VoterSet

Role = Literal["leader", "follower"]
Metadata = Literal["redis", "raft", "both"]
METADATA: Final[tuple[Metadata, ...]] = ("redis", "raft", "both")
ROLES: Final[tuple[Role, ...]] = ("leader", "follower")
LEASE_MS_DEFAULT: Final = 6_000
"""As `session_timeout_ms` of `yak.cluster.settings.ClusterSettings`; far above any event loop delay."""
RENEW_MS_DEFAULT: Final = 500
FOLLOWERS_TIMEOUT_MS_DEFAULT: Final = 30_000
_RENEWALS_PER_LEASE: Final = 3
_RENEWALS_PER_LEASE_MIN: Final = 2
_KAFKA_PORT: Final = 9092
_ANY_ADDRESS: Final = ("0.0.0.0", "::", "[::]", "", "*")  # noqa: S104 - these are refused, not bound
_LOOPBACK: Final = ("127.", "::1", "[::1]", "localhost")


@dataclass(slots=True, frozen=True)
class ServeOptions:
    """All options of one broker process. Times in ms; port 0 is any free port."""

    node_id: int = 1
    role: Role = "leader"
    host: str = "127.0.0.1"
    port: int = 9092
    http_port: int | None = None
    """The HTTP port, on the same host; 0: any free port; None: no HTTP."""
    http_port_may_move: bool = False
    """Use any free port if `http_port` is taken, since the user did not choose it."""
    advertised_host: str | None = None
    advertised_port: int | None = None
    listeners: Listeners | None = None
    """Named listeners; None: PLAINTEXT at the four fields above. Else these are of the inter-broker listener."""
    metadata: Metadata = "redis"
    """`both`: Redis and a node of the quorum, while the metadata are moved from one to the other."""
    voters: "VoterSet | None" = None
    """The first voters of the metadata quorum; None: this broker alone."""
    cluster_secret: "ClusterSecret | None" = field(default=None, repr=False)
    """The secret that the brokers of a quorum share before they know any metadata; None: the one on disk, or a new one."""
    cluster_id: str = ""
    """The cluster id that the secret's file names; empty: the one on disk, or the one that follows from the secret."""
    joins_cluster: bool = False
    """Whether the secret's file names the cluster id, so that the cluster exists already."""
    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """SCRAM credentials of the users of this broker alone (`yak.server.users_file`)."""
    users_file: str | None = None
    """The file of these users, which SIGHUP reads again."""
    project_redis: str | None = None
    """A Redis to which a quorum's leader writes ISR, high watermarks and log ends, for tools that read it there."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    redis_timeout_ms: int = 30_000
    allow_unsafe_redis: bool = False
    """Accept a metadata store that has replicas, or is one: a failover may lose confirmed changes."""
    data_dirs: tuple[str, ...] = ("./yak-data",)
    rack: str | None = None
    followers: tuple[str, ...] = ()
    """Followers (host:port) that this leader waits for, up to the timeout, before it creates replicated topics."""
    followers_timeout_ms: int = FOLLOWERS_TIMEOUT_MS_DEFAULT
    lease_ms: int = LEASE_MS_DEFAULT
    """The session timeout: a broker without heartbeats is fenced, and a silent controller is replaced."""
    renew_ms: int | None = None
    log_format: str = "text"
    log_level: str = "info"
    configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka's broker configs by name; the fields above take precedence."""
    ready_file: str | None = None
    says_ready_as_kafka: bool = False
    """Also print the line that Kafka's images print once they are ready: testcontainers waits for them."""
    http_token: str | None = field(default=None, repr=False)
    """If set, HTTP requests that change something need this token."""

    @property
    def http_has_tls(self) -> bool:
        """Whether the HTTP port speaks HTTPS (`yak.http.security.protocol`)."""
        return self.configs.get("yak.http.security.protocol", "").strip().upper() == "SSL"

    @property
    def http_authentication(self) -> Literal["none", "basic"]:
        """How HTTP clients log in (`yak.http.authentication`)."""
        return "basic" if self.configs.get("yak.http.authentication", "").strip().lower() == "basic" else "none"

    def http_address(self, http_port: int) -> str:
        """The address of the HTTP port for clients, `scheme://host:port`."""
        return f"{'https' if self.http_has_tls else 'http'}://{bracketed(self.advertised(self.port)[0])}:{http_port}"

    @property
    def renew_interval_ms(self) -> int:
        """The heartbeat interval; by default 0.5 s, or a third of a short lease."""
        if self.renew_ms is not None:
            return self.renew_ms
        return usual_renew_ms(self.lease_ms)

    @property
    def has_redis(self) -> bool:
        """Whether the broker connects to a metadata store in Redis."""
        return self.metadata != "raft"

    @property
    def has_quorum(self) -> bool:
        """Whether the broker is a node of a metadata quorum."""
        return self.metadata != "redis"

    def advertised(self, bound_port: int) -> tuple[str, int]:
        """The address that clients connect to, once the port is bound."""
        return self.advertised_host or self.host, self.advertised_port or bound_port

    def with_bound(self, bound: Sequence[Listener]) -> "ServeOptions":
        """The options once the listeners are bound to their ports."""
        if self.listeners is None:
            return replace(self, port=bound[0].port)
        return self.of_listeners(self.listeners.with_ports([each.port for each in bound]))

    def of_listeners(self, listeners: Listeners) -> "ServeOptions":
        """These options with named listeners."""
        own = next(each for each in listeners.bound if each.name == listeners.inter_broker_name)
        advertised = listeners.inter_broker
        return replace(
            self,
            listeners=listeners,
            host=own.host or ANY_HOST,
            port=own.port,
            advertised_host=advertised.host,
            advertised_port=advertised.port or None,
        )

    def all_listeners(self) -> Listeners:
        """The listeners, also of a broker that has only the one of `host` and `port`."""
        if self.listeners is not None:
            return self.listeners
        host, port = self.advertised(self.port)
        own = replace(PLAINTEXT_LISTENER, host=self.host, port=self.port)
        return Listeners((own,), (replace(own, host=host, port=port),), own.name)

    def bootstrap_listeners(self) -> tuple[Listener, ...]:
        """The addresses that this broker shares with others of its machine. Raises UsageError (`bad-listeners`)."""
        return parse_bootstrap_listeners(self.configs.get("yak.bootstrap.listeners", ""), self.all_listeners().bound)

    def broker_settings(self, http_port: int = 0) -> dict[str, str]:
        """The effective broker configs: the given ones, and the flags under Kafka's names."""
        listeners = self.all_listeners().settings
        if self.listeners is None:
            listeners = {name: listeners[name] for name in ("listeners", "advertised.listeners")}
        elif "security.inter.broker.protocol" in self.configs:
            del listeners["inter.broker.listener.name"]  # only one of them can be set
        http = {"yak.http.listeners": self.http_address(http_port)} if http_port else {}
        rack = {} if self.rack is None else {"broker.rack": self.rack}
        return {
            **self.configs,
            **rack,
            **http,
            "node.id": str(self.node_id),
            **listeners,
            "log.dirs": ",".join(self.data_dirs),
        }

    def check(self) -> tuple[str, ...]:
        """Check the options. Returns warnings about probable mistakes.

        Raises UsageError: `bad-node-id`, `bad-role`, `lease-config`, `bad-advertised`, `bad-followers`, `bad-listeners`,
        `data-dir`.
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
        self.bootstrap_listeners()
        self._check_metadata()
        self._check_lease()
        return self._check_advertised() + self._check_followers()

    def _check_metadata(self) -> None:
        if self.metadata not in METADATA:
            raise UsageError(
                "bad-metadata",
                f"no such metadata store: {self.metadata}",
                why="it is redis, raft (a quorum of brokers), or both while the metadata are moved",
                try_=("yak serve --metadata raft",),
            )
        if self.project_redis is not None and self.metadata != "raft":
            raise UsageError(
                "project-redis",
                "--project-redis goes with --metadata raft",
                why="in a cluster with Redis as its metadata store Redis has these keys anyway",
                try_=("yak isr --from-redis",),
            )

    def _check_lease(self) -> None:
        renew_ms = self.renew_interval_ms
        if 0 < renew_ms * _RENEWALS_PER_LEASE_MIN <= self.lease_ms:
            return
        renew, lease = f"renew {renew_ms / 1000:g} s", f"lease {self.lease_ms / 1000:g} s"
        why = "the renew interval must be above 0"
        if renew_ms >= self.lease_ms:
            why = f"{renew} is not below {lease}: the lease would end before each renewal"
        elif renew_ms > 0:
            why = f"{renew} is more than half of {lease}: one renewal that is late would end it"
        renew_at_most = max(self.lease_ms, RENEW_MS_DEFAULT) / _RENEWALS_PER_LEASE / 1000
        raise UsageError(
            "lease-config",
            "the lease settings cannot be used",
            why=why,
            try_=(f"yak serve --renew-interval {renew_at_most:.2g}s",),
        )

    def _check_followers(self) -> tuple[str, ...]:
        if self.followers_timeout_ms < 0:
            raise bad_followers(f"--followers-timeout {self.followers_timeout_ms} ms", "it is below 0")
        host, port = self.advertised(self.port)
        own = {f"{bracketed(host)}:{port}", f"{bracketed(self.host)}:{self.port}"}
        for follower in self.followers:
            if follower in own:
                raise bad_followers(follower, "it is this broker's own address; name the others")
        if self.followers and self.role != "leader":
            return ("--followers is for brokers of role leader: this one waits for none",)
        return ()

    def _check_advertised(self) -> tuple[str, ...]:
        host = self.advertised_host or self.host
        if host in _ANY_ADDRESS:
            raise UsageError(
                "bad-advertised",
                f'clients cannot connect to "{host}"',
                why="it stands for every address of this machine: a client cannot connect to it",
                try_=("yak serve --advertised THIS_HOST:9092   a name or address that clients can reach",),
            )
        if host.startswith(_LOOPBACK) and not self.host.startswith(_LOOPBACK):
            return (
                f"clients get the address {host}, which only this machine can reach; --advertised HOST:PORT changes it",
            )
        return ()


def parse_followers(text: str) -> tuple[str, ...]:
    """Parse `host:port,host:port`; the default port is 9092. Raises UsageError (`bad-followers`)."""
    addresses: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        try:
            host, port = split_address(part, "--followers")
        except UsageError as error:
            raise bad_followers(part, error.why) from None
        if not host or port == 0:
            raise bad_followers(part, "it names no host" if not host else "port 0 cannot be connected to")
        address = f"{bracketed(host)}:{_KAFKA_PORT if port is None else port}"
        if address in addresses:
            raise bad_followers(address, "it is named twice")
        addresses.append(address)
    return tuple(addresses)


def bad_followers(what: str, why: str) -> UsageError:
    """The error for an invalid address in `--followers`."""
    return UsageError(
        "bad-followers",
        f"{what} cannot be used as a follower",
        why=why,
        try_=("yak serve --followers HOST:9093,HOST:9094",),
    )


def usual_renew_ms(lease_ms: int) -> int:
    """The default heartbeat interval."""
    return min(RENEW_MS_DEFAULT, lease_ms // _RENEWALS_PER_LEASE)


def split_address(text: str, what: str) -> tuple[str, int | None]:
    """Parse `host`, `host:port` or `[ipv6]:port`, also after Kafka's `PLAINTEXT://`.

    Raises UsageError (`bad-address`).
    """
    address = text
    if "://" in text:
        protocol, _, address = text.partition("://")
        if protocol.upper() != "PLAINTEXT":
            raise UsageError(
                "bad-address",
                f"{what}={text} cannot be used",
                why=f"it says {protocol}, and this address is of a PLAINTEXT listener",
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
    """Parse a Java properties file such as Kafka's `server.properties`.

    Lines are `name=value`, `name: value` or `name value`, comments start with `#` or `!`, and a backslash at the end
    continues a line. Any other backslash escapes what follows it, as for java.util.Properties: a regular expression in
    a rule for principals has two where it means one.
    """
    settings: dict[str, str] = {}
    logical = ""
    for raw in f"{text}\n".split("\n"):  # not splitlines: a password may have other separators
        line = raw.lstrip()
        if not logical and (not line or line[0] in "#!"):
            continue
        logical += line
        if (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]
            continue
        found = _PROPERTY.match(logical)
        assert found is not None, "every part of it may be empty"
        settings[_unescaped(found[1])] = _unescaped(found[2].strip())
        logical = ""
    return settings


_PROPERTY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?(.*)", re.DOTALL)
_PROPERTY_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_PROPERTY_SIGNS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str) -> str:
    def sign(found: re.Match[str]) -> str:
        code, character = found.groups()
        return chr(int(code, 16)) if code else _PROPERTY_SIGNS.get(character, character or "")

    if "\\" not in text:
        return text
    # Java's characters are of UTF-16: two escapes may be one character
    return _PROPERTY_ESCAPE.sub(sign, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
