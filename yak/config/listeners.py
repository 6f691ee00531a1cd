"""The listeners of a broker: their names, security protocols and addresses.

The rules are those of Kafka's SocketServerConfigs.listenerListToEndPoints and KafkaConfig (KIP-103, KIP-291): listeners
have different names and, unless one is IPv4 and the other IPv6, different ports. A listener whose name is no security
protocol needs an entry in `listener.security.protocol.map`.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from yak.errors import UsageError

_ENDPOINT: Final = re.compile(r"([^:,/\s]+)://(\[[0-9a-zA-Z\-%._:]*\]|[0-9a-zA-Z\-%._]*):([0-9]{1,5})")
_NAMED: Final = re.compile(r"([^=,:/]+)=([A-Z_]+)://(.*):([0-9]+)")
_PORT_MAX: Final = 65_535
_WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - these are refused, not bound
_IPV4, _IPV6 = 4, 6
ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - what an empty host means in Kafka


class SecurityProtocol(StrEnum):
    """Kafka's SecurityProtocol: what a listener does with bytes and with the identity of clients."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Listener:
    """A named listener with an address: where the broker listens, or what it advertises. IPv6 hosts have no brackets."""

    name: str
    security_protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        """The listener as in Kafka's configs: `NAME://host:port`."""
        return f"{self.name}://{bracketed(self.host)}:{self.port}"


PLAINTEXT_LISTENER: Final = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092)
"""The only listener of a broker without listener configs."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """All listeners of a broker. `advertised` and `bound` have the same names, except that some may be not advertised."""

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> "Listeners":
        """Parse Kafka's configs, whose defaults are Kafka's, except that brokers use the first listener among themselves.

        Raises UsageError (`bad-listeners`).
        """
        controllers = tuple(name.upper() for name in _entries(settings.get("controller.listener.names", "")))
        protocols = parse_protocol_map(settings.get("listener.security.protocol.map"), controllers)
        bound = parse_listeners(settings.get("listeners", "PLAINTEXT://:9092"), protocols)
        for_clients = tuple(each for each in bound if each.name not in controllers)
        text = settings.get("advertised.listeners", "").strip()
        advertised = parse_advertised(text, protocols, bound, controllers) if text else for_clients
        if not advertised:
            raise bad_listeners("no listener is advertised", "clients and other brokers need at least one")
        check_routable(advertised)
        return cls(bound, advertised, _inter_broker_name(settings, protocols, advertised))

    def with_ports(self, ports: Sequence[int]) -> "Listeners":
        """The listeners once they are bound to `ports`, in the order of `bound`; an advertised port 0 becomes that port."""
        bound = tuple(replace(each, port=port) for each, port in zip(self.bound, ports, strict=True))
        by_name = {each.name: each.port for each in bound}
        advertised = tuple(each if each.port else replace(each, port=by_name[each.name]) for each in self.advertised)
        return replace(self, bound=bound, advertised=advertised)

    @property
    def inter_broker(self) -> Listener:
        """The advertised endpoint that other brokers connect to."""
        return next(each for each in self.advertised if each.name == self.inter_broker_name)

    @property
    def settings(self) -> dict[str, str]:
        """The listeners as Kafka's configs."""
        every = {each.name: each.security_protocol for each in (*self.bound, *self.advertised)}
        return {
            "listeners": ",".join(map(str, self.bound)),
            "advertised.listeners": ",".join(map(str, self.advertised)),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in every.items()),
            "inter.broker.listener.name": self.inter_broker_name,
        }


