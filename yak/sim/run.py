"""One seed with one broker, from start to report."""

from __future__ import annotations

from collections.abc import Callable

from yak.sim.checks.acked_is_committed import AckedIsCommitted
from yak.sim.checks.nothing_acked_is_lost import check_nothing_acked_is_lost
from yak.sim.checks.offsets_contiguous import OffsetsContiguous
from yak.sim.checks.watermark_never_falls import WatermarkNeverFalls
from yak.sim.churn import TopicChurn
from yak.sim.clients import RETRY_US, Channels, SimConsumer
from yak.sim.deliveries import Deliveries
from yak.sim.faults import Faults
from yak.sim.jobs import PAUSES
from yak.sim.log_mover import LogMover
from yak.sim.node import SimNode
from yak.sim.producer import SimProducer
from yak.sim.records_deleter import RecordsDeleter
from yak.sim.request_fields import topic_fields
from yak.sim.seed_report import SeedReport
from yak.sim.seeded_random import SeededRandom
from yak.sim.session_consumer import SimSessionConsumer
from yak.sim.spec import Spec
from yak.sim.store import SimStore
from yak.sim.topics import create_topics
from yak.sim.world import World

EVENTS_MAX = 30_000
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "durable": (2, {"flush.messages": "1", "segment.bytes": "2048"}),
    "fast": (2, {"segment.bytes": "2048"}),
    "durable-packed": (1, {"flush.messages": "1", "segment.bytes": "2048", "compression.type": "gzip"}),
    "durable-short": (
        1,
        {"flush.messages": "1", "segment.bytes": "1024", "retention.bytes": "3000", "file.delete.delay.ms": "100"},
    ),
}
"""Name -> partitions and configs. `Deliveries` has the guarantees of each name."""
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


class Run:
    """One broker, its clients and its faults."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.world = World()
        rng = SeededRandom(spec.seed)
        self.deliveries = Deliveries()
        self.store = SimStore()
        self._rng = rng.fork("clients")
        self.node = SimNode(
            self.world,
            rng.fork("node"),
            self.store,
            node_id=1,
            settings=SETTINGS,
            directories=DIRECTORIES[: self._rng.between(1, len(DIRECTORIES))],
        )
        if not spec.leaves_out(PAUSES):
            self.node.jobs.pauses = SeededRandom(f"pauses {spec.seed}")
        self.channels = Channels(self.node, self._rng)
        self.faults = Faults(
            self.world, self.node, self.store, rng.fork("faults"), self.channels, victims=tuple(TOPICS), spec=spec
        )
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer | SimSessionConsumer] = []
        rounds = 0 if spec.leaves_out(CHURN) else self._rng.between(0, 4)
        self.churn = TopicChurn(self.channels.open(), self.deliveries, CHURN, rounds, lambda: self.node.crashes_count)
        self._checked_life = 0
        self.checks = (
            self._after_restart,
            WatermarkNeverFalls(self.node),
            AckedIsCommitted(self.node, self.deliveries),
            OffsetsContiguous(self.node),
        )

    def go(self) -> SeedReport:
        """Run to the end. Raises the first violation."""
        topics = [topic_fields(name, configs, partitions) for name, (partitions, configs) in TOPICS.items()]
        channel, made = self.channels.open(), list[None]()
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
        self.world.run(holds, check=self._check, events_max=EVENTS_MAX)

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
            parts=(*TOPICS, CHURN, DELETER, MOVER, PAUSES),
        )

    # -------------------------------------------------------------------------------------------------- clients

    def _start_clients(self) -> None:
        for topic, (partitions, _configs) in TOPICS.items():
            if self.spec.leaves_out(topic):
                continue
            for partition in range(partitions):
                for _ in range(self._rng.between(1, 2)):
                    self._start_producer(topic, partition)
            if self._rng.chance(50):
                self._start(SimSessionConsumer(self.channels.open(), self.deliveries, topic, partitions))
            else:
                for partition in range(partitions):
                    self._start(SimConsumer(self.channels.open(), self.deliveries, topic, partition))
        deletions = 0 if self.spec.leaves_out(DELETER) else self._rng.between(0, 3)
        deleter = RecordsDeleter(
            self.channels.open(), self.deliveries, "durable-short", 0, pauses_us=(20_000, 400_000), times=deletions
        )
        self.world.after(self._rng.between(0, 50_000), deleter.start)
        self.world.after(self._rng.between(0, 50_000), self.churn.start)
        self._move_logs()

    def _move_logs(self) -> None:
        """Move replicas between the directories; its random source of its own leaves the seed's other draws the same."""
        rng, directories = SeededRandom(f"{MOVER} {self.spec.seed}"), self.node.directories
        if len(directories) > 1 and rng.chance(50) and not self.spec.leaves_out(MOVER):
            channel = self.channels.open(rng)
            topics = {name: partitions for name, (partitions, _configs) in TOPICS.items()}
            LogMover(channel, topics, directories, lambda: self.faults.are_over).start()

    def _start_producer(self, topic: str, partition: int) -> None:
        producer = SimProducer(
            self.channels.open(),
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

    def _check(self) -> None:
        for check in self.checks:
            check()

    def _after_restart(self) -> None:
        """After a restart: the old connections are gone, and the losses of the power loss are known."""
        if self.node.broker is None:
            self.channels.lose()
        if self._checked_life == self.node.starts_count or self.node.broker is None:
            return
        self._checked_life = self.node.starts_count
        for topic_partition, partition in self.node.broker.partitions.items():
            if partition.log is not None:
                self.deliveries.after_restart(topic_partition, partition.log_end_offset)
        for consumer in self.consumers:
            consumer.rewind(self.deliveries)

    def close(self) -> None:
        self.node.jobs.close()
