"""One seed with one broker, from start to report."""

from __future__ import annotations

from collections.abc import Callable

from yak.cluster.settings import ClusterSettings
from yak.sim.checks.acked_is_committed import AckedIsCommitted
from yak.sim.checks.nothing_acked_is_lost import check_nothing_acked_is_lost
from yak.sim.checks.offsets_contiguous import OffsetsContiguous
from yak.sim.checks.watermark_never_falls import WatermarkNeverFalls
from yak.sim.churn import TopicChurn
from yak.sim.clients import RETRY_US, SimConsumer
from yak.sim.cluster import Cluster
from yak.sim.cluster_deliveries import TopicPlan
from yak.sim.cluster_faults import SKEW, ClusterFaults
from yak.sim.deliveries import Deliveries
from yak.sim.history import Watcher
from yak.sim.jobs import PAUSES
from yak.sim.log_mover import LogMover
from yak.sim.node import SimNode
from yak.sim.producer import SimProducer
from yak.sim.records_deleter import RecordsDeleter
from yak.sim.request_fields import topic_fields
from yak.sim.routing import Channel, View
from yak.sim.seed_report import SeedReport
from yak.sim.seeded_random import SeededRandom
from yak.sim.session_consumer import SimSessionConsumer
from yak.sim.spec import Spec
from yak.sim.topics import create_topics
from yak.sim.world import World

EVENTS_MAX = 30_000
SHORT = "t-durable-short"
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "t-durable": (2, {"flush.messages": "1", "segment.bytes": "2048"}),
    "t-fast": (2, {"segment.bytes": "2048"}),
    "t-durable-packed": (1, {"flush.messages": "1", "segment.bytes": "2048", "compression.type": "gzip"}),
    SHORT: (
        1,
        {"flush.messages": "1", "segment.bytes": "1024", "retention.bytes": "3000", "file.delete.delay.ms": "100"},
    ),
}
"""Name -> partitions and configs. `Deliveries` has the guarantees of each name."""
PLANS = {
    name: TopicPlan(name, partitions, 1, 1, "flush.messages" in configs)
    for name, (partitions, configs) in TOPICS.items()
}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "400",
}
DIRECTORIES = ("/data", "/more")
WINDOWS = (1, 1, 2, 5)
"""Batches that a producer has in flight."""
CHURN, DELETER, MOVER = "churn", "deleter", "mover"
"""The topic that is repeatedly created and deleted, the client that deletes records, and the administrator who moves
replicas between the log directories, in half of the runs that have two; each may be left out."""
PAUSES_US = (5_000, 40_000, 100_000, 200_000)
"""A producer's longest pause after a response."""


