"""Apache Kafka as three KRaft nodes in combined mode, whose nodes may be ended: a fleet as `yak.local.bench` knows it.

Formatted as Kafka's quick start does it for a quorum of several: the same `--initial-controllers` on each. Sessions,
fetch and lag time-outs are Kafka's defaults; only what must be said of a cluster of three is said.
"""

import base64
import os
import shutil
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from versus.brokers import LOG4J2, SERVER_PROPERTIES, free_port, java_command, spawn, stop_process, tail

from yak.client.quorum import read_controller
from yak.local.bench.fleet import process_cpu_seconds

START_SECONDS = 120.0
ASK_SECONDS = 1.0
STARTED = b"Kafka Server started"

CLUSTER_PROPERTIES = """\
default.replication.factor=3
min.insync.replicas=2
"""
INTERNAL_TOPICS = {
    "offsets.topic.replication.factor=1": "offsets.topic.replication.factor=3",
    "share.coordinator.state.topic.replication.factor=1": "share.coordinator.state.topic.replication.factor=3",
    "share.coordinator.state.topic.min.isr=1": "share.coordinator.state.topic.min.isr=2",
    "transaction.state.log.replication.factor=1": "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=1": "transaction.state.log.min.isr=2",
}
"""The release's file is for a single node; it says itself that a cluster wants these."""


def read_from(path: Path, position: int) -> bytes:
    """The rest of a file from a position; nothing if it is not there."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(position)
        return file.read()


@dataclass(slots=True)
class KafkaNode:
    node_id: int
    folder: Path
    port: int
    controller_port: int
    process: subprocess.Popen[bytes] | None = None
    log_begin: int = 0
    """Where in its log the last start began."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def voter(self) -> str:
        """As `--initial-controllers` wants it."""
        directory = base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_OID, str(self.folder)).bytes).decode()[:22]
        return f"{self.node_id}@127.0.0.1:{self.controller_port}:A{directory[1:]}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class KafkaCluster:
    jars: Path
    folder: Path
    name: str = "kafka"
    nodes: dict[int, KafkaNode] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def prepare(self) -> None:
        """Write the configs and format the storage of all nodes. Raises CalledProcessError."""
        for node_id in (1, 2, 3):
            self.nodes[node_id] = KafkaNode(node_id, self.folder / f"node-{node_id}", free_port(), free_port())
        voters = ",".join(node.voter for node in self.nodes.values())
        cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        for node in self.nodes.values():
            node.folder.mkdir(parents=True)
            config = node.folder / "server.properties"
            config.write_text(self._properties(node))
            (node.folder / "log4j2.yaml").write_text(LOG4J2.format(log=node.folder / "server.log"))
            format_ = ("kafka.tools.StorageTool", "format", "--initial-controllers", voters)
            command = java_command(self.jars, node.folder, *format_, "-t", cluster_id, "-c", str(config))
            subprocess.run(command, check=True, capture_output=True)

    def _properties(self, node: KafkaNode) -> str:
        text = SERVER_PROPERTIES.format(
            host="127.0.0.1", port=node.port, controller_port=node.controller_port, data=node.folder / "data"
        ).replace("node.id=1\n", f"node.id={node.node_id}\n")
        servers = ",".join(f"127.0.0.1:{each.controller_port}" for each in self.nodes.values())
        text = text.replace(f"bootstrap.servers=127.0.0.1:{node.controller_port}", f"bootstrap.servers={servers}")
        for single, several in INTERNAL_TOPICS.items():
            assert single in text
            text = text.replace(single, several)
        return text + CLUSTER_PROPERTIES

    def start(self) -> None:
        """Start all JVMs and wait until every node answers as a broker. Raises RuntimeError with the end of a log."""
        for node in self.nodes.values():
            self._spawn(node)
        for node in self.nodes.values():
            self._wait(node)

    def _spawn(self, node: KafkaNode) -> None:
        log = node.folder / "server.log"
        node.log_begin = log.stat().st_size if log.exists() else 0
        with (node.folder / "out.log").open("ab") as out:
            command = java_command(self.jars, node.folder, "kafka.Kafka", str(node.folder / "server.properties"))
            node.process = spawn(command, node.folder, out)

    def _wait(self, node: KafkaNode) -> None:
        """Until the node says in its log that it started, after `log_begin`."""
        deadline_s = time.monotonic() + START_SECONDS
        while STARTED not in read_from(node.folder / "server.log", node.log_begin):
            if time.monotonic() > deadline_s or not node.is_running:
                raise RuntimeError(f"kafka node {node.node_id} did not start:\n{self.log_tail()}")
            time.sleep(0.05)

    def cpu_seconds(self) -> dict[str, float]:
        """Of each JVM that runs."""
        running = [node for node in self.nodes.values() if node.is_running]
        return {f"node {node.node_id}": process_cpu_seconds(self._pid(node)) for node in running}

    def controller(self) -> int | None:
        """The quorum's leader, which is the active controller. (A broker's metadata names any node at random.)"""
        running = [node.address for node in self.nodes.values() if node.is_running]
        found = read_controller(running, timeout_s=ASK_SECONDS)
        return None if found is None else found.node_id

    def kill(self, node_id: int) -> None:
        process = self.nodes[node_id].process
        assert process is not None
        process.kill()
        process.wait()

    def pause(self, node_id: int) -> None:
        os.kill(self._pid(self.nodes[node_id]), signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        os.kill(self._pid(self.nodes[node_id]), signal.SIGCONT)

    def stop_node(self, node_id: int) -> None:
        stop_process(self.nodes[node_id].process)

    def restart(self, node_id: int) -> None:
        self._spawn(self.nodes[node_id])
        self._wait(self.nodes[node_id])

    def log_tail(self) -> str:
        return "\n".join(
            tail(each.folder / "out.log") + tail(each.folder / "server.log") for each in self.nodes.values()
        )

    def stop(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                self.resume(node.node_id)
                self.kill(node.node_id)
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _pid(node: KafkaNode) -> int:
        assert node.process is not None
        return node.process.pid
