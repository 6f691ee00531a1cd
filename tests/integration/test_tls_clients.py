"""librdkafka and `yak` against a broker with TLS."""

import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from conftest import BrokerHarness
from support.tls import Certificates, consume, failure, produce
from support.waiting import wait_until

from yak.errors import StartRefused


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "certs")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("strange") / "certs")


@pytest.fixture(scope="module")
def tls_broker(borrowed_broker: Any, certificates: Certificates) -> Iterator[BrokerHarness]:
    with borrowed_broker() as harness:
        yield harness.start(**certificates.configs())


@pytest.fixture(scope="module")
def mutual_broker(borrowed_broker: Any, certificates: Certificates) -> Iterator[BrokerHarness]:
    """A broker that requires certificates of clients."""
    with borrowed_broker() as harness:
        yield harness.start(**certificates.configs(ssl_client_auth="required"))


def test_large_and_many_small_records_arrive_as_they_were_sent(tls_broker, certificates, unique_topic):
    config = certificates.client(tls_broker.bootstrap)
    values = [os.urandom(900_000) for _ in range(12)] + [b"%06d" % number for number in range(20_000)]
    produce(config, unique_topic, values)
    assert sorted(consume(config, unique_topic, len(values))) == sorted(values)


def test_client_with_a_certificate_is_served_where_one_is_required(mutual_broker, certificates, unique_topic):
    config = certificates.client(mutual_broker.bootstrap, certificate=certificates.folder / "alice.pem")
    produce(config, unique_topic, [b"with a certificate"])
    assert consume(config, unique_topic, 1) == [b"with a certificate"]


def test_client_without_a_certificate_is_refused_where_one_is_required(mutual_broker, certificates):
    assert "certificate" in failure(certificates.client(mutual_broker.bootstrap))
    config = certificates.client(mutual_broker.bootstrap)
    wait_until(lambda: failure(config) and "the client sent no certificate" in mutual_broker.log(), "the reason")


def test_client_refuses_a_broker_of_another_authority(tls_broker, strangers):
    assert "certificate verify failed" in failure(strangers.client(tls_broker.bootstrap))
    config = strangers.client(tls_broker.bootstrap)
    wait_until(lambda: failure(config) and "unknown CA" in tls_broker.log(), "the reason")


def test_expired_certificate_stops_the_start(broker, tmp_path):
    certificates = Certificates(tmp_path / "certs", days=1, days_ago=10)
    with pytest.raises(StartRefused) as refused:
        broker.start(**certificates.configs())
    assert refused.value.code == "tls-certificate-expired"


def test_renewed_certificate_is_used_without_a_restart(broker, tmp_path, unique_topic):
    certificates = Certificates(tmp_path / "certs")
    broker.start(**certificates.configs())
    config = certificates.client(broker.bootstrap)
    produce(config, unique_topic, [b"before"])
    (certificates.folder / "broker.pem").write_text("damaged")
    wait_until(lambda: "tls-reload-failed" in broker.log(), "a line with tls-reload-failed", seconds=15)
    produce(config, unique_topic, [b"with the old one"])
    certificates.renew(hosts=("renewed.example", "127.0.0.1"))
    wait_until(lambda: "tls-reloaded" in broker.log(), "a line with tls-reloaded", seconds=15)
    produce(config, unique_topic, [b"after"])
    shown = ssl.get_server_certificate(("127.0.0.1", broker.port))
    own = (certificates.folder / "broker.pem").read_text()
    assert ssl.PEM_cert_to_DER_cert(shown) == ssl.PEM_cert_to_DER_cert(own[own.index("-----BEGIN CERT") :])


def test_key_store_is_changed_by_an_admin_client_and_read_again_at_the_same_path(broker, tmp_path):
    """KIP-226, as `kafka-configs.sh --alter --add-config listener.name.ssl.ssl.keystore.location=...` does."""
    certificates = Certificates(tmp_path / "certs")
    broker.start(**certificates.configs())
    admin = AdminClient(certificates.client(broker.bootstrap))

    def shown() -> bytes:
        return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", broker.port)))

    def of(path: Path) -> bytes:
        text = path.read_text()
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERT") :])

    def alter(path: Path) -> None:
        entry = ConfigEntry(
            "listener.name.ssl.ssl.keystore.location", str(path), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(20)

    at_start, other = certificates.folder / "broker.pem", tmp_path / "other.pem"
    at_start.rename(tmp_path / "first.pem")
    certificates.renew()
    at_start.rename(other)
    (tmp_path / "first.pem").rename(at_start)
    assert shown() == of(at_start) != of(other)
    alter(other)
    wait_until(lambda: shown() == of(other), "the certificate of the other file", seconds=8)
    certificates.renew()
    at_start.replace(other)
    alter(other)
    wait_until(lambda: shown() == of(other), "the new certificate at the same path", seconds=8)
    certificates.renew()
    broker.restart()
    wait_until(lambda: shown() == of(other), "the change is in the metadata", seconds=8)


def test_yak_commands_connect_by_their_context(mutual_broker, certificates, yak, unique_topic):
    files = {"ssl_ca_location": "ca.pem", "ssl_certificate_location": "alice.pem"}
    added = ["--set", "security_protocol=SSL"]
    for name, file in files.items():
        added += ["--set", f"{name}={certificates.folder / file}"]
    assert yak.run("context", "add", "tls", "-b", mutual_broker.bootstrap, *added).code == 0
    for command in (
        ("topics", "create", unique_topic, "-y"),
        ("produce", unique_topic, "-m", "hello"),
        ("isr",),
        ("brokers", "list"),
        ("groups", "list"),
        ("doctor",),
    ):
        ran = yak.run(*command)
        assert ran.code in (0, 4 if command == ("doctor",) else 0), (command, ran.err, ran.out)
    consumed = yak.run("consume", unique_topic, "-n", "1", "--from-beginning")
    assert "hello" in consumed.out, consumed.err


def test_yak_command_without_tls_says_what_is_missing(tls_broker, yak):
    ran = yak.run("topics", "list", "-b", tls_broker.bootstrap)
    assert (ran.code, "wrong-protocol" in ran.err) == (3, True), ran.err
    assert "TLS" in ran.err
