import socket

import pytest

from yak.errors import UsageError
from yak.server import listening_sockets


def test_port_zero_takes_a_free_one():
    sockets = listening_sockets.bind("127.0.0.1", 0)
    assert listening_sockets.bound_port(sockets) > 0
    listening_sockets.close(sockets)


def test_a_port_in_use_is_a_usage_error_with_three_parts():
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(UsageError) as caught:
        listening_sockets.bind("127.0.0.1", other.getsockname()[1])
    error = caught.value
    assert (error.code, error.exit_code) == ("address-in-use", 2)
    assert error.why
    assert error.try_


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_a_usage_error(host):
    with pytest.raises(UsageError) as caught:
        listening_sockets.bind(host, 0)
    assert caught.value.code == "bad-address"


def test_ipv6_address_that_this_machine_lacks_is_left_out_beside_an_ipv4_address(monkeypatch):
    """In a container without IPv6, /etc/hosts often has ::1 for localhost."""
    ipv4, ipv6 = (
        (family, socket.SOCK_STREAM, 6, "", address)
        for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET6, ("2001:db8::1", 0, 0, 0)))
    )
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ipv6, ipv4])
    sockets = listening_sockets.bind("localhost", 0)
    assert [sock.family for sock in sockets] == [socket.AF_INET]
    listening_sockets.close(sockets)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [ipv6])
    with pytest.raises(UsageError) as caught:
        listening_sockets.bind("localhost", 0)
    assert caught.value.code == "bad-address"


def test_connect_before_listen_is_refused():
    sockets = listening_sockets.bind("127.0.0.1", 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listening_sockets.bound_port(sockets)), timeout=1)
    listening_sockets.start_listening(sockets, "127.0.0.1")
    socket.create_connection(("127.0.0.1", listening_sockets.bound_port(sockets)), timeout=1).close()
    listening_sockets.close(sockets)


def test_shared_port_is_bound_by_several_and_refused_to_one_that_does_not_share():
    first = listening_sockets.bind("127.0.0.1", 0, is_shared=True)
    port = listening_sockets.bound_port(first)
    second = listening_sockets.bind("127.0.0.1", port, is_shared=True)
    for sockets in (first, second):
        listening_sockets.start_listening(sockets, "127.0.0.1")
    with pytest.raises(UsageError) as caught:
        listening_sockets.bind("127.0.0.1", port)
    assert caught.value.code == "address-in-use"
    listening_sockets.close(first)
    socket.create_connection(("127.0.0.1", port), timeout=1).close()
    listening_sockets.close(second)
