"""A cluster whose brokers keep the metadata in a quorum: real processes, no Redis, real kills of voters."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.loads import SteadyLoad, check_complete, read_all
from support.waiting import wait_until

from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.client.quorum import QuorumState, describe_quorum
from yak.errors import YakError
from yak.local.cluster import LocalCluster, UpSettings

TOPIC = "orders"


@pytest.fixture
def cluster(yak: Any) -> Iterator[LocalCluster]:
    """Three brokers, all of them voters, in the folder of `yak`."""
    settings = UpSettings(port=0, brokers=3, leaders=3, metadata="raft", no_http=True)
    with running_cluster(yak.folder / "yak-data", settings) as made:
        yield made


def address(cluster: LocalCluster, node_id: int) -> str:
    return next(each.address for each in cluster.status().brokers if each.node_id == node_id)


def quorum(cluster: LocalCluster, seconds: float = 20.0) -> QuorumState:
    running = next(each for each in cluster.status().brokers if each.state == "running")
    return describe_quorum(running.address, timeout_s=seconds)


def make_topic(cluster: LocalCluster, name: str = TOPIC, partitions: int = 3, replicas: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.status().bootstrap, "log_level": 0})

    def is_made() -> bool:
        try:
            admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(20)
        except KafkaException as error:
            return error.args[0].name() == "TOPIC_ALREADY_EXISTS"
        return True

    wait_until(is_made, f"{name} is made")


def leaders(cluster: LocalCluster, topic: str = TOPIC) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": cluster.status().bootstrap, "log_level": 0})
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: each.leader for number, each in found.items()}


def metadata_state(bootstrap: str, node_id: int) -> str | None:
    """The broker's state towards its metadata store, as `yak cluster` shows it."""
    configs = Admin(bootstrap).configs("broker", str(node_id))
    return next(each.value for each in configs if each.name == "yak.metadata.state")


def write(bootstrap: str, topic: str, partition: int, values: list[bytes], acks: int) -> None:
    """Write values to one partition; fails the test when one is not acknowledged."""
    errors: list[object] = []
    settings = {"bootstrap.servers": bootstrap, "acks": acks, "message.timeout.ms": 20_000, "log_level": 0}
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None] * len(values)


def test_quorum_without_redis_loses_nothing_when_its_leader_is_killed(cluster: LocalCluster) -> None:
    status = cluster.status()
    assert (status.metadata, status.redis_url) == ("raft", None)
    assert not (Path(cluster.data_dir) / "redis").exists()
    make_topic(cluster)
    before = quorum(cluster)
    assert before.voter_ids == [1, 2, 3]
    with SteadyLoad(status.bootstrap, TOPIC, partitions=3) as load:
        load.wait_for(200)
        cluster.kill(before.leader_id)
        after = quorum(cluster)
        assert after.leader_id != before.leader_id
        assert after.epoch > before.epoch
        wait_until(lambda: before.leader_id not in leaders(cluster).values(), "its partitions have other leaders")
        load.wait_for(load.total + 200)
        cluster.restart(before.leader_id)
        load.wait_for(load.total + 100)
    check_complete(load, status.bootstrap, TOPIC)


def test_single_voter_of_three_serves_its_partitions_and_refuses_changes(cluster: LocalCluster, yak: Any) -> None:
    make_topic(cluster, "single", partitions=3, replicas=1)
    controller = AdminClient({"bootstrap.servers": address(cluster, 1)}).list_topics(timeout=10).controller_id
    others = [controller, controller % 3 + 1]
    left = ({1, 2, 3} - set(others)).pop()
    partition = next(number for number, leader in leaders(cluster, "single").items() if leader == left)
    for node_id in others:
        cluster.kill(node_id)
    alone = address(cluster, left)
    write(alone, "single", partition, [b"a", b"b", b"c"], acks=1)
    assert read_all(alone, "single", partition, count_max=3) == [b"a", b"b", b"c"]
    wait_until(lambda: metadata_state(alone, left) == "DISCONNECTED", "the broker knows that no leader answers", 30)
    ran = yak.run("topics", "create", "refused", "-b", alone)
    assert ran.code != 0
    # from the broker, not of a client that waits
    assert "Nothing was changed; try again. (REQUEST_TIMED_OUT)" in ran.err
    ran = yak.run("quorum", "describe", "-b", alone, "--timeout", "3s")
    assert ran.code == 3
    assert "error[quorum-no-leader]" in ran.err
    cluster.restart(others[0])
    assert quorum(cluster).epoch > 0
    make_topic(cluster, "made", partitions=1, replicas=2)
    cluster.restart(others[1])
    assert read_all(alone, "single", partition) == [b"a", b"b", b"c"]


def test_records_voters_and_addresses_stay_over_a_restart_and_a_kill_of_all(cluster: LocalCluster) -> None:
    make_topic(cluster)
    before = cluster.status()
    write(before.bootstrap, TOPIC, 0, [b"kept"], acks=-1)
    assert cluster.down() == ()
    after = cluster.up(UpSettings()).status
    assert (after.cluster_id, after.bootstrap, after.metadata) == (before.cluster_id, before.bootstrap, "raft")
    assert quorum(cluster).voter_ids == [1, 2, 3]
    for node_id in (1, 2, 3):
        cluster.kill(node_id)
    with pytest.raises(YakError) as caught:
        cluster.restart(1)
    assert caught.value.code == "quorum-incomplete"
    assert cluster.up(UpSettings()).started == (1, 2, 3)
    wait_until(lambda: min(leaders(cluster).values()) > 0, "each partition has a leader")
    assert read_all(after.bootstrap, TOPIC) == [b"kept"]


def test_restart_of_one_of_two_killed_brokers_waits_for_a_controller(cluster: LocalCluster) -> None:
    """The quorum has a leader at once, a controller when the session of the killed one ends. The command ended at 5 s."""
    make_topic(cluster)
    controller = AdminClient({"bootstrap.servers": cluster.status().bootstrap}).list_topics(timeout=10).controller_id
    other, left = controller % 3 + 1, (controller + 1) % 3 + 1
    for node_id in (other, controller):
        cluster.kill(node_id)
    log = Path(cluster.data_dir, "logs", f"node-{left}.log")
    wait_until(
        lambda: " quorum-leader-resigned " in log.read_text() or " quorum-leader-lost " in log.read_text(),
        "no leader",
        30,
    )
    time.sleep(3.0)  # later than the remaining broker probes the dead ones
    cluster.restart(other)
    assert quorum(cluster).epoch > 0


def test_voter_is_added_and_removed(cluster: LocalCluster, yak: Any) -> None:
    assert json.loads(yak.run("node", "add", "-o", "json").out)["voters"] == [1, 2, 3]
    wait_until(lambda: [each.node_id for each in quorum(cluster).observers] == [4], "node 4 is an observer")
    ran = yak.run("quorum", "add", "4")
    assert ran.code == 0, ran.err
    assert "voters are 1, 2, 3, 4" in ran.err
    assert quorum(cluster).voter_ids == [1, 2, 3, 4]
    leader = quorum(cluster).leader_id
    ran = yak.run("quorum", "remove", str(leader), "--yes")
    assert ran.code == 0, ran.err
    after = quorum(cluster)
    assert leader not in after.voter_ids
    assert len(after.voter_ids) == 3
    assert after.leader_id != leader
    make_topic(cluster, "after")


def test_voter_that_lost_its_disk_is_replaced(cluster: LocalCluster, yak: Any) -> None:
    make_topic(cluster)
    write(cluster.status().bootstrap, TOPIC, 0, [b"kept"], acks=-1)
    lost = next(each for each in (1, 2, 3) if each != quorum(cluster).leader_id)
    cluster.kill(lost)
    shutil.rmtree(Path(cluster.data_dir) / f"node-{lost}")
    cluster.restart(lost)
    wait_until(lambda: [each.node_id for each in quorum(cluster).observers] == [lost], "it is an observer now")
    ran = yak.run("quorum", "add", str(lost))
    assert "error[quorum-voter-exists]" in ran.err
    assert yak.run("quorum", "remove", str(lost), "--yes").code == 0
    ran = yak.run("quorum", "add", str(lost))
    assert ran.code == 0, ran.err
    assert quorum(cluster).voter_ids == [1, 2, 3]
    make_topic(cluster, "after")
    assert read_all(cluster.status().bootstrap, TOPIC) == [b"kept"]


def test_commands_show_a_cluster_without_redis(cluster: LocalCluster, yak: Any) -> None:
    make_topic(cluster)
    found = yak.run("cluster", "-o", "json").json
    controller, state = found["controller_id"], quorum(cluster)
    assert found["quorum"] == {"leader_id": state.leader_id, "leader_epoch": state.epoch, "voters": [1, 2, 3]}
    kinds = [json.loads(line)["kind"] for line in yak.run("metadata", "log", "-o", "json").out.splitlines()]
    assert "Topic" in kinds
    assert "orders" in yak.run("metadata", "snapshot").out
    checks = {each["check"]: each["state"] for each in yak.run("doctor", "-o", "json").json}
    assert checks["quorum"] == "ok"
    assert "redis" not in checks
    ran = yak.run("failover", "--controller", "--kill", "--yes", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["node"] == controller
    assert ran.json["timeline"]["controller_ms"] is not None


def test_cluster_with_redis_has_no_quorum_to_show(yak: Any) -> None:
    assert yak.run("up", "-d", "--port", "0", "--no-http").code == 0
    for words in (("describe",), ("add", "2"), ("remove", "1", "--yes")):
        ran = yak.run("quorum", *words)
        assert ran.code == 1
        assert "error[no-quorum]" in ran.err
    ran = yak.run("up", "-d", "--metadata", "raft")
    assert "error[metadata-elsewhere]" in ran.err
