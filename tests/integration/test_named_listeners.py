"""Named listeners: each client is told the addresses of the listener that it asked (KIP-103)."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.loads import read_all
from support.local_clusters import write
from support.waiting import wait_until

from tests.integration.conftest import RedisDatabases, YakCommands
from yak.local.ports import find_lasting


class Forwarder:
    """A TCP forwarder, as in front of a container: from a port of its own to one that is set later."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.target = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections; `close` alone would not end the `accept` of the other thread."""
        with contextlib.suppress(OSError):  # closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                for one, other in ((client, broker), (broker, client)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Brokers:
    """Brokers with the listeners INTERNAL and EXTERNAL; EXTERNAL is advertised at a forwarder each."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder, self.redis_url = folder, redis_url
        self.yak = YakCommands(folder)
        self.internal: dict[int, int] = {}
        self.forwarders: dict[int, Forwarder] = {}
        self._children: dict[int, object] = {}

    def start(self, node_id: int) -> None:
        """Start a broker and wait until it is ready."""
        forwarder = self.forwarders.setdefault(node_id, Forwarder())
        external = find_lasting("127.0.0.1")
        ready = self.folder / f"ready-{node_id}"
        properties = self.folder / f"server-{node_id}.properties"
        properties.write_text(
            f"node.id={node_id}\n"
            f"listeners=INTERNAL://127.0.0.1:0,EXTERNAL://0.0.0.0:{external}\n"
            f"advertised.listeners=INTERNAL://127.0.0.1:0,EXTERNAL://localhost:{forwarder.port}\n"
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT\n"
            "inter.broker.listener.name=INTERNAL\n"
            f"log.dirs={self.folder}/data-{node_id}\n"
        )
        words = ("--properties", str(properties), "--redis-url", self.redis_url, "--ready-file", str(ready))
        self._children[node_id] = child = self.yak.start("serve", *words, "--no-http")
        wait_until(lambda: ready.exists() or child.poll() is not None, f"node {node_id} is ready", 40)
        assert child.poll() is None, child.communicate()
        self.internal[node_id] = int(json.loads(ready.read_text())["address"].rpartition(":")[2])
        forwarder.target = external

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        child = self._children[node_id]
        child.kill()  # type: ignore[attr-defined]
        child.wait()  # type: ignore[attr-defined]

    def internal_address(self, node_id: int) -> str:
        """The address of INTERNAL."""
        return f"127.0.0.1:{self.internal[node_id]}"

    def external_address(self, node_id: int) -> str:
        """The advertised address of EXTERNAL."""
        return f"localhost:{self.forwarders[node_id].port}"

    def close(self) -> None:
        """Kill what runs."""
        self.yak.close()
        for each in self.forwarders.values():
            each.close()


@pytest.fixture
def brokers(tmp_path: Path, redis_databases: RedisDatabases) -> Iterator[Brokers]:
    with redis_databases.borrow() as url:
        found = Brokers(tmp_path, url)
        try:
            yield found
        finally:
            found.close()


def _told(bootstrap: str) -> dict[int, str]:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).brokers
    return {node_id: f"{each.host}:{each.port}" for node_id, each in found.items()}


def _wait_told(bootstrap: str, expected: dict[int, str]) -> None:
    """A broker that is ready may not yet have read that the one started last is alive."""
    wait_until(lambda: _told(bootstrap) == expected, f"{bootstrap} names {expected}", 20)


def test_doctor_names_each_listener_and_the_flag_for_an_address_that_is_not_reached(brokers: Brokers) -> None:
    brokers.start(1)
    inside, outside = brokers.internal_address(1), brokers.external_address(1)
    behind = f"127.0.0.1:{brokers.forwarders[1].target}"

    def advertised(*addresses: str) -> list[tuple[str, str, str]]:
        ran = brokers.yak.run("doctor", "-b", ",".join(addresses), "-o", "json")
        found = [each for each in ran.json if each["check"] == "advertised"]
        return [(each["state"], each["detail"], each["try"]) for each in found]

    assert [(state, detail) for state, detail, _try in advertised(inside, outside)] == [
        ("ok", f"listener INTERNAL at {inside}: node 1 is reached at {inside}, as it says"),
        ("ok", f"listener EXTERNAL at {outside}: node 1 is reached at {outside}, as it says"),
    ]
    brokers.forwarders[1].close()
    ((state, detail, steps),) = advertised(behind)
    assert state == "FAIL"
    assert detail.startswith(f"listener EXTERNAL at {behind}: node 1 tells clients to use {outside}: ")
    flag = f"start node 1 with --advertise EXTERNAL://HOST:{brokers.forwarders[1].port}"
    assert steps == f"yak up -d if it died; or {flag} if the address is wrong"


def test_external_clients_follow_a_failover_between_brokers_that_replicate_inside(brokers: Brokers) -> None:
    for node_id in (1, 2, 3):
        brokers.start(node_id)
    outside = brokers.external_address(1)
    _wait_told(outside, {node_id: brokers.external_address(node_id) for node_id in (1, 2, 3)})
    _wait_told(brokers.internal_address(3), {node_id: brokers.internal_address(node_id) for node_id in (1, 2, 3)})
    admin = AdminClient({"bootstrap.servers": outside})
    admin.create_topics([NewTopic("orders", 1, 3, config={"min.insync.replicas": "2"})])["orders"].result(30)
    write(brokers.internal_address(1), "orders", "before")
    leader = admin.list_topics("orders", timeout=20).topics["orders"].partitions[0].leader
    brokers.kill(leader)
    left = ",".join(brokers.external_address(node_id) for node_id in (1, 2, 3) if node_id != leader)
    write(left, "orders", "after")
    assert read_all(left, "orders") == [b"before", b"after"]
