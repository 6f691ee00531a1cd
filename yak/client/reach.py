"""Finds out within three seconds whether a Kafka broker answers, and otherwise the reason.

librdkafka retries until its timeout, but a user needs to know at once that the port is closed, or is a web server's. So
each command first sends one ApiVersions request (v0, KIP-511: every broker answers it) by itself.
"""

import errno
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from yak.client.security import explain_tls, in_force, speaks_tls
from yak.config.listeners import is_loopback
from yak.errors import Unreachable
from yak.ids import NodeId

ASK_AT_ONCE: Final = 16
BUDGET_S = 3.0
PAUSE_S = 0.75
"""Pause between rounds, in which a starting broker may open its port."""
API_VERSIONS_V0 = struct.pack(">ihhih", 13, 18, 0, 7, 3) + b"yak"
CORRELATION_ID = 7
Target = TypeVar("Target")
Answer = TypeVar("Answer")
_TLS_HINT = "it speaks TLS: yak context add NAME -b HOST:PORT --set security_protocol=SSL --set ssl_ca_location=FILE"


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of probing one address.

    `outcome` is kafka, refused, unresolved, silent, timeout, tls (the handshake failed), other, or closed.
    """

    address: str
    outcome: str
    detail: str


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def probe(address: str, timeout_s: float) -> Probe:
    """Connect and send ApiVersions; never raises."""
    deadline = time.monotonic() + timeout_s
    try:
        host, port = split_address(address)
        raw = socket.create_connection((host, port), timeout=max(timeout_s, 0.05))
        with in_force().secured(raw, host) as connection:
            connection.settimeout(max(deadline - time.monotonic(), 0.05))
            connection.sendall(API_VERSIONS_V0)
            answer = _read(connection, deadline)
    except TimeoutError:
        return Probe(address, "timeout", f"no answer from {address} in {timeout_s:.1f} s")
    except (socket.gaierror, UnicodeError) as error:  # a part of the name is empty, or too long
        return Probe(address, "unresolved", f"{split_address(address)[0]} has no address: {error.args[-1]}")
    except ConnectionResetError:
        closed = Probe(address, "closed", "it closes the connection on a Kafka request")
        return _or_tls(closed, deadline)
    except OSError as error:
        if in_force().uses_tls and (detail := explain_tls(error)):
            return Probe(address, "tls", detail)
        name = errno.errorcode.get(error.errno or 0, "")
        detail = "connection refused" if name == "ECONNREFUSED" else f"{error.strerror or error}".lower()
        return Probe(address, "refused", detail)
    return _probe_of(address, answer) if answer else _or_tls(_probe_of(address, answer), deadline)


def _or_tls(found: Probe, deadline: float) -> Probe:
    """The result for an address that did not answer a plain request, unless it does shake hands.

    Many listeners with TLS close such a connection without a word.
    """
    left_s = deadline - time.monotonic()
    if in_force().uses_tls or left_s <= 0 or not speaks_tls(*split_address(found.address), left_s):
        return found
    return Probe(found.address, "other", _TLS_HINT)


def _read(connection: socket.socket, deadline: float) -> bytes:
    answer = b""
    readable = select.poll()  # select() refuses descriptors of 1,024 and more
    readable.register(connection, select.POLLIN)
    while len(answer) < 8:
        if not readable.poll(max(deadline - time.monotonic(), 0) * 1000):
            break
        piece = connection.recv(512)
        if not piece:
            break
        answer += piece
    return answer


def _probe_of(address: str, answer: bytes) -> Probe:
    if len(answer) >= 8 and struct.unpack(">i", answer[4:8])[0] == CORRELATION_ID:
        return Probe(address, "kafka", "")
    if answer[:5] == b"HTTP/":
        return Probe(address, "other", "it looks like a web server (HTTP)")
    if answer[:2] in (b"\x15\x03", b"\x16\x03"):
        return Probe(address, "other", _TLS_HINT)
    if answer[:1] in b"-+$*:" and answer:
        return Probe(address, "other", "it looks like Redis")
    if answer:
        return Probe(address, "other", f"it answered {answer[:8]!r}")
    return Probe(
        address,
        "silent",
        "it accepts connections but does not answer a Kafka request: a paused or hanging broker, HTTP, ZooKeeper, or TLS",
    )


def require_kafka(servers: str, *, budget_s: float = BUDGET_S) -> str:
    """The first address that speaks Kafka. Raises Unreachable (`unreachable`, `wrong-protocol`) within the budget."""
    addresses = servers.split(",")
    deadline = time.monotonic() + budget_s
    started = time.monotonic()
    attempts = 0
    while True:
        last: list[Probe] = []
        for index, address in enumerate(addresses):
            left = deadline - time.monotonic()
            share = left / (len(addresses) - index)
            last.append(probe(address, max(share, 0.05)))
            attempts += 1
            if last[-1].outcome == "kafka":
                return address
        strange = next((each for each in last if each.outcome in ("tls", "other", "closed", "silent")), None)
        if strange is not None:
            raise wrong_protocol(strange)
        if time.monotonic() + PAUSE_S >= deadline or all(each.outcome == "unresolved" for each in last):
            break
        time.sleep(PAUSE_S)
    took_s = time.monotonic() - started
    details = list(dict.fromkeys(each.detail for each in last))
    plural = "s" if attempts > 1 else ""
    raise Unreachable(
        "unreachable",
        f"no broker answered at {servers}",
        why=f"{'; '.join(details)}, {attempts} attempt{plural} in {took_s:.1f} s",
        try_=_remedies(addresses),
    )


def silent_brokers(nodes: Mapping[NodeId, str], *, timeout_s: float = 1.0) -> dict[NodeId, str]:
    """The brokers, of these addresses, that take no connection or do not answer, each with the reason."""
    found = of_each(nodes, lambda node: probe(nodes[node], timeout_s))
    return {node: each.detail for node, each in found.items() if each.outcome in ("refused", "timeout", "silent")}


def of_each(brokers: Iterable[Target], ask: Callable[[Target], Answer]) -> dict[Target, Answer]:
    """What `ask` returns for each broker, in their order. It runs in threads, so that a silent broker delays no other."""
    targets = list(brokers)
    with ThreadPoolExecutor(max_workers=max(1, min(ASK_AT_ONCE, len(targets)))) as pool:
        return dict(zip(targets, pool.map(ask, targets), strict=True))


def _remedies(addresses: list[str]) -> tuple[str, ...]:
    """What helps when no broker answers; a cluster on this machine only if the addresses are of this machine."""
    doctor = f"yak doctor -b {','.join(addresses)}"
    width = max(len(doctor) + 2, 31)
    found = ("yak up -d".ljust(width) + "start a local cluster", doctor.ljust(width) + "find out more")
    return found if all(is_loopback(split_address(each)[0]) for each in addresses) else found[1:]


def wrong_protocol(found: Probe) -> Unreachable:
    """The error for an address at which something listens that does not answer as Kafka."""
    if found.outcome == "tls":
        settings = "yak config show --origin   shows the TLS settings and where they come from"
        more = f"yak doctor -b {found.address}"
        return Unreachable("wrong-protocol", f"TLS with {found.address} fails", why=found.detail, try_=(settings, more))
    host, port = split_address(found.address)
    usual = f"use the broker's port, usually -b {host}:9092"
    taken = "another program has the usual port: see where the broker listens (yak up --status), and use -b HOST:PORT"
    other = taken if port == 9092 else usual
    if found.outcome in ("silent", "timeout"):
        message = f"{found.address} does not answer as Kafka"
        runs = "yak up --status          shows paused brokers" if is_loopback(host) else "read the broker's log there"
        return Unreachable("wrong-protocol", message, why=found.detail, try_=(runs, other))
    message = f"what answers at {found.address} is not Kafka"
    return Unreachable("wrong-protocol", message, why=found.detail, try_=(other,))


def require_advertised(nodes: dict[int, str], proven: str, *, timeout_s: float = 1.0) -> None:
    """Check that the brokers' advertised addresses are reachable. Raises Unreachable (`advertised-unreachable`)."""
    for node_id, address in nodes.items():
        if address == proven:
            continue
        found = probe(address, timeout_s)
        if found.outcome != "kafka":
            raise Unreachable(
                "advertised-unreachable",
                f"{proven} answered, but node {node_id} advertises {address}",
                why=f"that address cannot be reached from here: {found.detail}",
                try_=(*remedies_of_advertised(node_id, found, proven), f"yak doctor -b {proven}"),
            )


def remedies_of_advertised(node_id: int, found: Probe, proven: str, listener: str = "") -> tuple[str, ...]:
    """A wrong address, and a broker that died or hangs, cannot be distinguished here. `listener` is empty if not known."""
    host, port = split_address(found.address)
    flag = advertise_flag(node_id, listener, "HOST", port)
    is_here = is_loopback(host) and is_loopback(split_address(proven)[0])
    if found.outcome == "refused":
        runs, case = "yak up -d" if is_here else f"start node {node_id}", "if it died"
    elif found.outcome == "silent":
        runs, case = "yak up --status" if is_here else f"read the log of node {node_id}", "if it is paused, or hangs"
    else:
        return (flag,)
    width = max(len(runs), len(flag)) + 2
    return runs.ljust(width) + case, flag.ljust(width) + "if the address is wrong"


def advertise_flag(node_id: int, listener: str, host: str, port: int) -> str:
    """The flag that changes an advertised address; a broker whose listener has a name of its own takes `--advertise`."""
    if listener in ("", "PLAINTEXT"):
        return f"start node {node_id} with --advertised {host}:{port}"
    return f"start node {node_id} with --advertise {listener}://{host}:{port}"