def parse_protocol_map(text: str | None, controllers: Sequence[str] = ()) -> dict[str, SecurityProtocol]:
    """Parse `NAME:PROTOCOL,...`; None is Kafka's default: each protocol under its own name.

    With the default, a controller's listener is PLAINTEXT too (KIP-291, KafkaConfig.effectiveListenerSecurityProtocolMap).
    Raises UsageError (`bad-listeners`).
    """
    if text is None:
        own = {protocol.value: protocol for protocol in SecurityProtocol}
        return {**dict.fromkeys(controllers, SecurityProtocol.PLAINTEXT), **own}
    found: dict[str, SecurityProtocol] = {}
    for entry in _entries(text):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not name or not colon:
            raise bad_listeners(
                f"listener.security.protocol.map={text} cannot be used", f'"{entry}" is not NAME:PROTOCOL'
            )
        name = name.upper()
        if name in found:
            raise bad_listeners(f"listener.security.protocol.map={text} cannot be used", f"{name} is named twice")
        try:
            found[name] = SecurityProtocol(protocol.upper())
        except ValueError:
            known = ", ".join(SecurityProtocol)
            raise bad_listeners(
                f"listener.security.protocol.map={text} cannot be used",
                f"{protocol} is no security protocol; they are {known}",
            ) from None
    return found


def parse_listeners(text: str, protocols: Mapping[str, SecurityProtocol]) -> tuple[Listener, ...]:
    """Parse `NAME://host:port,...` with different names and ports. Raises UsageError (`bad-listeners`)."""
    found = _parse(text, protocols, "listeners")
    if not found:
        raise bad_listeners("listeners is empty", "a broker needs at least one listener")
    by_port: dict[int, list[Listener]] = {}
    for each in found:
        if each.port:
            by_port.setdefault(each.port, []).append(each)
    for port, same in by_port.items():
        if len(same) > 1 and sorted(map(_ip_version, same)) != [_IPV4, _IPV6]:
            raise bad_listeners(
                f"listeners={text} cannot be used",
                f"each listener must have a different port, and {' and '.join(each.name for each in same)} have {port}",
            )
    return found


def parse_advertised(
    text: str, protocols: Mapping[str, SecurityProtocol], bound: Sequence[Listener], controllers: Sequence[str]
) -> tuple[Listener, ...]:
    """Parse `advertised.listeners`, whose names must be listeners of the broker, and leave out those of controllers.

    They may be in it since KIP-853 (KafkaConfig.effectiveAdvertisedBrokerListeners). Raises UsageError (`bad-listeners`).
    """
    found = _parse(text, protocols, "advertised.listeners")
    known = {each.name for each in bound}
    for each in found:
        if each.name not in known:
            raise bad_listeners(
                f"advertised.listeners={text} cannot be used",
                f"{each.name} is no listener of this broker; they are {', '.join(each.name for each in bound)}",
            )
    return tuple(each for each in found if each.name not in controllers)


def parse_bootstrap_listeners(text: str, bound: Sequence[Listener]) -> tuple[Listener, ...]:
    """Parse `yak.bootstrap.listeners`, whose names must be listeners of the broker. Raises UsageError (`bad-listeners`)."""
    config, own = "yak.bootstrap.listeners", {(each.host, each.port) for each in bound}
    for each in (found := _parse(text, {each.name: each.security_protocol for each in bound}, config)):
        if each.port == 0:
            raise bad_listeners(f"{config}={text} cannot be used", "port 0 is another port for each broker")
        if (each.host, each.port) in own:
            raise bad_listeners(f"{config}={text} cannot be used", f"{each} is a listener of this broker alone")
    return found


def check_routable(advertised: Iterable[Listener]) -> None:
    """Refuse wildcard addresses. Raises UsageError (`bad-advertised`)."""
    for each in advertised:
        if each.host in _WILDCARDS:
            raise UsageError(
                "bad-advertised",
                f'clients of listener {each.name} cannot be told to connect to "{each.host}"',
                why="it means every address of this machine, and no address to any other machine",
                try_=(f"yak serve --listen {each} --advertise {each.name}://HOST:{each.port or 'PORT'}",),
            )


