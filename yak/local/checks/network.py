"""The network path to a cluster: names, TCP, the Kafka protocol, and the brokers' advertised addresses."""

import ipaddress
import socket
import time
from collections.abc import Iterable

from yak.client.metadata import ClusterMetadata
from yak.client.reach import probe, split_address
from yak.errors import YakError
from yak.local.checks.finding import Finding


def check_network(servers: str, timeout_s: float) -> list[Finding]:
    """DNS, TCP and protocol of each address; then, from the first Kafka broker, the advertised addresses."""
    findings: list[Finding] = []
    proven: str | None = None
    for address in servers.split(","):
        found, speaks_kafka = _check_address(address, timeout_s)
        findings += found
        proven = proven or (address if speaks_kafka else None)
    if proven is None:
        return [*findings, Finding("advertised", "skip", "no broker answered"), Finding("replicas", "skip", "as above")]
    return findings + _check_cluster(proven, timeout_s)


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
        hint = "yak up -d" if _is_loopback(host) else f"is a broker listening on {port}, and is a firewall between?"
        return [*findings, Finding("tcp", "FAIL", f"{address}: {reason}", hint)], False
    findings.append(Finding("tcp", "ok", f"{address} accepts connections ({(time.monotonic() - began) * 1000:.1f} ms)"))
    answer = probe(address, timeout_s)
    if answer.outcome != "kafka":
        detail = f"{address} is not a Kafka broker: {answer.detail}"
        usual = f"use the broker's port, usually {host}:9092"
        hint = "another program has the usual port; yak up --status says where the broker listens"
        return [*findings, Finding("protocol", "FAIL", detail, hint if port == 9092 else usual)], False
    return [*findings, Finding("protocol", "ok", f"{address} answers ApiVersions")], True


def _check_cluster(proven: str, timeout_s: float) -> list[Finding]:
    from confluent_kafka.admin import AdminClient

    from yak.client.connection import base_config
    from yak.client.metadata import read_metadata

    try:
        metadata = read_metadata(AdminClient(base_config(proven)), timeout_s=timeout_s)
    except YakError as error:
        return [Finding("advertised", "FAIL", f"{error.message}: {error.why}", f"yak cluster -b {proven} -v")]
    addresses = {node_id: broker.address for node_id, broker in metadata.brokers.items()}
    return [*check_advertised(proven, addresses, timeout_s), check_replicas(metadata)]


def check_advertised(proven: str, addresses: dict[int, str], timeout_s: float) -> Iterable[Finding]:
    """Whether clients on this machine reach the advertised addresses (provectus/kafka-ui#2021 and many)."""
    if not addresses:
        yield Finding("advertised", "FAIL", f"{proven} names no broker", f"yak brokers list -b {proven}")
    for node_id, address in addresses.items():
        host, port = split_address(address)
        if _is_loopback(host) and not _is_loopback(split_address(proven)[0]):
            yield Finding(
                "advertised",
                "FAIL",
                f"{proven} answered, but node {node_id} tells clients to use {address}: their own machine",
                f"start node {node_id} with --advertised {split_address(proven)[0]}:{port}",
            )
            continue
        answer = probe(address, timeout_s)
        if answer.outcome == "kafka":
            yield Finding("advertised", "ok", f"node {node_id} is reached at {address}, as it says")
        else:
            yield Finding(
                "advertised",
                "FAIL",
                f"node {node_id} tells clients to use {address}: {answer.detail}",
                f"start node {node_id} with --advertised HOST:{port}",
            )


def check_replicas(metadata: ClusterMetadata) -> Finding:
    """Whether each partition has a leader and all its replicas in sync."""
    partitions = [partition for topic in metadata.topics.values() for partition in topic.partitions]
    leaderless = sum(1 for partition in partitions if partition.health == "no leader")
    behind = sum(1 for partition in partitions if partition.health == "under-replicated")
    total = f"{len(partitions)} partitions of {len(metadata.topics)} topics"
    if leaderless:
        detail = f"{leaderless} of {total} have no leader"
        return Finding("replicas", "FAIL", detail, "yak topics list --unavailable-partitions")
    if behind:
        detail = f"{behind} of {total} are under-replicated"
        return Finding("replicas", "warn", detail, "yak topics list --under-replicated-partitions")
    return Finding("replicas", "ok", f"{total}: each has its leader, all replicas in sync")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
