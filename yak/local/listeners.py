"""The listeners of a local cluster: the cluster's own one on this machine, those of `yak up --listen`, TLS and logins.

Broker K listens on, and advertises, the given ports plus K - 1. Every listener has the security protocol of the
cluster's own: SSL with `--tls`, SASL_PLAINTEXT with `--users-file`, SASL_SSL with both, else PLAINTEXT.
"""

import os
import re
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from yak.config.listeners import ANY_HOST, Listener, Listeners, SecurityProtocol, parse_protocol_map
from yak.errors import UsageError
from yak.local import layout, ports

if TYPE_CHECKING:
    from yak.local.state import BrokerState, ClusterState

NONE: Final = "none"
"""Takes back an earlier --listen or --users-file."""
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_NAMES: Final = ("localhost", _LOOPBACK, "::1")
_CERTIFICATE_DAYS: Final = 365
_RENEWED_BEFORE_S: Final = 30 * 86_400
_PORT_MAX: Final = 65_535
_MAP: Final = "listener.security.protocol.map"
_TRY: Final = "yak up --listen EXTERNAL://0.0.0.0:19092 --advertise EXTERNAL://localhost:19092"


def taken_ports(known: "ClusterState") -> set[int]:
    """The ports of `--listen`, of all brokers."""
    return {each.port for broker in known.brokers for each in _bound(known, broker)}


def check(known: "ClusterState", port: int | None = None) -> None:
    """Refuse listeners that the brokers cannot have; `port` is that of `--port`.

    Raises UsageError (`up-listeners`, `bad-listeners`, `bad-advertised`).
    """
    exposed = known.exposed
    if exposed.advertise and not exposed.listen:
        raise _bad("--advertise goes with --listen", "it is the advertised address of a named listener")
    names_all = any(pair.startswith(("listeners=", "advertised.listeners=")) for pair in known.brokers[0].configs)
    if names_all and not exposed.is_plain:
        why = "-c names all listeners of the brokers, and the options change them"
        raise _bad("-c listeners excludes --listen, --tls and --users-file", why)
    if not exposed.listen:
        return
    seen: dict[tuple[str, int], str] = {}
    if port:
        seen["", port] = "--port"
    for broker in known.brokers:
        own, which = own_listener(known, broker).name, f"of broker {broker.node_id}"
        try:
            listeners = Listeners.from_settings(_settings(known, broker))
        except UsageError as error:
            raise UsageError(error.code, error.message, why=error.why, try_=(_TRY,)) from None
        for each in listeners.bound:
            if each.name != own:
                _claim(seen, ("", each.port), f"{each.name} {which}")
        for each in listeners.advertised:
            if each.name != own:
                _claim(seen, (each.host, each.port), f"the advertised {each.name} {which}")


def check_free(known: "ClusterState", broker: "BrokerState") -> None:
    """Refuse a port that another program has. Raises UsageError (`port-in-use`)."""
    for each in _bound(known, broker):
        host = each.host or ANY_HOST
        if not ports.is_free(host, each.port):
            raise ports.port_taken_error(host, each.port)


def serve_arguments(known: "ClusterState", broker: "BrokerState") -> tuple[str, ...]:
    """The arguments of `yak serve` for the listeners, certificates and users of a broker; none for a plain cluster."""
    exposed = known.exposed
    if exposed.is_plain:
        return ()
    arguments = ["--listen", str(own_listener(known, broker))]
    for option, texts in (("--listen", exposed.listen), ("--advertise", exposed.advertise)):
        for text in texts:
            arguments += [option, _shifted(text, broker.node_id)]
    configs = {_MAP: _protocol_map(known)}
    if exposed.tls:
        certs = layout.certs_dir(known.data_dir)
        configs |= {
            "ssl.keystore.location": os.path.join(certs, "broker.pem"),
            "ssl.truststore.location": os.path.join(certs, "ca.pem"),
            "yak.http.security.protocol": "SSL",
        }
    if exposed.users_file is not None:
        arguments += ["--users-file", exposed.users_file]
        configs["yak.http.authentication"] = "basic"
    given = {pair.partition("=")[0] for pair in broker.configs}
    for name, value in configs.items():
        if name not in given:
            arguments += ["-c", f"{name}={value}"]
    return tuple(arguments)


def advertised(known: "ClusterState", broker: "BrokerState") -> tuple[str, ...]:
    """The advertised addresses of `--listen`, `NAME://host:port` each."""
    if not known.exposed.listen:
        return ()
    own = own_listener(known, broker).name
    return tuple(str(each) for each in Listeners.from_settings(_settings(known, broker)).advertised if each.name != own)


