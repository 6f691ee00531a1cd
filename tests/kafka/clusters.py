"""Clusters of YAK for Apache Kafka's own tests, lent over a socket to the Java classes beside this file.

One connection is one request: a line of JSON, `{"do": "lend", ...}`, and a line with the answer, or `{"error": "..."}`.

    lend    nodes, configs, broker_configs     -> cluster, cluster_id, addresses {node id: host:port}, dropped
    give    cluster, is_dirty                  a clean cluster goes back into the pool, any other ends
    stop    cluster, node                      stop one broker in order (SIGTERM)
    start   cluster, node                      start it again on its data and port

Kafka's test kit numbers brokers from 0 and lets each of them lead, so these brokers are started by `yak serve` and not by
`yak up`.
"""

import contextlib
import json
import shutil
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient

from yak.config.broker_configs import BROKER_CONFIGS
from yak.config.definitions import validate
from yak.errors import PeerError, YakError
from yak.local import processes
from yak.local.broker_process import BrokerSpec, ReadyBroker, StartingBroker
from yak.testing.session import Workspace

IDLE_MAX: Final = 2
"""Clusters kept for a later test that asks for the same."""
STOP_SECONDS: Final = 20.0
_ADMIN_SECONDS: Final = 8.0
KAFKAS_DEFAULTS: Final = {
    "default.replication.factor": "1",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "min.insync.replicas": "1",
    "num.partitions": "1",
}
"""Where a new YAK cluster differs from Kafka's test kit."""


@dataclass(frozen=True, slots=True)
class _Spec(BrokerSpec):
    """A broker with more log directories, whose clients know it as `localhost`, as those of Kafka's test kit."""

    more_data_dirs: tuple[str, ...] = ()

    def serve_arguments(self, ready_file: str) -> list[str]:
        more = [word for folder in self.more_data_dirs for word in ("--data-dir", folder)]
        if not any(config.startswith("listeners=") for config in self.configs):
            more += ["--advertised", "localhost"]
        return [*BrokerSpec.serve_arguments(self, ready_file), *more]


class Cluster:
    """Broker processes with one store. `addresses` by node id; a broker keeps its port over restarts.

    `configs` and `ports` are by node id; a broker without a port gets a free one.
    """

    def __init__(
        self,
        workspace: Workspace,
        key: str,
        configs: Mapping[int, Mapping[str, str]],
        ports: Mapping[int, int] | None = None,
    ) -> None:
        self.key = key
        self.is_dirty = False
        self._workspace = workspace
        self._folder = Path(workspace.new_folder())
        self._folder.mkdir()
        self._store_url = workspace.lend_database()
        workspace.wait_for_server()
        self._configs = configs
        self._ports = ports or {}
        self._running: dict[int, ReadyBroker] = {}
        self.addresses: dict[int, str] = {}
        starting = [self._begin(node, self._ports.get(node, 0)) for node in configs]
        for each in starting:
            self._add(each.wait_ready())
        self.cluster_id = self._admin().list_topics(timeout=_ADMIN_SECONDS).cluster_id

    @property
    def bootstrap(self) -> str:
        """The addresses of the running brokers."""
        return ",".join(broker.address for broker in self._running.values())

    def stop(self, node: int) -> None:
        """Stop a broker in order."""
        self.is_dirty = True
        broker = self._running.pop(node, None)
        if broker is not None:
            processes.stop(broker.process, patience_seconds=STOP_SECONDS)

    def start(self, node: int) -> None:
        """Start a stopped broker."""
        if node not in self._running:
            port = self._ports.get(node) or int(self.addresses[node].rpartition(":")[2])
            self._add(self._begin(node, port).wait_ready())

    def log_path(self, node: int) -> Path:
        """Where a broker's log is."""
        return self._folder / f"node-{node}.log"

    def end(self) -> None:
        """Kill the brokers and delete their data."""
        for broker in self._running.values():
            processes.kill(broker.process)
        self._running.clear()
        self._workspace.give_back_database(self._store_url)
        shutil.rmtree(self._folder, ignore_errors=True)

    def empty(self) -> bool:
        """Delete all topics and groups; False when something is left."""
        admin = self._admin()
        with contextlib.suppress(Exception):
            groups = [group.group_id for group in admin.list_consumer_groups().result(_ADMIN_SECONDS).valid]
            topics = [topic for topic in admin.list_topics(timeout=_ADMIN_SECONDS).topics if not topic.startswith("__")]
            for future in (*_each(admin.delete_consumer_groups, groups), *_each(admin.delete_topics, topics)):
                future.result(_ADMIN_SECONDS)
            return all(topic.startswith("__") for topic in admin.list_topics(timeout=_ADMIN_SECONDS).topics)
        return False

    def _begin(self, node: int, port: int) -> StartingBroker:
        configs = dict(self._configs[node])
        folders = [str(self._folder / each) for each in configs.pop("log.dirs", f"node-{node}").split(",")]
        spec = _Spec(
            node,
            "127.0.0.1",
            port,
            folders[0],
            self._store_url,
            tuple(f"{name}={value}" for name, value in configs.items()),
            more_data_dirs=tuple(folders[1:]),
        )
        ready_file = str(self._folder / f"node-{node}.ready.json")
        return StartingBroker(spec, log_path=str(self.log_path(node)), ready_file=ready_file)

    def _add(self, broker: ReadyBroker) -> None:
        self._running[broker.node_id] = broker
        self.addresses[broker.node_id] = broker.address

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


