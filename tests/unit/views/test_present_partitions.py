"""The leaders in /health, /api/isr and metrics while the metadata store, which would replace a dead one, is away."""

from tests.cluster_rig import ClusterRig
from tests.unit.server.http.metrics.test_families import value
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.server.http.metrics import partitions
from yak.server.http.metrics.text import Samples
from yak.view.partition_state import Conditions
from yak.views.health import HealthView
from yak.views.replicas import PartitionFilter, rows


def test_partition_whose_leader_died_is_offline_also_while_the_store_is_away():
    """The image keeps the dead leader, since nothing can elect another: all three said that the partition is ok."""
    rig = ClusterRig()
    rig.create_topic("orders")
    dead = rig.leader("orders")
    other = rig.nodes[dead % 3].broker
    health = HealthView(other)

    def offline() -> tuple[int, int, float]:
        found = list(rows(other, PartitionFilter(conditions=Conditions(offline=True))))
        assert all((row["topic"], row["leader"], row["state"]) == ("orders", None, "offline") for row in found)
        samples = Samples()
        list(partitions.gather(other, samples, 100, rig.world.now_ms))
        return health.present().counts.states.offline, len(found), value(samples, "yak_offline_partitions")

    for node in rig.nodes:
        node.store_line.block()
    rig.run_for(1_500)
    assert other.store_outage.store_state == "lost"
    assert offline() == (0, 0, 0)
    rig.nodes[dead - 1].kill()
    rig.run_for(1_500)
    assert other.image.topics["orders"].partitions[0].leader == dead
    assert offline() == (1, 1, 1)


def test_leader_without_the_store_and_its_followers_is_none():
    rig = ClusterRig()
    rig.create_topic("orders")
    leader = rig.nodes[rig.leader("orders") - 1]
    for node in rig.nodes:
        node.store_line.block()
    for node_id in rig.followers("orders"):
        rig.nodes[node_id - 1].kill()
    rig.run_for(20_000)
    assert [row["leader"] for row in rows(leader.broker, PartitionFilter())] == [None]


def test_partition_whose_only_log_is_offline_is_offline_also_over_http_of_its_broker():
    """The image keeps its leader: no other replica could lead."""
    rig = ClusterRig()
    rig.create_topic("orders", replication_factor=1)
    node = rig.nodes[rig.leader("orders") - 1]
    log = node.broker.partitions[TopicPartition("orders", 0)].log
    assert log is not None
    health = HealthView(node.broker)
    assert health.present().counts.states.offline == 0
    image = node.broker.image
    node.broker.log_failures.directory_failed(LogDirectoryFailure(log.directory, OSError(5, "EIO")))
    rig.run_for(1_500)
    assert node.broker.image is image  # nothing changes in the metadata
    assert node.broker.image.topics["orders"].partitions[0].leader == node.node_id
    assert [(row["leader"], row["state"]) for row in rows(node.broker, PartitionFilter())] == [(None, "offline")]
    assert health.present().counts.states.offline == 1