class Run(Watcher):
    """One broker, its clients and its faults."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.world = World()
        rng = SeededRandom(spec.seed)
        self.deliveries = Deliveries()
        self._rng = rng.fork("clients")
        cluster = Cluster(
            self.world,
            rng,
            size=1,
            settings=SETTINGS,
            cluster_settings=ClusterSettings(),
            roles=("leader",),
            racks=(None,),
            directories=DIRECTORIES[: self._rng.between(1, len(DIRECTORIES))],
        )
        self.node = cluster.nodes[0]
        if not spec.leaves_out(PAUSES):
            self.node.jobs.pauses = SeededRandom(f"pauses {spec.seed}")
        self._view = View(cluster, rng.fork("view"))
        self._channels: list[Channel] = []
        self.faults = ClusterFaults(cluster, rng.fork("faults"), PLANS.get, spec)
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer | SimSessionConsumer] = []
        rounds = 0 if spec.leaves_out(CHURN) else self._rng.between(0, 4)
        self.churn = TopicChurn(self._channel(), self.deliveries, CHURN, rounds, lambda: self.node.crashes_count)
        self._checked_life = 0
        checks = (WatermarkNeverFalls(), AckedIsCommitted(self.deliveries), OffsetsContiguous())
        cluster.history.watch((self, *checks))

    def go(self) -> SeedReport:
        """Run to the end. Raises the first violation."""
        topics = [topic_fields(name, configs, partitions) for name, (partitions, configs) in TOPICS.items()]
        channel, made = self._channel(), list[None]()
        self.node.start()
        create_topics(channel, topics, RETRY_US, lambda: made.append(None))
        self._run_until(lambda: bool(made))
        self._start_clients()
        self.faults.start()
        self._run_until(lambda: self.faults.are_over and self.churn.is_done and all(p.is_done for p in self.producers))
        self._run_until(lambda: not any(held.unseen() for _topic_partition, held in self.deliveries.partitions()))
        check_nothing_acked_is_lost(self.deliveries)
        return self.report()

    def _run_until(self, holds: Callable[[], bool]) -> None:
        self.world.run(holds, events_max=EVENTS_MAX)

    def report(self) -> SeedReport:
        return SeedReport.of(
            self.spec,
            self.world,
            {
                **self.deliveries.counts,
                **self.faults.counts,
                **self.node.counts,
                "replicas moved": sum(notice.event == "replica-moved" for notice in self.node.notices),
            },
            strikes=self.faults.struck_count,
            parts=(*TOPICS, CHURN, DELETER, MOVER, SKEW, PAUSES),
        )

    # -------------------------------------------------------------------------------------------------- clients

    def _channel(self, rng: SeededRandom | None = None) -> Channel:
        """A client's connection, with a random source of its own unless one is given."""
        channel = Channel(self._view, rng or self._rng.fork(f"channel {len(self._channels)}"))
        self._channels.append(channel)
        return channel

    def _start_clients(self) -> None:
        for topic, (partitions, _configs) in TOPICS.items():
            if self.spec.leaves_out(topic):
                continue
            for partition in range(partitions):
                for _ in range(self._rng.between(1, 2)):
                    self._start_producer(topic, partition)
            if self._rng.chance(50):
                self._start(SimSessionConsumer(self._channel(), self.deliveries, topic, partitions))
            else:
                for partition in range(partitions):
                    self._start(SimConsumer(self._channel(), self.deliveries, topic, partition))
        deletions = 0 if self.spec.leaves_out(DELETER) else self._rng.between(0, 3)
        deleter = RecordsDeleter(
            self._channel(), self.deliveries, SHORT, 0, pauses_us=(20_000, 400_000), times=deletions
        )
        self.world.after(self._rng.between(0, 50_000), deleter.start)
        self.world.after(self._rng.between(0, 50_000), self.churn.start)
        self._move_logs()

    def _move_logs(self) -> None:
        """Move replicas between the directories; its random source of its own leaves the seed's other draws the same."""
        rng, directories = SeededRandom(f"{MOVER} {self.spec.seed}"), self.node.directories
        if len(directories) > 1 and rng.chance(50) and not self.spec.leaves_out(MOVER):
            channel = self._channel(rng)
            topics = {name: partitions for name, (partitions, _configs) in TOPICS.items()}
            LogMover(channel, topics, directories, lambda: self.faults.are_over).start()

    def _start_producer(self, topic: str, partition: int) -> None:
        producer = SimProducer(
            self._channel(),
            self.deliveries,
            len(self.producers),
            topic,
            partition,
            count=self.spec.count(self._rng.between(5, 60)),
            window=self._rng.choice(WINDOWS),
            pause_us=self._rng.choice(PAUSES_US),
        )
        begin_us = self._rng.between(0, 50_000)
        if self.spec.has_producer(len(self.producers)):
            self.producers.append(producer)
            self.world.after(begin_us, producer.start)

    def _start(self, consumer: SimConsumer | SimSessionConsumer) -> None:
        self.consumers.append(consumer)
        self.world.after(self._rng.between(0, 50_000), consumer.start)

    # --------------------------------------------------------------------------------------------------- checks

    def stepped(self, node: SimNode) -> None:
        """In the first step after a restart the losses of the power loss are known."""
        if self._checked_life == node.starts_count or node.broker is None:
            return
        self._checked_life = node.starts_count
        for topic_partition, partition in node.broker.partitions.items():
            if partition.log is not None:
                self.deliveries.after_restart(topic_partition, partition.log_end_offset)
        for channel in self._channels:
            channel.close()  # a fetch that is under way is from another position
        for consumer in self.consumers:
            consumer.rewind(self.deliveries)

    def close(self) -> None:
        self.node.jobs.close()
