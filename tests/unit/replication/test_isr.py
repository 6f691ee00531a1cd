"""Who is in sync, and what the high watermark waits for."""

import uuid
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.cluster_rig import ClusterRig
from tests.unit.noted_calls import note_calls_by_step
from yak.cluster.image import PartitionInfo
from yak.cluster.payload import IsrMember
from yak.config.log_config import LogConfig
from yak.ids import TopicPartition
from yak.replication import isr
from yak.replication.isr import IsrProposal, Replica, may_join, wanted_isr
from yak.replication.partition import Partition
from yak.sim.store_line import STORE
from yak.storage.epoch_cache import EpochCache
from yak.storage.producer_state import ProducerState

ME, NODES = 1, (1, 2, 3)
LAG_MS = 10_000


def fake_log(end: int = 0, **config: int) -> SimpleNamespace:
    return SimpleNamespace(
        config=LogConfig(**config),
        log_start_offset=0,
        log_end_offset=end,
        recovery_point=0,
        assign_epoch=lambda epoch: None,
        epochs=EpochCache(),
        producers=ProducerState(),
    )


def state(isr: tuple[int, ...], epochs: tuple[int, ...] | None = None, *, partition_epoch: int = 7) -> PartitionInfo:
    members = tuple(map(IsrMember, isr, epochs or [10 * node for node in isr]))
    return PartitionInfo(0, NODES, members, (), leader=ME, leader_epoch=5, partition_epoch=partition_epoch)


def led(
    end: int = 0, *, isr: tuple[int, ...] = NODES, epochs: tuple[int, ...] | None = None, **config: int
) -> Partition:
    partition = Partition(TopicPartition("t", 0), uuid.UUID(int=1), fake_log(end, **config))  # type: ignore[arg-type]
    partition.become(ME, state(isr, epochs))
    return partition


def fetch(partition: Partition, node: int, offset: int, *, epoch: int | None = None, now_ms: int = 0) -> None:
    partition.replica_states[node].fetched(
        10 * node if epoch is None else epoch, offset, 0, partition.log.log_end_offset, now_ms
    )


def alive(*nodes: int):
    return lambda node: 10 * node if node in nodes else -1


def wanted(partition: Partition, *, up: tuple[int, ...] = NODES, now_ms: int = 0) -> list[int] | None:
    members = wanted_isr(partition, alive(*up), 10 * ME, now_ms, LAG_MS)
    return None if members is None else [node for node, _epoch in members]


def test_the_watermark_is_the_smallest_end_over_the_isr():
    partition = led(end=10)
    assert not partition.advance_high_watermark()
    fetch(partition, 2, 10)
    assert not partition.advance_high_watermark(), "node 3 has not fetched in this epoch"
    fetch(partition, 3, 4)
    assert partition.advance_high_watermark()
    assert partition.high_watermark == 4


def test_a_fetch_of_another_boot_than_the_members_does_not_count():
    partition = led(end=10)
    fetch(partition, 2, 10)
    fetch(partition, 3, 10, epoch=31)
    assert not partition.advance_high_watermark()


def test_an_older_boot_is_not_believed_once_a_newer_one_fetched():
    replica = Replica(2, 0)
    assert replica.fetched(20, 5, 0, 10, 0)
    assert not replica.fetched(19, 9, 0, 10, 0)
    assert replica.log_end_offset == 5


def test_replica_end_below_an_acknowledged_one_of_the_same_boot_is_not_taken():
    partition = led(end=10)
    fetch(partition, 2, 6)
    fetch(partition, 3, 2)
    assert partition.advance_high_watermark()
    fetch(partition, 2, 4)
    assert partition.replica_states[2].is_regressed
    fetch(partition, 3, 6)
    assert not partition.advance_high_watermark(), "what node 2 told before counts no more"
    assert partition.log_end_offsets() == {1: 10, 3: 6}
    fetch(partition, 2, 6)
    assert not partition.replica_states[2].is_regressed
    assert partition.advance_high_watermark()
    assert partition.high_watermark == 6


