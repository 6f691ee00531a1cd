"""`yak serve --cores 2`: two real brokers as one machine, behind one bootstrap port."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.loads import SteadyLoad, check_complete
from support.waiting import wait_until

from yak.local.spawn import yak_argv

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="--cores needs Linux"),
    pytest.mark.timeout(240),
]
READY_SECONDS, END_SECONDS = 120.0, 60.0


class Machine:
    """One `yak serve --cores` with its metadata in a quorum, on free ports."""

    def __init__(self, folder: Path, cores: int) -> None:
        self.ready_file, self.log_path = folder / "ready.json", folder / "log"
        options = ["--port", "0", "--no-http", "--metadata", "raft", "--data-dir", str(folder / "data")]
        words = ["serve", "--cores", str(cores), *options, "--ready-file", str(self.ready_file), "--log-format", "json"]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(yak_argv(*words), stderr=log, start_new_session=True)
        self.children: list[psutil.Process] = []

    def wait_ready(self) -> dict[str, Any]:
        """The ready file, once every broker answers."""
        wait_until(self.ready_file.exists, f"the machine is ready:\n{self.log()}", READY_SECONDS)
        self.children = psutil.Process(self.process.pid).children()
        found: dict[str, Any] = json.loads(self.ready_file.read_text())
        return found

    @property
    def bootstrap(self) -> str:
        """The address of the shared port."""
        return str(json.loads(self.ready_file.read_text())["address"])

    def log(self) -> str:
        """What the brokers and their supervisor wrote."""
        return self.log_path.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        lines = [line for line in self.log().splitlines() if f'"event": "{name}"' in line]
        return [json.loads(line) for line in lines]

    def all_ended(self) -> bool:
        """Whether the supervisor and its brokers are gone."""
        return self.process.poll() is not None and not any(each.is_running() for each in self.children)

    def close(self) -> None:
        """Kill what is left."""
        if self.process.poll() is None:
            self.children += psutil.Process(self.process.pid).children()
            self.process.kill()
            self.process.wait(END_SECONDS)
        for each in self.children:
            if each.is_running():
                each.kill()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, 2)
    try:
        made.wait_ready()
        yield made
    finally:
        made.close()


def create(machine: Machine, topic: str, partitions: int, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": machine.bootstrap})  # it is destroyed with its last reference
    made = admin.create_topics([NewTopic(topic, partitions, factor)])
    made[topic].result(30)


def test_cores_bootstrap_port_is_answered_by_each_broker_and_serves_clients(machine: Machine) -> None:
    brokers = json.loads(machine.ready_file.read_text())["brokers"]
    assert [each["node_id"] for each in brokers] == [1, 2]
    for number in range(10):
        metadata = AdminClient({"bootstrap.servers": machine.bootstrap, "client.id": str(number)}).list_topics(
            timeout=10
        )
        assert set(metadata.brokers) == {1, 2}
        assert {f"{each.host}:{each.port}" for each in metadata.brokers.values()} == {b["address"] for b in brokers}
    create(machine, "t", 4)
    with SteadyLoad(machine.bootstrap, "t", partitions=4) as load:
        load.wait_for(100)
    check_complete(load, machine.bootstrap, "t")
    with pytest.raises(KafkaException) as caught:
        create(machine, "r", 1, factor=2)
    assert caught.value.args[0].name() == "INVALID_REPLICATION_FACTOR"
    assert "machine" in caught.value.args[0].str()
    leaders = {
        p.leader
        for p in AdminClient({"bootstrap.servers": machine.bootstrap}).list_topics("t").topics["t"].partitions.values()
    }
    assert leaders == {1, 2}
    # connections of one client address spread over both: the kernel hashes the ports
    ports = {bound_ports(child) for child in machine.children}
    assert len(ports) == 2
    assert all(int(machine.bootstrap.rpartition(":")[2]) in each for each in ports)


def bound_ports(process: psutil.Process) -> frozenset[int]:
    return frozenset(each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN)


def test_cores_killed_broker_is_started_again_and_nothing_is_lost(machine: Machine) -> None:
    create(machine, "t", 4)
    with SteadyLoad(machine.bootstrap, "t", partitions=4) as load:
        load.wait_for(100)
        machine.children[1].kill()
        wait_until(lambda: len(machine.events("ready")) == 3, "the broker is ready again", READY_SECONDS)
        load.wait_for(100)
    check_complete(load, machine.bootstrap, "t")
    [ended] = machine.events("core-ended")
    assert (ended["exit_code"], ended["restart_s"]) == (-9, 0.0)


def test_cores_restart_one_by_one_under_load_loses_nothing_and_fails_no_produce(machine: Machine) -> None:
    create(machine, "t", 4)
    with SteadyLoad(machine.bootstrap, "t", partitions=4) as load:
        load.wait_for(100)
        before = [each.pid for each in machine.children]
        os.kill(machine.process.pid, signal.SIGUSR2)
        wait_until(lambda: machine.events("restart-completed"), "the restart is complete", READY_SECONDS)
        load.wait_for(100)
    machine.children = psutil.Process(machine.process.pid).children()
    assert not set(before) & {each.pid for each in machine.children}
    check_complete(load, machine.bootstrap, "t")
    # one at a time: the second broker ended after the first one was ready again
    order = [
        (each["event"], each["node_id"])
        for line in machine.log().splitlines()
        if '"ready"' in line or '"stopped"' in line
        for each in [json.loads(line)]
    ]
    assert [each for each in order[2:] if each[0] in ("stopped", "ready")] == [
        ("stopped", 1),
        ("ready", 1),
        ("stopped", 2),
        ("ready", 2),
    ]


def test_cores_killed_supervisor_leaves_no_broker(machine: Machine) -> None:
    machine.process.kill()
    machine.process.wait(END_SECONDS)
    wait_until(machine.all_ended, "the brokers end", END_SECONDS)
    assert len(machine.events("stopped")) == 2, "each broker stopped in order"


def test_cores_stop_signal_ends_every_broker_in_order(machine: Machine) -> None:
    os.kill(machine.process.pid, signal.SIGTERM)
    assert machine.process.wait(END_SECONDS) == 0
    assert machine.all_ended()
    assert len(machine.events("stopped")) == 2
    assert not machine.ready_file.exists()
