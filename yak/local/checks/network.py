"""The network path to a cluster: names, TCP, the Kafka protocol, and the brokers' advertised addresses."""

import socket
import time
from collections.abc import Iterable, Sequence

from yak.client.reach import probe, split_address
from yak.client.security import in_force
from yak.config.listeners import is_loopback
from yak.errors import YakError
from yak.local.checks.finding import Finding
from yak.local.checks.listeners import check_listeners
from yak.view.partition_replicas import PartitionReplicas
from yak.view.partition_state import PartitionState, worst


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
        from yak.local.checks.tls import check_tls

        findings.append(check_tls(address, timeout_s))
        if findings[-1].state == "FAIL":
            return findings, False
    answer = probe(address, timeout_s)
    if answer.outcome != "kafka":
        detail = f"{address} is not a Kafka broker: {answer.detail}"
        usual = f"use the broker's port, usually {host}:9092"
        hint = "another program has the usual port; yak up --status says where the broker listens"
        return [*findings, Finding("protocol", "FAIL", detail, hint if port == 9092 else usual)], False
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
    return [*advertised, *check_listeners(proven, list(addresses), timeout_s), check_replicas(found.partitions)]


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
                f"{who} answered, but node {node_id} tells clients to use {address}: their own machine",
                _advertise(node_id, listener, split_address(proven)[0], port),
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
                _advertise(node_id, listener, "HOST", port),
            )


def _advertise(node_id: int, listener: str, host: str, port: int) -> str:
    """The flag that changes an advertised address; a broker whose listener has a name of its own takes `--advertise`."""
    if listener in ("", "PLAINTEXT"):
        return f"start node {node_id} with --advertised {host}:{port}"
    return f"start node {node_id} with --advertise {listener}://{host}:{port}"


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
