"""The host of a client in one spelling."""

from yak.security.hosts import canonical_host, host_of


def test_hosts_have_one_spelling():
    assert canonical_host("0:0:0:0:0:0:0:1") == canonical_host("::1") == "::1"
    assert canonical_host("::ffff:10.0.0.1") == "10.0.0.1"
    assert canonical_host("broker.example.org") == "broker.example.org"


def test_host_of_a_peer_is_without_its_port():
    assert host_of("10.0.0.1:9092") == "10.0.0.1"
    assert host_of("[::ffff:10.0.0.1]:9092") == "10.0.0.1"
    assert host_of("unknown") == "unknown"
