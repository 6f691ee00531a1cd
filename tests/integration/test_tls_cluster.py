"""Brokers with TLS between them: they replicate, lose one of them, and answer HTTP for each other."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import BrokerHarness
from support.tls import Certificates, consume, produce
from support.waiting import wait_until

RECORDS = 500
V2 = "application/vnd.kafka.v2+json"
JSON = "application/vnd.kafka.json.v2+json"


@pytest.fixture
def brokers(
    tmp_path: Path, make_broker: Callable[[Path, str], BrokerHarness], redis_databases: object
) -> Iterator[list[BrokerHarness]]:
    with redis_databases.borrow() as url:  # type: ignore[attr-defined]
        yield [make_broker(tmp_path / f"broker-{number}", url) for number in (1, 2, 3)]


def test_records_survive_the_death_of_a_leader_with_tls_between_brokers(brokers, tmp_path):
    certificates = Certificates(tmp_path / "certs")
    for node_id, each in enumerate(brokers, 1):
        each.start(node_id=node_id, **certificates.configs(ssl_client_auth="required"))
    config = certificates.client(
        ",".join(each.bootstrap for each in brokers), certificate=certificates.folder / "alice.pem"
    )
    admin = AdminClient(config)
    topic = NewTopic("orders", num_partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["orders"].result(20)

    def isr() -> list[int]:
        partitions = admin.list_topics("orders", timeout=10).topics["orders"].partitions
        return sorted(partitions[0].isrs) if partitions else []  # a broker may learn of the topic a moment later

    wait_until(lambda: isr() == [1, 2, 3], "all replicas in sync")
    first = [b"first %d" % number for number in range(RECORDS)]
    produce(config | {"acks": "all"}, "orders", first)
    leader = brokers[admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader - 1]
    leader.kill9()
    second = [b"second %d" % number for number in range(RECORDS)]
    produce(config | {"acks": "all"}, "orders", second)
    leader.restart()
    wait_until(lambda: isr() == [1, 2, 3], "the killed broker in sync again")
    assert sorted(consume(config, "orders", 2 * RECORDS)) == sorted(first + second)


def test_broker_whose_certificate_names_another_host_does_not_replicate(brokers, tmp_path):
    certificates = Certificates(tmp_path / "certs", hosts=("elsewhere.example",))
    for node_id, each in enumerate(brokers[:2], 1):
        each.start(node_id=node_id, replica_lag_time_max_ms=1000, **certificates.configs())
    wait_until(
        lambda: any("tls-peer-refused" in each.log() and "mismatch" in each.log() for each in brokers[:2]),
        "a line about the host name",
    )


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_http_of_one_broker_produces_to_and_consumes_from_another_over_tls(brokers, tmp_path, protocol):
    certificates = Certificates(tmp_path / "certs")
    for node_id, each in enumerate(brokers[:2], 1):
        configs = certificates.configs(ssl_client_auth="required", yak_http_security_protocol=protocol)
        each.start(node_id=node_id, http_port=0, **configs)
    config = certificates.client(brokers[0].bootstrap, certificate=certificates.folder / "alice.pem")
    admin = AdminClient(config)
    admin.create_topics([NewTopic("orders", 2, replica_assignment=[[2], [2]])])["orders"].result(20)
    scheme = "http" if protocol == "PLAINTEXT" else "https"
    context = ssl.create_default_context(cafile=certificates.folder / "ca.pem")
    with httpx.Client(base_url=f"{scheme}://127.0.0.1:{brokers[0].http_port}", verify=context, timeout=30) as client:
        for number in range(4):
            record = {"topic": "orders", "partition": number % 2, "payload": number}
            assert client.post("/produce", json=record).raise_for_status().json()["partition"] == number % 2
        assert client.get("/api/partitions/orders/0").raise_for_status().json()["reported_by"] == 2
        made = client.post("/consumers/billing", json={"format": "json", "auto.offset.reset": "earliest"}).json()
        assert made["base_uri"].startswith(str(client.base_url))
        sent = client.post(
            f"{made['base_uri']}/subscription", json={"topics": ["orders"]}, headers={"content-type": V2}
        )
        assert sent.status_code == 204, sent.text
        found: list[int] = []

        def read() -> bool:
            answer = client.get(f"{made['base_uri']}/records", headers={"accept": JSON}).raise_for_status()
            found.extend(each["value"] for each in answer.json())
            return len(found) >= 4

        wait_until(read, "the records of both partitions")
        assert sorted(found) == [0, 1, 2, 3]
        client.post(f"{made['base_uri']}/offsets").raise_for_status()
        assert client.delete(made["base_uri"]).status_code == 204
