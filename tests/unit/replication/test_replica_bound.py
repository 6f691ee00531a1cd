"""The counted replicas of each broker are those of the image, after whatever changed."""

from collections import Counter

from tests.cluster_rig import ClusterRig
from yak.replication import replica_bound


def counted(rig: ClusterRig) -> tuple[Counter[int], Counter[int]]:
    """The replicas by node as broker 1 has counted them, and as its image has them."""
    broker = rig.nodes[0].broker
    held = +broker.replica_bound._replicas
    partitions = [info for topic in broker.image.topics.values() for info in topic.partitions]
    return held, Counter(node_id for info in partitions for node_id in info.replicas)


def test_replicas_are_counted_as_topics_are_made_grow_move_and_go():
    rig = ClusterRig(size=3)
    for name, partitions, factor in (("a", 3, 3), ("b", 500, 2), ("c", 1, 1)):
        rig.create_topic(name, partitions=partitions, replication_factor=factor)
        assert Counter.__eq__(*counted(rig))
    assert rig.ask(1, 37, 3, topics=[{"name": "a", "count": 450, "assignments": None}]).results[0].error_code == 0
    rig.run_for(1_000)
    assert Counter.__eq__(*counted(rig))
    moved = [{"name": "c", "partitions": [{"partition_index": 0, "replicas": [2, 3]}]}]
    assert rig.ask(1, 45, 0, topics=moved).error_code == 0
    rig.run_for(2_000)
    rig.nodes[1].kill()
    rig.run_for(1_000)
    assert Counter.__eq__(*counted(rig))
    rig.ask(1, 20, 4, topic_names=["b"])
    rig.create_topic("b", partitions=2, replication_factor=2)
    rig.run_for(1_000)
    held, there = counted(rig)
    assert held == there
    assert sum(there.values()) == 450 * 3 + 2 * 2 + 2


def test_a_request_counts_no_replicas_of_other_topics(monkeypatch):
    rig = ClusterRig(size=1)
    rig.create_topic("wide", partitions=100, replication_factor=1)
    seen = []
    replicas_of = replica_bound._replicas_of

    def noted(partitions):
        partitions = list(partitions)
        seen.extend(partitions)
        return replicas_of(partitions)

    monkeypatch.setattr(replica_bound, "_replicas_of", noted)
    rig.create_topic("narrow", partitions=1, replication_factor=1)
    assert 0 < len(seen) < 10