def without_authentication(settings: Mapping[str, str]) -> tuple[Listener, ...]:
    """The listeners that other machines reach, and that need neither a client's login nor its certificate.

    `settings` are a broker's configs by Kafka's names. Raises UsageError (`bad-listeners`).
    """
    return tuple(
        each
        for each in Listeners.from_settings(settings).bound
        if not is_loopback(each.host) and not _authenticates(each, settings)
    )


def _authenticates(listener: Listener, settings: Mapping[str, str]) -> bool:
    own = settings.get(f"listener.name.{listener.name.lower()}.ssl.client.auth")
    client_auth = settings.get("ssl.client.auth", "none") if own is None else own
    protocol = listener.security_protocol
    return protocol.uses_sasl or (protocol.uses_tls and client_auth.strip().lower() == "required")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; an empty host means every address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def write_endpoints(endpoints: Iterable[Listener]) -> str:
    """Endpoints in the form of a broker's registration: `NAME=PROTOCOL://host:port,...`."""
    return ",".join(f"{each.name}={each.security_protocol}://{each.host}:{each.port}" for each in endpoints)


def read_endpoints(text: str) -> tuple[Listener, ...]:
    """Read what `write_endpoints` wrote. Raises ValueError."""
    return tuple(_read_endpoint(entry) for entry in text.split(",")) if text else ()


def bad_listeners(what: str, why: str) -> UsageError:
    """The error for invalid listeners."""
    return UsageError(
        "bad-listeners",
        what,
        why=why,
        try_=("yak serve --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092",),
    )


def _read_endpoint(entry: str) -> Listener:
    match = _NAMED.fullmatch(entry)
    if match is None:
        raise ValueError(f"no endpoint: {entry!r}")
    name, protocol, host, port = match.groups()
    return Listener(name, SecurityProtocol(protocol), host, int(port))


def _inter_broker_name(
    settings: Mapping[str, str], protocols: Mapping[str, SecurityProtocol], advertised: Sequence[Listener]
) -> str:
    name = settings.get("inter.broker.listener.name", "").strip().upper()
    protocol = settings.get("security.inter.broker.protocol", "").strip().upper()
    if name and protocol:
        raise bad_listeners(
            "only one of inter.broker.listener.name and security.inter.broker.protocol can be set",
            "both choose the listener that other brokers connect to",
        )
    if not name and not protocol:
        return advertised[0].name
    config, name = ("inter.broker.listener.name", name) if name else ("security.inter.broker.protocol", protocol)
    if name not in protocols:
        raise bad_listeners(f"{config}={name} cannot be used", f"listener.security.protocol.map does not name {name}")
    if name not in {each.name for each in advertised}:
        raise bad_listeners(
            f"{config}={name} cannot be used",
            f"{name} is not advertised; the advertised listeners are {', '.join(each.name for each in advertised)}",
        )
    return name


def _parse(text: str, protocols: Mapping[str, SecurityProtocol], config: str) -> tuple[Listener, ...]:
    found: dict[str, Listener] = {}
    for entry in _entries(text):
        match = _ENDPOINT.fullmatch(entry)
        if match is None or int(match[3]) > _PORT_MAX:
            raise bad_listeners(f"{config}={text} cannot be used", f'"{entry}" is not NAME://HOST:PORT')
        name, host, port = match[1].upper(), match[2].strip("[]"), int(match[3])
        if name not in protocols:
            raise bad_listeners(
                f"{config}={text} cannot be used",
                f"no security protocol is defined for listener {name}; listener.security.protocol.map defines it",
            )
        if name in found:
            raise bad_listeners(
                f"{config}={text} cannot be used", f"each listener must have a different name, and {name} comes twice"
            )
        found[name] = Listener(name, protocols[name], host, port)
    return tuple(found.values())


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _ip_version(listener: Listener) -> int:
    """4 or 6; 0 for a host name, which may have both."""
    try:
        return ipaddress.ip_address(listener.host).version
    except ValueError:
        return 0


def bracketed(host: str) -> str:
    """The host as written before `:port`; IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