def test_replica_end_of_a_later_boot_or_after_it_left_may_be_lower():
    replica = Replica(2, 0)
    assert replica.fetched(20, 5, 3, 10, 0)
    assert replica.fetched(21, 2, 0, 10, 0)
    assert (replica.log_end_offset, replica.log_start_offset) == (2, 0)
    replica.has_left = True
    assert replica.fetched(21, 1, 0, 10, 0)
    assert replica.log_end_offset == 1


def test_replica_log_start_never_moves_back_within_a_boot():
    replica = Replica(2, 0)
    assert replica.fetched(20, 5, 3, 10, 0)
    assert replica.fetched(20, 6, 1, 10, 0)
    assert replica.log_start_offset == 3


def test_below_the_minimum_nothing_is_committed():
    partition = led(end=10, isr=(1,), min_insync_replicas=2)
    assert not partition.advance_high_watermark()
    assert partition.is_under_min_isr


def test_the_minimum_is_never_more_than_there_are_replicas():
    partition = Partition(TopicPartition("t", 0), uuid.UUID(int=1), fake_log(3, min_insync_replicas=2))  # type: ignore[arg-type]
    partition.become(1, PartitionInfo(0, (1,), (IsrMember(1, 0),), (), leader=1, leader_epoch=0, partition_epoch=0))
    assert partition.high_watermark == 3
    assert not partition.is_under_min_isr


def test_a_proposed_member_holds_the_watermark_until_the_answer_is_definite():
    partition = led(end=10, isr=(1, 2))
    fetch(partition, 2, 10)
    proposal = IsrProposal(((1, 10), (2, 20), (3, 30)), 7, 1, "n")
    partition.propose(proposal)
    assert not partition.advance_high_watermark()
    partition.settle(proposal)
    assert partition.advance_high_watermark()


def test_a_proposed_removal_does_not_count_before_it_is_committed():
    partition = led(end=10)
    fetch(partition, 2, 10)
    partition.propose(IsrProposal(((1, 10), (2, 20)), 7, 1, "n"))
    assert not partition.advance_high_watermark()


def test_a_follower_joins_at_the_watermark_and_past_the_epochs_start():
    partition = led(end=10, isr=(1, 2))
    assert partition.epoch_start_offset == 10
    fetch(partition, 2, 10)
    fetch(partition, 3, 9)
    partition.high_watermark = 5
    assert wanted(partition) is None
    assert not may_join(partition, 3)
    fetch(partition, 3, 10)
    assert may_join(partition, 3)
    assert wanted(partition) == [1, 2, 3]


def become(partition: Partition, partition_epoch: int, isr: tuple[int, ...]) -> None:
    partition.become(ME, state(isr, partition_epoch=partition_epoch))


def test_a_follower_whose_log_may_be_lost_fetches_again_before_it_joins():
    """A replica outside the ISR that loses its log changes nothing but the partition epoch."""
    partition = led(isr=(1, 2))
    fetch(partition, 2, 0)
    fetch(partition, 3, 0)
    assert wanted(partition) == [1, 2, 3]
    become(partition, 8, (1, 2))
    assert wanted(partition) is None
    fetch(partition, 3, 0)
    assert wanted(partition) == [1, 2, 3]


def test_the_leaders_own_change_of_the_isr_leaves_the_next_follower_free_to_join():
    partition = led(isr=(1,))
    fetch(partition, 2, 0)
    fetch(partition, 3, 0)
    partition.propose(IsrProposal(((1, 10), (2, 20)), 7, 1, "n"))
    become(partition, 8, (1, 2))
    partition.settle(partition.pending_isr)
    assert wanted(partition) == [1, 2, 3]


def test_a_follower_leaves_after_the_lag_or_with_its_broker():
    partition = led(end=10)
    fetch(partition, 2, 10)
    fetch(partition, 3, 10)
    partition.log.log_end_offset = 20
    fetch(partition, 2, 20, now_ms=LAG_MS)
    assert wanted(partition, now_ms=LAG_MS) is None
    assert wanted(partition, now_ms=LAG_MS + 1) == [1, 2]
    assert wanted(partition, up=(1, 2)) == [1, 2]


def test_a_follower_that_is_always_a_little_behind_stays():
    partition = led(end=0)
    for turn in range(1, 40):
        now_ms = turn * 1_000
        partition.log.log_end_offset = turn * 100
        for node in (2, 3):
            fetch(partition, node, turn * 100 - 50 if node == 3 else turn * 100, now_ms=now_ms)
    # node 3 has now what the leader had at its fetch before
    assert wanted(partition, now_ms=40_000) is None


