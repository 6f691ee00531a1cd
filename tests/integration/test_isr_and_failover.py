"""`yak isr` and `yak failover` on a real cluster of three brokers: looked at, moved in order, killed, brought back."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until

from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.client.leadership import carry_out, plan_moves
from yak.client.replica_offsets import read_metadata
from yak.local import processes
from yak.local.cluster import LocalCluster, UpSettings
from yak.view.partition_replicas import PartitionReplicas

PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One leader and two followers, with a topic of two partitions that broker 1 leads."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), UpSettings(port=0, brokers=3, leaders=1)) as made:
        configs = {"min.insync.replicas": "2"}
        admin = Admin(made.status().bootstrap)
        admin.create_topic("orders", assignment=[[1, 2, 3], [1, 3, 2]], configs=configs)
        yield made


@pytest.fixture
def whole(cluster: LocalCluster) -> LocalCluster:
    """The cluster with all brokers up, in sync, and broker 1 leading."""
    cluster.up(UpSettings())
    bootstrap = cluster.status().bootstrap
    wait_until(lambda: all(len(each.isr) == 3 for each in partitions(cluster)), "in sync")
    moves = plan_moves(partitions(cluster), to=1).moves
    assert not carry_out(Admin(bootstrap), moves, timeout_s=PATIENCE_SECONDS)
    return cluster


def partitions(cluster: LocalCluster) -> tuple[PartitionReplicas, ...]:
    return read_metadata(cluster.status().bootstrap, timeout_s=5).of_topic("orders")


def isr(yak: Any, cluster: LocalCluster, *words: str) -> list[dict[str, Any]]:
    ran = yak.run("isr", "--data-dir", cluster.data_dir, "-o", "json", *words)
    assert ran.code == 0, ran.err
    return list(ran.json)


def leaders(cluster: LocalCluster) -> list[int]:
    return [each.leader for each in partitions(cluster)]


def test_isr_command_prints_the_log_end_offset_of_every_replica(whole: LocalCluster, yak: Any) -> None:
    bootstrap = whole.status().bootstrap
    assert yak.run("produce", "orders", "-p", "0", "-m", "x", "--repeat", "50", "-b", bootstrap).code == 0
    found = isr(yak, whole, "orders")
    assert len(found) == 2
    first = found[0]
    assert (first["leader"], first["replicas"][0], sorted(first["isr"])) == (1, 1, [1, 2, 3])
    assert set(first["log_end_offsets"].values()) == {first["high_watermark"]}
    assert first["high_watermark"] >= 50


def test_isr_from_brokers_is_complete_and_equals_isr_from_the_metadata_store(whole: LocalCluster, yak: Any) -> None:
    ran = yak.run("isr", "orders", "-b", whole.status().bootstrap, "-o", "json")
    assert all(each["partition_epoch"] >= 0 for each in ran.json)
    stored = isr(yak, whole, "orders", "--from-redis")
    told = ("topic", "partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr")
    assert [[each[key] for key in told] for each in stored] == [[each[key] for key in told] for each in ran.json]


def test_a_leadership_is_moved_without_an_error_for_a_writer_and_stays(whole: LocalCluster, yak: Any) -> None:
    ran = yak.run("failover", "orders:0", "--to", "2", "--probe", "--data-dir", whole.data_dir, "-o", "json")
    assert ran.code == 0, ran.err
    document = ran.json
    assert [(each["from"], each["to"], each["result"]) for each in document["moves"]] == [(1, 2, "moved")]
    assert document["probe"]["errors"] == 0
    assert document["probe"]["acknowledged"] > 10
    assert 0 <= document["timeline"]["elected_ms"] <= document["timeline"]["first_ack_ms"] + 5
    assert [(each.leader, each.replicas[0]) for each in partitions(whole)] == [(2, 2), (1, 1)]


def test_a_broker_is_relieved_of_all_it_leads_and_gets_it_back(whole: LocalCluster, yak: Any) -> None:
    assert yak.run("failover", "--from", "1", "--data-dir", whole.data_dir).code == 0
    assert sorted(leaders(whole)) == [2, 3]
    assert yak.run("failover", "orders", "--to", "1", "--data-dir", whole.data_dir).code == 0
    assert leaders(whole) == [1, 1]
    ran = yak.run("failover", "--all", "--data-dir", whole.data_dir, "-o", "json")
    assert (ran.code, [each["result"] for each in ran.json["moves"]]) == (0, ["stays: 1 leads it already"] * 2)


def test_failover_command_kills_the_controller_and_prints_the_timeline(whole: LocalCluster, yak: Any) -> None:
    before = [each.high_watermark for each in partitions(whole)]
    ran = yak.run("failover", "--controller", "--kill", "--yes", "--data-dir", whole.data_dir, "-o", "json")
    assert ran.code == 0, ran.err
    told = ran.json
    assert (told["action"], told["was_controller"]) == ("kill", True)
    steps = told["timeline"]
    assert all(value is not None for value in steps.values()), steps
    assert 0 < steps["fenced_ms"] <= steps["elected_ms"] <= steps["first_ack_ms"] + 5
    assert told["probe"]["errors"] == 0
    assert told["probe"]["topic"].startswith("__yak_failover_probe-")
    probed = told["probe"]["topic"]
    wait_until(lambda: not read_metadata(whole.status().bootstrap, timeout_s=5).of_topic(probed), "it is deleted")
    assert [each.high_watermark for each in partitions(whole)] == before, "test records went to the user's topic"
    node = told["node"]
    checked = yak.run("isr", "--check", "--data-dir", whole.data_dir)
    assert checked.code == 4
    assert f"orders-0: out of sync: {node}" in checked.err
    assert "OUT OF SYNC, no answer" in checked.out
    assert node not in leaders(whole)
    listed = yak.run("brokers", "list", "-b", whole.status().bootstrap, "-o", "json").json
    assert {each["id"]: each["state"] for each in listed} == {
        each: "FENCED" if each == node else "ACTIVE" for each in (1, 2, 3)
    }


def test_the_controller_is_restarted_in_order_without_an_error_for_a_writer(whole: LocalCluster, yak: Any) -> None:
    ran = yak.run("failover", "--controller", "--yes", "--data-dir", whole.data_dir, "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["action"] == "restart"
    assert ran.json["probe"] is None or ran.json["probe"]["errors"] == 0
    wait_until(lambda: all(len(each.isr) == 3 for each in partitions(whole)), "in sync")


def test_isr_watch_prints_the_failover_as_it_happens(whole: LocalCluster, yak: Any) -> None:
    watching = yak.start("isr", "orders", "--watch", "--interval", "20ms", "--data-dir", whole.data_dir, "-o", "json")
    assert watching.stdout is not None
    first = [json.loads(watching.stdout.readline()) for _ in range(2)]
    assert [each["leader"] for each in first] == [1, 1]
    whole.kill(1)
    seen: dict[int, dict[str, Any]] = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(seen.get(number, {}).get("leader", 1) in (1, None) for number in (0, 1)):
        assert time.monotonic() < deadline
        changed = json.loads(watching.stdout.readline())
        seen[changed["partition"]] = changed
    assert all(1 not in each["isr"] for each in seen.values())
    watching.terminate()
    assert watching.wait(60) == 143


def test_isr_from_the_metadata_store_is_printed_when_no_broker_is_left(whole: LocalCluster, yak: Any) -> None:
    for node in (1, 2, 3):
        whole.kill(node)
    ran = yak.run("isr", "--data-dir", whole.data_dir, "-o", "json")
    assert ran.code == 3
    assert "--from-redis" in json.loads(ran.err)["error"]["try"][0]
    found = isr(yak, whole, "orders", "--from-redis")
    assert len(found) == 2
    assert all(each["partition_epoch"] is not None for each in found)
    assert found[0]["high_watermark"] >= 50


def test_only_brokers_of_this_machine_are_killed(whole: LocalCluster, yak: Any, tmp_path: Path) -> None:
    bootstrap = whole.status().bootstrap
    ran = yak.run("failover", "orders:0", "--kill", "--yes", "-b", bootstrap)
    assert ran.code == 2
    assert "error[not-a-local-cluster]" in ran.err
    assert all(broker.pid and processes.identify(broker.pid) for broker in whole.status().brokers)
