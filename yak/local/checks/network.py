"""The network path to a cluster: names, TCP, the Kafka protocol, and the brokers' advertised addresses."""

import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from yak.client.reach import advertise_flag, probe, remedies_of_advertised, split_address, wrong_protocol
from yak.client.security import explain_tls, in_force
from yak.config.listeners import Listeners, is_loopback, without_authentication
from yak.errors import YakError
from yak.local.checks.finding import Finding
from yak.view.broker_state import SeenState
from yak.view.formats import counted
from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import PartitionState, worst

if TYPE_CHECKING:
    from yak.client.admin import ConfigValue

_OPEN: Final = "use SASL_SSL (docs/security.md), or bind 127.0.0.1"
_BY_NAME, _BY_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
_SESSION: Final = ("yak.metadata.state", "yak.metadata.reason")
_HTTP_LISTENERS, _HTTP_AUTHENTICATION = "yak.http.listeners", "yak.http.authentication"


def check_listeners(servers: str, node_ids: Sequence[int], timeout_s: float) -> list[Finding]:
    """The listeners in the brokers' own configs; skipped when the brokers do not describe them."""
    from yak.client.admin import Admin

    admin = Admin(servers, timeout_ms=round(timeout_s * 1000))
    configs: dict[int, Mapping[str, str]] = {}
    for node_id in node_ids:
        try:
            found = admin.configs("broker", str(node_id))
        except YakError as error:
            return [Finding("authentication", "skip", f"node {node_id} does not describe its configs: {error.message}")]
        configs[node_id] = settings_of(found)
    return [check_authentication(configs), *check_between_brokers(configs)]


def settings_of(configs: Iterable["ConfigValue"]) -> dict[str, str]:
    """The configs that have a value, as a broker's settings.

    Kafka describes the default of security.inter.broker.protocol too, but refuses a broker that sets both that and the name.
    """
    found = {each.name: each for each in configs if each.value}
    if _BY_NAME in found and _BY_PROTOCOL in found and found[_BY_PROTOCOL].is_default:
        del found[_BY_PROTOCOL]
    return {name: each.value for name, each in found.items() if each.value}


def check_authentication(configs: Mapping[int, Mapping[str, str]]) -> Finding:
    """Whether a listener beyond the loopback interface lets clients in without a login or a certificate."""
    found = []
    for node_id, settings in configs.items():
        try:
            addresses = [str(each) for each in without_authentication(settings)]
        except YakError as error:
            return Finding("authentication", "skip", f"node {node_id}: {error.message}")
        http = settings.get(_HTTP_LISTENERS, "")
        if http and settings.get(_HTTP_AUTHENTICATION) == "none" and not is_loopback(urlsplit(http).hostname or ""):
            addresses.append(http)
        found += [f"node {node_id} at {address}" for address in addresses]
    if found:
        detail = f"other machines connect without a login or a certificate: {', '.join(found)}"
        return Finding("authentication", "warn", detail, _OPEN)
    return Finding("authentication", "ok", "each listener beyond this machine requires a login or a certificate")


def check_between_brokers(configs: Mapping[int, Mapping[str, str]]) -> list[Finding]:
    """Whether each broker has the listener that each other one uses between brokers, with its security protocol."""
    listeners = {}
    for node_id, settings in configs.items():
        try:
            listeners[node_id] = Listeners.from_settings(settings)
        except YakError as error:
            return [Finding("brokers", "skip", f"node {node_id}: {error.message}")]
    problems = []
    for node_id, own in listeners.items():
        wanted = own.inter_broker
        for other_id, other in listeners.items():
            found = next((each for each in other.advertised if each.name == wanted.name), None)
            if found is None:
                problems.append(f"node {other_id} has no listener {wanted.name}, which node {node_id} uses for brokers")
            elif found.security_protocol is not wanted.security_protocol:
                protocols = (
                    f"{found.security_protocol} on node {other_id}, {wanted.security_protocol} on node {node_id}"
                )
                problems.append(f"listener {wanted.name} is {protocols}")
    if not problems:
        return []
    hint = "set inter.broker.listener.name to a listener that all brokers have"
    return [Finding("brokers", "FAIL", "; ".join(dict.fromkeys(problems)), hint)]


