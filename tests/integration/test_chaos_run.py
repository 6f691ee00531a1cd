"""`yak chaos`: a short run on real processes holds, and what is done behind its back is found."""

import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.waiting import wait_until

from yak.local.chaos.cluster import ChaosCluster, ClusterSettings
from yak.local.chaos.members import Member
from yak.local.chaos.recorder import Recorder
from yak.local.processes import processes_of
from yak.local.spawn import yak_argv

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the fault proxy finds out who calls from /proc, which only Linux has"
)


def test_member_of_a_run_reads_a_topic_that_its_first_metadata_lacked(broker: Any) -> None:
    broker.start(auto_create_topics_enable=False, group_initial_rebalance_delay_ms=0)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("early", 1, 1)])["early"].result(20)
    member = Member("member-1", broker.bootstrap, ["early", "late"], "chaos", Recorder())
    member.start()
    try:
        time.sleep(2)  # it has joined with the first topic alone
        admin.create_topics([NewTopic("late", 1, 1)])["late"].result(20)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("late", b"record")
        assert producer.flush(20) == 0
        asking = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "chaos"})
        place = TopicPartition("late", 0)
        wait_until(lambda: asking.committed([place], timeout=10)[0].offset == 1, "the member commits")
        asking.close()
    finally:
        member.stop()


def test_a_short_run_with_a_kill_holds_and_leaves_nothing_behind(yak: Any) -> None:
    ran = yak.run(
        "chaos", "run", "--duration", "8s", "--seed", "3", "--faults", "kill,redis-kill", "--data-dir", "run", "--rate", "60",
        "--timeline", "run.svg", "--history", "run.jsonl", "-o", "json", timeout=120,
    )  # fmt: skip
    assert ran.code == 0, ran.err + ran.out
    found = ran.json
    assert found["ok"] is True
    assert found["acknowledged"] > 100
    assert (found["lost"], found["duplicated"], found["reordered"]) == (0, 0, 0)
    assert {"kill", "redis-kill"} >= {each["kind"] for each in found["struck"]} != set()
    assert all(each["mended_s"] is not None for each in found["struck"])
    assert found["compared_bytes"] > 0
    assert found["reached"]["elections"] > 0
    assert found["unavailability"]
    assert min(found["transactions"][name] for name in ("committed", "aborted", "processed")) > 0
    assert not (yak.folder / "run").exists()
    assert processes_of(str(yak.folder)) == []
    ET.parse(yak.folder / "run.svg")
    again = yak.run("chaos", "check", "run.jsonl", "-o", "json")
    assert again.code == 0
    assert again.json["acknowledged"] == found["acknowledged"]


@pytest.mark.thorough
def test_chaos_run_with_keep_retains_the_logs_of_brokers_and_writers(yak: Any) -> None:
    """librdkafka tells why it began a new epoch, the one thing that neither the history nor the segments can."""
    ran = yak.run(
        "chaos", "run", "--duration", "5s", "--seed", "3", "--faults", "kill", "--rate", "60", "--data-dir", "run",
        "--keep", "-o", "json", timeout=120,
    )  # fmt: skip
    assert ran.code == 0, ran.err + ran.out
    kept = yak.folder / "run"
    assert ran.json["folder"] == str(kept)
    assert {"node-1.log", "node-2.log", "node-3.log", "redis.log"} < {each.name for each in kept.iterdir()}
    assert "Acquired" in (kept / "writers.log").read_text()
    logged = sum(path.read_text().count(" isr-changed ") for path in kept.glob("node-*.log"))
    assert ran.json["reached"]["ISR changes"] < logged, "the brokers' stop at the end is no activity of the run"


def test_killed_run_leaves_no_process(yak: Any) -> None:
    words = ("chaos", "run", "--duration", "60s", "--seed", "3", "--faults", "none", "--data-dir", "run")
    with subprocess.Popen(yak_argv(*words), cwd=yak.folder, stderr=subprocess.DEVNULL) as run:
        try:
            ready = [yak.folder / "run" / f"node-{node_id}.json" for node_id in (1, 2, 3)]
            wait_until(lambda: all(file.exists() for file in ready), "the brokers serve", 60)
        finally:
            run.kill()
    wait_until(lambda: processes_of(str(yak.folder)) == [], "no broker and no Redis", 20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    """Somebody else's, as far as the command knows."""
    made = ChaosCluster(tmp_path_factory.mktemp("chaos") / "cluster", ClusterSettings(brokers=3))
    try:
        made.start()
        yield made
    finally:
        made.close()


def topics_of_runs(admin: AdminClient) -> list[str]:
    """The topics of runs to which all clients write; workers read them."""
    names = [name for name in admin.list_topics(timeout=5).topics if name.startswith("yak-chaos-")]
    return [name for name in names if not name.endswith("-copies")]


def test_records_deleted_behind_its_back_are_found(yak: Any, cluster: ChaosCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    deleted: list[int] = []
    committed: list[int] = []

    def delete() -> None:
        (name,) = wait_until(lambda: topics_of_runs(admin), "the run has its topic", 60)
        partition = TopicPartition(name, 1, 5)
        wait_until(lambda: _end(cluster, name) > 10, "there is something to delete", 60)
        committed.extend(_committed_below(cluster, partition))
        deleted.extend(each.result(10).low_watermark for each in admin.delete_records([partition]).values())

    thread = threading.Thread(target=delete)
    thread.start()
    ran = yak.run(
        "chaos", "run", "--bootstrap", cluster.bootstrap, "--duration", "5s", "--seed", "9", "--rate", "60",
        "--faults", "none", "-o", "json", timeout=120,
    )  # fmt: skip
    thread.join()
    assert deleted == [5]
    assert ran.code == 4, ran.err + ran.out
    found = ran.json
    assert found["ok"] is False
    # Markers and aborted records have offsets too, and are no loss.
    assert found["lost"] == len(committed) > 0
    assert {each["partition"][-2:] for each in found["anomalies"]} == {"-1"}
    assert any(each["kind"] == "poll-skip" for each in found["anomalies"])


def _committed_below(cluster: ChaosCluster, partition: TopicPartition) -> list[int]:
    """The offsets of the committed records below that of the partition, which still grows."""
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "looks", "log_level": 0}
    consumer = Consumer(config | {"isolation.level": "read_committed"})
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(partition.topic, partition.partition, 0)])
        while not found or found[-1] < partition.offset:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(message.offset())
    finally:
        consumer.close()
    return found[:-1]


def _end(cluster: ChaosCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "looks", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=10)[1])
    finally:
        consumer.close()


def test_ctrl_c_ends_the_load_and_judges_what_there_is(yak: Any, cluster: ChaosCluster) -> None:
    child = yak.start(
        "chaos", "run", "--bootstrap", cluster.bootstrap, "--duration", "10m", "--seed", "1", "--rate", "60"
    )
    for line in child.stderr:
        if line.startswith("load and faults"):
            break
    time.sleep(3.0)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=90)
    assert child.returncode == 130, told
    assert "OK    all promises held" in told
    assert "read-process-write: " in told
    assert topics_of_runs(AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})) == []