def test_isr_member_with_a_new_broker_epoch_is_another_member():
    partition = led(end=10, epochs=(10, 19, 30))
    for node in (2, 3):
        fetch(partition, node, 10)
    assert not partition.advance_high_watermark()
    assert wanted_isr(partition, alive(1, 2, 3), 10, 0, LAG_MS) == ((1, 10), (2, 20), (3, 30))


def test_leader_with_a_new_broker_epoch_proposes_no_isr():
    partition = led(end=10)
    assert wanted_isr(partition, alive(1), 11, 0, LAG_MS) is None


@given(st.lists(st.tuples(st.sampled_from(["append", "2", "3"]), st.integers(0, 5)), max_size=60))
def test_the_watermark_never_falls_and_never_passes_a_member(steps):
    partition = led(end=0)
    ends = {2: 0, 3: 0}
    before = 0
    for what, count in steps:
        if what == "append":
            partition.log.log_end_offset += count
        else:
            node = int(what)
            ends[node] = min(ends[node] + count, partition.log.log_end_offset)
            fetch(partition, node, ends[node])
        partition.advance_high_watermark()
        assert before <= partition.high_watermark <= min(*ends.values(), partition.log.log_end_offset)
        before = partition.high_watermark


class IsrMachine(RuleBasedStateMachine):
    """A leader, a store that may lose answers, and followers that come and go: what is committed is on every member.

    The followers' ends only grow here, so "on" means "not past their end".
    """

    @initialize(minimum=st.integers(1, 3))
    def begin(self, minimum):
        self.partition = led(end=0, min_insync_replicas=minimum)
        self.ends = {2: 0, 3: 0}
        self.up = {1: True, 2: True, 3: True}
        self.store_isr = self.partition.isr_members
        self.store_epoch = self.partition.partition_epoch
        self.sent: list[tuple[IsrProposal, bool]] = []
        self.now_ms = 0

    @rule(count=st.integers(1, 5))
    def append(self, count):
        self.partition.log.log_end_offset += count
        self.partition.advance_high_watermark()

    @rule(node=st.sampled_from([2, 3]), count=st.integers(0, 20), passed_ms=st.integers(0, 6_000))
    def follower_fetches(self, node, count, passed_ms):
        self.now_ms += passed_ms
        if self.up[node]:
            self.ends[node] = min(self.ends[node] + count, self.partition.log.log_end_offset)
            fetch(self.partition, node, self.ends[node], now_ms=self.now_ms)
            self.partition.advance_high_watermark()

    @rule(node=st.sampled_from([2, 3]), is_up=st.booleans())
    def follower_dies_or_lives(self, node, is_up):
        self.up[node] = is_up

    @rule()
    def propose(self):
        up = tuple(node for node, is_up in self.up.items() if is_up)
        members = wanted_isr(self.partition, alive(*up), 10 * ME, self.now_ms, LAG_MS)
        if members is not None:
            proposal = IsrProposal(members, self.partition.partition_epoch, 1, f"{len(self.sent)}")
            self.partition.propose(proposal)
            self.partition.advance_high_watermark()

    @precondition(lambda self: self.partition.pending_isr is not None)
    @rule(answer_arrives=st.booleans())
    def the_store_answers(self, answer_arrives):
        proposal = self.partition.pending_isr
        if proposal.partition_epoch == self.store_epoch:
            self.store_isr = proposal.members
            self.store_epoch += 1
        if answer_arrives:
            isr, epochs = zip(*self.store_isr, strict=True)
            self.partition.become(ME, state(isr, epochs, partition_epoch=self.store_epoch), now_ms=self.now_ms)
            self.partition.settle(proposal)
            self.partition.advance_high_watermark()

    @invariant()
    def what_is_committed_is_on_every_member(self):
        if not hasattr(self, "partition"):
            return
        for node, _epoch in self.store_isr:
            end = self.partition.log.log_end_offset if node == ME else self.ends[node]
            assert self.partition.high_watermark <= end, f"{self.partition.high_watermark} is past node {node}"


