"""The check on commits of offsets, with a coordinator whose groups and log end offset the test sets."""

import uuid
from types import SimpleNamespace

import pytest

from tests.unit.groups.classic.rig import Rig
from yak.cluster.settings import ClusterSettings
from yak.groups.classic.members import Member
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.records import Change, CurrentValue, Kind
from yak.groups.group import Group
from yak.groups.offsets import Committed
from yak.ids import TopicPartition
from yak.sim.checks.commits_of_members import CommitsOfMembers
from yak.sim.cluster import Cluster
from yak.sim.deliveries import Deliveries, Violation
from yak.sim.group_history import GroupHistory
from yak.sim.history import Chain, Copy, Key
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import CommitMark, Recorder
from yak.sim.seeded_random import SeededRandom
from yak.sim.world import World

KEY = Key(str(uuid.UUID(int=1)), 0)
PLACE = ("t", 0)
TOPIC_ID = uuid.UUID(int=2)


class Coordinator:
    """Broker 1 leads `__consumer_offsets-0`, where group `g` has member `m` in generation 2."""

    def __init__(self) -> None:
        self.cluster = Cluster(
            World(),
            SeededRandom(1),
            size=1,
            settings={},
            cluster_settings=ClusterSettings(),
            roles=("leader",),
            racks=(None,),
        )
        self.history = GroupHistory(
            self.cluster, Deliveries(self.cluster.history, lambda _topic: None, Recorder(self.cluster.world))
        )
        self.check = CommitsOfMembers(self.history)
        self.partition = SimpleNamespace(
            topic_id=KEY.topic_id, topic_partition=TopicPartition("__consumer_offsets", 0), log_end_offset=7
        )
        self.group = Group("g", Rig().group)
        self.group.members.generation = 2
        self.join("m")
        self.coordinated = SimpleNamespace(
            is_loading=False, partition=self.partition, shard=SimpleNamespace(groups={"g": self.group})
        )
        self.history.of("g")
        self.step()

    def join(self, member_id: str) -> None:
        self.group.members.add(Member(member_id, None, "c", "h", 1_000, 1_000, (("range", b""),)))

    def append(self, member_id: str, generation: int, *, producer_id: int | None = None):
        """Append a commit, perhaps in a transaction; the check sees it with the next step."""
        commit = self.history.commits(member_id, "g", generation, {PLACE: 5})
        mark = CommitMark(commit.number, generation, member_id)
        committed = Committed(5, -1, mark.text, 0)
        if producer_id is None:
            self.group.offsets.put(*PLACE, committed, 0)
        else:
            self.group.offsets.put_pending(producer_id, *PLACE, committed)
        self.partition.log_end_offset += 1
        return commit

    def step(self) -> None:
        runtime = SimpleNamespace(coordinated={0: self.coordinated})
        self.check.stepped(
            SimpleNamespace(
                node_id=1,
                broker=SimpleNamespace(
                    group_coordinator=SimpleNamespace(runtime=runtime),
                    image=SimpleNamespace(topics={"t": SimpleNamespace(topic_id=TOPIC_ID)}),
                ),
            )
        )

    def use_consumer_protocol(self, epoch: int, *held: int, member_id: str = "m") -> None:
        """The group has one member of the consumer protocol, in this epoch and with these partitions."""
        self.group.consumer = ConsumerGroup("g")
        partitions = frozenset((TOPIC_ID, number) for number in held)
        current = CurrentValue(epoch, epoch - 1, 0, partitions, assignment_epochs=dict.fromkeys(partitions, 0))
        self.group.consumer.replay(Change(Kind.CURRENT, "g", member_id, current))
        self.partition.log_end_offset += 1
        self.step()

    def acknowledge(self, commit, high_watermark: int) -> None:
        history = self.cluster.history
        copy = Copy(self.cluster.nodes[0], KEY, self.partition.topic_partition)
        copy.chain, copy.high_watermark = Chain(), high_watermark
        history.copies[KEY] = {1: copy}
        self.history.committed("g", commit, Outcome.OK, is_classic=True)


@pytest.fixture
def coordinator():
    return Coordinator()


