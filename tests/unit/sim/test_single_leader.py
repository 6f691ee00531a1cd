"""Who wrote which batch of an epoch: seen as it is written, or after a start when the process ended in the write."""

from types import SimpleNamespace

import pytest

from yak.sim.checks.single_leader import SingleLeader
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, NewBatch


class Stand(SimpleNamespace):
    """Stands for a copy."""

    def __str__(self) -> str:
        return f"t-0 on broker {self.node.node_id}"


def chain(*batches):
    made = Chain()
    for base, epoch, crc in batches:
        made.add(base, base + 1, epoch, crc)
    return made


def copy(node_id, *batches, leads=None):
    return Stand(
        key="t-0", node=SimpleNamespace(node_id=node_id), life=1, chain=chain(*batches), is_leader=leads is not None,
        leader_epoch=leads,
    )  # fmt: skip


@pytest.fixture
def check():
    made = SingleLeader()
    leader = copy(1, leads=2)
    made.role(leader)
    made.appended(leader, [NewBatch(0, 2, 10)])
    return made


def test_a_follower_has_what_its_leader_wrote_and_nothing_else(check):
    follower = copy(2)
    check.appended(follower, [NewBatch(0, 2, 10)])
    with pytest.raises(Violation, match="which broker 1 did not write"):
        check.appended(follower, [NewBatch(1, 2, 11)])


def test_batch_written_by_a_leader_while_its_process_ended_is_attributed_to_it(check):
    before = chain((0, 2, 10))
    check.reopened(copy(1, (0, 2, 10), (1, 2, 11)), before)
    check.appended(copy(2), [NewBatch(1, 2, 11)])
    with pytest.raises(Violation, match="another batch"):
        check.appended(copy(3), [NewBatch(1, 2, 12)])


def test_longer_log_of_another_replica_after_a_start_is_a_violation(check):
    check.reopened(copy(2, (0, 2, 10), (1, 2, 11)), chain((0, 2, 10)))
    with pytest.raises(Violation, match="which broker 1 did not write"):
        check.appended(copy(3), [NewBatch(1, 2, 11)])