TestIsrMachine = IsrMachine.TestCase
TestIsrMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def many_partitions(bound: int) -> tuple[ClusterRig, list[int]]:
    """Two brokers, and the partitions that the first one leads: more than the bound."""
    rig = ClusterRig(size=2, settings={"replica.lag.time.max.ms": "1000"}, hands_back=False)
    rig.create_topic("many", partitions=10, replication_factor=2)
    rig.run_until(lambda: all(rig.is_in_sync("many", index) for index in range(10)))
    led = [index for index in range(10) if rig.leader("many", index) == 1]
    assert len(led) > bound
    return rig, led


def test_isr_changes_of_many_partitions_are_proposed_one_batch_a_step_also_after_a_store_outage(monkeypatch):
    bound = 3
    monkeypatch.setattr(isr, "BATCH_MAX", bound)
    rig, led = many_partitions(bound)
    leader = rig.nodes[0]
    steps = note_calls_by_step(monkeypatch, leader.broker, isr, "_arguments")
    rig.cluster.cut("n1", "n2")
    rig.cluster.cut("n2", STORE)
    rig.cluster.cut("n1", STORE)
    for index in led:
        rig.begin_produce("many", [b"a"], partition=index, acks=1)
    rig.run_for(3_000)
    rig.cluster.reconnect("n1", STORE)
    rig.run_until(lambda: all(rig.info("many", index).isr == (leader.node_id,) for index in led))
    assert max(sum(partition.node_id == leader.node_id for partition, _ in proposed) for proposed in steps) == bound


def test_answers_of_large_batches_that_one_image_includes_are_applied_one_a_step(monkeypatch):
    rig = ClusterRig(size=2)
    broker = rig.nodes[0].broker
    steps: list[list[int]] = [[]]
    real = broker.step

    def stepped(event, now_ms):
        steps.append([])
        return real(event, now_ms)

    broker.step = stepped
    monkeypatch.setattr(isr.IsrChanges, "_apply", lambda _self, batch, _results: steps[-1].append(len(batch)))
    answers = ({"results": []},)
    for size in (isr.BATCH_MAX, 1, isr.BATCH_MAX, isr.BATCH_MAX):
        broker.isr_changes._answered([None] * size, None, answers)
    rig.run_for(20)
    assert [each for each in steps if each] == [[isr.BATCH_MAX], [1], [isr.BATCH_MAX], [isr.BATCH_MAX]]
    for _ in range(2):
        broker.isr_changes._answered([None], None, answers)
    assert steps[-1] == [1, 1], "small ones need no steps of their own"


def test_a_new_leader_removes_a_follower_that_never_fetches_without_another_append():
    """Its high watermark would stay behind the records that its predecessor acknowledged."""
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"}, hands_back=False)
    rig.create_topic("orders", min_insync_replicas="1")
    former, (one, other) = rig.leader("orders"), rig.followers("orders")
    rig.run_until(lambda: rig.is_in_sync("orders"))
    rig.cluster.cut(f"n{one}", f"n{other}")
    pending = rig.begin_produce("orders", [b"acknowledged"])
    rig.run_until(lambda: pending.is_done)
    rig.nodes[former - 1].kill()
    rig.run_until(lambda: rig.leader("orders") in (one, other))
    leader = rig.leader("orders")
    rig.run_until(lambda: rig.info("orders").isr == (leader,))
    rig.run_until(lambda: rig.replica(leader, "orders").high_watermark == 1)


def test_watched_partitions_are_checked_some_in_each_step(monkeypatch):
    bound = 3
    monkeypatch.setattr(isr, "_WATCHED_MAX", bound)
    rig, led = many_partitions(bound)
    changes, looked = rig.nodes[0].broker.isr_changes, list[int]()
    real = changes._check_watched

    def look() -> None:
        before = len(changes._wanted)
        real()
        looked.append(len(changes._wanted) - before)

    monkeypatch.setattr(type(changes), "_check_watched", lambda _self: look())
    rig.cluster.cut("n1", "n2")
    for index in led:
        rig.begin_produce("many", [b"a"], partition=index, acks=1)
    rig.run_until(lambda: all(rig.info("many", index).isr == (1,) for index in led))
    assert max(looked) == bound
