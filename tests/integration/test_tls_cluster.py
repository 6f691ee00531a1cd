"""Three brokers that replicate over TLS, and lose one of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import BrokerHarness
from support.tls import Certificates, consume, produce
from support.waiting import wait_until

RECORDS = 500


@pytest.fixture
def brokers(
    tmp_path: Path, make_broker: Callable[[Path, str], BrokerHarness], redis_databases: object
) -> Iterator[list[BrokerHarness]]:
    with redis_databases.borrow() as url:  # type: ignore[attr-defined]
        yield [make_broker(tmp_path / f"broker-{number}", url) for number in (1, 2, 3)]


def test_records_survive_the_death_of_a_leader_with_tls_between_brokers(
    brokers: list[BrokerHarness], tmp_path: Path
) -> None:
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
        return sorted(admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].isrs)

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


def test_broker_whose_certificate_names_another_host_does_not_replicate(
    brokers: list[BrokerHarness], tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path / "certs", hosts=("elsewhere.example",))
    for node_id, each in enumerate(brokers[:2], 1):
        each.start(node_id=node_id, replica_lag_time_max_ms=1000, **certificates.configs())
    wait_until(
        lambda: any("tls-peer-refused" in each.log() and "mismatch" in each.log() for each in brokers[:2]),
        "a line about the host name",
    )
