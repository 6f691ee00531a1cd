"""One seed of one broker or of several, from start to report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from yak.cluster.payload import parse_isr, parse_nodes
from yak.cluster.settings import ClusterSettings
from yak.config.broker_config_table import RACK_AWARE_SELECTOR
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import TopicPartition
from yak.sim.checks.commits_of_members import CommitsOfMembers
from yak.sim.checks.committed_stays import CommittedStays
from yak.sim.checks.compaction_keeps_last import CompactionKeepsLast
from yak.sim.checks.damaged_replicas_resign import DamagedReplicasResign
from yak.sim.checks.electable_hold_all import ElectableHoldAll
from yak.sim.checks.epoch_cache_sound import EpochCacheSound
from yak.sim.checks.group_offsets_stay import GroupOffsetsStay
from yak.sim.checks.leader_in_isr import LeaderInIsr
from yak.sim.checks.loads_refuse_damage import LoadsRefuseDamage
from yak.sim.checks.log_start_sound import LogStartSound
from yak.sim.checks.markers_follow_decisions import MarkersFollowDecisions
from yak.sim.checks.metadata_linear import MetadataLinear
from yak.sim.checks.nothing_acked_is_lost import check_nothing_acked_is_lost
from yak.sim.checks.offsets_contiguous import OffsetsContiguous
from yak.sim.checks.one_replica_a_machine import OneReplicaAMachine
from yak.sim.checks.one_store_open import OneStoreOpen
from yak.sim.checks.outage_fences_no_broker import OutageFencesNoBroker
from yak.sim.checks.replaced_brokers_are_lossy import ReplacedBrokersAreLossy
from yak.sim.checks.replicas_equal import check_replicas_equal
from yak.sim.checks.restart_keeps_records import RestartKeepsRecords
from yak.sim.checks.single_leader import SingleLeader
from yak.sim.checks.stable_offsets_sound import StableOffsetsSound
from yak.sim.checks.strong_isr import StrongIsr
from yak.sim.checks.watermark_monotonic import WatermarkMonotonic
from yak.sim.churn import ShortLivedWriter, TopicChurn
from yak.sim.clients import SimConsumer, Stoppable
from yak.sim.cluster import Cluster
from yak.sim.cluster_admin import CHURN, Admin
from yak.sim.cluster_counts import Counts
from yak.sim.cluster_draws import (
    SHORT,
    UNCLEAN,
    draw_compaction,
    draw_machines,
    draw_metadata_lengths,
    draw_plans,
    draw_racks,
    draw_roles,
    draw_settings,
    draw_unclean,
)
from yak.sim.cluster_entities import AUTHORIZED, EntitiesAdmin
from yak.sim.cluster_faults import MACHINE_DEATH, SKEW, ClusterFaults
from yak.sim.compacted_records import COMPACT, COMPACT_SHORT, COMPACTED
from yak.sim.deliveries import Deliveries, PartitionDeliveries, Violation
from yak.sim.groups import Groups
from yak.sim.history import Key, Watcher
from yak.sim.impostor import Impostor
from yak.sim.jobs import PAUSES
from yak.sim.log_mover import LogMover
from yak.sim.node import DATA_DIRECTORY
from yak.sim.offsets_prober import OffsetsProber
from yak.sim.producer import SimProducer
from yak.sim.rack_reader import RackChannel
from yak.sim.read_process_write import GROUP, OUTPUT, CommittedReads, ProcessingGroup
from yak.sim.recorder import Place, ReadRecord, ReadRecorder, Recorder, must_hold
from yak.sim.records_deleter import RecordsDeleter
from yak.sim.routing import Channel, View
from yak.sim.seed_report import SeedReport
from yak.sim.seeded_random import SeededRandom
from yak.sim.session_consumer import SimSessionConsumer
from yak.sim.sloppy_writer import SloppyWriter
from yak.sim.spec import Spec
from yak.sim.store import MovingStore
from yak.sim.store_moves import StoreMoves
from yak.sim.topic_plan import TopicPlan
from yak.sim.transactional_producer import PARTITIONS, TRANSACTIONS, SimTransactionalProducer
from yak.sim.world import World
from yak.transactions.records import TRANSACTION_TOPIC

EVENTS_MAX = 150_000
ADMIN, ENTITIES, SLOPPY, DELETER, IMPOSTOR, PROBER = "admin", "entities", "sloppy", "deleter", "impostor", "prober"
"""Clients that `Spec.without` may leave out of a run; it may also leave out topics and the clocks' skew."""
RACK_READERS = "rack-readers"
"""More of them: consumers that read in their own rack."""
SHORT_LIVED, MOVER = "short-lived", "mover"
"""With one broker: the topic that is repeatedly created, written, read and deleted, and the administrator who moves
replicas between its log directories, in half of the runs that have two."""
DIRECTORIES = (DATA_DIRECTORY, "/more")
TRANSACTIONS_PERCENT = 40
"""The share of the seeds that have transactional producers."""
PROCESSING_PERCENT = 60
"""The share of these that have a group that processes what they write."""
ENTITIES_PERCENT = 40
"""The share of the seeds with an administrator who changes quotas, users, ACLs, and configs of groups and brokers."""
PROBED_PERCENT = 30
"""The share of the topics with a client that lists the ends of one of their partitions."""
_TRANSACTIONAL = (TRANSACTIONS, OUTPUT)
_WITH_OWN_CLIENTS = (CHURN, UNCLEAN, *_TRANSACTIONAL)
COUNTS = (8, 30, 60)
"""Numbers of values that a producer sends."""
WINDOWS = (1, 1, 2, 5)
PAUSES_US = (20_000, 300_000, 800_000)
"""A producer's longest pause after an acknowledgement: some end before the first fault, others write throughout."""
READERS_PAUSES_US = (2_000, 300_000)
"""A partition reader's longest pause between two fetches: the shorter one for all after the faults.

A fetch ends with a segment: a slow reader needs more than L2's time limit for a log of five hundred tiny ones.
"""
WRITABLE_MS = 10_000
"""L1: this long plus one session after the last fault, every partition accepts acks=all again."""
IN_SYNC_MS = 60_000
"""L2: so long after the last fault, ISRs are full, reassignments complete, and all acknowledged records read."""


