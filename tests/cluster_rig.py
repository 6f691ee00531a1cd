"""Several brokers that take requests one at a time: the `Rig` of replication, for tests and for manual trials.

rig = ClusterRig()                                  # three brokers, registered and ready
rig.create_topic("orders", replication_factor=3)
rig.produce("orders", [b"a"])                       # to the leader; the response of its partition
rig.nodes[0].kill(); rig.run_until(lambda: rig.leader("orders") == 2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.rig import Client, Pending
from yak.cluster.image import PartitionInfo
from yak.cluster.settings import ClusterSettings
from yak.ids import NodeId, TopicPartition
from yak.lifecycle.liveness import serving_brokers
from yak.ports.metadata_store import StoreRequest
from yak.replication.partition import Partition
from yak.sim.cluster import Cluster
from yak.sim.node import SimNode
from yak.sim.request_fields import create_fields, fetch_fields, produce_fields
from yak.sim.seeded_random import SeededRandom
from yak.sim.wire import record_batch
from yak.sim.world import World

EVENTS_MAX = 100_000


class ClusterRig:
    """`size` brokers of role leader, or of `roles`, on a network without faults."""

    def __init__(
        self,
        *,
        size: int = 3,
        seed: int = 1,
        settings: dict[str, str] | None = None,
        roles: tuple[str, ...] | None = None,
        racks: tuple[str | None, ...] | None = None,
        hands_back: bool = True,
        metadata: str = "redis",
        trim_every: int = ClusterSettings().trim_every,
        trim_keeps: int = ClusterSettings().trim_keeps,
    ) -> None:
        """`metadata`: `raft` for a quorum of the brokers. `hands_back`: the preferred leader is elected within a second
        after it rejoined the ISR.
        """
        self.world = World()
        self.cluster = Cluster(
            self.world,
            SeededRandom(seed),
            size=size,
            settings={"auto.create.topics.enable": "false"} | (settings or {}),
            cluster_settings=ClusterSettings(
                auto_leader_rebalance=hands_back,
                leader_imbalance_check_interval_ms=1_000,
                trim_every=trim_every,
                trim_keeps=trim_keeps,
            ),
            roles=roles or ("leader",) * size,
            racks=racks or (None,) * size,
            metadata=metadata,
        )
        self.nodes: list[SimNode] = self.cluster.nodes
        self._clients: dict[tuple[NodeId, int], Client] = {}
        for node in self.nodes:
            node.start()
        self.run_until(lambda: all(node.is_ready and self._sees_all(node) for node in self.nodes))

    def _sees_all(self, node: SimNode) -> bool:
        """Whether this broker sees every broker as active, and is connected to each of the others."""
        if node.broker is None or len(serving_brokers(node.broker.image)) < len(self.nodes):
            return False
        others = [other.node_id for other in self.nodes if other is not node]
        return len(node.broker.failure_watch.probes(others)) == len(others)

    # ----------------------------------------------------------------------------------------------------- time

    def run_until(self, holds: Callable[[], bool]) -> None:
        self.world.run(holds, events_max=EVENTS_MAX)

    def run_for(self, milliseconds: int) -> None:
        self.world.run_for(milliseconds * 1000, events_max=EVENTS_MAX)

    # ------------------------------------------------------------------------------------------------------- state

    def alive(self) -> SimNode:
        return next(node for node in self.nodes if node.broker is not None and node.is_ready and not node.is_paused)

    def info(self, topic: str, partition: int = 0) -> PartitionInfo:
        images = [node.broker.image for node in self.nodes if node.broker is not None]
        return max(images, key=lambda image: image.offset).topics[topic].partitions[partition]

    def leader(self, topic: str, partition: int = 0) -> NodeId:
        return self.info(topic, partition).leader

    def followers(self, topic: str, partition: int = 0) -> list[NodeId]:
        """The other replicas, in the order of the assignment."""
        info = self.info(topic, partition)
        return [node for node in info.replicas if node != info.leader]

    def replica(self, node_id: NodeId, topic: str, partition: int = 0) -> Partition:
        """The partition as one broker has it."""
        broker = self.nodes[node_id - 1].broker
        assert broker is not None
        return broker.partitions[TopicPartition(topic, partition)]

    def is_in_sync(self, topic: str, partition: int = 0) -> bool:
        """Whether every replica is in the ISR, and has everything that the leader has."""
        info = self.info(topic, partition)
        if set(info.isr) != set(info.replicas) or info.leader < 0:
            return False
        logs = []
        for node_id in info.replicas:
            broker = self.nodes[node_id - 1].broker
            replica = None if broker is None else broker.partitions.get(TopicPartition(topic, partition))
            if replica is None or replica.log is None:
                return False
            logs.append(replica.log)
        return len({log.log_end_offset for log in logs}) == 1

    def events(self, node_id: NodeId) -> list[str]:
        """The names of a broker's log events, over all its incarnations."""
        return [notice.event for notice in self.nodes[node_id - 1].notices]

    def elect(self, topic: str, *leaders: NodeId, unclean: bool = False) -> None:
        """Elect leaders one after the other by the controller's script; the brokers are notified of all at once."""
        store, info = self.cluster.store, self.info(topic)
        cluster = store.state.cluster
        broker = self.alive().broker
        assert broker is not None
        election = {"topic_id": str(broker.image.topics[topic].topic_id), "partition": 0, "unclean": unclean}
        for number, leader in enumerate(leaders):
            arguments = {
                "cluster_id": cluster["cluster_id"],
                "incarnation_id": cluster["incarnation_id"],
                "node_id": cluster["ctl_id"],
                "broker_epoch": store.state.brokers[cluster["ctl_id"]]["broker_epoch"],
                "controller_epoch": cluster["ctl_epoch"],
                "partitions": [election | {"leader": leader, "partition_epoch": info.partition_epoch + number}],
            }
            outcome = store.call(StoreRequest("elect", arguments), self.world.now_ms)
            assert outcome.value["codes"] == ["OK"], outcome
        for node in self.nodes:
            node.store_line.store_moved()

    # --------------------------------------------------------------------------------------------------- requests

    def begin(self, node_id: NodeId, api_key: int, version: int, **fields: Any) -> Pending:
        """Send a request to one broker, with kio's fields of that version; over one connection per API."""
        client = self._clients.get((node_id, api_key))
        if client is None:
            client = self._clients[node_id, api_key] = Client(self.cluster, node_id)
        pending = Pending()
        client.send(api_key, version, fields, pending.take)
        return pending

    def ask(self, node_id: NodeId, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request and run until its response; None if the connection was lost."""
        pending = self.begin(node_id, api_key, version, **fields)
        self.run_until(lambda: pending.is_done)
        return pending.answer

    def create_topic(self, name: str, *, partitions: int = 1, replication_factor: int = 3, **configs: str) -> None:
        """Create a topic, and wait until every live broker has it; config names with underscores for dots."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        fields = create_fields(name, named, partitions)
        fields["topics"][0]["replication_factor"] = replication_factor
        answer = self.ask(self.alive().node_id, 19, 5, **fields)
        assert answer.topics[0].error_code == 0, answer
        self.run_until(lambda: all(name in node.broker.image.topics for node in self.nodes if node.broker is not None))

    def begin_produce(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        acks: int = -1,
        node_id: NodeId | None = None,
        **batch: Any,
    ) -> Pending:
        """Send one batch to the leader, or to `node_id`; `batch` has keys, producer_id, epoch and sequence."""
        records = record_batch(values, self.world.now_ms, **batch)
        target = self.leader(topic, partition) if node_id is None else node_id
        return self.begin(target, 0, 9, **produce_fields(topic, records, partition=partition, acks=acks))

    def produce(self, topic: str, values: Sequence[bytes | None], **more: Any) -> Any:
        """Send one batch; returns the response of its partition, None if the connection was lost."""
        pending = self.begin_produce(topic, values, **more)
        self.run_until(lambda: pending.is_done)
        return None if pending.answer is None else pending.answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int, *, partition: int = 0, node_id: NodeId | None = None) -> Any:
        target = self.leader(topic, partition) if node_id is None else node_id
        answer = self.ask(target, 1, 12, **fetch_fields(topic, offset, partition=partition))
        return answer.responses[0].partitions[0]