def test_commit_of_a_member_of_the_current_generation_is_no_violation(coordinator):
    coordinator.append("m", 2)
    coordinator.step()
    assert coordinator.history._deliveries.counts["commits appended"] == 1


@pytest.mark.parametrize(("member_id", "generation"), [("m", 1), ("other", 2)])
def test_commit_of_an_old_generation_or_another_member_is_a_violation(coordinator, member_id, generation):
    coordinator.append(member_id, generation)
    with pytest.raises(Violation, match=f"for generation {generation} of g, which has no such member"):
        coordinator.step()


def test_commit_and_the_next_generation_in_one_step_is_no_violation(coordinator):
    coordinator.append("m", 2)
    coordinator.group.members.generation = 3
    coordinator.step()


def test_commit_of_the_generation_before_in_the_next_step_is_a_violation(coordinator):
    coordinator.group.members.generation = 3
    coordinator.step()
    coordinator.append("m", 2)
    with pytest.raises(Violation, match="for generation 2"):
        coordinator.step()


def test_commit_of_an_older_epoch_is_no_violation_for_a_partition_that_the_member_held_then(coordinator):
    coordinator.use_consumer_protocol(2, 0)
    coordinator.use_consumer_protocol(4, 0, 1)
    for generation in (4, 3, 2):
        coordinator.append("m", generation)
        coordinator.step()
    assert coordinator.history._deliveries.counts["commits appended"] == 3


@pytest.mark.parametrize(
    ("steps", "generation"),
    [
        ([(2, 1), (4, 0)], 3),  # it got the partition in epoch 4
        ([(2, 0), (4, 1)], 2),  # it has it no more
        ([(2, 0), (3, 1), (4, 0)], 2),  # it got it again in epoch 4
        ([(2, 0), (4, 0)], 1),
        ([(2, 0), (4, 0)], 5),
    ],
)
def test_commit_of_an_epoch_in_which_the_member_did_not_hold_the_partition_is_a_violation(
    coordinator, steps, generation
):
    for epoch, held in steps:
        coordinator.use_consumer_protocol(epoch, held)
    coordinator.append("m", generation)
    with pytest.raises(Violation, match=f"for generation {generation} of g"):
        coordinator.step()


def test_commits_that_a_new_coordinator_loads_are_no_violation(coordinator):
    coordinator.append("m", 1)
    coordinator.coordinated = SimpleNamespace(
        is_loading=False, partition=coordinator.partition, shard=SimpleNamespace(groups={"g": coordinator.group})
    )
    coordinator.step()
    assert coordinator.history._deliveries.counts["commits appended"] == 0


def test_commit_acknowledged_below_the_high_watermark_is_no_violation(coordinator):
    commit = coordinator.append("m", 2)
    coordinator.step()
    coordinator.acknowledge(commit, 8)


def test_commit_acknowledged_before_the_high_watermark_passed_it_is_a_violation(coordinator):
    commit = coordinator.append("m", 2)
    coordinator.step()
    with pytest.raises(Violation, match="its record is at 7 or above"):
        coordinator.acknowledge(commit, 7)


def test_commit_fetched_above_the_high_watermark_is_a_violation(coordinator):
    coordinator.append("m", 2)
    coordinator.step()
    with pytest.raises(Violation, match=r"fetched 5 .*, but its record is at 7 or above"):
        coordinator.history.fetched("g", 0.0, {PLACE: 5}, "an administrator")


def test_transactional_offset_is_checked_at_its_append_and_not_at_its_marker():
    coordinator = Coordinator()
    coordinator.append("m", 2, producer_id=7)
    coordinator.step()
    coordinator.group.members.generation = 3
    coordinator.step()
    coordinator.group.offsets.end_transaction(7, 0, is_commit=True)
    coordinator.partition.log_end_offset += 1
    coordinator.step()
    assert coordinator.history._deliveries.counts["commits appended"] == 1


def test_an_offset_of_a_transaction_for_an_older_generation_is_a_violation():
    coordinator = Coordinator()
    coordinator.append("m", 1, producer_id=7)
    with pytest.raises(Violation, match="for generation 1 of g"):
        coordinator.step()