_WARNING_DAYS = 30
_DAY_S = 86_400


def check_tls(address: str, timeout_s: float) -> Finding:
    """Shake hands as yak's commands do: trust, host name and dates of the broker's certificate are checked by that.

    Raises UsageError (`client-certificate`).
    """
    host, port = split_address(address)
    try:
        sock = in_force().secured(socket.create_connection((host, port), timeout=timeout_s), host)
    except OSError as error:
        hint = f"openssl s_client -connect {address} -showcerts   shows the certificate"
        return Finding("tls", "FAIL", f"{address}: {explain_tls(error) or error}", hint)
    assert isinstance(sock, ssl.SSLSocket)
    with sock:
        certificate = sock.getpeercert() or {}
        version = sock.version()
    until_s = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    left_days = int((until_s - time.time()) // _DAY_S)
    names = ", ".join(str(name) for _, name in certificate.get("subjectAltName", ()))  # type: ignore[str-unpack]
    until = time.strftime("%Y-%m-%d", time.gmtime(until_s))
    detail = f"{address} speaks {version}; its certificate names {names or 'no host'} and is valid until {until}"
    if left_days < _WARNING_DAYS:
        return Finding("tls", "warn", f"{detail}, {left_days} days", "yak certs create DIR --force   renews it")
    return Finding("tls", "ok", detail)


def check_network(servers: str, timeout_s: float) -> list[Finding]:
    """DNS, TCP and protocol of each address, and the addresses that its listener advertises; the replicas once."""
    findings: list[Finding] = []
    proven: list[str] = []
    for address in servers.split(","):
        found, speaks_kafka = _check_address(address, timeout_s)
        findings += found
        if speaks_kafka:
            proven.append(address)
    if not proven:
        return [*findings, Finding("advertised", "skip", "no broker answered"), Finding("replicas", "skip", "as above")]
    for address in proven:
        findings += _check_cluster(address, timeout_s, is_first=address == proven[0])
    return findings


def _check_address(address: str, timeout_s: float) -> tuple[list[Finding], bool]:
    host, port = split_address(address)
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except socket.gaierror as error:
        return [Finding("dns", "FAIL", f"{host}: {error.strerror}", f"getent hosts {host}")], False
    findings = [Finding("dns", "ok", f"{host} is {', '.join(sorted(found))}")]
    began = time.monotonic()
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
        hint = "yak up -d" if is_loopback(host) else f"is a broker listening on {port}, and is a firewall between?"
        return [*findings, Finding("tcp", "FAIL", f"{address}: {reason}", hint)], False
    findings.append(Finding("tcp", "ok", f"{address} accepts connections ({(time.monotonic() - began) * 1000:.1f} ms)"))
    if in_force().uses_tls:
        findings.append(check_tls(address, timeout_s))
        if findings[-1].state == "FAIL":
            return findings, False
    answer = probe(address, timeout_s)
    if answer.outcome != "kafka":
        wrong = wrong_protocol(answer)
        detail, hint = f"{wrong.message}: {wrong.why}", " ".join(wrong.try_[0].split())
        return [*findings, Finding("protocol", "FAIL", detail, hint)], False
    return [*findings, Finding("protocol", "ok", f"{address} answers ApiVersions")], True


def _check_cluster(proven: str, timeout_s: float, *, is_first: bool) -> list[Finding]:
    from yak.client.members import listener_name
    from yak.client.replica_offsets import read_metadata

    try:
        found = read_metadata(proven, timeout_s=timeout_s)
    except YakError as error:
        return [Finding("advertised", "FAIL", f"{error.message}: {error.why}", f"yak cluster -b {proven} -v")]
    addresses = {node_id: broker.address for node_id, broker in found.brokers.items()}
    listener = listener_name(proven, addresses, timeout_s=timeout_s)
    advertised = list(check_advertised(proven, addresses, timeout_s, listener))
    if not is_first:
        return advertised
    listeners = check_listeners(proven, list(addresses), timeout_s)
    return [*advertised, check_brokers(proven, timeout_s), *listeners, check_replicas(found.partitions)]


def check_advertised(proven: str, addresses: dict[int, str], timeout_s: float, listener: str = "") -> Iterable[Finding]:
    """Whether clients on this machine reach the advertised addresses (provectus/kafka-ui#2021 and many).

    `listener` is the name of the listener that answered at `proven`, empty when it is not known.
    """
    who = f"listener {listener} at {proven}" if listener else proven
    if not addresses:
        yield Finding("advertised", "FAIL", f"{who} names no broker", f"yak brokers list -b {proven}")
    for node_id, address in addresses.items():
        host, port = split_address(address)
        if is_loopback(host) and not is_loopback(split_address(proven)[0]):
            yield Finding(
                "advertised",
                "FAIL",
                f"{who} answered, but node {node_id} tells clients to use {address}: the client's own machine",
                advertise_flag(node_id, listener, split_address(proven)[0], port),
            )
            continue
        answer = probe(address, timeout_s)
        if answer.outcome == "kafka":
            yield Finding("advertised", "ok", f"{who}: node {node_id} is reached at {address}, as it says")
        else:
            yield Finding(
                "advertised",
                "FAIL",
                f"{who}: node {node_id} tells clients to use {address}: {answer.detail}",
                "; or ".join(
                    " ".join(each.split()) for each in remedies_of_advertised(node_id, answer, proven, listener)
                ),
            )


def check_brokers(proven: str, timeout_s: float) -> Finding:
    """Whether each broker is ACTIVE, and so its session with the metadata store; `yak cluster` returns 1 otherwise."""
    from yak.client.admin import Admin
    from yak.client.members import read_members

    try:
        metadata = Admin(proven, timeout_ms=round(timeout_s * 1000)).metadata()
    except YakError as error:
        return Finding("brokers", "skip", f"{proven} does not describe the cluster: {error.message}")
    members = read_members(metadata, answered=proven, timeout_s=timeout_s, names=_SESSION)
    problems = [f"node {each.node_id} is {each.state}" for each in members if each.state is not SeenState.ACTIVE]
    sessions: dict[str, list[str]] = {}
    for each in members:
        state, reason = (each.configs.get(name, "") for name in _SESSION)
        if state not in ("", SeenState.ACTIVE):
            sessions.setdefault(f"{state}: {reason}", []).append(str(each.node_id))
    problems += [
        f"session of node {', '.join(nodes)} with the metadata store: {text}" for text, nodes in sessions.items()
    ]
    if problems:
        return Finding("brokers", "FAIL", "; ".join(problems), f"yak cluster -b {proven}")
    return Finding("brokers", "ok", f"{counted(len(members), 'broker')}: ACTIVE, and connected to the metadata store")


def check_replicas(partitions: Sequence[PartitionReplicas]) -> Finding:
    """Whether each partition has a leader and all its replicas in sync."""
    states = [each.state for each in partitions]
    total = f"{len(states)} partitions of {len({each.topic for each in partitions})} topics"
    state = worst(states)
    if state is PartitionState.OK:
        return Finding("replicas", "ok", f"{total}: each has its leader, all replicas in sync")
    option = {PartitionState.OFFLINE: "--offline", PartitionState.UNDER_MIN_ISR: "--under-min-isr"}
    return Finding(
        "replicas",
        "FAIL" if state in option else "warn",
        f"{states.count(state)} of {total} are {state.label}",
        f"yak isr {option.get(state, '--under-replicated')}",
    )


def check_faults(servers: str, *, timeout_s: float) -> list[Finding]:
    """A finding when a broker allows fault injection: a warning if it has faults, or if other machines reach it."""
    from yak.client.faults import list_faults

    allowed, counts = [], {}
    for address in (each.strip() for each in servers.split(",")):
        try:
            counts[address] = len(list_faults(address, timeout_s=timeout_s))
        except YakError:  # it allows none, or does not answer, which the other checks say
            continue
        allowed.append(address)
    if not allowed:
        return []
    said = f"{', '.join(allowed)} can inject faults (yak.fault.injection.enable)"
    if total := sum(counts.values()):
        return [Finding("faults", "warn", f"{said}, and inject {total} now", "yak faults clear")]
    if not all(is_loopback(split_address(address)[0]) for address in allowed):
        return [Finding("faults", "warn", said, "yak.fault.injection.enable=false, and a restart")]
    return [Finding("faults", "ok", f"{said}, and inject none")]
