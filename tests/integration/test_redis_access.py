"""A Redis that lets in one user with the privileges of docs/operations.md, over TLS with a client's certificate."""

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis as redis_py
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from support.tls_proxy import tls_proxy
from support.waiting import wait_until

from yak.local import ports, redis_child
from yak.security.certificates import create_certificates

PASSWORD = "odd/redis:secret@"
RETENTION = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def documented_rules() -> list[str]:
    """The rules of the user `yak` in the page, without the password."""
    line = next(re.finditer(r"^ACL SETUSER yak on '>PASSWORD' (.*)$", PAGE.read_text(), re.MULTILINE))
    return [rule.strip("'") for rule in line[1].split()]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """Only the user yak may log in; the port with TLS asks for a certificate."""
    create_certificates(str(tmp_path / "certs"), ["localhost"], 9, ["yak"], force=False, now=datetime.now(UTC))
    certs = tmp_path / "certs"
    running = redis_child.start(str(tmp_path / "redis"), ports.find_free("127.0.0.1"), str(tmp_path / "redis.log"))
    admin = redis_py.Redis.from_url(running.url)  # this connection stays the default user's
    admin.execute_command("ACL", "SETUSER", "yak", "on", f">{PASSWORD}", *documented_rules())
    admin.execute_command("ACL", "SETUSER", "default", "resetpass", ">of-the-test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "broker.pem")
    context.load_verify_locations(certs / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    secret = tmp_path / "redis.password"
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)
    with tls_proxy(context, int(running.url.rpartition(":")[2].partition("/")[0])) as port:
        files = f"ssl_ca_certs={certs}/ca.pem&ssl_certfile={certs}/yak.pem&ssl_keyfile={certs}/yak.pem"
        url = f"rediss://yak@localhost:{port}/0?{files}"
        yield SimpleNamespace(url=url, with_file=f"{url}&password_file={secret}", admin=admin, secret=secret, port=port)
    admin.close()
    redis_child.stop(running.process)


def test_cluster_works_with_the_documented_privileges_over_tls(yak: Any, server: Any) -> None:
    server.admin.execute_command("ACL", "LOG", "RESET")
    ran = yak.run("up", "-d", "--port", "0", "--brokers", "2", "--redis-url", server.with_file, "-o", "json")
    assert ran.code == 0, ran.err
    bootstrap = ran.json["bootstrap"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 3, 2)])["orders"].result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 20_000})
    for number in range(30):
        producer.produce("orders", str(number))
    assert producer.flush(20) == 0
    config = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[RETENTION])
    for future in admin.incremental_alter_configs([config]).values():
        future.result(20)
    assert yak.run("node", "kill", "2").code == 0
    wait_until(lambda: len(admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].isrs) == 1, "a fence")
    assert yak.run("node", "restart", "2").code == 0
    admin.delete_topics(["orders"])["orders"].result(20)
    for words in (("metadata", "log"), ("isr", "--from-redis"), ("doctor",)):
        found = yak.run(*words, "--data-dir", "yak-data") if words[0] == "doctor" else yak.run(*words)
        assert "NOPERM" not in found.out + found.err
    assert yak.run("metadata", "log", "--redis-url", server.with_file).code == 0
    assert server.admin.execute_command("ACL", "LOG") == [], "a command was denied"
    state = Path(yak.folder, "yak-data", "cluster.json").read_text()
    assert PASSWORD not in state + ran.out + ran.err


def test_password_comes_from_the_environment(yak: Any, server: Any) -> None:
    login = {"YAK_REDIS_PASSWORD": PASSWORD}
    assert yak.run("metadata", "log", "--redis-url", server.url, **login).code == 0
    refused = yak.run("metadata", "log", "--redis-url", server.url)
    assert refused.code == 3
    assert PASSWORD not in refused.err


def test_password_on_a_command_line_is_refused_by_up_and_warned_of_elsewhere(yak: Any, server: Any) -> None:
    url = f"redis://yak:known-odd-secret@localhost:{server.port}/0"
    refused = yak.run("up", "-d", "--port", "0", "--redis-url", url)
    assert (refused.code, "error[redis-password]" in refused.err) == (2, True)
    warned = yak.run("isr", "--from-redis", "--redis-url", url)
    assert "other users of this machine see" in warned.err
    assert "known-odd-secret" not in refused.err + refused.out + warned.err + warned.out


def test_file_that_others_read_is_refused(yak: Any, server: Any) -> None:
    server.secret.chmod(0o644)
    refused = yak.run("metadata", "log", "--redis-url", server.with_file)
    assert refused.code == 2
    assert "chmod 600" in refused.err
