"""A listener with SASL: wrong passwords, no login, and the commands of `yak users`. `test_client_logins.py` has the clients."""

import json
import os
import signal
import subprocess
import time
from types import SimpleNamespace

import httpx
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from support.tls import Certificates, consume, failure, produce
from support.waiting import wait_until

from yak.client.login import ClientLogin, use_login
from yak.client.raw_connection import RawConnection
from yak.errors import Unreachable
from yak.local.spawn import yak_argv

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
ADMIN, PASSWORD, WRONG = "admin", "admin-secret:,=", "wrong-secret"
PATIENCE_SECONDS = 30.0
V2, BINARY = "application/vnd.kafka.v2+json", "application/vnd.kafka.binary.v2+json"


def start(folder, *arguments, name="broker", http=("--no-http",)):
    """One broker with a listener with SASL, and its address."""
    users, ready = folder / "users", folder / f"{name}.json"
    users.write_text(f"{ADMIN}:{PASSWORD}\n")
    users.chmod(0o600)
    words = [*http, "--data-dir", str(folder / name), "--users-file", str(users)]
    words += ["--ready-file", str(ready), "-c", "listeners=SASL_PLAINTEXT://127.0.0.1:0"]
    words += ["-c", f"sasl.enabled.mechanisms={','.join(MECHANISMS)}", *arguments]
    with open(folder / f"{name}.log", "ab") as log:
        process = subprocess.Popen(yak_argv("serve", *words), cwd=folder, stdout=log, stderr=log)
    wait_until(lambda: ready.exists() or process.poll() is not None, "the broker is ready")
    assert process.poll() is None, (folder / f"{name}.log").read_text()
    ready = json.loads(ready.read_text())
    address = ready["address"]
    return SimpleNamespace(
        process=process,
        address=address,
        port=int(address.rpartition(":")[2]),
        http_port=ready["http_port"],
        folder=folder,
        log=log.name,
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    started = start(tmp_path_factory.mktemp("logins"), "--metadata", "raft", "-c", "num.partitions=1")
    yield started
    started.process.kill()
    started.process.wait()


def librdkafka(broker, mechanism="SCRAM-SHA-256", user=ADMIN, password=PASSWORD):
    login = ClientLogin(mechanism, user, password)
    return {"bootstrap.servers": broker.address, "log_level": 0} | login.librdkafka()


def test_login_inside_tls_serves_librdkafka_and_commands(tmp_path):
    certificates = Certificates(tmp_path / "certs")
    configs = {name.replace("_", "."): value for name, value in certificates.configs().items()}
    configs["listeners"] = "SASL_SSL://127.0.0.1:0"
    pairs = [word for name, value in configs.items() for word in ("-c", f"{name}={value}")]
    broker = start(tmp_path, "--metadata", "raft", *pairs)
    try:
        tls = certificates.client(broker.address)
        config = librdkafka(broker) | tls | {"security.protocol": "SASL_SSL"}
        produce(config, "encrypted", [b"hello"])
        assert consume(config, "encrypted", 1) == [b"hello"]
        settings = {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_USERNAME": ADMIN, "SASL_PASSWORD": PASSWORD}
        settings["SSL_CA_LOCATION"] = str(certificates.folder / "ca.pem")
        environment = {**os.environ, **{f"YAK_{name}": value for name, value in settings.items()}}
        ran = subprocess.run(
            yak_argv("brokers", "list", "-b", broker.address),
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        assert broker.address.rpartition(":")[2] in ran.stdout
        assert "invalid credentials" in failure(config | {"sasl.password": WRONG})
    finally:
        broker.process.kill()
        broker.process.wait()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_fails_soon_with_an_authentication_error(broker, mechanism):
    errors = []
    config = librdkafka(broker, mechanism, ADMIN, WRONG) | {"error_cb": errors.append}
    begun = time.monotonic()
    client = AdminClient(config)

    def failed():
        client.poll(0.05)
        return errors

    wait_until(failed, "an error", 10)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert mechanism in errors[0].str() or "Invalid username or password" in errors[0].str()
    assert time.monotonic() - begun < 9  # a second on an idle machine; the deadline of a connection is 10 s


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_of_our_own_connection_is_named(broker, mechanism):
    use_login(ClientLogin(mechanism, ADMIN, WRONG))
    try:
        with pytest.raises(Unreachable) as caught:
            RawConnection(broker.address, timeout_s=PATIENCE_SECONDS)
    finally:
        use_login(None)
    assert caught.value.code == "login-failed"
    assert WRONG not in f"{caught.value} {caught.value.why}"


def test_large_request_after_the_login_is_served(broker):
    producer = Producer(librdkafka(broker) | {"message.max.bytes": 2_000_000})
    errors = []
    producer.produce("large", os.urandom(900_000), on_delivery=lambda error, _message: errors.append(error))
    producer.flush(PATIENCE_SECONDS)
    assert errors == [None]


def yak(broker, *words, user=ADMIN, password=PASSWORD, stdin="", check=True, **environment):
    login = {"YAK_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "YAK_SASL_USERNAME": user, "YAK_SASL_PASSWORD": password}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("YAK_")}
    ran = subprocess.run(
        yak_argv(*words, "-b", broker.address),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=broker.folder,
        env={**kept, **login, "HOME": str(broker.folder), "XDG_CONFIG_HOME": str(broker.folder), **environment},
        timeout=90,
        check=False,
    )
    assert not check or ran.returncode == 0, ran.stderr
    return ran


def test_users_are_added_listed_used_and_removed(broker):
    yak(broker, "users", "add", "ann", "--password-file", "-", stdin="ann-secret\n")
    rows = json.loads(yak(broker, "users", "list", "-o", "json").stdout)
    assert rows == [{"user": "ann", "mechanism": name, "iterations": 4096} for name in MECHANISMS[:2]]
    ann = {"user": "ann", "password": "ann-secret"}
    yak(broker, "topics", "create", "of-ann", **ann)
    for mechanism in MECHANISMS:
        yak(broker, "produce", "of-ann", "-m", "x", YAK_SASL_MECHANISM=mechanism, **ann)
    yak(broker, "isr", **ann)  # over a connection without librdkafka
    yak(broker, "users", "add", "ann", stdin="another\n")
    assert yak(broker, "topics", "list", check=False, **ann).returncode == 3
    refused = yak(broker, "topics", "list", user="ann", password="guessed-secret", check=False)
    assert "login-failed" in refused.stderr
    assert "guessed-secret" not in refused.stderr
    yak(broker, "users", "remove", "ann", "--yes")
    assert json.loads(yak(broker, "users", "list", "-o", "json").stdout) == []
    assert yak(broker, "users", "remove", "ann", "--yes", check=False).returncode == 1
    yak(broker, "users", "add", "carl", "--mechanism", "SCRAM-SHA-512", stdin="carl-secret\n")
    yak(broker, "users", "remove", "carl", "--yes")  # without an error for the other mechanism


def test_no_output_of_a_broker_or_of_the_metadata_commands_has_a_key_or_a_password(broker):
    yak(broker, "users", "add", "bob", "--password-file", "-", stdin="bob-secret\n")
    folder = str(broker.folder / "broker")
    files = [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names]
    stored = b"".join(open(path, "rb").read() for path in files)  # noqa: SIM115
    keys = {part.split(b'"')[0].split(b",")[0] for part in stored.split(b"stored_key=")[1:]}
    keys |= {part.split(b'"')[0].split(b",")[0] for part in stored.split(b"server_key=")[1:]}
    assert len(keys) >= 4, "the broker's own copy has them"
    assert not [secret for secret in (b"bob-secret", PASSWORD.encode()) if secret in stored]
    shown = open(broker.log).read()  # noqa: SIM115
    for words in (("log",), ("log", "-o", "json"), ("snapshot",), ("snapshot", "-o", "json")):
        ran = yak(broker, "metadata", *words, "--data-dir", folder)
        shown += ran.stdout + ran.stderr
    for words in (("users", "list"), ("config", "show"), ("brokers", "describe", "1", "--all-configs"), ("doctor",)):
        ran = yak(broker, *words, check=False)
        shown += ran.stdout + ran.stderr
    assert "bob" in shown
    for secret in (*(key.decode() for key in keys), "bob-secret", PASSWORD, WRONG):
        assert secret not in shown


def test_sighup_reads_the_users_file_again_and_keeps_the_users_of_a_bad_one(tmp_path):
    broker = start(tmp_path, "--metadata", "raft")
    users = tmp_path / "users"
    try:
        users.write_text(f"{ADMIN}:renewed-secret\n")
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "users-reloaded" in open(broker.log).read(), "the users are read again")  # noqa: SIM115
        yak(broker, "topics", "list", password="renewed-secret")
        assert yak(broker, "topics", "list", check=False).returncode == 3
        users.write_text("no user\n")
        broker.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "users-reload-failed" in open(broker.log).read(), "the bad file is logged")  # noqa: SIM115
        yak(broker, "topics", "list", password="renewed-secret")
        assert broker.process.poll() is None
    finally:
        broker.process.kill()
        broker.process.wait()


def test_brokers_replicate_over_listeners_with_sasl(tmp_path, redis_databases):
    with redis_databases.borrow() as url:
        brokers = [start(tmp_path, "--redis-url", url, "--node-id", str(n), name=f"b{n}") for n in (1, 2)]
        try:
            yak(brokers[0], "topics", "create", "both", "-p", "4", "--replication-factor", "2")
            producer = Producer(librdkafka(brokers[1]) | {"acks": "all"})
            errors = []
            for number in range(40):
                producer.produce("both", b"x", partition=number % 4, on_delivery=lambda error, _: errors.append(error))
            producer.flush(PATIENCE_SECONDS)
            assert errors == [None] * 40
            yak(brokers[0], "users", "add", "ann", "--password-file", "-", stdin="ann-secret\n")
            # a user of the metadata may log in at every broker
            yak(brokers[1], "produce", "both", "-m", "x", user="ann", password="ann-secret")
        finally:
            for each in brokers:
                each.process.kill()
                each.process.wait()


def test_consumer_over_http_with_a_wrong_password_gets_the_reason(tmp_path):
    """The brokers refuse it, and HTTP checks no login here: its reads were empty, for ever."""
    broker = start(tmp_path, "--metadata", "raft", "-c", "num.partitions=1", http=("--http-port", "0"))
    try:
        types = {"content-type": V2, "accept": V2}
        client = httpx.Client(base_url=f"http://127.0.0.1:{broker.http_port}", timeout=60, headers=types)
        client.post("/topics", json={"name": "orders"}, headers={"content-type": "application/json"}).raise_for_status()
        answers = {}
        for password in (WRONG, PASSWORD):
            client.auth = (ADMIN, password)
            instance = client.post("/consumers/g", json={}).raise_for_status().json()["base_uri"]
            client.post(f"{instance}/subscription", json={"topics": ["orders"]}).raise_for_status()
            answers[password] = [
                client.get(f"{instance}/records", headers={"accept": BINARY}, params={"timeout": timeout_ms})
                for timeout_ms in ("4000", "100")
            ]
            client.delete(instance).raise_for_status()
        assert [each.json() for each in answers[PASSWORD]] == [[], []]
        refused = answers[WRONG][-1]
        assert (refused.status_code, refused.json()["error_code"]) == (401, 40101)
        assert "invalid credentials" in refused.json()["message"]
    finally:
        broker.process.kill()
        broker.process.wait()
