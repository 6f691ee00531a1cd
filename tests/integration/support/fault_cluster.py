"""Three real brokers, each reached by the others, by clients and by way to Redis only through fault proxies.

The brokers advertise their proxies' addresses, so whatever runs between two of them, or between one and Redis, can be held,
cut or delayed by `yak.local.chaos.proxy`. What the cluster decided is read from Redis itself, past the proxies.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.loads import SteadyLoad
from support.marked_flow import MarkedFlow
from support.raw import RawClient
from support.waiting import wait_until

from yak.cluster.image import BrokerInfo, Image, PartitionInfo
from yak.cluster.records import BrokerState
from yak.errors import YakError
from yak.local import redis_child
from yak.local.broker_process import parse_error
from yak.local.chaos.node import Disk, LimitedDisk
from yak.local.chaos.node import Node as ChaosNode
from yak.local.chaos.proxy import CLIENTS, quiet_port
from yak.local.metadata_log import RedisSource
from yak.local.processes import is_paused, kill, resume
from yak.ports.metadata_store import TailedRecord

NODES = (1, 2, 3)
START_SECONDS = 60.0
LAG_MS = 3_000
CONFIGS = {
    "replica.lag.time.max.ms": str(LAG_MS),
    "leader.imbalance.check.interval.seconds": "3600",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}
"""Leaders stay where a test moved them."""
LAUNCHER = str(Path(__file__).with_name("launcher.py"))


@dataclass
class Start:
    """How a node is started. `faults` go to the launcher."""

    faults: dict[str, Any] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)


class Node(ChaosNode):
    """A broker of a chaos run, which a test may start in other ways."""

    def __init__(self, node_id: int, **more: Any) -> None:
        super().__init__(node_id, **more)
        self.calls = self.redis.route(CLIENTS).to_target = MarkedFlow()
        """What the broker sends to Redis."""
        self.start_as = Start()

    @property
    def data_dir(self) -> Path:
        return self.disk.folder

    # ------------------------------------------------------------------------------------------------- its life

    def _argv(self) -> list[str]:
        start = self.start_as
        self.configs = tuple(f"{name}={value}" for name, value in {**CONFIGS, **start.configs}.items())
        argv = super()._argv()
        if start.faults:
            argv = [sys.executable, "-P", LAUNCHER, json.dumps(start.faults), *argv[argv.index("serve") :]]
        return argv

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.spawn()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it serves clients. Raises what it ended with, as YakError."""
        wait_until(self._is_ready, f"{self.name} serves", START_SECONDS)

    def _is_ready(self) -> bool:
        code = self.end_code()
        if code is not None:
            self.proxy.refuse()
            raise parse_error(self.log(), code) or AssertionError(
                f"{self.name} ended with {code}:\n{self.log()[-2000:]}"
            )
        return self.is_ready

    def refused_start(self) -> YakError:
        """Start it, and give the error that it ends with."""
        self.spawn()
        return self.refused()

    def refused(self) -> YakError:
        """What a start that was begun ends with."""
        try:
            self.wait_ready()
        except YakError as error:
            return error
        raise AssertionError(f"{self.name} started")

    def stop(self) -> bool:
        """SIGTERM, and wait for the orderly end; connections are taken as long as the broker takes them."""
        assert super().stop(), f"{self.name} did not stop:\n{self.log()[-2000:]}"
        assert self.end_code() == 0, self.log()[-2000:]
        return True

    def restart_fresh(self, start_as: Start | None = None) -> None:
        """Stop in order, and start again, now so."""
        if self.is_running:
            self.stop()
        self.start_as = start_as or Start()
        self.start()

    def mark(self) -> "LogMark":
        """The end of the log now: what comes after it is looked at."""
        return LogMark(self, len(self.log()))


class LogMark:
    """A place in a broker's log."""

    def __init__(self, node: Node, position: int) -> None:
        self._node = node
        self._position = position

    def lines(self, event: str, **fields: object) -> list[str]:
        """The lines since then with this event and these fields."""
        wanted = [f"{name}={value}" for name, value in fields.items()]
        return [
            line
            for line in self._node.log()[self._position :].splitlines()
            if re.search(rf" {re.escape(event)}( |$)", line) and all(each in line for each in wanted)
        ]

    def wait_for(self, event: str, **fields: object) -> str:
        """Wait for such a line, and give the first one."""
        found = wait_until(lambda: self.lines(event, **fields), f"{self._node.name} logs {event} {fields or ''}")
        return found[0]


