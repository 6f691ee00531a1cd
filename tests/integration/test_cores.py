"""`yak serve --cores 2`: two real brokers as one machine, behind one bootstrap port."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

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
        until(self.ready_file.exists, READY_SECONDS, self.log)
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


def until(condition: Callable[[], object], seconds: float, say: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not become true in {seconds} s\n{say()}"
        time.sleep(0.05)


def create(machine: Machine, topic: str, partitions: int, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": machine.bootstrap})  # it is destroyed with its last reference
    made = admin.create_topics([NewTopic(topic, partitions, factor)])
    made[topic].result(30)


def consumed(machine: Machine, topic: str, partitions: int) -> list[bytes]:
    """The values of a topic, read to its end."""
    consumer = Consumer({"bootstrap.servers": machine.bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values, left = [], partitions
    while left:
        message = consumer.poll(10)
        assert message is not None, "the topic has no end"
        if message.error() is None:
            values.append(message.value())
        else:
            left -= 1
    consumer.close()
    return values


class Load:
    """An idempotent producer with acks=all in a thread, 1 record each 2 ms; its errors and acknowledged values."""

    def __init__(self, machine: Machine, topic: str) -> None:
        config = {"bootstrap.servers": machine.bootstrap, "enable.idempotence": True, "linger.ms": 1}
        self._producer, self._topic = Producer(config), topic
        self.acknowledged: list[bytes] = []
        self.errors: list[str] = []
        self.unsettled = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(0.002):
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self.unsettled = self._producer.flush(60)

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.errors.append(str(error))

    def wait_for_more(self) -> None:
        """Wait for 100 more acknowledgements."""
        wanted = len(self.acknowledged) + 100
        until(lambda: len(self.acknowledged) >= wanted, READY_SECONDS, lambda: str(self.errors))

    def stop(self) -> None:
        """Wait for every acknowledgement."""
        self._stopped.set()
        self._thread.join()
        assert self.unsettled == 0


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
    load = Load(machine, "t")
    load.wait_for_more()
    load.stop()
    assert load.errors == []
    assert sorted(consumed(machine, "t", 4)) == sorted(load.acknowledged)
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


def test_cores_second_replica_on_the_machine_is_refused_with_a_reason(machine: Machine) -> None:
    with pytest.raises(KafkaException) as caught:
        create(machine, "r", 1, factor=2)
    assert caught.value.args[0].name() == "INVALID_REPLICATION_FACTOR"
    assert "machine" in caught.value.args[0].str()


def test_cores_killed_broker_is_started_again_and_nothing_is_lost(machine: Machine) -> None:
    create(machine, "t", 4)
    load = Load(machine, "t")
    load.wait_for_more()
    machine.children[1].kill()
    until(lambda: len(machine.events("ready")) == 3, READY_SECONDS, machine.log)
    load.wait_for_more()
    load.stop()
    assert load.errors == []
    assert sorted(consumed(machine, "t", 4)) == sorted(load.acknowledged)
    [ended] = machine.events("core-ended")
    assert (ended["exit_code"], ended["restart_s"]) == (-9, 0.0)


def test_cores_restart_one_by_one_under_load_loses_nothing_and_fails_no_produce(machine: Machine) -> None:
    create(machine, "t", 4)
    load = Load(machine, "t")
    load.wait_for_more()
    before = [each.pid for each in machine.children]
    os.kill(machine.process.pid, signal.SIGUSR2)
    until(lambda: machine.events("restart-completed"), READY_SECONDS, machine.log)
    load.wait_for_more()
    load.stop()
    machine.children = psutil.Process(machine.process.pid).children()
    assert not set(before) & {each.pid for each in machine.children}
    assert load.errors == []
    assert sorted(consumed(machine, "t", 4)) == sorted(load.acknowledged)
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
    until(machine.all_ended, END_SECONDS, machine.log)
    assert len(machine.events("stopped")) == 2, "each broker stopped in order"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cores_stop_signal_ends_every_broker_in_order(machine: Machine, number: int) -> None:
    os.kill(machine.process.pid, number)
    assert machine.process.wait(END_SECONDS) == 0
    assert machine.all_ended()
    assert len(machine.events("stopped")) == 2
    assert not machine.ready_file.exists()
