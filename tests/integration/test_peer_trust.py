"""A plain client with all that the cluster shows to everyone tries to pass for its brokers."""

import contextlib
import datetime as dt
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode
from support.raw import Closed, RawClient
from support.waiting import wait_until

from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.client.replica_offsets import read_metadata
from yak.local.cluster import LocalCluster, UpSettings
from yak.sim.request_fields import build
from yak.sim.wire import read_answer, request_class, request_frame

FETCH, VERSION = 1, 17
RECORDS = 20
CONNECTIONS_MAX = 40
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that take few connections of one address, and a topic that broker 1 leads."""
    limit = f"max.connections.per.ip={CONNECTIONS_MAX}"
    settings = UpSettings(port=0, http_port=0, brokers=3, leaders=1, configs=(limit,))
    with running_cluster(tmp_path_factory.mktemp("cluster"), settings) as made:
        admin = Admin(made.status().bootstrap)
        admin.create_topic("orders", assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
        yield made


def get(cluster: LocalCluster, path: str, node_id: int = 1) -> httpx.Response:
    address = next(each.http_address for each in cluster.status().brokers if each.node_id == node_id)
    return httpx.get(f"{address}{path}", timeout=PATIENCE_SECONDS, trust_env=False)


def port_of(cluster: LocalCluster, node_id: int) -> int:
    address = next(each.address for each in cluster.status().brokers if each.node_id == node_id)
    return int(address.rpartition(":")[2])


class Impostor(RawClient):
    """Fetches as a follower whose boot id and broker epoch the metadata show to everyone."""

    def __init__(self, port: int, boot_id: str) -> None:
        super().__init__(port)
        self._client_id = f"yak-replica:{boot_id}"

    def fetch(self, node_id: int, broker_epoch: int, topic_id: uuid.UUID, leader_epoch: int, offset: int) -> Any:
        wanted = {
            "partition": 0,
            "current_leader_epoch": leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": leader_epoch,
            "log_start_offset": 0,
            "partition_max_bytes": 1,
        }
        fields = {
            "max_wait": dt.timedelta(0),
            "min_bytes": 0,
            "max_bytes": 1,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": 0,
            "topics": [{"topic_id": topic_id, "partitions": [wanted]}],
            "forgotten_topics_data": [],
            "rack_id": "",
            "replica_state": {"replica_id": node_id, "replica_epoch": broker_epoch},
            "cluster_id": None,
        }
        body = build(request_class(FETCH, VERSION), fields)
        self.send_frame(request_frame(FETCH, VERSION, 1, body, self._client_id))
        return read_answer(FETCH, VERSION, self.receive_frame())[1]


def test_replica_fetch_with_stolen_boot_id_and_epoch_acknowledges_nothing(cluster: LocalCluster) -> None:
    metadata = get(cluster, "/broker_mgmt/0").json()
    partition = next(each for each in metadata["partitions"] if each["topicName"] == "orders")
    followers = [each for each in metadata["brokers"] if each["brokerId"] != 1]
    topic_id, leader_epoch = uuid.UUID(partition["topicUUID"]), partition["leaderEpoch"]
    delivered: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.status().bootstrap, "acks": "all", "linger.ms": 0})

    def produce() -> None:
        producer.produce("orders", b"x", partition=0, on_delivery=lambda error, _message: delivered.append(error))

    produce()
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert delivered == [None]
    refused = []
    for follower in followers:
        cluster.pause(follower["brokerId"])
    try:
        for _ in range(RECORDS):
            produce()
        producer.poll(0.5)
        for follower in followers:
            with Impostor(port_of(cluster, 1), follower["internalUUID"]) as impostor:
                who = (follower["brokerId"], follower["epoch"])
                refused.append(impostor.fetch(*who, topic_id, leader_epoch, 1 + RECORDS).error_code)
        producer.poll(0.5)
        acknowledged = len(delivered) - 1
    finally:
        for follower in followers:
            cluster.resume(follower["brokerId"])
    assert refused == [ErrorCode.cluster_authorization_failed] * 2
    assert acknowledged == 0
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert delivered == [None] * (1 + RECORDS)


def test_connections_that_say_yak_watch_keep_no_broker_out(cluster: LocalCluster) -> None:
    def isr() -> tuple[int, ...]:
        return tuple(read_metadata(cluster.status().bootstrap, timeout_s=5).of_topic("orders")[0].isr)

    wait_until(lambda: len(isr()) == 3, "all replicas in sync")
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(RawClient(port_of(cluster, 1))) for _ in range(CONNECTIONS_MAX + 40)]
        for attacker in attackers:
            body = build(request_class(18, 3), {"client_software_name": "yak-watch", "client_software_version": "1"})
            attacker.send_frame(request_frame(18, 3, 1, body, "yak-watch"))
        answered = 0
        for attacker in attackers:
            with contextlib.suppress(Closed):
                attacker.receive_frame()
                answered += 1
        assert answered <= CONNECTIONS_MAX
        cluster.restart(2, hard=True)
        wait_until(lambda: get(cluster, "/health/ready", 2).status_code == 200, "broker 2")
        wait_until(lambda: 2 in isr_at(cluster, 3), "broker 2 in sync")


def isr_at(cluster: LocalCluster, node_id: int) -> tuple[int, ...]:
    """The ISR as a broker that is not attacked knows it."""
    partitions = get(cluster, "/broker_mgmt/0", node_id).json()["partitions"]
    return tuple(next(each for each in partitions if each["topicName"] == "orders")["ISR"])


def test_cluster_secret_on_disk_is_readable_by_the_user_only_and_never_printed(cluster: LocalCluster, yak: Any) -> None:
    files = sorted(Path(cluster.data_dir).rglob("cluster-secret"))
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    (secret,) = {path.read_text().strip() for path in files}
    shown = {
        path: get(cluster, path, node_id).text
        for path in ("/metadata/image", "/metadata/log", "/broker_mgmt/0", "/metrics", "/api/cluster", "/api/metadata")
        for node_id in (1, 2, 3)
    }
    shown |= {str(path): path.read_text(errors="replace") for path in cluster_logs(cluster)}
    ran = yak.run("log", "--data-dir", cluster.data_dir)
    assert ran.code == 0, ran.err
    shown["yak metadata log"] = ran.out
    assert "Register" in shown["yak metadata log"]
    assert [name for name, text in shown.items() if secret in text] == []


def cluster_logs(cluster: LocalCluster) -> list[Path]:
    return [Path(path) for path in cluster.log_paths().values()]
