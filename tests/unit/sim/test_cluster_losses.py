"""Which disks of a simulated cluster may fail: never that of the only replica that will not say that it lost something."""

import uuid
from collections import Counter
from types import SimpleNamespace

import pytest

from yak.sim.cluster_losses import Losses
from yak.sim.history import Key

KEY = Key(str(uuid.UUID(int=1)), 0)


@pytest.fixture
def losses():
    row = {"isr": "1@10,2@11", "elr": "3@12", "replicas": "1,2,3"}
    brokers = {number: {"broker_epoch": 9 + number, "lossy_epoch": 0} for number in (1, 2, 3)}
    history = SimpleNamespace(copies={KEY: {}}, forfeited={}, rotten={}, has_lost=lambda _member: False)
    topics = {str(KEY.topic_id): {"name": "t"}}
    state = SimpleNamespace(partitions={(str(KEY.topic_id), 0): row}, brokers=brokers, topics=topics)
    old_marks = set()
    node_of = lambda number: SimpleNamespace(has_old_boot_mark=number in old_marks)  # noqa: E731
    cluster = SimpleNamespace(
        nodes=[1, 2, 3], store=SimpleNamespace(state=state), history=history, node=node_of, old_marks=old_marks
    )
    return Losses(cluster, lambda _name: SimpleNamespace(may_be_lost=False), Counter())


def node(number):
    return SimpleNamespace(node_id=number)


def test_a_disk_may_fail_while_another_replica_is_whole(losses):
    losses._powerless = {2: 11}
    assert losses.may_go_offline(node(1))
    assert losses.may_go_offline(node(3))


def test_the_disk_of_the_only_whole_replica_may_not(losses):
    """Seed 616628: both others had lost power, and had not said so yet."""
    losses._powerless = {2: 11, 3: 12}
    assert not losses.may_go_offline(node(1))


def test_a_broker_without_a_new_boot_mark_is_not_whole(losses):
    """Seed 3003132: it was killed after it had reported the power loss, and reported it again."""
    losses._powerless = {2: 11}
    losses._cluster.old_marks.add(3)
    assert not losses.may_go_offline(node(1))


def test_a_disk_that_may_fail_any_moment_is_not_whole(losses):
    losses._powerless = {2: 11}
    losses.failing[3] = None
    assert not losses.may_go_offline(node(1))


def test_spare_replica_and_forfeited_partition_allow_any_loss(losses):
    losses._powerless = {2: 11, 3: 12}
    assert losses.may_go_offline(node(4))
    losses._cluster.history.forfeited[KEY] = "given up"
    assert losses.may_go_offline(node(1))


def test_only_whole_replica_of_a_guaranteed_partition_does_not_restart(losses):
    """Seed 853816: it left the ISR to two brokers that had lost power, which the store took for alive."""
    losses._powerless = {2: 11, 3: 12}
    assert not losses.may_restart(node(1))
    assert losses.may_restart(node(2))
    losses._powerless = {2: 11}
    assert losses.may_restart(node(1))


def test_only_whole_replica_of_a_partition_that_may_be_lost_restarts(losses):
    losses._powerless = {2: 11, 3: 12}
    losses._plans = lambda _name: SimpleNamespace(may_be_lost=True)
    assert losses.may_restart(node(1))


def test_a_restarted_member_may_not_lose_power_after_the_reports_of_the_others(losses):
    """Seed 981360: elected in its new epoch before its loss was reported, it made their older reports worthless."""
    state = losses._cluster.store.state
    state.partitions[str(KEY.topic_id), 0].update(isr="2@25", elr="3@2")
    state.brokers[1].update(broker_epoch=27, lossy_epoch=27)
    state.brokers[2].update(broker_epoch=35, lossy_epoch=35)
    state.brokers[3].update(broker_epoch=2)
    assert losses.may_lose_power(node(3))
    state.brokers[3].update(broker_epoch=36)
    assert not losses.may_lose_power(node(3))


def test_partition_that_gets_a_replica_after_all_members_lost_power_is_forfeited(losses):
    """Seed 1300691: the added replica reported no loss, so no member might lead before an operator decided."""
    cluster, place = losses._cluster, (str(KEY.topic_id), 0)
    forfeited = cluster.history.forfeited
    cluster.history.forfeit = forfeited.__setitem__
    losses._made.add(place)
    cluster.store.state.partitions[place].update(isr="1@10,2@11", elr="", replicas="1,2,3")
    losses._powerless = {1: 10}
    losses.forfeit_the_unsound({place})
    assert KEY not in forfeited
    losses._powerless = {1: 10, 2: 11}
    losses.forfeit_the_unsound()
    assert KEY not in forfeited
    losses.forfeit_the_unsound({place})
    assert KEY in forfeited
