"""ACLs on real brokers with logins: three clients' errors, deny and prefixes, transactions, restarts, and the audit log."""

import asyncio
import json
import os
import subprocess
import sys

import aiokafka
import aiokafka.errors
import httpx
import kafka
import kafka.errors
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from support.raft_cluster import RaftCluster
from support.tls import Certificates
from support.waiting import wait_until

from yak.client.login import ClientLogin
from yak.local.spawn import yak_argv

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PATIENCE_SECONDS = 30.0
ADMIN, ANN, BOB, CLEO = "admin", "ann", "bob", "cleo"
DENIAL_LOGGED = "a denial in the log, which takes the first 5 of 10 s, of all clients and tests"


class Cluster(RaftCluster):
    """Three brokers with logins and ACLs; `admin` is the super user."""

    def __init__(self, folder):
        users = folder / "users"
        users.write_text("".join(f"{user}:secret-of-{user}\n" for user in (ADMIN, ANN, BOB, CLEO)))
        users.chmod(0o600)
        configs = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "yak.http.authentication": "basic",
            "num.partitions": "1",
            "default.replication.factor": "3",
        }
        flags = ["--users-file", str(users)]
        for name, value in configs.items():
            flags += ["-c", f"{name}={value}"]
        super().__init__(folder, flags=tuple(flags))

    def settings(self, user, **more):
        """librdkafka's settings for a user."""
        login = ClientLogin("SCRAM-SHA-256", user, f"secret-of-{user}")
        return {"bootstrap.servers": self.bootstrap, "log_level": 0} | login.librdkafka() | more

    def http(self, node, user, method, path, **more):
        """Ask a node over HTTP as a user."""
        return self.ask(node, method, path, auth=(user, f"secret-of-{user}"), **more)

    def yak(self, *words, user=ADMIN):
        """Run a command of yak as a user; returns its JSON."""
        settings = {"YAK_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "YAK_SASL_USERNAME": user}
        settings["YAK_SASL_PASSWORD"] = f"secret-of-{user}"
        ran = subprocess.run(
            yak_argv(*words, "-b", self.bootstrap, "-o", "json", "--yes"),
            env=os.environ | settings, cwd=self.folder, capture_output=True, text=True)  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout) if ran.stdout.strip() else None


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("acls"))
    try:
        yield cluster.start()
    finally:
        cluster.close()


def create(cluster, topic):
    """Create a topic; on a busy machine the metadata store may be out of reach for a while."""
    admin = AdminClient(cluster.settings(ADMIN))

    def exists():
        error = admin.create_topics([NewTopic(topic, 1, 3)])[topic].exception(PATIENCE_SECONDS)
        if error is not None and error.args[0].code() == KafkaError.REQUEST_TIMED_OUT:
            return False
        assert error is None or error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, error
        return True

    wait_until(exists, f"topic {topic}")


def produce_error(cluster, user, topic, **settings):
    """The error of one record, or None."""
    producer = Producer(cluster.settings(user, **{"message.timeout.ms": 15_000, "acks": "all"} | settings))
    found = []
    producer.produce(topic, b"value", on_delivery=lambda error, _message: found.append(error))
    producer.flush(PATIENCE_SECONDS)
    return found[0] if found[0] is None else found[0].code()