class FaultCluster:
    """The three, and their Redis."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._redis = redis_child.start(str(folder / "redis"), quiet_port(), str(folder / "redis.log"))
        self.redis_url = self._redis.url
        self._connection = RedisSource(self.redis_url).connect()
        self._source = self._connection.__enter__()
        self._image = Image()
        self.records: list[TailedRecord] = []
        self.nodes: dict[int, Node] = {}
        for node_id in NODES:
            self.make(node_id)

    def make(self, node_id: int, disk: Disk | None = None, name: str = "") -> Node:
        """One more broker, not started; `name` tells apart two that have one node id."""
        folder, port = self._folder / name, int(self.redis_url.rpartition(":")[2].partition("/")[0])
        disk = disk or LimitedDisk(folder / f"node-{node_id}")
        node = Node(node_id, folder=folder, disk=disk, redis_port=port, sources=self._pids)
        if name:
            folder.mkdir(exist_ok=True)
        else:
            self.nodes[node_id] = node
        return node

    def _pids(self) -> dict[str, int]:
        return {node.name: node.process.pid for node in self.nodes.values() if node.process is not None}

    def new_admin(self) -> AdminClient:
        """A new client: one that knows a controller that is gone waits for it, and asks nobody else."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        """For clients: all three."""
        return ",".join(self.nodes[node_id].proxy.address for node_id in NODES)

    def start(self) -> None:
        """Start all, together."""
        for node in self.nodes.values():
            node.spawn()
        for node in self.nodes.values():
            node.wait_ready()
        wait_until(lambda: len(self.active()) == len(NODES), "all are active")

    def close(self) -> None:
        """Leave nothing behind."""
        for node in self.nodes.values():
            node.close()
        self._connection.__exit__(None, None, None)
        kill(self._redis.process)

    def mend(self) -> None:
        """After a test: no faults, the three run as usual and are active, and no other does."""
        for node in list(self.nodes.values()):
            node.proxy.reconnect()
            node.redis.reconnect()
            if node.node_id not in NODES:
                node.close()
                del self.nodes[node.node_id]
                continue
            if node.process is not None and is_paused(node.process):
                resume(node.process)
            if node.is_running and node.start_as != Start():
                node.kill9()
            node.start_as = Start()
            if not node.is_running:
                node.spawn()
        for node_id in NODES:
            self.nodes[node_id].wait_ready()
        wait_until(lambda: set(NODES) <= set(self.active()), "all are active again")

    # ------------------------------------------------------------------------------------------- what Redis holds

    @property
    def image(self) -> Image:
        """The metadata as of now, from all records of the store."""
        new = list(self._read())
        if new:
            self._image, _ = self._image.apply_all(new)
            self.records += new
        return self._image

    def _read(self) -> Iterable[TailedRecord]:
        from yak.local.metadata_log import LOG_KEY

        after = self._image.offset
        yield from (TailedRecord.from_stream(*entry) for entry in self._source.xrange(LOG_KEY, min=f"({after}-0"))

    def active(self) -> list[int]:
        """Who is ACTIVE, by the store."""
        return sorted(node_id for node_id, info in self.image.brokers.items() if info.state is BrokerState.ACTIVE)

    def broker(self, node_id: int) -> BrokerInfo:
        """A broker's registration."""
        return self.image.brokers[node_id]

    @property
    def controller(self) -> Node:
        """Who has the office."""
        return self.nodes[self.image.controller_id]

    def partition(self, topic: str, number: int = 0) -> PartitionInfo:
        """A partition's state."""
        return self.image.topics[topic].partitions[number]

    def wait_isr(self, topic: str, *members: int, partition: int = 0) -> PartitionInfo:
        """Wait until these are the in-sync ones, each in its present boot: what a killed one was stays named for a moment."""

        def are_in_sync() -> bool:
            info, brokers = self.partition(topic, partition), self.image.brokers
            is_present = all(brokers[n].broker_epoch == e for n, e in info.isr_members)
            return is_present and sorted(info.isr) == sorted(members)

        wait_until(are_in_sync, f"{members} in sync for {topic}-{partition}")
        return self.partition(topic, partition)

    def wait_leader(self, topic: str, *candidates: int, partition: int = 0) -> int:
        """Wait until one of these leads, and give it."""
        wait_until(lambda: self.partition(topic, partition).leader in candidates, f"one of {candidates} leads {topic}")
        return self.partition(topic, partition).leader

    def isr_sizes_since(self, offset: int, topic: str) -> list[int]:
        """How large the in-sync sets of a topic were in each change since a record."""
        return [len(each["isr"].split(",")) if each["isr"] else 0 for each in self._changes_since(offset, topic)]

    def leaders_since(self, offset: int, topic: str) -> set[int]:
        """Who led one of its partitions by a change since a record."""
        return {int(each["leader"]) for each in self._changes_since(offset, topic)}

    def _changes_since(self, offset: int, topic: str) -> list[dict[str, Any]]:
        topic_id = str(self.image.topics[topic].topic_id)
        return [
            change
            for record in self.records
            if record.offset > offset and record.kind == "PartitionChange"
            for change in record.payload["changes"]
            if change["topic_id"] == topic_id
        ]

    # ---------------------------------------------------------------------------------------------- topics

    def create(self, topic: str, *replicas: Sequence[int], **configs: str) -> None:
        """A topic with these replicas for each partition, the first one its leader, all of them in sync."""
        named = {"retention.ms": "-1", **{name.replace("_", "."): value for name, value in configs.items()}}
        new = NewTopic(topic, len(replicas), replica_assignment=[list(each) for each in replicas], config=named)
        self._create(new)
        wait_until(lambda: topic in self.image.topics, f"{topic} is in the store")
        for number, each in enumerate(replicas):
            self.wait_isr(topic, *each, partition=number)
        holders = [self.nodes[node_id] for node_id in sorted({node_id for each in replicas for node_id in each})]
        wait_until(lambda: all(self._knows(node, topic, len(replicas)) for node in holders), f"all know {topic}")

    def _knows(self, node: Node, topic: str, partitions: int) -> bool:
        """Whether a broker has what the store has of a topic: it tails a moment behind."""
        with RawClient(node.proxy.port) as client:
            asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
            answer = client.ask(3, 9, topics=[{"name": topic}], include_cluster_authorized_operations=False, **asked)
        found = answer.topics[0].partitions
        return len(found) == partitions and all(
            sorted(each.isr_nodes) == sorted(self.partition(topic, each.partition_index).isr) for each in found
        )

    def wait_known_controller(self) -> None:
        """Wait until every broker that runs names the present controller: a client told of a dead one waits for that."""
        running = [node for node in self.nodes.values() if node.is_running]
        wait_until(
            lambda: all(self._controller_by(node) == self.image.controller_id for node in running),
            "all know the controller",
        )

    def _controller_by(self, node: Node) -> int:
        with RawClient(node.proxy.port) as client:
            asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
            answer = client.ask(3, 9, topics=(), include_cluster_authorized_operations=False, **asked)
        return int(answer.controller_id)

    def _create(self, new: NewTopic) -> None:
        deadline = time.monotonic() + 30.0
        while True:
            admin = self.new_admin()
            try:
                admin.create_topics([new])[new.topic].result(30.0)
            except KafkaException as error:
                # a broker that only just came back refuses, and a repeat of what was done says that it is there
                if error.args[0].name() == "TOPIC_ALREADY_EXISTS" and time.monotonic() < deadline:
                    return
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def delete(self, topic: str) -> None:
        """Leave no topic to the tests that follow."""
        admin = self.new_admin()
        with contextlib.suppress(KafkaException):
            admin.delete_topics([topic])[topic].result(30.0)

    # ---------------------------------------------------------------------------------------------- cuts

    def isolate(self, group: Iterable[int], *, from_redis: bool, cut: bool = False) -> None:
        """Nothing travels between these brokers and the others; clients still reach all."""
        inside = set(group)
        for node in self.nodes.values():
            for other in self.nodes.values():
                if (node.node_id in inside) != (other.node_id in inside):
                    (node.proxy.cut if cut else node.proxy.hold)(other.name)
            if from_redis and node.node_id in inside:
                node.redis.hold(CLIENTS)

    def without_redis(self, *group: int) -> None:
        """These do not reach Redis."""
        for node_id in group:
            self.nodes[node_id].redis.hold(CLIENTS)

    def heal(self) -> None:
        """All can reach all again."""
        for node in self.nodes.values():
            node.proxy.reconnect()
            node.redis.reconnect()

    def load(self, topic: str, partitions: int = 1) -> SteadyLoad:
        """A client that keeps writing, no faster than is needed: two hundred records a second."""
        return SteadyLoad(self.bootstrap, topic, partitions=partitions, pause_seconds=0.005)

    def marks(self) -> dict[int, LogMark]:
        """The ends of all logs now."""
        return {node_id: node.mark() for node_id, node in self.nodes.items()}

    def assert_no_bugs(self) -> None:
        """Nobody logged a traceback, or one of the lines that must never come."""
        for node in self.nodes.values():
            log = node.log()
            assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
            for word in (" request-failed ", " broker-halted ", " truncated-below-high-watermark"):
                assert word not in log, log[log.index(word) - 500 :][:2000]


def empty(folder: Path) -> None:
    """A disk that was replaced: the directory is there, and nothing in it."""
    shutil.rmtree(folder)
    os.mkdir(folder)
