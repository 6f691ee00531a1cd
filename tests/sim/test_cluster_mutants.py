"""Each rule of replication that is taken out must be missed by some seed, of the number stated: or the checks prove nothing."""

from yak.broker import appending
from yak.broker.broker import Broker
from yak.broker.hosting import Hosting
from yak.broker.metadata import Metadata
from yak.broker.replica_fetcher import ReplicaFetcher
from yak.broker.replica_reading import ReplicaReader
from yak.replication.partition import Partition
from yak.sim import store_partitions
from yak.sim.cluster_run import run_cluster_seed
from yak.sim.node import SimNode
from yak.storage.log import Log
from yak.storage.producer_state import ProducerState


def first_caught(seeds: int, *faults: str) -> str | None:
    """What the first of so many seeds finds, with these classes of faults alone if any are named."""
    for seed in range(1, seeds + 1):
        error = run_cluster_seed(seed, faults=faults or None).error
        if error is not None:
            return f"seed {seed}: {error}"
    return None


# ----------------------------------------------------------------------------------------------- the high watermark


def test_a_high_watermark_from_the_leaders_log_alone(monkeypatch):
    def advance(self: Partition) -> bool:
        end = self.log.log_end_offset
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    monkeypatch.setattr(Partition, "advance_high_watermark", advance)
    assert first_caught(5)


def test_the_committed_isr_in_place_of_the_maximal_one(monkeypatch):
    real = Partition.count_quorum

    def count(self: Partition) -> None:
        pending, self.pending_isr = self.pending_isr, None
        real(self)
        self.pending_isr = pending

    monkeypatch.setattr(Partition, "count_quorum", count)
    monkeypatch.setattr("yak.sim.checks.strong_isr._waits_for", lambda *_: True)
    assert first_caught(300)


def test_a_high_watermark_that_moves_below_min_isr(monkeypatch):
    monkeypatch.setattr(Partition, "is_under_min_isr", False)
    assert first_caught(30)


def test_an_ack_before_replication(monkeypatch):
    real = appending.place

    def place(*arguments):
        appended = real(*arguments)
        appended.must_wait = False
        return appended

    monkeypatch.setattr(appending, "place", place)
    assert first_caught(5)


def test_reading_past_the_high_watermark(monkeypatch):
    real = Log.read
    monkeypatch.setattr(
        Log,
        "read",
        lambda self, offset, size, up_to, *, at_least_one: real(
            self, offset, size, self.log_end_offset, at_least_one=at_least_one
        ),
    )
    assert first_caught(20)


def test_a_follower_that_takes_the_leaders_high_watermark_as_it_is(monkeypatch):
    def follow(self: Partition, leaders: int) -> bool:
        moved, self.high_watermark = leaders > self.high_watermark, max(leaders, self.high_watermark)
        return moved

    monkeypatch.setattr(Partition, "follow_high_watermark", follow)
    assert first_caught(20)


# ----------------------------------------------------------------------------------------------------- epochs


def test_truncation_to_the_high_watermark(monkeypatch):
    """Cut to the own watermark in a new epoch, and ask for no divergence (before KIP-101)."""
    real = ReplicaFetcher.follow

    def follow(self, partition):
        if partition.log is not None and partition.log.log_end_offset > partition.high_watermark:
            partition.log.truncate_to(partition.high_watermark)
        real(self, partition)

    monkeypatch.setattr(ReplicaFetcher, "follow", follow)
    assert first_caught(40)


def test_a_leader_that_does_not_look_for_divergence(monkeypatch):
    """As for a follower of an old version, which names no epoch of its last record."""
    real = ReplicaReader._take_progress

    def take_progress(self, session, partition, item):
        item.last_fetched_epoch = -1
        return real(self, session, partition, item)

    monkeypatch.setattr(ReplicaReader, "_take_progress", take_progress)
    assert first_caught(150)


def test_a_fetch_that_counts_whatever_its_epochs_say(monkeypatch):
    real = ReplicaReader._readable

    def readable(self, item):
        if item.partition is not None and item.partition.is_leader:
            item.current_leader_epoch = item.partition.leader_epoch
            item.last_fetched_epoch = -1
            item.fetch_offset = min(item.fetch_offset, item.partition.log_end_offset)
        return real(self, item)

    monkeypatch.setattr(ReplicaReader, "_readable", readable)
    assert first_caught(150)


def test_joining_the_isr_without_the_start_of_the_epoch(monkeypatch):
    real = Partition._begin_epoch

    def begin(self: Partition) -> None:
        real(self)
        self.epoch_start_offset = 0

    monkeypatch.setattr(Partition, "_begin_epoch", begin)
    assert first_caught(300)


def test_leading_in_an_epoch_of_an_earlier_boot(monkeypatch):
    host, become = Hosting.host, Partition.become
    reads_the_tail = False

    def host_anyhow(self, *arguments):
        nonlocal reads_the_tail
        reads_the_tail = hasattr(self._broker, "metadata")
        host(self, *arguments)

    def become_leader(self, **named):
        return become(self, **named | {"may_lead": named["may_lead"] or reads_the_tail})

    monkeypatch.setattr(Hosting, "host", host_anyhow)
    monkeypatch.setattr(Partition, "become", become_leader)
    assert first_caught(40)


# ------------------------------------------------------------------------------------------------------ the ISR


def test_a_pending_change_forgotten_with_its_lost_answer(monkeypatch):
    real = Metadata.on_store_lost

    def forget(self, event):
        for partition in self._broker.partitions.values():
            if partition.pending_isr is not None:
                partition.settle(partition.pending_isr)
        real(self, event)

    monkeypatch.setattr(Metadata, "on_store_lost", forget)
    assert first_caught(40, "lost calls", "pause", "cut brokers")


def test_a_shrink_believed_before_its_answer(monkeypatch):
    real = Partition.propose

    def propose(self: Partition, proposal) -> None:
        real(self, proposal)
        self.isr = tuple(node_id for node_id, _epoch in proposal.members)
        self.isr_epochs = tuple(epoch for _node_id, epoch in proposal.members)
        self.count_quorum()

    monkeypatch.setattr(Partition, "propose", propose)
    assert first_caught(100)


def test_the_broker_epoch_ignored_in_the_isr(monkeypatch):
    def is_current(state, member, *states):
        broker = state.brokers.get(member.node_id)
        return broker is not None and broker["state"] in states

    monkeypatch.setattr(store_partitions, "is_current", is_current)
    assert first_caught(60)


def test_a_lossy_boot_that_keeps_its_place(monkeypatch):
    real = SimNode.crash
    monkeypatch.setattr(SimNode, "crash", lambda self, *, is_lossy=False: real(self, is_lossy=False))
    assert first_caught(60)


# ------------------------------------------------------------------------------------------------- records and flushes


def test_a_followers_ack_before_its_flush(monkeypatch):
    monkeypatch.setattr(
        ReplicaFetcher, "_tell", lambda self, key, _partition, _log: self._to_tell.__setitem__(key, None)
    )
    assert first_caught(100)


def test_producers_that_a_follower_does_not_learn(monkeypatch):
    real = Log.append_as_follower

    def append(self, *arguments):
        known = self.producers
        self.producers = ProducerState()
        try:
            return real(self, *arguments)
        finally:
            self.producers = known

    monkeypatch.setattr(Log, "append_as_follower", append)
    assert first_caught(40)


def test_waiting_produces_that_hear_nothing_of_a_new_leader(monkeypatch):
    monkeypatch.setattr(Broker, "leadership_changed", lambda self, partition: None)
    assert first_caught(300)
