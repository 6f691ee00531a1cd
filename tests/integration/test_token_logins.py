"""Logins of real clients by OAUTHBEARER and by delegation tokens, with an issuer whose keys change, and bad tokens."""

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode
from support.raw import Closed, RawClient
from support.waiting import wait_until
from test_logins import ADMIN, start, yak

from tests.unit.security.issuer import claims, key_set_of, member, token, unsigned
from yak.client.delegation_tokens import WHY
from yak.security.oauth_messages import ERROR_SEEN, TokenMessage
from yak.security.scram import MECHANISMS, ScramClient

PATIENCE_SECONDS = 30.0
OAUTH = "OAUTHBEARER"
INVALID = b'{"status":"invalid_token"}'
AUDIENCE, ISSUER_NAME = "yak", "https://issuer.example"


class Issuer:
    """Serves a key set, and tokens for one client id; both can be changed."""

    def __init__(self):
        self.keys = [member("RS256", "one"), member("ES256", "curve")]
        self.reads = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self, body, status=200):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                issuer.reads += 1
                self.answer(key_set_of(*issuer.keys))

            def do_POST(self):
                assert self.rfile.read(int(self.headers["Content-Length"])) == b"grant_type=client_credentials"
                is_known = self.headers["Authorization"] == "Basic bWU6Y2xpZW50LXNlY3JldA=="  # me:client-secret
                body = {"access_token": good(), "expires_in": 3600}
                self.answer(json.dumps(body).encode() if is_known else b"{}", 200 if is_known else 401)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def good(algorithm="RS256", key_id="one", **more):
    """A token of this moment."""
    usual = {"aud": AUDIENCE, "iss": ISSUER_NAME}
    return token(algorithm, key_id, now_ms=time.time_ns() // 1_000_000, **usual | more)


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


def configs(issuer, **more):
    given = {
        "num.partitions": 1,
        "sasl.enabled.mechanisms": f"SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,{OAUTH}",
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER_NAME,
        "delegation.token.secret.key": "secret of the brokers",
    }
    pairs = {**given, **{name.replace("_", "."): value for name, value in more.items()}}
    return [word for name, value in pairs.items() for word in ("-c", f"{name}={value}")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory, issuer):
    started = start(tmp_path_factory.mktemp("tokens"), "--metadata", "raft", *configs(issuer))
    yield started
    started.process.kill()
    started.process.wait()
    log = (started.folder / "broker.log").read_text()
    assert "Traceback" not in log, log[-3000:]
    assert " request-failed " not in log


def librdkafka(broker, make=good):
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": OAUTH,
        "oauth_cb": lambda _config: (make(), time.time() + 3600),
        "log_level": 0,
    }