def _each(delete: Any, names: list[str]) -> Iterator[Any]:
    return iter(delete(names).values()) if names else iter(())


class Pool:
    """All clusters of one run."""

    def __init__(self) -> None:
        self._workspace = Workspace()
        self._lent: dict[int, Cluster] = {}
        self._idle: list[Cluster] = []
        self._number = 0

    def lend(
        self, nodes: Sequence[int], configs: Mapping[str, str], broker_configs: Mapping[str, Mapping[str, str]]
    ) -> dict[str, object]:
        """A cluster without topics and groups, and the configs that YAK refuses."""
        key = json.dumps([nodes, configs, broker_configs], sort_keys=True)
        cluster = next((each for each in self._idle if each.key == key), None)
        if cluster is not None:
            self._idle.remove(cluster)
        dropped: set[str] = set()
        by_node = {
            node: _accepted(KAFKAS_DEFAULTS | dict(configs) | dict(broker_configs.get(str(node), {})), dropped)
            for node in nodes
        }
        cluster = cluster or Cluster(self._workspace, key, by_node)
        self._number += 1
        self._lent[self._number] = cluster
        return {
            "cluster": self._number,
            "cluster_id": cluster.cluster_id,
            "addresses": {str(node): address for node, address in cluster.addresses.items()},
            "dropped": sorted(dropped),
        }

    def give(self, cluster: int, is_dirty: bool) -> dict[str, object]:
        """Take a cluster back."""
        given = self._lent.pop(cluster)
        if is_dirty or given.is_dirty or not given.empty():
            given.end()
        else:
            self._idle.append(given)
            while len(self._idle) > IDLE_MAX:
                self._idle.pop(0).end()
        return {}

    def stop(self, cluster: int, node: int) -> dict[str, object]:
        """Stop a broker."""
        self._lent[cluster].stop(node)
        return {}

    def start(self, cluster: int, node: int) -> dict[str, object]:
        """Start a broker."""
        self._lent[cluster].start(node)
        return {}

    @property
    def actions(self) -> Mapping[str, Callable[..., dict[str, object]]]:
        """What a test can ask for."""
        return {"lend": self.lend, "give": self.give, "stop": self.stop, "start": self.start}

    def take_back_all(self) -> None:
        """End what a test's process did not give back."""
        for cluster in self._lent.values():
            cluster.end()
        self._lent.clear()

    def close(self) -> None:
        """End everything."""
        self.take_back_all()
        for cluster in self._idle:
            cluster.end()
        self._idle.clear()
        self._workspace.close()


def refusals(configs: Iterable[tuple[str, str]]) -> set[str]:
    """Why YAK refuses each of these names and values; without those that it takes."""
    dropped = set[str]()
    for name, value in configs:
        _accepted({name: value}, dropped)
    return dropped


def _accepted(configs: Mapping[str, str], dropped: set[str]) -> dict[str, str]:
    """The configs that YAK knows; the others go to `dropped`."""
    accepted = {}
    for name, value in configs.items():
        try:
            validate(BROKER_CONFIGS, name, value)
            accepted[name] = value
        except (PeerError, YakError) as error:
            dropped.add(f"{name}={value}: {error}")
    return accepted


@contextlib.contextmanager
def serving(actions: Mapping[str, Callable[..., dict[str, object]]]) -> Iterator[int]:
    """Answer requests on a free port of 127.0.0.1, which is yielded. One request at a time."""
    lock = threading.Lock()

    class Request(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = json.loads(self.rfile.readline())
            what = request.pop("do")
            answer: dict[str, object]
            try:
                with lock:
                    answer = actions[what](**request)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Request) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