def consume(cluster, user, topic, group):
    """The first value or error code that a consumer gets."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(cluster.settings(user, **settings))
    consumer.subscribe([topic])
    try:
        message = wait_until(lambda: consumer.poll(1.0), "a record or an error", seconds=PATIENCE_SECONDS)
        return message.error().code() if message.error() else message.value()
    finally:
        consumer.close()


def is_in_force(cluster, user, topic):
    """Whether the right is on every broker: each answers Metadata from its own image."""
    for node in cluster.nodes:
        settings = cluster.settings(user) | {"bootstrap.servers": f"127.0.0.1:{cluster._ports[node]}"}
        topics = AdminClient(settings).list_topics(topic, timeout=PATIENCE_SECONDS).topics
        if topics[topic].error is not None:
            return False
    return True


def test_librdkafka_produces_and_consumes_only_with_acls(cluster):
    create(cluster, "orders")
    assert produce_error(cluster, ANN, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consume(cluster, ANN, "orders", "billing") in (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
    cluster.yak("acls", "add", "--allow", ANN, "--producer", "--topic", "orders")
    wait_until(lambda: is_in_force(cluster, ANN, "orders"), "the ACLs")
    assert produce_error(cluster, ANN, "orders") is None
    assert consume(cluster, ANN, "orders", "billing") == KafkaError.GROUP_AUTHORIZATION_FAILED
    cluster.yak("acls", "add", "--allow", ANN, "--consumer", "--topic", "orders", "--group", "billing")
    wait_until(lambda: consume(cluster, ANN, "orders", "billing") == b"value", "the ACLs of the group and of reading")
    assert produce_error(cluster, BOB, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produce_error(cluster, ADMIN, "orders") is None


def test_transactional_id_needs_an_acl(cluster):
    create(cluster, "paid")
    cluster.yak("acls", "add", "--allow", ANN, "--operation", "write", "--topic", "paid")
    wait_until(lambda: is_in_force(cluster, ANN, "paid"), "the ACLs")
    producer = Producer(cluster.settings(ANN, **{"transactional.id": "payments"}))
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(PATIENCE_SECONDS)
    assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    cluster.yak("acls", "add", "--allow", ANN, "--operation", "write", "--transactional-id", "pay", "--prefixed")
    producer = Producer(cluster.settings(ANN, **{"transactional.id": "payments"}))
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("paid", b"value")
    producer.commit_transaction(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("hidden", b"value")
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_SECONDS)


def test_kafka_python_gets_kafkas_errors(cluster):
    login = {"bootstrap_servers": cluster.bootstrap.split(","), "security_protocol": "SASL_PLAINTEXT",
             "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": BOB,
             "sasl_plain_password": f"secret-of-{BOB}"}  # fmt: skip
    create(cluster, "of-kafka-python")
    producer = kafka.KafkaProducer(**login, max_block_ms=10_000)
    with pytest.raises(kafka.errors.KafkaError):
        producer.send("of-kafka-python", b"value").get(PATIENCE_SECONDS)
    cluster.yak("acls", "add", "--allow", BOB, "--producer", "--topic", "of-kafka-python")
    wait_until(lambda: is_in_force(cluster, BOB, "of-kafka-python"), "the ACLs")
    producer.close()
    producer = kafka.KafkaProducer(**login)
    assert producer.send("of-kafka-python", b"value").get(PATIENCE_SECONDS).offset == 0
    producer.close()


def test_aiokafka_gets_kafkas_errors(cluster):
    create(cluster, "of-aiokafka")
    login = {"bootstrap_servers": cluster.bootstrap.split(","), "security_protocol": "SASL_PLAINTEXT",
             "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": BOB,
             "sasl_plain_password": f"secret-of-{BOB}"}  # fmt: skip

    async def send():
        producer = aiokafka.AIOKafkaProducer(**login, request_timeout_ms=10_000)
        await producer.start()
        try:
            return (await producer.send_and_wait("of-aiokafka", b"value")).offset
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(send())
    cluster.yak("acls", "add", "--allow", BOB, "--producer", "--topic", "of-aiokafka")
    wait_until(lambda: is_in_force(cluster, BOB, "of-aiokafka"), "the ACLs")
    assert asyncio.run(send()) == 0


def test_admin_client_of_librdkafka_creates_describes_and_deletes_acls(cluster):
    name = 'größe 🐃 a"b\\c,=:*'
    admin = AdminClient(cluster.settings(ADMIN))
    acl = AclBinding(ResourceType.GROUP, name, ResourcePatternType.LITERAL, f"User:{name}", "10.0.0.7",
                     AclOperation.READ, AclPermissionType.DENY)  # fmt: skip
    wanted = AclBindingFilter(ResourceType.GROUP, name, ResourcePatternType.ANY, None, None,
                              AclOperation.ANY, AclPermissionType.ANY)  # fmt: skip
    admin.create_acls([acl])[acl].result(PATIENCE_SECONDS)
    assert admin.describe_acls(wanted).result(PATIENCE_SECONDS) == [acl]
    assert admin.delete_acls([wanted])[wanted].result(PATIENCE_SECONDS) == [acl]
    assert admin.describe_acls(wanted).result(PATIENCE_SECONDS) == []
    ann = AdminClient(cluster.settings(ANN))
    with pytest.raises(KafkaException) as caught:
        ann.create_acls([acl])[acl].result(PATIENCE_SECONDS)
    assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_acls_survive_kills_and_leaders_elections(cluster):
    create(cluster, "lasting")
    cluster.yak("acls", "add", "--allow", ANN, "--operation", "write", "--topic", "lasting")
    wait_until(lambda: is_in_force(cluster, ANN, "lasting"), "the ACLs")
    for node in cluster.nodes:
        cluster.kill9(node)
    cluster.start()
    assert produce_error(cluster, ANN, "lasting", **{"message.timeout.ms": 30_000}) is None
    assert produce_error(cluster, BOB, "lasting") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    rows = cluster.yak("acls", "list", "--topic", "lasting")
    assert [(row["principal"], row["operation"]) for row in rows] == [("User:ann", "write")]
    cluster.yak("acls", "remove", "--topic", "lasting", "--allow", ANN)
    assert cluster.yak("acls", "list", "--topic", "lasting") == []
    wait_until(lambda: not is_in_force(cluster, ANN, "lasting"), "the deletion")


def test_changes_and_denials_are_in_the_logs_and_counted(cluster):
    create(cluster, "audited")

    def audited(result):
        lines = [line for node in cluster.nodes for line in cluster.log_path(node).read_text().splitlines()]
        return [line for line in lines if f" audit result={result}" in line and "topic audited" in line.lower()]

    def is_denied():
        assert produce_error(cluster, BOB, "audited") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        return any("principal=User:bob host=127.0.0.1 api=" in line for line in audited("denied"))

    wait_until(is_denied, DENIAL_LOGGED)
    done = audited("done")
    assert len(done) == 1
    assert "principal=User:admin host=127.0.0.1 api=CreateTopics" in done[0]
    metrics = [cluster.http(node, ADMIN, "GET", "/metrics").text for node in cluster.nodes]
    assert any('yak_denied_requests_total{operation="' in text for text in metrics)


def test_certificate_gives_the_principal(broker, tmp_path):
    certificates = Certificates(tmp_path / "certs")
    configs = certificates.configs(ssl_client_auth="requested", authorizer_class_name=AUTHORIZER)
    broker.start(**configs, super_users="User:CN=alice,O=YAK")
    alice = AdminClient(certificates.client(broker.bootstrap, certificate=certificates.folder / "alice.pem"))
    alice.create_topics([NewTopic("orders", 1, 1)])["orders"].result(PATIENCE_SECONDS)
    anonymous = AdminClient(certificates.client(broker.bootstrap))
    with pytest.raises(KafkaException) as caught:
        anonymous.create_topics([NewTopic("other", 1, 1)])["other"].result(PATIENCE_SECONDS)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "principal=User:ANONYMOUS" in broker.log()


def test_commands_of_a_reader_need_no_group_and_no_configs(cluster):
    create(cluster, "read-alone")
    assert produce_error(cluster, ADMIN, "read-alone") is None
    cluster.yak("acls", "add", "--allow", BOB, "--operation", "read", "--topic", "read-alone")
    wait_until(lambda: is_in_force(cluster, BOB, "read-alone"), "the ACL on every broker")
    record = cluster.yak("consume", "read-alone", "--from-beginning", "--exit", user=BOB)
    assert record["value"] == "value"
    assert "read-alone" in [topic["name"] for topic in cluster.yak("topics", "list", user=BOB)]
    (described,) = cluster.yak("topics", "describe", "read-alone", user=BOB)
    assert (described["partitions"][0]["high_watermark"], described["configs"]) == (1, None)


def test_clients_of_a_benchmark_log_in(cluster):
    words = ("--topic", "benched", "--msgs", "1000", "--clients", "2", "--warm-up", "0s")
    assert cluster.yak("bench", "produce", *words)["records"] == 1000


def test_http_serves_each_user_by_its_acls_whichever_broker_leads(cluster):
    create(cluster, "over-http")
    record = {"topic": "over-http", "payload": "x"}

    def is_denied(node):
        refused = cluster.http(node, BOB, "POST", "/produce", json=record)
        assert refused.status_code == 403, refused.text
        logged = cluster.log_path(node).read_text()
        return 'result=denied principal=User:bob host=127.0.0.1 api=Produce resources="WRITE TOPIC over-http"' in logged

    for node in cluster.nodes:
        wait_until(lambda node=node: is_denied(node), DENIAL_LOGGED)
    cluster.yak("acls", "add", "--allow", BOB, "--operation", "write", "--topic", "over-http")
    wait_until(lambda: is_in_force(cluster, BOB, "over-http"), "the ACL on every broker")
    for node in cluster.nodes:
        written = cluster.http(node, BOB, "POST", "/produce", json=record)
        assert written.status_code == 200, written.text
        assert cluster.http(node, BOB, "GET", "/topics/over-http").status_code == 200, "write implies describe"
        read = {"topic": "over-http", "partition": 0, "offset": 0}
        assert cluster.http(node, BOB, "GET", "/consume", params=read).status_code == 403
        assert cluster.http(node, ADMIN, "GET", "/consume", params=read).status_code == 200
        for path in ("/metrics", "/api/groups", "/health"):
            assert cluster.http(node, BOB, "GET", path).status_code == 403, path
            assert cluster.http(node, ADMIN, "GET", path).status_code in (200, 503), path
        assert cluster.get(node, "/health/live").status_code == 200
        assert cluster.get(node, "/metrics").status_code == 401


def test_http_records_of_denied_topics_are_refused_each_and_the_others_are_written(cluster):
    for topic in ("mine", "theirs"):
        create(cluster, topic)
    cluster.yak("acls", "add", "--allow", BOB, "--operation", "write", "--topic", "mine")
    wait_until(lambda: is_in_force(cluster, BOB, "mine"), "the ACL on every broker")
    records = [{"topic": topic, "payload": "x"} for topic in ("theirs", "mine", "theirs")]
    for node in cluster.nodes:
        answer = cluster.http(node, BOB, "POST", "/produce", json=records)
        assert answer.status_code == 207, answer.text
        each = answer.json()["records"]
        assert [record.get("error") for record in each] == ["not-allowed", None, "not-allowed"]
        assert each[1]["offset"] >= 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="127.0.0.2 needs Linux")
def test_http_request_that_a_broker_forwards_keeps_the_address_of_its_client(cluster):
    create(cluster, "from-afar")
    words = ("--allow", BOB, "--operation", "describe", "--topic", "from-afar", "--host", "127.0.0.2")
    cluster.yak("acls", "add", *words)
    path, login = "/api/partitions/from-afar/0", (BOB, f"secret-of-{BOB}")
    leader = cluster.http(1, ADMIN, "GET", path).json()["leader"]
    others = [node for node in cluster.nodes if node != leader]
    with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), auth=login) as afar:
        wait_until(lambda: _all_allowed(afar, cluster, others, path), "the ACL on every broker")
        own = cluster.http(leader, ADMIN, "GET", path).json()
        # A broker answers with less, from what it knows itself, until the leader has the ACL too and answers in time.
        wait_until(
            lambda: all(sorted(afar.get(cluster.url(node, path)).json()) == sorted(own) for node in others),
            "the leader's answer from every broker",
        )
        refused = afar.get(cluster.url(leader, path), headers={"yak-forwarded": "e30=.00"})
        assert (refused.status_code, refused.json()["error"]) == (403, "not-allowed")
    denied = f'principal=User:{BOB} host=127.0.0.1 api="GET /api/partitions/'

    def is_denied():
        assert cluster.http(others[0], BOB, "GET", path).status_code == 403, "its address is another one"
        return denied in cluster.log_path(others[0]).read_text()

    wait_until(is_denied, DENIAL_LOGGED)
    assert denied not in cluster.log_path(leader).read_text(), (
        "the leader denied a request for the address of the broker that forwarded it"
    )


def _all_allowed(client, cluster, nodes, path):
    return all(client.get(cluster.url(node, path)).status_code == 200 for node in nodes)


def test_http_and_commands_without_rights_get_a_clear_error(cluster):
    for method, path, more, error in (
        ("GET", "/api/quorum", {}, "not-allowed"),
        ("POST", "/topics", {"json": {"name": "by-bob"}}, "topic-authorization-failed"),
    ):
        answer = cluster.http(1, BOB, method, path, **more)
        assert answer.status_code == 403, answer.text
        assert error in answer.json()["error"]
    for words in (("quorum", "describe"), ("acls", "list"), ("topics", "create", "by-bob")):
        with pytest.raises(AssertionError) as caught:
            cluster.yak(*words, user=BOB)
        assert "uthorization failed" in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_produce_without_the_right_to_write_says_not_authorized(cluster):
    create(cluster, "only-read")  # and no other test gives this user a right
    cluster.yak("acls", "add", "--allow", CLEO, "--operation", "read", "--topic", "only-read")
    wait_until(lambda: is_in_force(cluster, CLEO, "only-read"), "the ACL on every broker")
    with pytest.raises(AssertionError) as caught:
        cluster.yak("produce", "only-read", "-m", "x", user=CLEO)
    printed = [json.loads(line) for line in str(caught.value).splitlines() if line.startswith("{")]
    assert [each["error"]["code"] for each in printed] == ["not-authorized"]
    assert "CLUSTER_AUTHORIZATION_FAILED" in printed[0]["error"]["why"]
    assert "FATAL" not in str(caught.value)
