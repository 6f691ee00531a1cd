"""A partition whose data are gone is offline; it never begins empty in silence."""

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker.requests import delete_topic
from yak.sim.request_fields import create_fields


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders", partitions=2)
    rig.produce("orders", [b"a"])
    return rig


def restart_without(rig: Rig, *paths: str) -> None:
    rig.node.kill()
    for path in paths:
        rig.node.disk.remove_tree(path)
    rig.node.start()
    rig.run_until_ready()


def leaders(rig: Rig) -> list[tuple[int, int, tuple[int, ...]]]:
    (topic,) = rig.ask(3, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=False).topics
    return [(part.error_code, part.leader_id, part.offline_replicas) for part in topic.partitions]


def told(rig: Rig) -> list[str]:
    return [notice.event for notice in rig.node.notices if notice.level == "error"]


@pytest.mark.parametrize("later_starts", [0, 2])
def test_a_broker_on_an_empty_directory_keeps_its_partitions_offline(rig, later_starts):
    restart_without(rig, "/data")
    assert "data-directory-missing" in told(rig)
    for _ in range(later_starts):
        rig.restart()
    assert rig.fetch("orders", 0).error_code == ErrorCode.kafka_storage_error
    assert rig.produce("orders", [b"b"]).error_code == ErrorCode.kafka_storage_error
    assert leaders(rig) == [(ErrorCode.leader_not_available, -1, (1,))] * 2
    rig.create_topic("fresh")
    assert rig.produce("fresh", [b"x"]).error_code == 0


def test_a_missing_folder_takes_its_partition_offline_and_no_other(rig):
    restart_without(rig, "/data/orders-0")
    assert "log-missing" in told(rig)
    assert rig.fetch("orders", 0).error_code == ErrorCode.kafka_storage_error
    assert rig.produce("orders", [b"b"], partition=1).error_code == 0


def test_a_lost_topic_can_be_deleted_and_made_again(rig):
    restart_without(rig, "/data")
    delete_topic(rig, "orders")
    rig.create_topic("orders")
    assert rig.produce("orders", [b"new"]).base_offset == 0
    rig.restart()
    assert rig.fetch("orders", 0).high_watermark == 1


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("name", ["__yak_metadata", "__yak_failover_probe"])
def test_topic_named_like_a_folder_of_the_broker_is_there_after_a_restart(rig, name, orderly):
    rig.create_topic(name)
    rig.produce(name, [b"a"])
    rig.restart(orderly=orderly)
    assert rig.fetch(name, 0).high_watermark == 1
    assert rig.fetch("orders", 0).high_watermark == 1
    assert told(rig) == []


def test_without_its_copy_of_the_metadata_a_broker_finds_its_logs_again(rig):
    restart_without(rig, "/data/__yak_metadata")
    assert rig.fetch("orders", 0).high_watermark == 1
    assert told(rig) == []


def after_some_events(rig: Rig, count: int) -> None:
    end = rig.world.events_count + count
    rig.world.run(lambda: rig.world.events_count > end, events_max=count + 2)


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_broker_that_dies_at_any_moment_of_a_creation_has_the_topic_afterwards(power_loss):
    was_created = []
    for events_before in range(60):
        rig = Rig()
        rig.begin(19, 5, **create_fields("orders", {}, 1))
        after_some_events(rig, events_before)
        rig.restart(power_loss=power_loss)
        rig.run_for(1_000)
        assert told(rig) == [], f"after {events_before} events"
        was_created.append(bool(rig.node.broker.image.topics))
        if was_created[-1]:
            assert rig.produce("orders", [b"a"]).base_offset == 0
    assert not was_created[0]
    assert was_created[-1]


def test_the_last_one_in_sync_whose_log_is_missing_is_copied_again_after_an_unclean_election():
    """The store kept it in the ISR, and it did not ask again: without a restart it stayed offline."""
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", replication_factor=2, unclean_leader_election_enable="true")
    assert rig.produce("orders", [b"a"]).error_code == 0
    first, second = rig.leader("orders"), rig.followers("orders")[0]
    last, other, network = rig.nodes[first - 1], rig.nodes[second - 1], rig.cluster.network
    for ends in ((last.party, other.party), (other.party, last.party)):
        network.cut(*ends)
    assert rig.produce("orders", [b"b"], acks=1).error_code == 0
    rig.run_until(lambda: rig.info("orders").isr == (first,))
    last.kill()
    last.disk.remove_tree("/data/orders-0")
    for ends in ((last.party, other.party), (other.party, last.party)):
        network.reconnect(*ends)
    last.start()
    rig.run_until(lambda: "last-replica-offline" in rig.events(first))
    rig.elect("orders", second, unclean=True)  # the broker has registered, and is fenced still
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.events(first).count("replica-resync-started") == 1
