"""`yak.server.peers` with real sockets on this host: how a connection begins, and what is reported of one that fails."""

import errno
import socket
import sys

import pytest
import trio
import trio.testing

from tests.unit.server.frames import frame
from tests.unit.server.peers_rig import connected, full, port_of, running
from tests.unit.server.shell_rig import receive
from yak.core.events import ClosePeer, ConnectPeer, PeerConnected, PeerLost, SendPeer
from yak.limits import PEER_SILENT_MS_MAX
from yak.server import peer_connect
from yak.server.peer_connect import NotConnectedError, _handshake, connect_peer


async def test_peer_answers_a_request():
    async with connected() as (broker, stream):
        broker.ask(SendPeer(1, [frame(b"request")]))
        assert await receive(stream, 11) == frame(b"request")
        await stream.send_all(frame(b"answer"))
        await broker.until(lambda: broker.core.answers == [b"answer"])
        broker.ask(ClosePeer(1))
        assert await stream.receive_some() == b""
        assert len(broker.shell.peers._connections) == 0
        await trio.testing.wait_all_tasks_blocked()
        assert broker.core.events == [PeerConnected(1)]


async def test_data_sent_before_the_peer_connection_is_open_is_sent_when_it_opens():
    async with running() as (broker, listening):
        broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)), SendPeer(1, [b"ear", b"ly"]))
        sock, _ = await trio.socket.from_stdlib_socket(listening).accept()
        assert await receive(trio.SocketStream(sock), 5) == b"early"


async def test_name_is_resolved_and_every_address_tried(monkeypatch):
    async with running() as (broker, listening):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))  # bound and not listening: refuses

            async def resolve(host: str, port: int, **_: object) -> list[object]:
                assert host == "two.example"
                return [
                    (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
                    for address in [other.getsockname(), ("127.0.0.1", port)]
                ]

            monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
            broker.ask(ConnectPeer(1, "two.example", port_of(listening)))
            await broker.until(lambda: broker.core.events == [PeerConnected(1)])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_port_without_listener_refuses(host):
    async with running() as (broker, listening):
        port = port_of(listening)
        listening.close()
        broker.ask(ConnectPeer(1, host, port))
        assert await broker.lost() == PeerLost(1, "refused", "Connection refused")


async def test_a_listener_that_takes_no_more_is_a_timeout_and_no_refusal():
    async with running(peer_connect_ms_max=150) as (broker, listening), full(listening):
        broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)))
        assert await broker.lost() == PeerLost(1, "timeout", "no answer in 0.15 s")


async def test_refused_is_said_only_when_no_address_of_a_name_might_be_the_peers(monkeypatch):
    async with running(peer_connect_ms_max=200) as (broker, listening), full(listening):
        with socket.socket() as refusing:
            refusing.bind(("127.0.0.1", 0))
            no_answer, refuses = ((socket.AF_INET, each.getsockname()) for each in (listening, refusing))
            unknown = (9999, ("::1", 1, 0, 0))  # a family that this host has not
            addresses = {
                "half": [refuses, no_answer],
                "turned": [no_answer, refuses],
                "one-family": [unknown, refuses],
                "no-family": [unknown],
            }

            async def resolve(host: str, *_: object, **__: object) -> list[object]:
                return [(family, socket.SOCK_STREAM, 0, "", address) for family, address in addresses[host]]

            monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
            for peer_id, host in enumerate(addresses):
                broker.ask(ConnectPeer(peer_id, host, 1))
            await broker.until(lambda: len(broker.core.events) == len(addresses))
            lost = {event.peer_id: event.how for event in broker.core.events if isinstance(event, PeerLost)}
            assert lost == {0: "timeout", 1: "timeout", 2: "refused", 3: "unreachable"}


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("no-such-host.invalid", 9092),
        ("127.0.0.1", 70_000),
        ("127.0.0.1", 0),
        ("127.0.0.1", -1),
        ("a..b", 1),
        ("x" * 300, 1),
        ("\0", 1),
    ],
)
async def test_an_address_that_is_none_is_unreachable(host, port):
    async with running() as (broker, _):
        broker.ask(ConnectPeer(1, host, port))
        lost = await broker.lost()
        assert lost.how == "unreachable"
        assert lost.reason


async def test_no_handle_for_a_socket_is_no_suspicion(monkeypatch):
    async with running() as (broker, listening):

        def none_left(*_: object) -> socket.socket:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr("yak.server.peer_connect.socket.socket", none_left)
            broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)))
            assert await broker.lost() == PeerLost(1, "unreachable", "Too many open files")


async def test_a_connection_that_met_itself_counts_as_refused():
    """The kernel may lend the very port that is called; it happens once in some 28,000 attempts, so the port is chosen."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await _handshake(sock, sock.getsockname())


@pytest.mark.skipif(sys.platform != "linux", reason="these options are Linux's")
async def test_kernel_ends_the_connection_to_a_peer_whose_host_is_silent():
    async with connected() as (broker, _stream):
        sock = broker.shell.peers._connections[1].sock
        options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
        silent_ms, idle_s, interval_s = (sock.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert silent_ms == PEER_SILENT_MS_MAX
        assert (idle_s + interval_s) * 1000 < PEER_SILENT_MS_MAX


async def test_peer_connection_may_be_closed_while_it_connects():
    async with running() as (broker, listening), full(listening):
        broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)), SendPeer(1, [b"x"]))
        await trio.sleep(0.01)
        broker.ask(ClosePeer(1), ClosePeer(1), SendPeer(1, [b"x"]))
        assert len(broker.shell.peers._connections) == 0
        broker.ask(ConnectPeer(2, "127.0.0.1", 1), ClosePeer(2))
        await trio.testing.wait_all_tasks_blocked()
        assert not broker.shell.nursery.child_tasks
        assert broker.core.events == []


def test_process_resumed_after_the_deadline_makes_no_connection(monkeypatch):
    clock = trio.testing.MockClock()

    async def addresses(host: str, port: int) -> list[object]:
        clock.jump(30.0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, (host, port))]

    async def main() -> None:
        with pytest.raises(NotConnectedError, match="no answer in 2 s"):
            await connect_peer("127.0.0.1", 9, 2.0)

    monkeypatch.setattr(peer_connect, "_addresses", addresses)
    trio.run(main, clock=clock)
