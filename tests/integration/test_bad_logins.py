"""A live broker against clients that have not logged in: announced lengths, every API, half logins, bare tokens, odd names."""

import contextlib
import json
import ssl
import struct
import time
from collections.abc import Iterator

import pytest
from support.login_broker import PROTOCOLS, LoginBroker
from support.raw import Closed, RawClient
from test_logins import ADMIN, PASSWORD

from yak.broker.apis import TABLE
from yak.security.scram import MECHANISMS, ScramClient

_, TLS = PROTOCOLS
HANDSHAKE, AUTHENTICATE, API_VERSIONS, METADATA = 17, 36, 18, 3
SOON_SECONDS = 8.0
"""Before the deadline of a connection that sends nothing, 10 s."""
TWO_GIB = 2**31 - 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    folder = tmp_path_factory.mktemp("bad-logins")
    with LoginBroker(folder, authorizer_class_name=authorizer, super_users=f"User:{ADMIN}") as started:
        yield started
        assert " request-failed " not in started.log()


@contextlib.contextmanager
def connected(broker: LoginBroker, protocol: str) -> Iterator[RawClient]:
    """A connection, inside TLS on its listener."""
    with RawClient(int(broker.addresses[protocol].rpartition(":")[2])) as client:
        if protocol == TLS:
            context = ssl.create_default_context(cafile=broker.authority)
            client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
        yield client


def log_in(client: RawClient, mechanism: str = "SCRAM-SHA-256") -> None:
    assert client.ask(HANDSHAKE, 1, mechanism=mechanism).error_code == 0
    scram = ScramClient(MECHANISMS[mechanism], ADMIN, PASSWORD, b"nonce of the client")
    first = client.ask(AUTHENTICATE, 2, auth_bytes=scram.first()).auth_bytes
    scram.check(client.ask(AUTHENTICATE, 2, auth_bytes=scram.final(first)).auth_bytes)


def assert_served(client: RawClient) -> None:
    more = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    assert client.ask(METADATA, 9, topics=[], allow_auto_topic_creation=False, **more).brokers


@pytest.mark.parametrize("state", ["connected", "handshaken"])
@pytest.mark.parametrize("length", [TWO_GIB, TWO_GIB - 4, 600_000, -1, -(2**31), 0, 7])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_length_that_no_login_has_closes_the_connection_at_once(broker, protocol, length, state):
    with connected(broker, protocol) as client:
        if state == "handshaken":
            client.ask(HANDSHAKE, 1, mechanism="PLAIN")
        client.send(struct.pack(">i", length) + b"x" * 100)
        assert client.is_closed(SOON_SECONDS)


def test_two_gib_announced_on_a_tls_listener_without_tls_closes_the_connection_at_once(broker):
    with RawClient(int(broker.addresses[TLS].rpartition(":")[2])) as client:
        client.send(struct.pack(">i", TWO_GIB) + b"x" * 100)
        assert client.is_closed(SOON_SECONDS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_api_but_those_of_a_login_is_served_before_it(broker, protocol):
    for api_key in sorted(set(TABLE) - {HANDSHAKE, API_VERSIONS}):
        version = TABLE[api_key].VERSIONS[-1]
        with connected(broker, protocol) as client:
            client.send_frame(struct.pack(">hhih", api_key, version, 1, -1) + b"\0" * 40)
            with pytest.raises(Closed):
                client.receive_frame()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_many_half_logins_keep_no_client_out(broker, protocol):
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            half = stack.enter_context(connected(broker, protocol))
            half.ask(HANDSHAKE, 1, mechanism="SCRAM-SHA-512")
            half.ask(AUTHENTICATE, 2, auth_bytes=b"n,,n=admin,r=abcdef")
        begun = time.monotonic()
        with connected(broker, protocol) as client:
            log_in(client)
            assert_served(client)
        assert time.monotonic() - begun < SOON_SECONDS


ODD_NAMES = ["größe-🐃", "a b", "a,b", "a\nb\x01", "*", "x" * 250, "a=b;c", "'; DROP", "\u202egnp", "--topic"]


def test_acls_with_odd_names_are_added_listed_and_removed_by_commands(broker):
    topics = [f"--topic={name}" for name in ODD_NAMES]
    broker.yak("acls", "add", *(f"--allow=User:{name}" for name in ODD_NAMES), "--operation", "read", *topics)
    rows = json.loads(broker.yak("acls", "list", "-o", "json"))
    wanted = [(f"User:{principal}", name) for principal in ODD_NAMES for name in ODD_NAMES]
    assert sorted((row["principal"], row["name"]) for row in rows) == sorted(wanted)
    broker.yak("acls", "remove", *topics, "--yes")
    assert json.loads(broker.yak("acls", "list", "-o", "json")) == []