def round_trip(config, topic):
    producer, delivered = Producer(config), []
    producer.produce(topic, b"hello", on_delivery=lambda error, _message: delivered.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert delivered == [None]
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert wait_until(lambda: consumer.poll(1.0), "a record").value() == b"hello"
    consumer.close()


@pytest.mark.parametrize(("algorithm", "key_id"), [("RS256", "one"), ("PS384", "one"), ("ES256", "curve")])
def test_librdkafka_logs_in_by_oauthbearer(broker, algorithm, key_id):
    round_trip(librdkafka(broker, lambda: good(algorithm, key_id)), f"oauth-{algorithm}")


def test_librdkafka_with_a_refused_token_gets_an_authentication_error(broker):
    errors = []
    client = AdminClient(librdkafka(broker, lambda: good(aud="other")) | {"error_cb": errors.append})
    wait_until(lambda: client.poll(0.05) or errors, "an error", 10)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "invalid_token" in errors[0].str()


def test_session_ends_with_its_token_and_the_client_continues_with_the_next_token(broker):
    made = []

    def short():
        made.append(good(exp=int(time.time()) + 4))
        return made[-1]

    config = librdkafka(broker, short) | {"oauth_cb": lambda _config: (short(), time.time() + 4)}
    producer, errors = Producer(config), []
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        producer.produce("oauth-short", b"x", on_delivery=lambda error, _message: errors.append(error))
        producer.flush(PATIENCE_SECONDS)
        time.sleep(0.2)
    assert set(errors) == {None}
    assert len(made) >= 3


# ------------------------------------------------------------------------------------------------------ the commands


def oauth_settings(url):
    return {"YAK_SASL_MECHANISM": OAUTH, "YAK_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": url}


def test_commands_log_in_by_a_token_of_an_endpoint(broker, issuer):
    at = oauth_settings(f"{issuer.url}/token")
    yak(broker, "topics", "create", "oauth-cli", user="me", password="client-secret", **at)
    yak(broker, "produce", "oauth-cli", "-m", "hello", user="me", password="client-secret", **at)
    ran = yak(
        broker, "consume", "oauth-cli", "--from-beginning", "--exit", "-o", "json", user="me",
        password="client-secret", **at,
    )  # fmt: skip
    assert "hello" in ran.stdout
    yak(broker, "isr", user="me", password="client-secret", **at)
    refused = yak(broker, "topics", "list", user="me", password="wrong-secret", check=False, **at)
    assert refused.returncode == 3
    assert "token-unavailable" in refused.stderr
    assert "wrong-secret" not in refused.stderr


def test_commands_log_in_by_a_token_of_a_file(broker):
    path = broker.folder / "access.token"
    path.write_text(good())
    at = oauth_settings(f"file://{path}")
    yak(broker, "topics", "list", **at)
    path.write_text(good(iss="other"))
    refused = yak(broker, "topics", "list", check=False, **at)
    assert refused.returncode == 3
    assert "login-failed" in refused.stderr
    assert "invalid_token" in refused.stderr


# ------------------------------------------------------------------------------------------------------- bad input


def handshaken(client, mechanism=OAUTH):
    assert client.ask(17, 1, mechanism=mechanism).error_code == ErrorCode.none


def now_claims(**more):
    return claims(time.time_ns() // 1_000_000, aud=AUDIENCE, iss=ISSUER_NAME, **more)


BAD_TOKENS = {
    "issuer": lambda: good(iss="other"),
    "none": lambda: unsigned({"alg": "none"}, now_claims()),
    "large": lambda: "a" * 500_000,
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_bad_token_is_refused_and_the_broker_continues(broker, name):
    with RawClient(broker.port) as client:
        handshaken(client)
        answer = client.ask(36, 2, auth_bytes=TokenMessage(BAD_TOKENS[name]()).encode())
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, INVALID)
        answer = client.ask(36, 2, auth_bytes=ERROR_SEEN)
        assert (answer.error_code, answer.error_message) == (ErrorCode.sasl_authentication_failed, INVALID.decode())
        with pytest.raises(Closed):
            client.receive_frame()
    with RawClient(broker.port) as client:
        handshaken(client)
        assert client.ask(36, 2, auth_bytes=TokenMessage(good()).encode()).auth_bytes == b""


def test_broker_without_keys_to_verify_tokens_does_not_start(tmp_path):
    with pytest.raises(AssertionError, match="oauth-config"):
        start(tmp_path, "--metadata", "raft", "-c", f"sasl.enabled.mechanisms={OAUTH}")


# ------------------------------------------------------------------------------------------------- delegation tokens


def logged_in_by_token(broker, token_id, password, mechanism="SCRAM-SHA-256"):
    """A connection, and the answer to its login."""
    client = RawClient(broker.port)
    handshaken(client, mechanism)
    scram = ScramClient(MECHANISMS[mechanism], token_id, password, b"nonce of the client", is_token=True)
    answer = client.ask(36, 2, auth_bytes=scram.first())
    return client, client.ask(36, 2, auth_bytes=scram.final(answer.auth_bytes))


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_token_is_created_used_renewed_and_expired(broker, mechanism):
    path = broker.folder / f"{mechanism}.token"
    yak(broker, "tokens", "create", "--token-file", str(path), "--for", "1h")
    token_id, _, password = path.read_text().strip().partition(":")
    (row,) = [each for each in json.loads(yak(broker, "tokens", "list", "-o", "json").stdout) if each["id"] == token_id]
    assert row["owner"] == ADMIN
    client, answer = logged_in_by_token(broker, token_id, password, mechanism)
    with client:
        assert answer.error_code == ErrorCode.none
        assert 3_500 < answer.session_lifetime.total_seconds() <= 3_600
        assert client.ask(41, 3, owners=None).error_code == ErrorCode.delegation_token_request_not_allowed
        assert client.ask(3, 9, topics=[], allow_auto_topic_creation=False, include_cluster_authorized_operations=False,
                          include_topic_authorized_operations=False).brokers  # fmt: skip
    assert "valid until" in yak(broker, "tokens", "renew", token_id, "--for", "10m").stderr
    yak(broker, "tokens", "expire", token_id, "--yes")
    client, answer = logged_in_by_token(broker, token_id, password, mechanism)
    client.sock.close()
    assert answer.error_code == ErrorCode.sasl_authentication_failed
    gone = yak(broker, "tokens", "renew", token_id, check=False)
    assert "unknown-token" in gone.stderr


def test_token_of_another_user_is_not_listed(broker):
    path = broker.folder / "mine.token"
    yak(broker, "tokens", "create", "--token-file", str(path))
    token_id = path.read_text().partition(":")[0]
    yak(broker, "users", "add", "ann", "--password-file", "-", stdin="ann-secret\n")
    assert token_id not in yak(broker, "tokens", "list", user="ann", password="ann-secret").stdout
    refused = yak(broker, "tokens", "create", "--token-file", "-", "--owner", ADMIN, user="ann", password="ann-secret",
                  check=False)  # fmt: skip
    assert WHY["delegation_token_authorization_failed"] in refused.stderr


def test_no_file_of_the_broker_has_an_hmac_or_the_secret(broker):
    path = broker.folder / "hidden.token"
    yak(broker, "tokens", "create", "--token-file", str(path))
    password = path.read_text().strip().partition(":")[2]
    stored = b"".join(each.read_bytes() for each in (broker.folder / "broker").rglob("*") if each.is_file())
    stored += (broker.folder / "broker.log").read_bytes()
    shown = yak(broker, "metadata", "log", "--data-dir", str(broker.folder / "broker"), "-o", "json").stdout
    assert path.read_text().partition(":")[0] in shown
    for secret in (password, "secret of the brokers"):
        assert secret.encode() not in stored
        assert secret not in shown


def test_broker_loads_neither_tokens_nor_oauthbearer_unless_they_are_used():
    code = "import sys, yak.server.main, yak.broker.apis; print([name for name in sys.modules if name in NAMES])"
    names = ["jwt", "cryptography", "urllib.request", "yak.broker.token_verifier", "yak.broker.delegation_tokens",
             "yak.security.access_tokens", "yak.security.delegation_tokens", "yak.security.oauth_settings",
             "yak.http_fetch"]  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", code.replace("NAMES", repr(names))], capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr
