"""What answers at an address, told apart with real sockets on 127.0.0.1."""

import struct
import threading

import pytest
from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.serial import entity_reader

from tests.errors import raises_error
from tests.listeners import answering
from yak.client import security
from yak.client.log_dirs import sizes_in
from yak.client.login import ClientLogin, log_in
from yak.client.reach import of_each, probe, require_advertised, require_kafka, silent_brokers, split_address
from yak.client.security import ClientSecurity
from yak.errors import Unreachable


def kafka(request):
    return struct.pack(">i", 10) + request[8:12] + bytes(6)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (lambda _: b"\x15\x03\x01\x00\x02\x02\x16", "TLS"),
        (lambda _: b"-ERR unknown command\r\n", "Redis"),
        (lambda _: b"SSH-2.0-OpenSSH", "answered"),
        (lambda _: b"", "does not answer a Kafka request"),
        (lambda _: None, "does not answer a Kafka request"),
    ],
)
def test_server_that_is_not_kafka_is_named_in_the_error(answer, text):
    with answering(answer) as address, raises_error(Unreachable, "wrong-protocol") as caught:
        require_kafka(address, budget_s=0.3)
    assert text in caught.value.why
    assert caught.value.exit_code == 3


@pytest.fixture
def tls():
    security.use(ClientSecurity(protocol="SSL"))
    yield
    security.use(ClientSecurity())


def test_failed_tls_handshake_does_not_say_that_the_broker_is_not_kafka(tls):
    with answering(lambda _: b"\0" * 8) as address, pytest.raises(Unreachable) as caught:
        require_kafka(address, budget_s=3)
    assert caught.value.message == f"TLS with {address} fails"
    assert caught.value.why == "it does not speak TLS, which security_protocol requires"
    assert caught.value.try_[0].startswith("yak config show --origin ")


def test_login_at_a_tls_listener_without_sasl_names_the_protocol_with_tls(tls):
    refused = struct.pack(">hi", 34, 0)  # ILLEGAL_SASL_STATE
    with pytest.raises(Unreachable) as caught:
        log_in(ClientLogin("PLAIN", "ann", "secret"), lambda *_: refused, "127.0.0.1:9093")
    assert caught.value.why == "the listener there has no SASL: set security_protocol to SSL"


def test_server_that_does_not_answer_may_be_a_paused_broker():
    with answering(lambda _: None) as address, pytest.raises(Unreachable) as caught:
        require_kafka(address, budget_s=0.3)
    assert caught.value.message == f"{address} does not answer as Kafka"
    assert "paused or hanging broker" in caught.value.why
    assert caught.value.try_[0].startswith("yak up --status")


def test_a_broker_is_found_behind_addresses_that_are_dead():
    with answering(kafka) as address:
        assert require_kafka(f"127.0.0.1:1,{address}", budget_s=1) == address
        assert probe(address, 1).outcome == "kafka"


def test_a_closed_port_is_refused_within_the_budget():
    with raises_error(Unreachable, "unreachable") as caught:
        require_kafka("127.0.0.1:1", budget_s=0.2)
    assert caught.value.why.startswith("connection refused, 1 attempt in ")


def test_advertised_name_that_no_host_can_have_is_unresolved_and_no_bug():
    assert probe("a..b:9092", 1.0).outcome == "unresolved"


def test_an_advertised_address_that_is_not_reachable_is_named():
    with answering(kafka) as address:
        require_advertised({1: address}, address)
        with pytest.raises(Unreachable) as caught:
            require_advertised({1: address, 2: "127.0.0.1:1"}, address)
    assert caught.value.code == "advertised-unreachable"
    assert "node 2 advertises 127.0.0.1:1" in caught.value.message
    assert caught.value.try_[0].split("  ")[0] == "yak up -d"
    assert caught.value.try_[1].startswith("start node 2 with --advertised HOST:1 ")


def test_broker_that_hangs_is_silent_and_no_wrong_address():
    with answering(kafka) as address, answering(lambda _: None) as hangs:
        assert list(silent_brokers({1: address, 2: hangs}, timeout_s=0.3)) == [2]
        with pytest.raises(Unreachable) as caught:
            require_advertised({1: address, 2: hangs}, address, timeout_s=0.3)
    assert caught.value.try_[0].split("  ")[0] == "yak up --status"
    assert caught.value.try_[0].endswith("if it is paused, or hangs")


def test_an_advertised_address_of_another_machine_is_not_started_here():
    with answering(kafka) as address, pytest.raises(Unreachable) as caught:
        require_advertised({2: "no-such-host.invalid:9092"}, address)
    assert caught.value.try_ == ("start node 2 with --advertised HOST:9092", f"yak doctor -b {address}")


def test_addresses_split_with_ipv6_in_brackets():
    assert split_address("[::1]:9092") == ("::1", 9092)
    assert split_address("h:1") == ("h", 1)


def test_replica_sizes_are_read_from_an_answer():
    topic = struct.pack(">h", 6) + b"orders"
    replica = struct.pack(">iqqb", 2, 4096, 0, 0)
    moving = struct.pack(">iqqb", 3, 1, 0, 1)
    directory = struct.pack(">h", 0) + struct.pack(">h", 2) + b"/d" + struct.pack(">i", 1) + topic
    answer = struct.pack(">ii", 0, 1) + directory + struct.pack(">i", 2) + replica + moving
    decoded, _ = entity_reader(DescribeLogDirsResponse)(answer, 0)
    assert sizes_in(decoded) == {("orders", 2): 4096}


def test_advice_for_a_host_elsewhere_starts_no_local_cluster_and_keeps_its_columns():
    servers = ",".join(f"nosuchhost{number}.invalid:9092" for number in range(3))
    with pytest.raises(Unreachable) as caught:
        require_kafka(servers, budget_s=0.1)
    assert caught.value.try_ == (f"yak doctor -b {servers}  find out more",)


def test_advice_for_this_machine_starts_a_local_cluster():
    with pytest.raises(Unreachable) as caught:
        require_kafka("127.0.0.1:1", budget_s=0.1)
    assert caught.value.try_[0].startswith("yak up -d  ")


def test_brokers_receive_requests_at_once_and_answers_keep_their_order():
    all_reached = threading.Barrier(3, timeout=5.0)

    def ask(node):
        all_reached.wait()
        return node * 10

    assert list(of_each([3, 1, 2], ask).items()) == [(3, 30), (1, 10), (2, 20)]
    assert of_each([], ask) == {}


def test_more_brokers_than_threads_all_receive_a_request():
    assert of_each(range(40), str) == {node: str(node) for node in range(40)}