def first_user(users_file: str) -> tuple[str, str]:
    """The first user of a file and its password. Raises UsageError (`users-file`)."""
    from yak.server.users_file import read_passwords

    return next(iter(read_passwords(users_file).items()), ("", ""))


def make_certificates(known: "ClusterState") -> None:
    """Make the authority and the brokers' certificate, or a new one that expires soon or lacks a host. Raises YakError."""
    from yak.security.certificates import BROKER_FILE, create_certificates, read_certificates

    folder, hosts = layout.certs_dir(known.data_dir), _hosts(known)
    path = os.path.join(folder, BROKER_FILE)
    if os.path.exists(path):
        found = read_certificates(path)[0]
        now_s = time.time()
        is_valid = found.not_before.timestamp() <= now_s < found.not_after.timestamp() - _RENEWED_BEFORE_S
        if set(hosts) <= set(found.names) and is_valid:
            return
    create_certificates(folder, hosts, _CERTIFICATE_DAYS, [], force=True, now=datetime.now(UTC))


def _hosts(known: "ClusterState") -> list[str]:
    """What clients of this machine and of the advertised listeners connect to."""
    named = [
        each.host for broker in known.brokers for each in Listeners.from_settings(_settings(known, broker)).advertised
    ]
    return list(dict.fromkeys([*_LOCAL_NAMES, socket.gethostname(), *named]))


def own_listener(known: "ClusterState", broker: "BrokerState") -> Listener:
    """The cluster's own listener of a broker, on this machine."""
    protocol = known.exposed.protocol
    return Listener(protocol.value, protocol, broker.host, broker.port)


def _bound(known: "ClusterState", broker: "BrokerState") -> Iterator[Listener]:
    if known.exposed.listen:
        own = own_listener(known, broker).name
        yield from (each for each in Listeners.from_settings(_settings(known, broker)).bound if each.name != own)


def _settings(known: "ClusterState", broker: "BrokerState") -> dict[str, str]:
    """The listeners as Kafka's configs. Raises UsageError (`up-listeners`)."""
    exposed = known.exposed
    listen = [_shifted(text, broker.node_id) for text in exposed.listen]
    advertised = [_shifted(text, broker.node_id) for text in exposed.advertise]
    own = own_listener(known, broker)
    names = {_name(text) for text in advertised}
    if own.name in {_name(text) for text in listen}:
        raise _bad(
            f"{own.name} is the cluster's own listener, at {own.host} and --port",
            "a further listener has another name, such as EXTERNAL",
        )
    rest = [text for text in [str(own), *listen] if _name(text) not in names]
    return {
        "listeners": ",".join([str(own), *listen]),
        "advertised.listeners": ",".join([*rest, *advertised]),
        _MAP: _protocol_map(known),
    }


def _protocol_map(known: "ClusterState") -> str:
    """Every name has the cluster's protocol, unless the broker's own config maps it."""
    given = dict(pair.partition("=")[::2] for broker in known.brokers[:1] for pair in broker.configs).get(_MAP)
    protocols = given or ",".join(f"{each}:{each}" for each in SecurityProtocol)
    mapped = parse_protocol_map(protocols)
    names = dict.fromkeys(_name(text) for text in (*known.exposed.listen, *known.exposed.advertise))
    return ",".join([protocols, *(f"{name}:{known.exposed.protocol}" for name in names if name not in mapped)])


def _claim(seen: dict[tuple[str, int], str], address: tuple[str, int], listener: str) -> None:
    if address in seen:
        raise _bad(
            f"{seen[address]} and {listener} would have the same port {address[1]}",
            "broker K has the given port plus K - 1: leave as many ports between two listeners as there are brokers",
        )
    seen[address] = listener


def _shifted(text: str, node_id: int) -> str:
    """A listener of broker 1 as one of broker `node_id`. Raises UsageError (`up-listeners`)."""
    head, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,9}", port):
        raise _bad(f"{text} is no listener", "a listener is NAME://HOST:PORT")
    if not 0 < int(port) <= _PORT_MAX - (node_id - 1):
        why = "broker K has the given port plus K - 1, which must be between 1 and 65535"
        raise _bad(f"broker {node_id} cannot have a port for {text}", why)
    return f"{head}:{int(port) + node_id - 1}"


def _name(text: str) -> str:
    return text.partition("://")[0].strip().upper()


def _bad(message: str, why: str) -> UsageError:
    return UsageError("up-listeners", message, why=why, try_=(_TRY,))
