"""`yak node remove` under load: what the broker held is elsewhere, and no record is lost."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.loads import SteadyLoad, check_complete
from support.waiting import wait_until

from yak.client.leadership import list_reassignments
from yak.client.quorum import describe_quorum
from yak.client.replica_offsets import read_metadata
from yak.local.cluster import LocalCluster, UpSettings

TOPIC = "orders"


@pytest.fixture
def cluster(yak: Any) -> Iterator[LocalCluster]:
    made = LocalCluster(str(yak.folder / "yak-data"))
    try:
        yield made
    finally:
        made.discard()


def start(cluster: LocalCluster, brokers: int, **settings: Any) -> str:
    status = cluster.up(UpSettings(port=0, brokers=brokers, no_http=True, **settings)).status
    return status.bootstrap


def make_topic(bootstrap: str, name: str = TOPIC, partitions: int = 6, replicas: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(20)


def holders(bootstrap: str) -> set[int]:
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=10).topics
    return {node for topic in topics.values() for each in topic.partitions.values() for node in each.replicas}


def test_a_removed_broker_leaves_under_load_and_nothing_is_lost(cluster, yak):
    bootstrap = start(cluster, 4, leaders=4)
    make_topic(bootstrap)
    with SteadyLoad(bootstrap, TOPIC, partitions=6) as load:
        load.wait_for(200)
        ran = yak.run("node", "remove", "1", "--yes", "-o", "json")
        assert ran.code == 0, ran.err
        assert ran.json == {"node_id": 1, "moved_partitions": ran.json["moved_partitions"], "removed": True}
        assert ran.json["moved_partitions"] >= 1
        load.wait_for(200)
    left = cluster.status()
    assert [broker.node_id for broker in left.brokers] == [2, 3, 4]
    assert holders(left.bootstrap) == {2, 3, 4}
    check_complete(load, left.bootstrap, TOPIC)
    assert not (Path(cluster.data_dir) / "node-1").exists()
    assert "unknown-broker" in yak.run("brokers", "describe", "1").err
    refused = yak.run("node", "remove", "2", "--yes")
    assert refused.code == 1
    assert "error[too-few-brokers]" in refused.err
    assert holders(left.bootstrap) == {2, 3, 4}
    assert cluster.add().node_id == 5
    again = cluster.up(UpSettings(brokers=5))
    assert again.started == (6,), "no number of a broker is used twice"


def test_interrupted_node_removal_resumes(cluster, yak):
    bootstrap = start(cluster, 3)
    make_topic(bootstrap, partitions=60, replicas=2)
    child = yak.start("node", "remove", "3", "--yes")
    told = [child.stderr.readline(), child.stderr.readline()]  # the brokers' addresses, and what it holds
    assert "broker 3 holds" in told[1], told
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert "yak node remove 3 goes on" in err, err
    assert 3 in [broker.node_id for broker in cluster.status().brokers]
    ran = yak.run("node", "remove", "3", "--yes")
    assert ran.code == 0, ran.err
    assert holders(cluster.status().bootstrap) == {1, 2}


def test_a_voter_becomes_an_observer_before_it_is_removed(cluster, yak):
    bootstrap = start(cluster, 4, metadata="raft")
    make_topic(bootstrap)
    leader = describe_quorum(bootstrap.split(",")[0], timeout_s=10).leader_id
    ran = yak.run("node", "remove", str(leader), "--yes")
    assert ran.code == 0, ran.err
    assert f"node {leader} is no longer a voter" in ran.err
    left = cluster.status()
    state = describe_quorum(left.bootstrap.split(",")[0], timeout_s=10)
    assert sorted(state.voter_ids) == sorted({1, 2, 3} - {leader}) == sorted(left.voters)
    cluster.down()
    assert [each.state for each in cluster.up(UpSettings()).status.brokers] == ["running"] * 3
    assert leader not in holders(cluster.status().bootstrap)


def test_a_broker_that_yak_up_did_not_start_is_stopped_by_the_operator(make_broker, redis_databases, tmp_path, yak):
    with redis_databases.borrow() as url:
        one, two = make_broker(tmp_path / "1", url).start(node_id=1), make_broker(tmp_path / "2", url).start(node_id=2)
        make_topic(one.bootstrap, partitions=4, replicas=1)
        child = yak.start("node", "remove", "2", "--yes", "-b", two.bootstrap)
        wait_until(lambda: holders(one.bootstrap) == {1}, "it holds nothing")
        time.sleep(0.5)
        assert child.poll() is None, "it waits for the broker's end"
        two.stop()
        _, err = child.communicate(timeout=30)
        assert child.returncode == 0, err
        assert "stop broker 2 now" in err
        again = yak.run("node", "remove", "2", "--yes", "-b", one.bootstrap)
        assert again.code == 1
        assert "error[unknown-broker]" in again.err
        alone = yak.run("node", "remove", "1", "--yes", "-b", one.bootstrap)
        assert "error[last-broker]" in alone.err


def test_a_broker_that_ends_while_it_takes_partitions_is_replaced_by_another(cluster, yak):
    bootstrap = start(cluster, 4, leaders=4)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    placed = [[1, 2], [1, 3], [2, 1], [3, 1]]
    admin.create_topics([NewTopic(TOPIC, len(placed), replica_assignment=placed)])[TOPIC].result(20)
    for partition in range(4):
        added = yak.run("faults", "add", "lag_replica", TOPIC, str(partition), "4")
        assert added.code == 0, added.err
    with SteadyLoad(bootstrap, TOPIC, partitions=4) as load:
        load.wait_for(200)  # broker 4 will lack these, so that what moves to it does not end
        child = yak.start("node", "remove", "1", "--yes")
        wait_until(lambda: 4 in taking(bootstrap), "broker 4, which holds nothing, takes partitions", 30)
        cluster.kill(4)
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, out + err
        load.wait_for(200)
    left = cluster.status().bootstrap
    assert holders(left) == {2, 3}
    check_complete(load, left, TOPIC)


def taking(bootstrap: str) -> set[int]:
    """The brokers that moves under way add."""
    found = read_metadata(bootstrap, timeout_s=10)
    moves = list_reassignments(found.brokers[found.controller_id], timeout_s=10)
    return {node for move in moves.values() for node in move.adding}