class ClusterRun:
    """One broker or several, a store, their clients and their faults."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.world = World()
        rng = SeededRandom(f"{spec.seed}:{spec.brokers}")
        self._rng = rng.fork("run")
        self.session_ms = self._rng.choice((1_500, 3_000, 6_000))
        self._transactions_rng, entities_rng = spec.random("transactions"), spec.random(ENTITIES)
        topics, settings = self._draw_topics()
        has_entities, has_acls = entities_rng.chance(ENTITIES_PERCENT), entities_rng.chance(50)
        if has_entities and has_acls:
            settings |= AUTHORIZED
        self.cluster = self._draw_cluster(rng, settings)
        history = self.cluster.history
        self.view = View(self.cluster, rng.fork("view"))
        self.recorder = Recorder(self.world)
        self.deliveries = Deliveries(history, self.view.stored_ids.get, self.recorder)
        self.faults = ClusterFaults(self.cluster, rng.fork("faults"), self._plan_of, spec)
        self.admin = Admin(self._channel(None), self.deliveries, self.plans, spec.brokers)
        self.faults.unregister = self.admin.unregister
        self.entities: EntitiesAdmin | None = None
        if has_entities and not spec.leaves_out(ENTITIES):
            self.entities = EntitiesAdmin(Channel(self.view, entities_rng, None), self.deliveries, has_acls=has_acls)
        self.groups = Groups(self.view, rng.fork("groups"), self.deliveries, topics, spec.leaves_out)
        self.impostor = Impostor(self.cluster, spec.random("impostor"), self.deliveries)
        self.churn = self._short_lived_topic()
        self.counts = Counts(self.cluster)
        self.metadata = MetadataLinear(self.cluster.store)
        history.watch([self.faults, *self._checks(), self.counts])
        self.producers: list[SimProducer] = []
        self.transactional: list[SimTransactionalProducer] = []
        self.committed_readers: dict[tuple[str, int], SimConsumer] = {}
        self.committed_reads = CommittedReads(self.deliveries)
        self.processing: ProcessingGroup | None = None
        self.probes: list[tuple[str, int, SimProducer]] = []
        self.sloppy: list[Stoppable] = []
        """Clients that run until all faults have ended."""
        self.readers: dict[tuple[str, int], SimConsumer | SimSessionConsumer] = {}
        self.store_moves: StoreMoves | None = None
        if isinstance(self.cluster.store, MovingStore):
            self.store_moves = StoreMoves(Channel(self.view, spec.random("store moves"), None), self.cluster.store)
            self.cluster.on_call = OneStoreOpen(self.cluster.store).called
        self._faults_ended_ms = 0
        self._last_trouble: Callable[[], str | None] = lambda: None

    def _draw_topics(self) -> tuple[list[str], dict[str, str]]:
        """Draw the plans. Returns the topics that groups may read, and configs of the brokers."""
        spec, brokers = self.spec, self.spec.brokers
        plans = draw_plans(self._rng, brokers)
        keyed, cleaning = draw_compaction(spec.random("compaction"), is_flushed=plans[CHURN].is_flushed)
        unclean = draw_unclean(spec.random("unclean"), brokers)
        plans |= {plan.name: plan for plan in (*keyed, *unclean)}
        if self._transactions_rng.chance(TRANSACTIONS_PERCENT):
            names = (TRANSACTIONS, OUTPUT) if self._transactions_rng.chance(PROCESSING_PERCENT) else (TRANSACTIONS,)
            for name in names:
                plans[name] = TopicPlan(name, PARTITIONS, 3, 2, plans[CHURN].is_flushed)
        self.plans = {
            name: plan.on(brokers) for name, plan in plans.items() if not spec.leaves_out(name) or name == CHURN
        }
        settings = draw_settings(self._rng, brokers) | cleaning
        self.offsets_plan = TopicPlan(OFFSETS_TOPIC, 1, 3, int(settings["min.insync.replicas"]), False).on(brokers)
        self.transactions_plan = TopicPlan(TRANSACTION_TOPIC, 1, 3, 2, is_flushed=False).on(brokers)
        return [name for name in plans if name not in _WITH_OWN_CLIENTS], settings | {
            "transaction.state.log.num.partitions": "1",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }

    def _draw_cluster(self, rng: SeededRandom, settings: dict[str, str]) -> Cluster:
        spec, brokers = self.spec, self.spec.brokers
        lengths = draw_metadata_lengths(spec.random("metadata lengths"))
        cluster_settings = ClusterSettings(
            heartbeat_interval_ms=self.session_ms // 6,
            session_timeout_ms=self.session_ms,
            leader_imbalance_check_interval_ms=self._rng.choice((1_000, 5_000)),
            elections_a_call=1,
        )
        if lengths is not None:
            cluster_settings = replace(cluster_settings, trim_every=lengths.trim_every, trim_keeps=lengths.trim_keeps)
        roles, racks = draw_roles(self._rng, brokers), draw_racks(self._rng, brokers)
        wanted = MACHINE_DEATH in (spec.faults or ())
        racks = draw_machines(spec.random("machines"), brokers, wanted=wanted) or racks
        reads_rng = spec.random(RACK_READERS)
        self._reader_racks = sorted({rack for rack in racks if rack is not None} if reads_rng.chance(60) else ())
        """Racks in which some consumers read; the brokers then name followers to them."""
        if self._reader_racks:
            settings["replica.selector.class"] = RACK_AWARE_SELECTOR
        cluster = Cluster(
            self.world,
            rng,
            size=brokers,
            settings=settings,
            cluster_settings=cluster_settings,
            roles=roles,
            racks=racks,
            metadata=spec.metadata,
            directories=DIRECTORIES[: spec.random("directories").between(1, 2) if brokers == 1 else 1],
        )
        for node in cluster.nodes:
            # so that other events run between the partitions of a new image, or of a follower's fetches
            node.partitions_a_slice, node.partitions_a_fetch = 1, 2
            if spec.random(f"close of node {node.node_id}").chance(50):
                node.few_logs = 0
            node.image_records = None if lengths is None else lengths.image_records
            if not spec.leaves_out(PAUSES):
                node.jobs.pauses = SeededRandom(f"pauses {spec.seed}:{brokers}:{node.node_id}")
        cluster.history.keyed = frozenset((*COMPACTED, OFFSETS_TOPIC, TRANSACTION_TOPIC))
        return cluster

    def _checks(self) -> list[Watcher]:
        cluster, store, history = self.cluster, self.cluster.store, self.cluster.history
        checks: list[Watcher] = [
            self.metadata,
            LeaderInIsr(store),
            SingleLeader(),
            CommittedStays(history),
            ElectableHoldAll(history, store),
            ReplacedBrokersAreLossy(history, store),
            StrongIsr(history, store),
            WatermarkMonotonic(history),
            EpochCacheSound(history),
            CompactionKeepsLast(history),
            DamagedReplicasResign(cluster),
            OneReplicaAMachine(store),
            LoadsRefuseDamage(history),
            GroupOffsetsStay(cluster, self.groups.history),
            CommitsOfMembers(self.groups.history),
            LogStartSound(
                history,
                store,
                lambda topic: topic in (SHORT, COMPACT_SHORT),
                lambda place: self.deliveries.of(*place).delete_before,
            ),
            MarkersFollowDecisions(history),
            StableOffsetsSound(history),
            OutageFencesNoBroker(cluster, cluster.nodes[0].cluster_settings.patience_ms),
        ]
        return checks + [OffsetsContiguous(), RestartKeepsRecords()] if self.spec.brokers == 1 else checks

    def go(self) -> SeedReport:
        """Run to the end. Raises the first violation."""
        for node in self.cluster.nodes:
            self.world.after(self._rng.between(0, 300_000), node.start)
        self.world.run(lambda: all(node.is_ready for node in self.cluster.nodes), events_max=EVENTS_MAX)
        made: list[None] = []
        self.admin.make_topics(lambda: made.append(None))
        self.world.run(lambda: bool(made), events_max=EVENTS_MAX)
        self._start_clients()
        self.groups.start()
        if not self.spec.leaves_out(ADMIN):
            self.admin.start()
        if self.entities is not None:
            self.entities.start()
        if not self.spec.leaves_out(IMPOSTOR):
            self.impostor.start()
        if self.store_moves is not None:
            self.store_moves.start()
        self.faults.start()
        self.world.run(lambda: self.faults.are_over and self.churn.is_done, events_max=EVENTS_MAX)
        self._end_faults()
        self.world.run(self._is_writable, events_max=EVENTS_MAX)
        self.world.run(self._is_whole, events_max=EVENTS_MAX)
        check_nothing_acked_is_lost(self.deliveries)
        check_replicas_equal(self.cluster.history)
        self._check_history()
        if self.processing is not None and self.processing.is_checked:
            inputs = self.committed_reads.check_processed_once(self.processing.hops)
            self.deliveries.count("inputs processed once", inputs)
        self.metadata.compare_content(self.cluster.nodes)
        return self.report()

    def _plan_of(self, topic: str) -> TopicPlan | None:
        own = {OFFSETS_TOPIC: self.offsets_plan, TRANSACTION_TOPIC: self.transactions_plan}
        return own.get(topic) or self.plans.get(topic)

    def report(self) -> SeedReport:
        return SeedReport.of(
            self.spec,
            self.world,
            {
                **self.deliveries.counts,
                **self.faults.counts,
                **self.counts.read(),
                **self.cluster.history.counts,
                "snapshots of the metadata log": self.cluster.calls.get("trim OK", 0),
                "moves of the metadata": self.cluster.calls.get("import_metadata OK", 0),
                "brokers unregistered": self.cluster.calls.get("unregister OK", 0),
            },
            strikes=self.faults.struck_count,
            parts=(
                *(name for name in self.plans if name != CHURN),
                *(group.group_id for group in self.groups.groups),
                ADMIN,
                ENTITIES,
                SLOPPY,
                DELETER,
                IMPOSTOR,
                PROBER,
                RACK_READERS,
                SHORT_LIVED,
                MOVER,
                SKEW,
                PAUSES,
            ),
        )

    def close(self) -> None:
        for node in self.cluster.nodes:
            node.jobs.close()

    # -------------------------------------------------------------------------------------------------- clients

    def _channel(self, partition: tuple[str, int] | None) -> Channel:
        return Channel(self.view, self._rng.fork(f"channel {partition}"), partition)

    def _start_clients(self) -> None:
        sessions_rng = self.spec.random("sessions")
        for plan in self.plans.values():
            if plan.name in _WITH_OWN_CLIENTS:
                continue
            if self.spec.brokers == 1 and sessions_rng.chance(50):
                self._consume_in_session(plan, sessions_rng)
            for partition in range(plan.partitions):
                for _ in range(self._rng.choice((1, 1, 2))):
                    count, place = self.spec.count(self._rng.choice(COUNTS)), (plan.name, partition)
                    producer = self._producer(place, count, self._channel(place), self._rng)
                    begin_us = self._rng.between(0, 50_000)
                    if self.spec.has_producer(len(self.producers)):
                        self.producers.append(producer)
                        self.world.after(begin_us, producer.start)
                if (plan.name, partition) not in self.readers:
                    self._consume(plan.name, partition)
                if plan.name in (SHORT, COMPACT_SHORT) and self._rng.chance(60) and not self.spec.leaves_out(DELETER):
                    self._delete_records(plan.name, partition)
                if self._rng.chance(20) and not self.spec.leaves_out(SLOPPY):
                    self._write_sloppily(plan.name, partition)

        if self._reader_racks and not self.spec.leaves_out(RACK_READERS):
            self._read_in_racks()
        if TRANSACTIONS in self.plans:
            self._start_transactions()
        if UNCLEAN in self.plans:
            self._write_to_unclean()
        if not self.spec.leaves_out(PROBER):
            self._probe_offsets()
        self.churn.start()
        self._write_to_short_lived()
        self._move_logs()

    def _short_lived_topic(self) -> TopicChurn:
        rng, node = self.spec.random(SHORT_LIVED), self.cluster.nodes[0]
        rounds = 0 if self.spec.brokers > 1 or self.spec.leaves_out(SHORT_LIVED) else rng.between(0, 4)
        return TopicChurn(Channel(self.view, rng), self.deliveries, SHORT_LIVED, rounds, lambda: node.crashes_count)

    def _write_to_short_lived(self) -> None:
        """With several brokers, write to the topic that the administrator deletes and creates again."""
        rng = self.spec.random("short-lived writers")
        left_out = self.spec.leaves_out(SHORT_LIVED) or self.spec.leaves_out(ADMIN)
        if self.spec.brokers == 1 or left_out or not self.admin.churns:
            return
        for partition in range(self.plans[CHURN].partitions):
            place = CHURN, partition
            writer = ShortLivedWriter(Channel(self.view, rng.fork(f"{place}"), place), self.deliveries, *place)
            self.sloppy.append(writer)
            writer.start()

    def _move_logs(self) -> None:
        """Move replicas between the directories, in half of the runs that have two."""
        rng, directories = self.spec.random(MOVER), self.cluster.nodes[0].directories
        if len(directories) > 1 and rng.chance(50) and not self.spec.leaves_out(MOVER):
            topics = {plan.name: plan.partitions for plan in self.plans.values() if plan.name != CHURN}
            LogMover(Channel(self.view, rng), topics, directories, lambda: self.faults.are_over).start()

    def _write_to_unclean(self) -> None:
        """Two producers throughout the faults, one of which never sends again."""
        rng, place = self.spec.random("unclean clients"), (UNCLEAN, 0)
        number = len(self.producers)
        channel = Channel(self.view, rng.fork("producer"), place)
        producer = self._producer(place, self.spec.count(rng.choice(COUNTS)), channel, rng, windows=(1, 5))
        if self.spec.has_producer(number):
            self.producers.append(producer)
            producer.start()
        if not self.spec.leaves_out(SLOPPY):
            channel = Channel(self.view, rng.fork("sloppy"), place)
            pause_us = rng.choice((20_000, 100_000, 400_000))
            writer = SloppyWriter(channel, self.deliveries, len(self.sloppy), *place, pause_us=pause_us)
            self.sloppy.append(writer)
            writer.start()

    def _read_in_racks(self) -> None:
        """Read some partitions in a rack (KIP-392)."""
        rng = self.spec.random(f"{RACK_READERS} clients")
        for plan in self.plans.values():
            if plan.name in _WITH_OWN_CLIENTS or not rng.chance(60):
                continue
            place = plan.name, rng.below(plan.partitions)
            self._read_in_rack(
                f"reader in a rack of {place[0]}-{place[1]}", place, rng, self.deliveries.read_by_another
            )

    def _read_in_rack(
        self, process: str, place: Place, rng: SeededRandom, read: ReadRecord, *, read_committed: bool = False
    ) -> None:
        self.recorder.assigned(process, {place: 0})
        SimConsumer(
            RackChannel(Channel(self.view, rng.fork(process), place), self.deliveries, rng.choice(self._reader_racks)),
            ReadRecorder(self.deliveries, self.recorder, process, place, read),
            *place,
            pause_us=rng.choice(READERS_PAUSES_US),
            read_committed=read_committed,
        ).start()

    def _probe_offsets(self) -> None:
        """List the ends of some partitions."""
        rng = self.spec.random(PROBER)
        for plan in self.plans.values():
            if plan.name not in (CHURN, UNCLEAN) and rng.chance(PROBED_PERCENT):
                place = plan.name, rng.below(plan.partitions)
                prober = OffsetsProber(Channel(self.view, rng.fork(f"{place}"), place), self.deliveries, *place)
                self.sloppy.append(prober)
                prober.start()

    def _start_transactions(self) -> None:
        rng = self._transactions_rng
        for number in range(rng.between(1, 3)):
            for instance in range(rng.choice((1, 1, 2))):
                producer = SimTransactionalProducer(
                    self.view,
                    rng.fork(f"producer {number} {instance}"),
                    self.deliveries,
                    f"tx{number}.{instance}",
                    f"tx{number}",
                    timeout_ms=rng.choice((1_500, 5_000, 20_000)),
                    is_protocol_2=rng.chance(50),
                    pause_us=rng.choice(PAUSES_US),
                    writes_compacted=COMPACT in self.plans and rng.fork(f"compacted {number}").chance(50),
                )
                self.transactional.append(producer)
                self.world.after(rng.between(0, 50_000), producer.start)
        if OUTPUT in self.plans and not self.spec.leaves_out(GROUP):
            forked = rng.fork("processing")
            self.processing = ProcessingGroup(self.view, forked, self.deliveries, self.groups.history)
            self.groups.groups.append(self.processing)
        partitions = [(name, number) for name in _TRANSACTIONAL if name in self.plans for number in range(PARTITIONS)]
        if COMPACT in self.plans:
            partitions.append((COMPACT, 0))
        for place in partitions:
            process = f"committed reader of {place[0]}-{place[1]}"
            self.recorder.reads_all(process, place, read_committed=True)
            reader = SimConsumer(
                Channel(self.view, rng.fork(process), place),
                ReadRecorder(self.deliveries, self.recorder, process, place, self.committed_reads.read),
                *place,
                wait_ms=1_500,
                pause_us=rng.choice(READERS_PAUSES_US),
                read_committed=True,
            )
            self.committed_readers[place] = reader
            self.world.after(rng.between(0, 50_000), reader.start)
            if self._reader_racks and not self.spec.leaves_out(RACK_READERS):
                process = f"committed reader in a rack of {place[0]}-{place[1]}"
                self.recorder.reads_committed(process)
                rack_rng = self.spec.random(process)
                self._read_in_rack(process, place, rack_rng, self.committed_reads.read, read_committed=True)

    def _consume_in_session(self, plan: TopicPlan, rng: SeededRandom) -> None:
        """Read a topic whose partitions all have one leader, through one fetch session."""
        targets = [(plan.name, partition) for partition in range(plan.partitions)]
        recorders = [self._recorded(target) for target in targets]
        channel = Channel(self.view, rng.fork(plan.name), targets[0])
        consumer = SimSessionConsumer(channel, recorders, plan.name, pause_us=rng.choice(READERS_PAUSES_US))
        self.readers |= dict.fromkeys(targets, consumer)
        self.world.after(rng.between(0, 50_000), consumer.start)

    def _recorded(self, place: tuple[str, int]) -> ReadRecorder:
        """What the consumer that reads all of a partition reports to."""
        process = f"consumer of {place[0]}-{place[1]}"
        self.recorder.reads_all(process, place)
        return ReadRecorder(self.deliveries, self.recorder, process, place)

    def _consume(self, topic: str, partition: int) -> None:
        recorder = self._recorded((topic, partition))
        consumer = SimConsumer(
            self._channel((topic, partition)),
            recorder,
            topic,
            partition,
            wait_ms=1_500,
            pause_us=self._rng.choice(READERS_PAUSES_US),
        )
        self.readers[topic, partition] = consumer
        self.world.after(self._rng.between(0, 50_000), consumer.start)

    def _write_sloppily(self, topic: str, partition: int) -> None:
        channel, pause_us = self._channel((topic, partition)), self._rng.choice((20_000, 100_000, 400_000))
        acks = self._rng.choice((0, 1, 1, -1))
        # acks=0 gets no response, so this writer would write without a pause
        pause_us = pause_us if acks else max(200_000, pause_us)
        writer = SloppyWriter(
            channel, self.deliveries, len(self.sloppy), topic, partition, pause_us=pause_us, acks=acks
        )
        self.sloppy.append(writer)
        writer.start()

    def _delete_records(self, topic: str, partition: int) -> None:
        pause_us = self._rng.choice((500_000, 2_000_000, 6_000_000))
        deleter = RecordsDeleter(
            self._channel((topic, partition)), self.deliveries, topic, partition, pause_us=pause_us
        )
        self.sloppy.append(deleter)
        deleter.start()

    def _producer(
        self, place: tuple[str, int], count: int, channel: Channel, rng: SeededRandom, windows: Sequence[int] = WINDOWS
    ) -> SimProducer:
        number, window = len(self.producers) + len(self.probes), rng.choice(windows)
        pause_us = rng.choice(PAUSES_US)
        return SimProducer(channel, self.deliveries, number, *place, count=count, window=window, pause_us=pause_us)

    # ----------------------------------------------------------------------------------------------- the end

    def _end_faults(self) -> None:
        """End all faults; from now on the cluster has to recover."""
        self.world.say("all faults have ended")
        self.groups.end_faults()
        if self.store_moves is not None:
            self.store_moves.settle()
        for client in (self.admin, self.entities, self.impostor, *self.transactional, *self.sloppy):
            if client is not None:
                client.stop()
        self.faults.losses.forfeit_the_never_made()
        self._faults_ended_ms = self.world.now_ms
        state = self.cluster.store.state
        for topic_id, partition in list(state.partitions):
            name = state.topics[topic_id]["name"]
            if name not in (CHURN, OFFSETS_TOPIC, TRANSACTION_TOPIC, *_TRANSACTIONAL) and not self._is_given_up(
                topic_id, partition
            ):
                place = name, partition
                producer = self._producer(place, 1, self._channel(place), self._rng)
                self.probes.append((name, partition, producer))
                producer.start()
                if (name, partition) not in self.readers:
                    self._consume(name, partition)
        for reader in (*self.readers.values(), *self.committed_readers.values()):
            reader.pause_us = min(READERS_PAUSES_US)

    def _check_history(self) -> None:
        """Check the history of everything that the clients did and saw."""
        deliveries = self.deliveries
        history = self.recorder.history(
            self._is_checked,
            self.groups.history.promises,
            lambda place: deliveries.of(*place).floor,
            lambda place: deliveries.taken(*place),
            lambda place: deliveries.forgotten(*place),
        )
        found = must_hold(history)
        deliveries.count("operations judged", found.operations)
        deliveries.count("cycles of writes", found.write_cycles)
        deliveries.count("cycles of writes and reads", found.mixed_cycles)

    def _is_checked(self, place: tuple[str, int]) -> bool:
        """A transaction's outcome means nothing once its coordinator's log lost more than is guaranteed."""
        has_transactions = place[0] in _TRANSACTIONAL or (place[0] == COMPACT and TRANSACTIONS in self.plans)
        is_sound = not has_transactions or self.deliveries.promises(TRANSACTION_TOPIC, 0)
        return is_sound and self.deliveries.promises(*place)

    def _open_transaction(self) -> str | None:
        """A partition whose transactions are not all over, or not all read."""
        for (topic, partition), reader in self.committed_readers.items():
            if not self._is_checked((topic, partition)):
                continue
            topic_id = self.view.stored_ids.get(topic)
            copies = self.cluster.history.copies.get(Key(topic_id, partition), {})  # type: ignore[arg-type]
            led = [copy.partition for copy in copies.values() if copy.is_leader and copy.partition is not None]
            if not led:
                return f"(L3) {topic}-{partition} has no leader"
            for each in led:
                stable, end = each.last_stable_offset, each.high_watermark
                if stable != end or reader.position < end:
                    return f"(L3) {topic}-{partition}: {stable=}, {end=}, read to {reader.position}"
        return None

    def _is_given_up(self, topic_id: str, partition: int) -> bool:
        history = self.cluster.history
        return bool(history.forfeited) and history.is_given_up(Key(topic_id, partition))

    def _recovery_ms(self) -> int:
        return self.world.now_ms - self._faults_ended_ms

    def _is_writable(self) -> bool:
        late = [
            f"{name}-{partition}"
            for name, partition, producer in self.probes
            if not producer.is_done and self.deliveries.must_serve(name, partition)
        ]
        if late and self._recovery_ms() > WRITABLE_MS + self.session_ms:
            raise Violation(f"L1: {', '.join(late)} took no acks=all for {self._recovery_ms()} ms after the last fault")
        return not late

    def _is_whole(self) -> bool:
        troubles = self._troubles()
        if troubles is None:
            return True
        if self._recovery_ms() > IN_SYNC_MS:
            raise Violation(f"L2: {self._recovery_ms()} ms after the last fault {troubles}")
        return False

    def _troubles(self) -> str | None:
        """Something that has not recovered yet; None if everything has.

        The check that failed last runs first: mostly it fails again, and the rest need not run.
        """
        trouble = self._last_trouble()
        if trouble is None:
            for check in self._recoveries():
                if (trouble := check()) is not None:
                    self._last_trouble = check
                    break
        return trouble

    def _recoveries(self) -> Iterator[Callable[[], str | None]]:
        """A check of each thing that has to recover, which returns what is wrong with it."""
        for producer in self.producers:
            yield partial(self._sending_trouble, producer)
        for topic_partition, held in self.deliveries.partitions():
            yield partial(self._reading_trouble, topic_partition, held)
        if self.store_moves is not None:
            yield self.store_moves.trouble
        for place in list(self.cluster.store.state.partitions):
            yield partial(self._sync_trouble, place)
        yield self._open_transaction
        yield self._retention_trouble
        yield self.groups.trouble

    def _sending_trouble(self, producer: SimProducer) -> str | None:
        if producer.is_done or not self.deliveries.promises(*producer.target):
            return None
        return f"a producer to {producer.target[0]}-{producer.target[1]} is not done"

    def _reading_trouble(self, topic_partition: TopicPartition, held: PartitionDeliveries) -> str | None:
        unseen = held.unseen() if self.deliveries.promises(*topic_partition) else ()
        return f"{topic_partition}@{unseen[0]} was acknowledged and not read" if unseen else None

    def _sync_trouble(self, place: tuple[str, int]) -> str | None:
        state = self.cluster.store.state
        row = state.partitions.get(place)
        if row is None or self._is_given_up(*place):
            return None
        members = sorted(member.node_id for member in parse_isr(row["isr"]))
        if members == sorted(parse_nodes(row["replicas"])) and not row.get("adding") and not row.get("removing"):
            return None
        return f"{state.topics[place[0]]['name']}-{place[1]} is not in sync: {row}"

    def _retention_trouble(self) -> str | None:
        """A log that is too large by a whole segment."""
        for key, copies in self.cluster.history.copies.items():
            for copy in copies.values():
                log, partition = copy.log, copy.partition
                if log is None or partition is None or log.config.retention_bytes < 0 or not copy.is_held:
                    continue
                surplus = log.size_bytes - log.segments[0].size - log.config.retention_bytes
                is_closed = len(log.segments) > 1 and log.segments[1].base_offset <= partition.high_watermark
                if surplus > 0 and is_closed and key not in self.cluster.history.forfeited:
                    return f"{copy} keeps {surplus} bytes more than its retention"
        return None
