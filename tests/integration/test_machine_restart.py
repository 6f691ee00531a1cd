"""Brokers whose machine went down under them: the kernel's boot id in their marks is another one.

A kernel cannot be restarted here, so the marks are changed instead: to a start of the machine that is over.
"""

import os
import signal
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from support.loads import read_all
from support.local_clusters import up, write
from support.waiting import wait_until


def power_fails(yak: Any, status: dict[str, Any], *nodes: int) -> None:
    """Kill these brokers at one time, as if their machine had gone down and come up again."""
    brokers = {broker["node_id"]: broker["pid"] for broker in status["brokers"]}
    for node in nodes:
        os.kill(brokers[node], signal.SIGKILL)
    for node in nodes:
        mark = Path(yak.folder) / "yak-data" / f"node-{node}" / "boot.yak"
        assert len(mark.read_text().strip()) == 36
        mark.write_text("00000000-0000-0000-0000-000000000000\n")


def log_of(yak: Any, node: int) -> str:
    return (Path(yak.folder) / "yak-data" / "logs" / f"node-{node}.log").read_text()


def isr(bootstrap: str, topic: str) -> list[int]:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10).topics[topic]
    return sorted(found.partitions[0].isrs)


def test_a_machine_that_lost_power_counts_as_lossy_until_it_caught_up(yak: Any) -> None:
    status = up(yak, "--brokers", "3", "--seed-topic", "t")
    bootstrap = status["bootstrap"]
    write(bootstrap, "t", "a", "b")
    power_fails(yak, status, 2)
    assert yak.run("node", "restart", "2").code == 0
    told = log_of(yak, 2)
    assert "machine-restarted directory=" in told
    assert told.rpartition("broker-registered")[2].splitlines()[0].endswith("lossy=True")
    wait_until(lambda: isr(bootstrap, "t") == [1, 2, 3], "it caught up")
    assert yak.run("node", "restart", "2", "--hard").code == 0
    assert log_of(yak, 2).count("machine-restarted") == 1, "its mark was renewed"
    assert read_all(bootstrap, "t") == [b"a", b"b"]


def test_cluster_serves_the_records_left_after_all_machines_lost_power(yak: Any) -> None:
    status = up(yak, "--brokers", "3", "--seed-topic", "t")
    write(status["bootstrap"], "t", "a", "b")
    power_fails(yak, status, 1, 2, 3)
    bootstrap = up(yak)["bootstrap"]
    write(bootstrap, "t", "c")
    assert read_all(bootstrap, "t") == [b"a", b"b", b"c"]
    wait_until(lambda: isr(bootstrap, "t") == [1, 2, 3], "all are in sync again")


def test_a_clean_stop_before_the_machine_goes_down_loses_nothing(yak: Any) -> None:
    up(yak, "--seed-topic", "t")
    assert yak.run("down").code == 0
    mark = Path(yak.folder) / "yak-data" / "node-1" / "boot.yak"
    before = mark.read_text()
    mark.write_text("00000000-0000-0000-0000-000000000000\n")
    assert up(yak)["brokers"][0]["state"] == "running"
    assert "machine-restarted" not in log_of(yak, 1)
    assert mark.read_text() == before
