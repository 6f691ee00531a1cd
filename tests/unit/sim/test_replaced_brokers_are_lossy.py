"""I1: a broker that was unregistered, or whose disk was replaced, registers as one that lost what it had."""

from types import SimpleNamespace

import pytest

from tests.cluster_rig import ClusterRig
from yak.sim.checks.replaced_brokers_are_lossy import ReplacedBrokersAreLossy
from yak.sim.deliveries import Violation

UNREGISTER_BROKER = 64


def registered(*, lossy_epoch, isr="", elr="", replaced=20, running="boot 2"):
    """Broker 1 has registered again, by boot 2, after it was replaced."""
    state = SimpleNamespace(
        brokers={1: {"lossy_epoch": lossy_epoch}},
        topics={"id": {"name": "t"}},
        partitions={("id", 0): {"isr": isr, "elr": elr}},
    )
    broker = None if running is None else SimpleNamespace(identity=SimpleNamespace(boot_id=running))
    history = SimpleNamespace(replaced={1: replaced}, nodes={1: SimpleNamespace(broker=broker)})
    check = ReplacedBrokersAreLossy(history, SimpleNamespace(state=state))
    request = SimpleNamespace(script="register", arguments={"node_id": 1, "boot_id": "boot 2"})
    check.store_changed(request, None)


@pytest.mark.parametrize("where", ["isr", "elr"])
def test_replaced_broker_without_a_loss_is_a_violation_as_a_former_member(where):
    with pytest.raises(Violation, match="I1: broker 1 was replaced after epoch 20, and as a former member of t-0"):
        registered(lossy_epoch=0, **{where: "2@12,1@11"})


@pytest.mark.parametrize("running", [None, "boot 3"])
def test_late_registration_of_a_process_that_had_the_disk_of_before_is_no_violation(running):
    registered(lossy_epoch=0, isr="2@12,1@11", running=running)


def test_loss_after_the_membership_satisfies_the_check():
    registered(lossy_epoch=21, isr="2@12,1@11")
    registered(lossy_epoch=15, isr="2@12,1@11", replaced=14)


def test_membership_since_the_replacement_counts():
    registered(lossy_epoch=21, isr="2@12,1@22")


def test_older_disk_that_lacks_reported_metadata_is_a_loss():
    rig = ClusterRig()
    node = rig.nodes[2]
    saved, end = node.disk.saved(), rig.cluster.store.state.cluster["mo"]
    rig.create_topic("t")
    rig.run_until(lambda: rig.cluster.reported[3] > end)
    node.kill()
    node.take_disk(saved)
    node.start()
    rig.run_until(lambda: node.is_ready and rig.is_in_sync("t"))
    row = rig.cluster.store.state.brokers[3]
    assert row["lossy_epoch"] == row["broker_epoch"]


def test_unregistered_broker_whose_metadata_were_trimmed_returns_once_its_copy_is_removed():
    rig = ClusterRig(trim_every=5, trim_keeps=0)
    node, frozen = rig.nodes[2], []
    node.on_frozen = frozen.append
    node.kill()
    rig.run_until(lambda: rig.cluster.store.state.brokers[3]["state"] == "FENCED")
    rig.ask(1, UNREGISTER_BROKER, 0, broker_id=3)
    for number in range(5):
        rig.create_topic(f"t{number}", replication_factor=2)
    rig.run_until(lambda: rig.cluster.store.state.log[0].offset > 20)
    node.start()
    rig.run_until(lambda: frozen == ["TRIMMED"])
    node.kill()
    node.forget_metadata()
    node.start()
    rig.run_until(lambda: node.is_ready)
    row = rig.cluster.store.state.brokers[3]
    assert row["lossy_epoch"] == row["broker_epoch"]
