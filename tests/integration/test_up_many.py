"""`yak up` with several brokers: real processes, real kills and pauses, and topics on all of them."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.local_clusters import up, write
from support.waiting import wait_until

from yak.local import ports
from yak.local.processes import identify, is_running

NUMBERS = [str(number) for number in range(30)]


def act(yak: Any, *words: str) -> dict[int, dict[str, Any]]:
    """An action on the cluster; its brokers afterwards by node."""
    ran = yak.run("up", *words, "-o", "json")
    assert ran.code == 0, ran.err
    return by_node(ran.json)


def by_node(status: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {broker["node_id"]: broker for broker in status["brokers"]}


def now(yak: Any) -> dict[int, dict[str, Any]]:
    return by_node(yak.run("up", "--status", "-o", "json").json)


def make_topic(bootstrap: str, name: str, **more: Any) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 3, **more)])[name].result(20)


def partitions(bootstrap: str, topic: str) -> dict[int, Any]:
    return dict(AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic].partitions)


def isrs(bootstrap: str, topic: str) -> list[list[int]]:
    return [sorted(each.isrs) for each in partitions(bootstrap, topic).values()]


def test_three_brokers_make_topics_with_three_replicas(yak):
    status = up(yak, "--brokers", "3", "--leaders", "1", "--seed-topic", "orders:3")
    brokers = by_node(status)
    assert {node: broker["role"] for node, broker in brokers.items()} == {1: "leader", 2: "follower", 3: "follower"}
    assert len({broker["address"] for broker in brokers.values()}) == 3
    assert all(broker["state"] == "running" and broker["epoch"] > 0 for broker in brokers.values())
    says = "node 1 leads all new partitions, nodes 2, 3 (role follower) take over when it dies"
    assert f"leaders: {says}; yak up --leaders 3, after yak down, spreads them\n" in yak.run("up", "-d").err
    assert f"{says}\n" in yak.run("brokers", "list", "-b", status["bootstrap"]).err
    wait_until(lambda: isrs(status["bootstrap"], "orders") == [[1, 2, 3]] * 3, "all replicas come in sync")
    write(status["bootstrap"], "orders", *NUMBERS, partitions=3)
    shown = yak.run("up", "--status").out
    assert shown.splitlines()[0].split() == ["NODE", "ROLE", "ADDRESS", "PID", "STATE"]
    assert yak.run("down").code == 0
    assert all(identify(broker["pid"]) is None for broker in brokers.values())

    again = up(yak)
    assert again["cluster"] == status["cluster"]
    assert sorted(by_node(again)) == [1, 2, 3]
    wait_until(lambda: isrs(again["bootstrap"], "orders") == [[1, 2, 3]] * 3, "all replicas come back in sync")


def test_a_killed_leader_and_a_paused_follower_come_back(yak):
    bootstrap = up(yak, "--brokers", "3", "--seed-topic", "orders:3")["bootstrap"]
    write(bootstrap, "orders", *NUMBERS, partitions=3)
    assert act(yak, "kill", "1")[1]["state"] == "dead"
    write(bootstrap, "orders", *NUMBERS, partitions=3)
    wait_until(lambda: all(each.leader in {2, 3} for each in partitions(bootstrap, "orders").values()), "another leads")
    assert act(yak, "restart", "1")[1]["state"] == "running"
    wait_until(lambda: isrs(bootstrap, "orders") == [[1, 2, 3]] * 3, "it comes back in sync")
    wait_until(lambda: all(each.leader == 1 for each in partitions(bootstrap, "orders").values()), "it leads again")

    assert act(yak, "pause", "3")[3]["state"] == "paused"
    assert yak.run("node", "pause", "3").err.startswith("error[node-paused]")
    write(bootstrap, "orders", *NUMBERS, partitions=3)
    others = ",".join(broker["address"] for node, broker in now(yak).items() if node != 3)
    wait_until(lambda: isrs(others, "orders") == [[1, 2]] * 3, "it is fenced within the session")
    assert act(yak, "resume", "3")[3]["state"] == "running"
    assert yak.run("node", "resume", "3").err.startswith("error[node-not-paused]")
    wait_until(lambda: isrs(bootstrap, "orders") == [[1, 2, 3]] * 3, "it comes back in sync")


def test_a_running_cluster_grows_and_is_never_made_smaller(yak):
    before = by_node(up(yak))
    grown = by_node(up(yak, "--brokers", "2"))
    assert sorted(grown) == [1, 2]
    assert grown[1] == before[1]
    added = act(yak, "add", "--role", "leader")
    assert sorted(added) == [1, 2, 3]
    assert (added[3]["role"], added[3]["state"]) == ("leader", "running")
    make_topic(added[3]["address"], "wide", replication_factor=3)
    wait_until(lambda: isrs(added[3]["address"], "wide") == [[1, 2, 3]] * 3, "it takes its part")
    smaller = yak.run("up", "-d", "--brokers", "2")
    assert smaller.code == 2
    assert smaller.err.startswith("error[cluster-shrink]")
    for words, slug in ((("kill", "7"), "unknown-node"), (("--leaders", "5"), "bad-leaders")):
        refused = yak.run("up", *words)
        assert refused.code == 2
        assert refused.err.startswith(f"error[{slug}]")
    act(yak, "kill", "2")
    assert yak.run("node", "pause", "2").err.startswith("error[node-not-running]")


def test_ctrl_c_stops_all_brokers_quickly_and_in_order(yak):
    with yak.start("up", "--port", "0", "--brokers", "3") as foreground:
        wait_until(lambda: [broker["state"] for broker in now(yak).values()] == ["running"] * 3, "all run")
        act(yak, "restart", "2", "--hard")
        wait_until(lambda: [broker["state"] for broker in now(yak).values()] == ["running"] * 3, "all run again")
        processes = [identify(broker["pid"]) for broker in now(yak).values()]
        foreground.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = foreground.communicate(timeout=30)
        assert time.monotonic() - began < 15
    assert foreground.returncode == 0, err
    assert out.startswith("NODE  ROLE")
    assert [broker["state"] for broker in now(yak).values()] == ["stopped"] * 3
    assert all(process is not None and not is_running(process) for process in processes)
    assert "was killed" not in err
    # The others say something of the restart only when they noticed it in time.
    assert "node-2" in {line.partition(" |")[0] for line in err.splitlines() if " | " in line}
    assert "stopping followers, then leaders, then Redis" in err


def test_ephemeral_cluster_is_retained_by_down_with_keep(yak):
    ran = yak.run("up", "-d", "--ephemeral", "--port", "0", "-o", "json")
    folder = ran.json["data_dir"]
    assert yak.run("down", "--keep", "--data-dir", folder).code == 0
    assert os.path.exists(os.path.join(folder, "cluster.json"))
    assert up(yak, "--data-dir", folder)["cluster"] == ran.json["cluster"]
    assert yak.run("down", "--purge", "--yes", "--data-dir", folder).code == 0
    assert not os.path.exists(folder)


def serve(yak: Any, folder: Path, node_id: int, redis_url: str, *more: str) -> tuple[Any, str]:
    """A broker of its own in the foreground, and its address once it is ready."""
    ready = folder / f"ready-{node_id}.json"
    child = yak.start(
        "serve", "--node-id", str(node_id), "--data-dir", str(folder / f"data-{node_id}"), "--redis-url", redis_url,
        "--ready-file", str(ready), *more,
    )  # fmt: skip
    wait_until(ready.exists, "it is ready")
    return child, str(json.loads(ready.read_text())["address"])


def end(child: Any) -> str:
    """Stop it in order; all that it told."""
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 0, err
    return str(err)


def test_a_leader_waits_for_the_followers_it_expects(yak, redis_databases, tmp_path):
    follower_port = ports.find_free("127.0.0.1")
    expected = f"127.0.0.1:{follower_port}"
    with redis_databases.borrow() as url:
        leader, address = serve(yak, tmp_path, 1, url, "--port", "0", "--followers", expected)
        admin = AdminClient({"bootstrap.servers": address})
        making = admin.create_topics([NewTopic("early", 1, replication_factor=2)], operation_timeout=20)["early"]
        time.sleep(1)
        assert not making.done(), "it waits"
        follower, _ = serve(yak, tmp_path, 2, url, "--port", str(follower_port), "--role", "follower")
        making.result(20)
        found = wait_until(lambda: partitions(address, "early"), "the follower that was asked knows the topic")
        assert sorted(found[0].replicas) == [1, 2]
        end(follower)
        assert f"expected-followers-registered followers={expected}" in end(leader)


def test_leader_continues_without_expected_followers_that_never_register(yak, redis_databases, tmp_path):
    expected = f"127.0.0.1:{ports.find_free('127.0.0.1')}"
    with redis_databases.borrow() as url:
        leader, address = serve(
            yak, tmp_path, 1, url, "--port", "0", "--followers", expected, "--followers-timeout", "2s"
        )
        make_topic(address, "alone", replication_factor=1)
        with pytest.raises(KafkaException, match=expected):
            make_topic(address, "replicated", replication_factor=2)
        assert f"expected-followers-missing followers={expected}" in end(leader)
